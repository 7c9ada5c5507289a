// attend_backward.c: the gradients of `clattn attend`: --grad-out and the gradients that the user
// requests with it.
#include "cli/attend/attend.h"

// One result: its option, its tensor in the backward call's parameters, and the input whose shape
// and type it has. LIKE_HEADS is one float32 number for each head. All but LIKE_BIAS and LIKE_HEADS
// are [B,N,H,D] with --layout bshd.
typedef enum like { LIKE_Q, LIKE_K, LIKE_V, LIKE_BIAS, LIKE_HEADS } like;
static const struct {
    const char *option;
    size_t view;
    like like;
} results[ATTEND_GRADIENTS] = {
    {"grad-q", offsetof(clattn_attention_backward_params, dq), LIKE_Q},
    {"grad-k", offsetof(clattn_attention_backward_params, dk), LIKE_K},
    {"grad-v", offsetof(clattn_attention_backward_params, dv), LIKE_V},
    {"grad-bias", offsetof(clattn_attention_backward_params, dbias), LIKE_BIAS},
    {"grad-sinks", offsetof(clattn_attention_backward_params, dsinks), LIKE_HEADS},
    {"grad-alibi", offsetof(clattn_attention_backward_params, dalibi_slopes), LIKE_HEADS},
    {"grad-head-scales", offsetof(clattn_attention_backward_params, dhead_scales), LIKE_HEADS}};

#define RESULT(name, n, help)                                                                                \
    { name, "FILE", help, AS_OUTPUT(attend_gradients, paths[n]) }
static const option_row rows[] = {
    {"grad-out", "FILE",
     "[B,H,Nq,Dv] gradient with respect to the output, from which the gradients below are computed",
     AS_TEXT(attend_gradients, out)},
    {"grad-lse", "FILE", "[B,H,Nq] gradient with respect to the log-sum-exp, in addition to --grad-out",
     AS_TEXT(attend_gradients, lse)},
    RESULT("grad-q", 0, "gradient of q, shaped as q"),
    RESULT("grad-k", 1, "gradient of k, shaped as k"),
    RESULT("grad-v", 2, "gradient of v, shaped as v"),
    RESULT("grad-bias", 3, "gradient of --bias, f32, shaped as --bias"),
    RESULT("grad-sinks", 4, "gradient of --sinks, [H]"),
    RESULT("grad-alibi", 5, "gradient of ALiBi's slopes, [H]"),
    RESULT("grad-head-scales", 6, "gradient of --head-scales, [H]"),
    {"score-mod-gradient", "EXPR",
     "derivative of --score-mod with respect to score, if the library cannot derive it",
     AS_TEXT(attend_gradients, score_mod)},
};

option_group attend_gradients_group(attend_gradients *g) {
    return (option_group){"gradients", OPTION_ROWS(rows), g};
}

int attend_gradients_check(const attend *a) {
    const attend_gradients *g = &a->gradients;
    const char *first = NULL;
    for (int n = 0; n < ATTEND_GRADIENTS && !first; n++)
        if (g->paths[n]) first = results[n].option;
    if (!g->out && (first || g->lse || g->score_mod))
        return tool_wrong("--%s: has no effect without --grad-out FILE", first    ? first
                                                                         : g->lse ? "grad-lse"
                                                                                  : "score-mod-gradient");
    if (g->out && !first)
        return tool_wrong("--grad-out: has no effect without one of --grad-q, --grad-k, --grad-v");
    if (g->out && a->ranks.wanted)
        return tool_wrong("--grad-out: gradients are computed by one process: not with --mpi");
    return -1;
}

int attend_gradients_load(attend *a) {
    attend_gradients *g = &a->gradients;
    int status = -1;
    if (g->out) status = tensors_load("grad-out", g->out, 4, &g->out_array);
    if (status < 0 && g->out) status = tensors_store("grad-out", &g->out_array, a->dtype);
    if (status < 0 && g->lse) status = tensors_load("grad-lse", g->lse, 3, &g->lse_array);
    return status;
}

// Create result n. Its file has the axes of the input that it is the gradient of.
static int make_result(attend *a, tensors *t, int n, clattn_attention_backward_params *p) {
    const clattn_attention_params *f = &p->forward;
    attend_gradients *g = &a->gradients;
    clattn_tensor *view = (clattn_tensor *)((char *)p + results[n].view);
    const array *arrays[] = {&a->q_array, &a->k_array, &a->v_array, &a->score.bias_array};
    if (results[n].like == LIKE_HEADS)
        return tensors_output(t, ARRAY_F32, 1, (const int64_t[1]){f->q.shape[1]}, &g->arrays[n], view);
    const array *as = arrays[results[n].like];
    if (results[n].like == LIKE_BIAS && !a->score.bias)
        return tool_wrong("--grad-bias: has no effect without --bias");
    const array_type type = results[n].like == LIKE_BIAS ? ARRAY_F32 : as->type;
    const int status = tensors_output(t, type, as->rank, as->shape, &g->arrays[n], view);
    if (a->bshd && results[n].like != LIKE_BIAS) *view = tensors_swap_heads(*view);
    return status;
}

int attend_gradients_begin(attend *a, tensors *t) {
    attend_gradients *g = &a->gradients;
    clattn_attention_backward_params *p = &g->params;
    int status = g->out ? tensors_upload(t, &g->out_array, &p->dout) : -1;
    if (!g->out) return -1;
    if (a->bshd) p->dout = tensors_swap_heads(p->dout);
    if (status < 0 && g->lse) status = tensors_upload(t, &g->lse_array, &p->dlse);
    // Backward needs the log-sum-exp. Allocate it if the user did not request it with --lse.
    if (status < 0 && !a->lse)
        status = tensors_output(t, ARRAY_F32, 3, a->params.q.shape, &a->lse_array, &a->params.lse);
    p->forward = a->params, p->score_mod_gradient = g->score_mod;
    for (int n = 0; n < ATTEND_GRADIENTS && status < 0; n++)
        if (g->paths[n]) status = make_result(a, t, n, p);
    return status;
}

int attend_gradients_run(attend *a, session *s) {
    const attend_gradients *g = &a->gradients;
    if (!g->out) return -1;
    const clattn_status done =
        clattn_attention_backward_enqueue(s->context, s->queue, &g->params, 0, NULL, NULL);
    return done == CLATTN_OK ? session_finish(s) : session_status(s, done);
}

int attend_gradients_save(attend *a, tensors *t) {
    attend_gradients *g = &a->gradients;
    int status = -1;
    for (int n = 0; n < ATTEND_GRADIENTS && status < 0; n++) {
        const clattn_tensor *view = (const clattn_tensor *)((const char *)&g->params + results[n].view);
        if (g->paths[n]) status = tensors_save(t, view, &g->arrays[n], g->paths[n]);
    }
    return status;
}

void attend_gradients_free(attend_gradients *g) {
    array_free(&g->out_array);
    array_free(&g->lse_array);
    for (int n = 0; n < ATTEND_GRADIENTS; n++) array_free(&g->arrays[n]);
}
