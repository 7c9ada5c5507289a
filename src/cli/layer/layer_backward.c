// layer_backward.c: the gradients of `clattn layer`: --grad-out and the gradients that the user
// requests with it.
#include "cli/layer/layer_backward.h"

// One result: its option, its tensor in the backward call, the input whose shape and type it has,
// and that input's option.
#define RESULT(option, field, of, with)                                                                      \
    { option, offsetof(clattn_layer_backward_params, field), offsetof(clattn_layer_params, of), with }
static const struct {
    const char *option;
    size_t view, like;
    const char *with;
} results[LAYER_GRADIENTS] = {RESULT("grad-x", dx, x, "x"),
                              RESULT("grad-y", dy, y, "y"),
                              RESULT("grad-wq", dwq, wq, "wq"),
                              RESULT("grad-wk", dwk, wk, "wk"),
                              RESULT("grad-wv", dwv, wv, "wv"),
                              RESULT("grad-wo", dwo, wo, "wo"),
                              RESULT("grad-bq", dbq, bq, "bq"),
                              RESULT("grad-bk", dbk, bk, "bk"),
                              RESULT("grad-bv", dbv, bv, "bv"),
                              RESULT("grad-bo", dbo, bo, "bo"),
                              RESULT("grad-q-norm", dq_norm, q_norm, "q-norm"),
                              RESULT("grad-k-norm", dk_norm, k_norm, "k-norm"),
                              RESULT("grad-gate", dw_gate, w_gate, "gate"),
                              RESULT("grad-gate-bias", db_gate, b_gate, "gate-bias"),
                              RESULT("grad-bias", dbias, score.bias, "bias"),
                              RESULT("grad-sinks", dsinks, score.sinks, NULL),
                              RESULT("grad-alibi", dalibi_slopes, score.alibi_slopes, NULL),
                              RESULT("grad-head-scales", dhead_scales, score.head_scales, NULL)};

#define ROW(option, n, help)                                                                                 \
    { option, "FILE", help, AS_OUTPUT(layer_gradients, paths[n]) }
static const option_row rows[] = {
    {"grad-out", "FILE",
     "[B,N,Mo] gradient with respect to the output, from which the gradients below are computed",
     AS_TEXT(layer_gradients, out)},
    ROW("grad-x", 0, "gradient of x, shaped as x"),
    ROW("grad-y", 1, "gradient of y"),
    ROW("grad-wq", 2, "gradient of wq"),
    ROW("grad-wk", 3, "gradient of wk"),
    ROW("grad-wv", 4, "gradient of wv"),
    ROW("grad-wo", 5, "gradient of wo"),
    ROW("grad-bq", 6, "gradient of bq"),
    ROW("grad-bk", 7, "gradient of bk"),
    ROW("grad-bv", 8, "gradient of bv"),
    ROW("grad-bo", 9, "gradient of bo"),
    ROW("grad-q-norm", 10, "gradient of the weights of q's norm"),
    ROW("grad-k-norm", 11, "gradient of the weights of k's norm"),
    ROW("grad-gate", 12, "gradient of the gate"),
    ROW("grad-gate-bias", 13, "gradient of the gate's bias"),
    ROW("grad-bias", 14, "gradient of --bias, f32, shaped as --bias"),
    ROW("grad-sinks", 15, "gradient of the sinks, [H]"),
    ROW("grad-alibi", 16, "gradient of ALiBi's slopes, [H]"),
    ROW("grad-head-scales", 17, "gradient of --head-scales, [H]"),
    {"score-mod-gradient", "EXPR",
     "derivative of --score-mod with respect to score, if the library cannot derive it",
     AS_TEXT(layer_gradients, score_mod)},
};

option_group layer_gradients_group(layer_gradients *g) {
    return (option_group){"gradients", OPTION_ROWS(rows), g};
}

int layer_gradients_load(layer_run *r) {
    layer_gradients *g = &r->gradients;
    const char *first = NULL;
    for (int n = 0; n < LAYER_GRADIENTS && !first; n++)
        if (g->paths[n]) first = results[n].option;
    if (!g->out && (first || g->score_mod))
        return tool_wrong("--%s: has no effect without --grad-out FILE",
                          first ? first : "score-mod-gradient");
    if (!g->out) return -1;
    if (!first) return tool_wrong("--grad-out: has no effect without one of --grad-x, --grad-wq and so on");
    if (r->ranks.wanted)
        return tool_wrong("--grad-out: gradients are computed on one device: not with --mpi");
    const int status = tensors_load("grad-out", g->out, 3, &g->out_array);
    return status >= 0 ? status : tensors_store("grad-out", &g->out_array, r->dtype);
}

static array_type type_of(clattn_type type) {
    return type == CLATTN_TYPE_F16 ? ARRAY_F16 : type == CLATTN_TYPE_BF16 ? ARRAY_BF16 : ARRAY_F32;
}

// Create result n, dense with the shape of its input, or with one number for each head.
static int make_result(layer_run *r, tensors *t, int n, clattn_layer_backward_params *p) {
    array *a = &r->gradients.arrays[n];
    clattn_tensor *view = (clattn_tensor *)((char *)p + results[n].view);
    const int64_t heads[1] = {r->params.heads};
    if (!results[n].with) return tensors_output(t, ARRAY_F32, 1, heads, a, view);
    const clattn_tensor *like = (const clattn_tensor *)((const char *)&r->params + results[n].like);
    if (like->rank == 0)
        return tool_wrong("--%s: has no effect without --%s", results[n].option, results[n].with);
    const bool bias = results[n].like == offsetof(clattn_layer_params, score.bias);
    return tensors_output(t, bias ? ARRAY_F32 : type_of(like->type), like->rank, like->shape, a, view);
}

int layer_gradients_begin(layer_run *r, tensors *t) {
    layer_gradients *g = &r->gradients;
    clattn_layer_backward_params *p = &g->params;
    int status = g->out ? tensors_upload(t, &g->out_array, &p->dout) : -1;
    if (!g->out) return -1;
    p->forward = r->params, p->score_mod_gradient = g->score_mod;
    for (int n = 0; n < LAYER_GRADIENTS && status < 0; n++)
        if (g->paths[n]) status = make_result(r, t, n, p);
    return status;
}

int layer_gradients_run(layer_run *r, session *s) {
    const layer_gradients *g = &r->gradients;
    if (!g->out) return -1;
    const clattn_status done = clattn_layer_backward_enqueue(s->context, s->queue, &g->params, 0, NULL, NULL);
    return done == CLATTN_OK ? session_finish(s) : session_status(s, done);
}

int layer_gradients_save(layer_run *r, tensors *t) {
    layer_gradients *g = &r->gradients;
    int status = -1;
    for (int n = 0; n < LAYER_GRADIENTS && status < 0; n++) {
        const clattn_tensor *view = (const clattn_tensor *)((const char *)&g->params + results[n].view);
        if (g->paths[n]) status = tensors_save(t, view, &g->arrays[n], g->paths[n]);
    }
    return status;
}

void layer_gradients_free(layer_gradients *g) {
    array_free(&g->out_array);
    for (int n = 0; n < LAYER_GRADIENTS; n++) array_free(&g->arrays[n]);
}
