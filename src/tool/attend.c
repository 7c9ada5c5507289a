// attend.c: clattn attend: attention on files.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "evidence/measure.h"
#include "evidence/names.h"
#include "tool/expect.h"
#include "tool/outputs.h"
#include "tool/ragged_options.h"
#include "tool/report.h"
#include "tool/score_options.h"
#include "tool/watch.h"

enum {
    ATTEND_Q = 200,
    ATTEND_K,
    ATTEND_V,
    ATTEND_LAYOUT,
    ATTEND_OUT,
    ATTEND_LSE,
    ATTEND_WEIGHTS,
    ATTEND_SCORES,
    ATTEND_SCORES_AT,
    ATTEND_KV_TYPE,
    ATTEND_DTYPE
};

typedef struct attend {
    const char *q, *k, *v, *out, *lse, *weights, *scores;
    bool bshd;
    int scores_at, kv_type, dtype; // indices into the names below; -1: not given, of types the files' own
    array q_array, k_array, v_array, out_array, lse_array, weights_array, scores_array;
    common_options common;
    score_options score;
    ragged_options ragged;
    clattn_attention_params params;
    expect expect;
} attend;

static const char *const layout_names[] = {"bhsd", "bshd", NULL};
static const char *const kv_type_names[] = {"f32", "f16", "bf16", "q8", "q4", NULL};
enum { KV_Q8 = 3 };

static bool take_attend(void *target, int id, const char *value, char why[256]) {
    attend *a = target;
    int index = 0;
    switch (id) {
    case ATTEND_Q:
        a->q = value;
        return true;
    case ATTEND_K:
        a->k = value;
        return true;
    case ATTEND_V:
        a->v = value;
        return true;
    case ATTEND_OUT:
        a->out = value;
        return true;
    case ATTEND_LSE:
        a->lse = value;
        return true;
    case ATTEND_WEIGHTS:
        a->weights = value;
        return true;
    case ATTEND_SCORES:
        a->scores = value;
        return true;
    case ATTEND_LAYOUT:
        if (!option_choice(value, layout_names, &index, why)) return false;
        a->bshd = index == 1;
        return true;
    case ATTEND_SCORES_AT:
        return option_choice(value, names_taps, &a->scores_at, why);
    case ATTEND_KV_TYPE:
        return option_choice(value, kv_type_names, &a->kv_type, why);
    default:
        return option_choice(value, names_types, &a->dtype, why);
    }
}

static const option_row attend_rows[] = {
    {"q", "FILE", ATTEND_Q, "[B,H,Nq,D]; .npy or FILE.safetensors#TENSOR"},
    {"k", "FILE", ATTEND_K, "[B,Hkv,Nkv,D]"},
    {"v", "FILE", ATTEND_V, "[B,Hkv,Nkv,Dv]"},
    {"layout", "NAME", ATTEND_LAYOUT, "bhsd, or bshd for [B,N,H,D] files"},
    {"out", "FILE", ATTEND_OUT, "output [B,H,Nq,Dv], .npy"},
    {"lse", "FILE", ATTEND_LSE, "log-sum-exp [B,H,Nq]"},
    {"weights", "FILE", ATTEND_WEIGHTS, "attention weights [B,H,Nq,Nkv]"},
    {"scores", "FILE", ATTEND_SCORES, "a score tap [B,H,Nq,Nkv]"},
    {"scores-at", "TAP", ATTEND_SCORES_AT, "raw, softcap, masked or softmax"},
    {"kv-type", "TYPE", ATTEND_KV_TYPE,
     "how K and V are stored on the device: f32, f16, bf16, or q8, which quantises each row to int8 with a "
     "scale (q4 is not built yet)"},
    {"dtype", "TYPE", ATTEND_DTYPE, "storage type where it is not the files' own: f32, f16, bf16"},
};

