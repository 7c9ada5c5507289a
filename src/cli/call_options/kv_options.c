// kv_options.c: options for keys and values other than --k and --v: past rows, pages, rows that the
// call appends, and packed sequences of different lengths.
#include "cli/call_options/call_options.h"
#include "verification/limits/model.h"

static const option_row kv_rows[] = {
    {"past-k", "FILE",
     "[B or 1,Hkv,P,D] keys before the call's own; all items share a batch axis of 1; --causal bottom-right, "
     "or --align, places the query rows after them",
     AS_TEXT(kv_options, past_k)},
    {"past-v", "FILE", "[B or 1,Hkv,P,Dv] values of these keys", AS_TEXT(kv_options, past_v)},
    {"prefix-k", "FILE",
     "[1,Hkv,P,D] keys before the call's own that all batch items share; they are read once if that is "
     "faster",
     AS_TEXT(kv_options, prefix_k)},
    {"prefix-v", "FILE", "[1,Hkv,P,Dv] values of these keys", AS_TEXT(kv_options, prefix_v)},
    {"past-lengths", "FILE", "[B] how many past rows each item has; default: all",
     AS_TEXT(kv_options, past_lengths)},
    {"block-table", "FILE",
     "[B,blocks] page numbers of each item; --k and --v are then pools [pages,Hkv,page size,D], and "
     "--kv-lengths counts each item's keys",
     AS_TEXT(kv_options, block_table)},
    {"page-size", "N", "rows of a page; default: those of --k",
     AS_INTEGER(kv_options, page_size, 1, INT32_MAX)},
};

option_group kv_group(kv_options *o) {
    return (option_group){"past and pages", OPTION_ROWS(kv_rows), o};
}

option_group kv_past_group(kv_options *o) {
    return (option_group){"past", kv_rows, 5, o};
}

// A prefix becomes a past with a batch axis of 1, which all items share.
static int take_prefix(kv_options *o) {
    if (!o->prefix_k && !o->prefix_v) return -1;
    if (!o->prefix_k != !o->prefix_v)
        return tool_wrong("--prefix-%s: needs --prefix-%s, too", o->prefix_k ? "k" : "v",
                          o->prefix_k ? "v" : "k");
    if (o->past_k || o->past_v) return tool_wrong("--prefix-k: not with --past-%s", o->past_k ? "k" : "v");
    o->past_k = o->prefix_k, o->past_v = o->prefix_v;
    return -1;
}

static int check_past(const kv_options *o) {
    if (!o->past_k != !o->past_v)
        return tool_wrong("--past-%s: needs --past-%s, too", o->past_k ? "k" : "v", o->past_k ? "v" : "k");
    if (o->past_lengths && !o->past_k)
        return tool_wrong("--past-lengths: has no effect without --past-k FILE");
    if (o->page_size && !o->block_table)
        return tool_wrong("--page-size: has no effect without --block-table FILE");
    return -1;
}

static int load_past(const kv_options *o, const char *option, const char *file, int type, bool bf16,
                     array *a) {
    if (!file || o->past_later) return -1;
    int status = tensors_load(option, file, 4, a);
    if (status >= 0) return status;
    if (bf16 && a->type == ARRAY_U16) a->type = ARRAY_BF16;
    return tensors_store(option, a, type);
}

int kv_options_load(kv_options *o, int64_t batch, const int types[2], bool bf16) {
    const char *const options[] = {o->prefix_k ? "prefix-k" : "past-k", o->prefix_v ? "prefix-v" : "past-v"};
    int status = take_prefix(o);
    if (status < 0) status = check_past(o);
    if (status < 0) status = load_past(o, options[0], o->past_k, types[0], bf16, &o->past_k_array);
    if (status < 0) status = load_past(o, options[1], o->past_v, types[1], bf16, &o->past_v_array);
    if (status < 0 && o->prefix_k && !o->past_later &&
        (o->past_k_array.shape[0] != 1 || o->past_v_array.shape[0] != 1))
        return tool_wrong(
            "--prefix-%s: has %lld items: 1, which all share, is needed",
            o->past_k_array.shape[0] != 1 ? "k" : "v",
            (long long)(o->past_k_array.shape[0] != 1 ? o->past_k_array.shape[0] : o->past_v_array.shape[0]));
    if (status < 0) status = score_options_integers("past-lengths", o->past_lengths, batch, &o->lengths);
    if (status >= 0 || !o->block_table) return status;
    status = tensors_load("block-table", o->block_table, 2, &o->table_array);
    return status >= 0 ? status : tensors_narrow("block-table", &o->table_array, false);
}

