// ragged_options.c: see ragged_options.h.
#include "tool/call_options/ragged_options.h"

#include <stdlib.h>

#include "evidence/limits/model.h"
#include "tool/call_options/kv_options.h"
#include "tool/call_options/score_options.h"

option_group ragged_group(ragged_options *o) {
    static const option_row rows[] = {
        {"cu-seqlens", "FILE",
         "[B+1] integers, 0 first: sequence b has the rows FILE[b] to FILE[b+1] - 1 of q, which is "
         "[1,H,T,D], or x [1,T,M]; those of k and v, or y, too, unless theirs are a batch of B, or a cache",
         AS_TEXT(ragged_options, file)},
        {"cu-seqlens-kv", "FILE", "the same of k and v, or y, where theirs are others",
         AS_TEXT(ragged_options, kv_file)},
    };
    return (option_group){"sequences of different lengths", OPTION_ROWS(rows), o};
}

static int load(const char *option, const char *file, int64_t *count, int32_t **cu) {
    array a;
    int status = tensors_load(option, file, 1, &a);
    if (status >= 0) return status;
    const int64_t found = a.shape[0];
    array_free(&a);
    if (*count < 0) *count = found;
    if (found < 1) return tool_wrong("--%s: is empty: B + 1 numbers are needed", option);
    return score_options_integers(option, file, *count, cu);
}

int ragged_options_load(ragged_options *o, int64_t k_batch) {
    int64_t count = -1;
    if (o->kv_file && !o->file) return tool_wrong("--cu-seqlens-kv: needs --cu-seqlens FILE");
    if (!o->file) return -1;
    int status = load("cu-seqlens", o->file, &count, &o->cu);
    if (status >= 0) return status;
    o->sequences = count - 1;
    if (o->kv_file) return load("cu-seqlens-kv", o->kv_file, &count, &o->cu_kv);
    if (k_batch == 1) o->cu_kv = o->cu;
    return -1;
}

int64_t ragged_options_batch(const ragged_options *o, int64_t batch) {
    return o->cu ? o->sequences : batch;
}

static int32_t longest(const int32_t *cu, int64_t sequences) {
    int32_t most = 0;
    for (int64_t b = 0; b < sequences; b++)
        if (cu[b + 1] > cu[b] && cu[b] >= 0 && cu[b + 1] - cu[b] > most) most = cu[b + 1] - cu[b];
    return most;
}

void ragged_options_apply(const ragged_options *o, clattn_attention_params *p, int64_t full[4]) {
    if (!o->cu) return;
    p->sequences = (int32_t)o->sequences;
    p->cu_seqlens_q = o->cu;
    p->kv.cu_seqlens_kv = o->cu_kv;
    full[0] = o->sequences;
    full[2] = longest(o->cu, o->sequences);
    if (o->cu_kv) full[3] = longest(o->cu_kv, o->sequences) + (p->kv.past_k.rank ? p->kv.past_k.shape[2] : 0);
}

void ragged_options_free(ragged_options *o) {
    if (o->cu_kv != o->cu) free(o->cu_kv);
    free(o->cu);
}

double ragged_pairs(const clattn_attention_params *p) {
    double pairs = 0;
    for (int b = 0; b < p->sequences; b++) {
        const int32_t *cu = p->cu_seqlens_q, *cu_kv = p->kv.cu_seqlens_kv;
        clattn_score s = p->score;
        if (s.q_lengths) s.q_lengths += b;
        if (s.kv_lengths) s.kv_lengths += b;
        if (s.offsets) s.offsets += b;
        const int64_t past = !p->kv.past_k.rank   ? 0
                             : p->kv.past_lengths ? p->kv.past_lengths[b]
                                                  : p->kv.past_k.shape[2];
        pairs +=
            model_pairs(&s, 1, cu[b + 1] - cu[b], cu_kv ? cu_kv[b + 1] - cu_kv[b] + past : kv_count(&p->kv));
    }
    return pairs;
}