static int load_inputs(attend *a) {
    if (!a->q || !a->k || !a->v || !a->out)
        return tool_wrong("attend", "--%s FILE is needed; see clattn attend --help",
                          !a->q   ? "q"
                          : !a->k ? "k"
                          : !a->v ? "v"
                                  : "out");
    if (a->scores_at >= 0 && !a->scores)
        return tool_wrong("attend", "--scores-at: has no effect without --scores FILE");
    if (a->kv_type > KV_Q8)
        return tool_wrong("attend", "--kv-type %s: is not built yet: f32, f16, bf16 or q8",
                          kv_type_names[a->kv_type]);
    int status = tensors_load("attend", "q", a->q, 4, &a->q_array);
    if (status < 0) status = tensors_load("attend", "k", a->k, 4, &a->k_array);
    if (status < 0) status = tensors_load("attend", "v", a->v, 4, &a->v_array);
    const int kv_type = a->kv_type == KV_Q8 ? 0 : a->kv_type >= 0 ? a->kv_type : a->dtype;
    if (status < 0) status = tensors_store("attend", "q", &a->q_array, a->dtype);
    // A u2 file holds bf16 by --dtype, whatever it is then stored as.
    if (status < 0 && a->dtype == 2 && a->k_array.type == ARRAY_U16) a->k_array.type = ARRAY_BF16;
    if (status < 0 && a->dtype == 2 && a->v_array.type == ARRAY_U16) a->v_array.type = ARRAY_BF16;
    if (status < 0) status = tensors_store("attend", "k", &a->k_array, kv_type);
    if (status < 0) status = tensors_store("attend", "v", &a->v_array, kv_type);
    const int64_t heads = a->q_array.shape[a->bshd ? 2 : 1];
    if (status < 0) status = expect_load("attend", &a->expect, a->q_array.shape[0]);
    if (status < 0) status = ragged_options_load("attend", &a->ragged, a->k_array.shape[0]);
    const int64_t batch = ragged_options_batch(&a->ragged, a->q_array.shape[0]);
    return status >= 0 ? status : score_options_load("attend", &a->score, batch, heads);
}

static int make_outputs(attend *a, tensors *t) {
    clattn_attention_params *p = &a->params;
    const int64_t *q = p->q.shape;
    int64_t full[4] = {q[0], q[1], q[2], p->kv.k.shape[2]};
    const int64_t out[4] = {q[0], a->bshd ? q[2] : q[1], a->bshd ? q[1] : q[2], p->kv.v.shape[3]};
    int status = tensors_output(t, a->q_array.type, 4, out, &a->out_array, &p->out);
    if (a->bshd) p->out = tensors_swap_heads(p->out);
    if (status < 0 && a->lse) status = tensors_output(t, ARRAY_F32, 3, q, &a->lse_array, &p->lse);
    ragged_options_apply(&a->ragged, p, full);
    if (status < 0 && a->weights)
        status = tensors_output(t, ARRAY_F32, 4, full, &a->weights_array, &p->weights);
    if (status < 0 && a->scores) status = tensors_output(t, ARRAY_F32, 4, full, &a->scores_array, &p->scores);
    p->scores_at = a->scores_at < 0 ? CLATTN_TAP_RAW : (clattn_tap)a->scores_at;
    return status;
}

// A float32 array as integers of -127 to 127 and a scale for each row of its last axis. A row of zeros has a scale of 0;
// one with an infinity or a NaN cannot be told by integers.
static int quantise(const array *x, const array *integers, const array *scales) {
    const int64_t size = x->shape[3], rows = array_count(scales);
    for (int64_t r = 0; r < rows; r++) {
        const float *row = (const float *)x->data + r * size;
        int8_t *to = (int8_t *)integers->data + r * size;
        float largest = 0.0f;
        for (int64_t d = 0; d < size; d++) {
            if (!isfinite(row[d]))
                return tool_wrong(
                    "attend", "--kv-type q8: row %lld holds an infinity or NaN: finite numbers are needed",
                    (long long)r);
            largest = fmaxf(largest, fabsf(row[d]));
        }
        const float scale = ((float *)scales->data)[r] = largest / 127.0f;
        for (int64_t d = 0; d < size; d++)
            to[d] = (int8_t)(scale > 0.0f ? fminf(fmaxf(nearbyintf(row[d] / scale), -127.0f), 127.0f) : 0.0f);
    }
    return -1;
}

// K or V, as --kv-type says. Bytes of integers travel as those of booleans.
static int upload_kv(const attend *a, tensors *t, const array *x, clattn_tensor *view, clattn_tensor *scale) {
    array integers = {0}, scales = {0};
    if (a->kv_type != KV_Q8) return tensors_upload(t, x, view);
    const bool made =
        array_create(&integers, ARRAY_BOOL, 4, x->shape) && array_create(&scales, ARRAY_F32, 3, x->shape);
    int status = made ? quantise(x, &integers, &scales) : tool_failed("attend", "no memory for q8");
    if (status < 0) status = tensors_upload(t, &integers, view);
    if (status < 0) status = tensors_upload(t, &scales, scale);
    view->type = CLATTN_TYPE_I8;
    array_free(&integers);
    array_free(&scales);
    return status;
}