int kv_options_upload(const kv_options *o, tensors *t, const store stores[2], clattn_kv *kv) {
    clattn_tensor *const k[3] = {&kv->past_k, &kv->past_k_scale, &kv->past_k_zero}, *const v[3] = {
                                                                                        &kv->past_v,
                                                                                        &kv->past_v_scale,
                                                                                        &kv->past_v_zero};
    int status = -1;
    if (o->past_k) status = store_upload(t, &o->past_k_array, &stores[0], k);
    if (status < 0 && o->past_v) status = store_upload(t, &o->past_v_array, &stores[1], v);
    kv->past_lengths = o->lengths;
    if (status >= 0 || !o->block_table) return status;
    kv->page_size = (int32_t)(o->page_size ? o->page_size : kv->k.shape[2]);
    return tensors_upload(t, &o->table_array, &kv->block_table);
}

void kv_options_free(kv_options *o) {
    array_free(&o->past_k_array);
    array_free(&o->past_v_array);
    array_free(&o->table_array);
    free(o->lengths);
}

int64_t kv_count(const clattn_kv *kv) {
    if (kv->block_table.rank) return kv->block_table.shape[1] * kv->page_size;
    return kv->k.shape[2] + (kv->past_k.rank ? kv->past_k.shape[2] : 0);
}

int64_t kv_width(const clattn_tensor *t) {
    return t->shape[3] * clattn_type_numbers(t->type);
}

option_group append_group(append_options *o) {
    static const option_row rows[] = {
        {"k-new", "FILE",
         "[B,Hkv,n,D] new keys, which are written into the cache --k before the call; they are the last n of "
         "the keys that --kv-lengths counts; with --cu-seqlens they are packed as q",
         AS_TEXT(append_options, k_new)},
        {"v-new", "FILE", "[B,Hkv,n,Dv] new values, for --v", AS_TEXT(append_options, v_new)},
        {"out-k", "FILE", "write the cache of keys after the call, .npy", AS_OUTPUT(append_options, out_k)},
        {"out-v", "FILE", "write the cache of values, .npy", AS_OUTPUT(append_options, out_v)},
    };
    return (option_group){"appended rows", OPTION_ROWS(rows), o};
}

static int load_new(const char *option, const char *file, int dtype, array *a) {
    const int status = tensors_load(option, file, 4, a);
    return status >= 0 ? status : tensors_store(option, a, dtype);
}

int append_options_load(append_options *o, int dtype, bool quantised) {
    if (!o->k_new != !o->v_new)
        return tool_wrong("--%s-new: needs --%s-new, too", o->k_new ? "k" : "v", o->k_new ? "v" : "k");
    const char *out = o->out_k ? "k" : o->out_v ? "v" : NULL;
    if (out && !o->k_new)
        return tool_wrong("--out-%s: has no effect without --k-new FILE and --v-new FILE", out);
    if (out && quantised)
        return tool_wrong("--out-%s: caches with scales (--kv-type) have no file: f32, f16 or bf16", out);
    if (!o->k_new) return -1;
    const int status = load_new("k-new", o->k_new, dtype, &o->k_array);
    return status >= 0 ? status : load_new("v-new", o->v_new, dtype, &o->v_array);
}

int append_options_upload(const append_options *o, tensors *t, clattn_kv *kv) {
    if (!o->k_new) return -1;
    const int status = tensors_upload(t, &o->k_array, &kv->k_new);
    return status >= 0 ? status : tensors_upload(t, &o->v_array, &kv->v_new);
}

int append_options_save(const append_options *o, tensors *t, const clattn_kv *kv, array *k, array *v) {
    const int status = tensors_save(t, &kv->k, k, o->out_k);
    return status >= 0 ? status : tensors_save(t, &kv->v, v, o->out_v);
}

void append_options_free(append_options *o) {
    array_free(&o->k_array);
    array_free(&o->v_array);
}

option_group ragged_group(ragged_options *o) {
    static const option_row rows[] = {
        {"cu-seqlens", "FILE",
         "[B+1] integers from 0: sequence b has rows FILE[b] to FILE[b+1] - 1 of q, which is [1,H,T,D], or "
         "of x, [1,T,M]; k and v, or y, are packed alike unless they are a batch of B or a cache",
         AS_TEXT(ragged_options, file)},
        {"cu-seqlens-kv", "FILE", "[B+1] the same for k and v, or y, if their lengths differ",
         AS_TEXT(ragged_options, kv_file)},
    };
    return (option_group){"sequences of different lengths", OPTION_ROWS(rows), o};
}

static int load_cu(const char *option, const char *file, int64_t *count, int32_t **cu) {
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
    int status = load_cu("cu-seqlens", o->file, &count, &o->cu);
    if (status >= 0) return status;
    o->sequences = count - 1;
    if (o->kv_file) return load_cu("cu-seqlens-kv", o->kv_file, &count, &o->cu_kv);
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