static int upload_inputs(attend *a, tensors *t) {
    clattn_attention_params *p = &a->params;
    int status = tensors_upload(t, &a->q_array, &p->q);
    if (status < 0) status = upload_kv(a, t, &a->k_array, &p->kv.k, &p->kv.k_scale);
    if (status < 0) status = upload_kv(a, t, &a->v_array, &p->kv.v, &p->kv.v_scale);
    if (status < 0) status = score_options_upload(&a->score, t);
    p->score = a->score.score, p->kernel = a->score.kernel, p->splits = a->score.splits;
    if (a->bshd) {
        p->q = tensors_swap_heads(p->q);
        p->kv.k = tensors_swap_heads(p->kv.k);
        p->kv.v = tensors_swap_heads(p->kv.v);
        if (p->kv.k_scale.rank) p->kv.k_scale = tensors_swap_heads(p->kv.k_scale);
        if (p->kv.v_scale.rank) p->kv.v_scale = tensors_swap_heads(p->kv.v_scale);
    }
    return status;
}

static int save_outputs(attend *a, tensors *t) {
    const clattn_attention_params *p = &a->params;
    int status = tensors_save(t, &p->out, &a->out_array, a->out);
    if (status < 0) status = tensors_save(t, &p->lse, &a->lse_array, a->lse);
    if (status < 0) status = tensors_save(t, &p->weights, &a->weights_array, a->weights);
    if (status < 0) status = tensors_save(t, &p->scores, &a->scores_array, a->scores);
    return status;
}

static int run_attend(attend *a, session *s, tensors *t) {
    clattn_plan plan;
    watch seen;
    int status = upload_inputs(a, t);
    if (status < 0) status = make_outputs(a, t);
    if (status < 0) status = expect_fits("attend", &a->expect, &a->out_array, a->bshd ? 1 : 2);
    if (status >= 0) return status;
    const clattn_attention_params *p = &a->params;
    const uint64_t start = measure_clock_ns();
    clattn_status done = clattn_attention_plan(s->context, p, &plan);
    if (done == CLATTN_OK) done = clattn_attention_prepare(s->context, p);
    const uint64_t ready = measure_clock_ns();
    a->params.progress = watch_begin(&seen, s, report_flops(p));
    if (done == CLATTN_OK) done = clattn_attention_enqueue(s->context, s->queue, p, 0, NULL, NULL);
    watch_end(&seen);
    if (done != CLATTN_OK) return session_status(s, done);
    status = session_finish(s);
    const uint64_t end = measure_clock_ns();
    if (status < 0) status = save_outputs(a, t);
    if (status >= 0) return status;
    status = expect_check("attend", &a->expect, &a->out_array, a->bshd ? 1 : 2);
    const int told = report_run(s, &plan, report_flops(p), end - ready, ready - start, a->out, &a->expect);
    return status >= 0 ? status : told;
}

static void free_attend(attend *a) {
    array *const all[] = {&a->q_array,   &a->k_array,       &a->v_array,     &a->out_array,
                          &a->lse_array, &a->weights_array, &a->scores_array};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) array_free(all[i]);
    score_options_free(&a->score);
    ragged_options_free(&a->ragged);
    expect_free(&a->expect);
}

int tool_attend(int argc, char **argv) {
    attend a = {.scores_at = -1, .kv_type = -1, .dtype = -1};
    session s = {0};
    const option_group groups[] = {
        {"tensors", attend_rows, sizeof attend_rows / sizeof attend_rows[0], take_attend, &a},
        score_group(&a.score),
        ragged_group(&a.ragged),
        expect_group(&a.expect),
        common_group(&a.common)};
    command_line line = {"attend",
                         "scaled dot-product attention on files",
                         "clattn attend --q q.npy --k k.npy --v v.npy --out out.npy --causal bottom-right",
                         groups,
                         5,
                         0,
                         {NULL},
                         0};
    int status = options_parse(&line, argc, argv);
    if (status >= 0) return status;
    const output_file outputs[] = {
        {"out", a.out}, {"lse", a.lse}, {"weights", a.weights}, {"scores", a.scores}};
    status = outputs_check("attend", outputs, 4);
    if (status < 0) status = load_inputs(&a);
    if (status < 0) status = session_open(&s, "attend", &a.common);
    if (status < 0) {
        tensors t = {.session = &s};
        status = run_attend(&a, &s, &t);
        tensors_release(&t);
        session_close(&s);
    }
    free_attend(&a);
    return status;
}
