// test_errors_layer_backward.c: every refusal of a call for a layer's gradients: the status, a
// one-line reason, and nothing enqueued or written. Errors of the forward call are in
// test_errors_layer.c, with a few examples here.
#define REFUSED_PARAMS clattn_layer_backward_params
#include "refusals/refused.h"

#include <math.h>
#include <string.h>

static const struct test_case good = {.op = CASE_LAYER,
                                      .name = "good",
                                      .batch = 2,
                                      .n_q = 5,
                                      .n_kv = 7,
                                      .width = 24,
                                      .width_y = 20,
                                      .width_out = 28,
                                      .heads = 4,
                                      .kv_heads = 2,
                                      .head_dim = 8,
                                      .norm = CLATTN_NORM_HEADS,
                                      .gate = CASE_GATE_HEADS,
                                      .gate_bias = true,
                                      .biases = LAYER_ALL_BIASES};

static const clattn_tensor absent;
static const int32_t too_long[] = {8, 1}, ends[] = {0, 3, 5};

static clattn_tensor shaped(cl_mem buffer, clattn_type type, int rank, int64_t a, int64_t b, int64_t c,
                            int64_t d) {
    return clattn_tensor_dense(buffer, type, rank, (const int64_t[]){a, b, c, d});
}
#define KEYS shaped(FORWARD.x.buffer, CLATTN_TYPE_F32, 4, 2, 2, 1, 8)

#define FORWARD p->forward
#define INVALID(X)                                                                                           \
    X(x_rank, "x", FORWARD.x.rank = 2)                                                                       \
    X(wq_rows, "wq", FORWARD.wq.shape[0] = 30)                                                               \
    X(heads, "heads", FORWARD.heads = 0)                                                                     \
    X(norm, "norm", FORWARD.norm = CLATTN_NORM_COUNT)                                                        \
    X(projection, "projection", FORWARD.projection = CLATTN_PROJECTION_COUNT)                                \
    X(gate_rows, "w_gate", FORWARD.w_gate.shape[0] = 3)                                                      \
    X(softcap, "softcap", FORWARD.score.softcap = -1)                                                        \
    X(lengths, "kv_lengths", FORWARD.score.kv_lengths = too_long)                                            \
    X(dout_rank, "dout", p->dout.rank = 4)                                                                   \
    X(dout_rows, "dout", p->dout.shape[1] = 4)                                                               \
    X(dout_width, "dout", p->dout.shape[2] = 24)                                                             \
    X(dout_type, "dout", p->dout.type = CLATTN_TYPE_I8)                                                      \
    X(dx_rank, "dx", p->dx.rank = 2)                                                                         \
    X(dx_rows, "dx", p->dx.shape[1] = 4)                                                                     \
    X(dx_type, "dx", p->dx.type = CLATTN_TYPE_BOOL)                                                          \
    X(dx_repeats, "dx", p->dx.stride[0] = 0)                                                                 \
    X(dy_keys, "dy", p->dy.shape[1] = 5)                                                                     \
    X(dy_of_none, "dy",                                                                                      \
      p->dy = (FORWARD.y = absent, FORWARD.wk = FORWARD.wv = FORWARD.wq,                                     \
               FORWARD.wk.shape[0] = FORWARD.wv.shape[0] = 16, p->dy))                                       \
    X(dwq_rows, "dwq", p->dwq.shape[0] = 24)                                                                 \
    X(dwq_last_stride, "dwq", p->dwq.stride[1] = 2)                                                          \
    X(dwk_columns, "dwk", p->dwk.shape[1] = 24)                                                              \
    X(dwv_rank, "dwv", p->dwv.rank = 3)                                                                      \
    X(dwo_rows, "dwo", p->dwo.shape[0] = 24)                                                                 \
    X(dbq_count, "dbq", p->dbq.shape[0] = 31)                                                                \
    X(dbk_of_none, "dbk", FORWARD.bk = absent)                                                               \
    X(dbo_type, "dbo", p->dbo.type = CLATTN_TYPE_I32)                                                        \
    X(dq_norm_count, "dq_norm", p->dq_norm.shape[0] = 7)                                                     \
    X(dk_norm_of_none, "dk_norm", FORWARD.k_norm = absent)                                                   \
    X(dw_gate_rows, "dw_gate", p->dw_gate.shape[0] = 32)                                                     \
    X(db_gate_of_none, "db_gate", FORWARD.b_gate = absent)                                                   \
    X(dsinks_of_none, "dsinks", p->dsinks = shaped(p->dx.buffer, CLATTN_TYPE_F32, 1, 4, 0, 0, 0))            \
    X(dbias_of_none, "dbias", p->dbias = shaped(p->dx.buffer, CLATTN_TYPE_F32, 2, 5, 7, 0, 0))               \
    X(gradient_of_nothing, "score_mod_gradient", p->score_mod_gradient = "1.0f")

// Refusals of `kept`, by the call for gradients and by the forward call that writes it.
#define KEPT(X)                                                                                              \
    X(kept_rank, "kept", p->kept.rank = 2)                                                                   \
    X(kept_type, "kept", p->kept.type = CLATTN_TYPE_F16)                                                     \
    X(kept_short, "kept", p->kept.shape[0] -= 1)                                                             \
    X(kept_last_stride, "kept", p->kept.stride[0] = 2)

// Errors of buffers, which prepare does not check.
#define INVALID_BUFFERS(X)                                                                                   \
    X(x_absent, "x", FORWARD.x.buffer = NULL)                                                                \
    X(wo_absent, "wo", FORWARD.wo.buffer = NULL)                                                             \
    X(dout_absent, "dout", p->dout.buffer = NULL)                                                            \
    X(nothing_asked, "dx",                                                                                   \
      p->dx = p->dy = p->dwq = p->dwk = p->dwv = p->dwo = p->dbq = p->dbk = p->dbv = p->dbo = p->dq_norm =   \
          p->dk_norm = p->dw_gate = p->db_gate = absent)                                                     \
    X(dout_leaves, "dout", p->dout.offset = 1 << 20)                                                         \
    X(dx_leaves, "dx", p->dx.offset = 1 << 20)                                                               \
    X(dwq_leaves, "dwq", p->dwq.stride[0] = 1 << 20)                                                         \
    X(dx_over_x, "overlaps", p->dx.buffer = FORWARD.x.buffer)                                                \
    X(dwq_over_wq, "overlaps", p->dwq.buffer = FORWARD.wq.buffer)                                            \
    X(dx_over_dout, "overlaps", p->dx.buffer = p->dout.buffer)                                               \
    X(dwk_over_dwv, "overlaps", p->dwk.buffer = p->dwv.buffer)                                               \
    X(dx_over_kept, "overlaps", p->dx.buffer = p->kept.buffer)                                               \
    X(kept_leaves, "kept", p->kept.offset = 1 << 20)

// Refused only for the forward call.
#define FORWARD_INVALID(X)                                                                                   \
    X(nothing_kept, "kept", p->kept = absent)                                                                \
    X(nowhere_kept, "kept", p->kept.buffer = NULL)                                                           \
    X(out_absent, "out", FORWARD.out.buffer = NULL)                                                          \
    X(out_rows, "out", FORWARD.out.shape[1] = 4)                                                             \
    X(kept_over_x, "overlaps", p->kept.buffer = FORWARD.x.buffer)                                            \
    X(kept_over_out, "overlaps", p->kept.buffer = FORWARD.out.buffer)                                        \
    X(bo_over_out, "overlaps", FORWARD.bo.buffer = FORWARD.out.buffer)                                       \
    X(workspace_kept, "workspace", p->workspace = p->kept.buffer)

// Options without gradients. The message names the option.
#define UNSUPPORTED(X)                                                                                       \
    X(keys, "kv", FORWARD.kv.k = FORWARD.kv.v = KEYS)                                                        \
    X(append, "append", FORWARD.append = true)                                                               \
    X(pages, "block_table",                                                                                  \
      FORWARD.kv.block_table = shaped(FORWARD.x.buffer, CLATTN_TYPE_I32, 2, 2, 1, 0, 0))                     \
    X(past, "past_k", FORWARD.kv.past_k = FORWARD.kv.past_v = KEYS)                                          \
    X(rotation, "k_rotation", FORWARD.kv.k_rotation = 8)                                                     \
    X(v_rotation, "v_rotation", FORWARD.kv.v_rotation = 8)                                                   \
    X(sequences, "sequences", FORWARD.sequences = 2)                                                         \
    X(ragged, "cu_seqlens_q", FORWARD.cu_seqlens_q = ends)                                                   \
    X(ragged_keys, "cu_seqlens_kv", FORWARD.kv.cu_seqlens_kv = ends)                                         \
    X(lse, "lse", FORWARD.lse = shaped(p->dx.buffer, CLATTN_TYPE_F32, 3, 2, 4, 5, 0))                        \
    X(weights, "weights", FORWARD.weights = shaped(p->dx.buffer, CLATTN_TYPE_F32, 4, 2, 4, 5, 7))            \
    X(scores, "scores", FORWARD.scores = shaped(p->dx.buffer, CLATTN_TYPE_F32, 4, 2, 4, 5, 7))               \
    X(kernel, "kernel", FORWARD.kernel = CLATTN_KERNEL_FLASH)                                                \
    X(splits, "splits", FORWARD.splits = 2)                                                                  \
    X(blocks, "wq", FORWARD.wq.type = CLATTN_TYPE_Q8_0)                                                      \
    X(blocks_of_values, "wv", FORWARD.wv.type = CLATTN_TYPE_Q4_0)                                            \
    X(derivative, "score_mod", FORWARD.score.score_mod = "as_float(as_int(score) ^ 1)")

REFUSED_TABLE(invalid, INVALID)
REFUSED_TABLE(invalid_buffers, INVALID_BUFFERS)
REFUSED_TABLE(unsupported, UNSUPPORTED)
REFUSED_TABLE(forward_invalid, FORWARD_INVALID)
REFUSED_TABLE(kept_invalid, KEPT)

// The gradients of the good call. Each has the shape of its input.
#define MOST_RESULTS 17
struct good_call {
    struct case_data *data;
    struct case_arrays arrays;
    struct guarded dout, made[MOST_RESULTS];
    int count;
    clattn_layer_backward_params p;
};

static void add(struct good_call *g, clattn_tensor *to, const clattn_tensor *like) {
    struct guarded_shape shape = {.type = like->type, .rank = like->rank};
    for (int i = 0; i < like->rank; i++) shape.shape[i] = like->shape[i];
    g->made[g->count] = guarded_output(harness_place(), &shape);
    *to = g->made[g->count++].view;
}

static void begin(struct good_call *g) {
    *g = (struct good_call){.count = 0};
    g->data = case_make(&good);
    case_bind(g->data, harness_place(), &g->arrays);
    clattn_layer_backward_params *p = &g->p;
    const clattn_layer_params *f = &p->forward;
    p->forward = g->arrays.layer;
    const struct guarded_shape out = case_shape(&g->data->test, CASE_OUT);
    double *zeros = reference_alloc(guarded_shape_count(&out));
    g->dout = guarded_input(harness_place(), &out, zeros);
    free(zeros);
    p->dout = g->dout.view;
    add(g, &p->dx, &f->x), add(g, &p->dy, &f->y);
    add(g, &p->dwq, &f->wq), add(g, &p->dwk, &f->wk), add(g, &p->dwv, &f->wv), add(g, &p->dwo, &f->wo);
    add(g, &p->dbq, &f->bq), add(g, &p->dbk, &f->bk), add(g, &p->dbv, &f->bv), add(g, &p->dbo, &f->bo);
    add(g, &p->dq_norm, &f->q_norm), add(g, &p->dk_norm, &f->k_norm);
    add(g, &p->dw_gate, &f->w_gate), add(g, &p->db_gate, &f->b_gate);
    clattn_tensor kept = {.type = CLATTN_TYPE_F32, .rank = 1};
    ck_assert_int_eq(clattn_layer_kept(harness()->context, p, &kept.shape[0]), CLATTN_OK);
    add(g, &p->kept, &kept);
}

static void end(struct good_call *g, const char *refused, cl_event event) {
    for (int n = 0; n < g->count; n++) {
        if (refused) refused_assert_nothing(refused, event, &g->made[n]);
        guarded_release(&g->made[n]);
    }
    guarded_release(&g->dout);
    case_unbind(&g->arrays);
    case_free(g->data);
}

static void check_refused(const struct refusal *r, clattn_status want, bool ahead) {
    struct good_call g;
    cl_event event = NULL;
    size_t bytes;
    clattn_context *context = harness()->context;
    begin(&g);
    r->spoil(&g.p);
    ASSERT_REFUSED(r->name, clattn_layer_backward_enqueue(context, harness()->queue, &g.p, 0, NULL, &event),
                   want, r->word);
    if (ahead) {
        ASSERT_REFUSED(r->name, clattn_layer_backward_workspace(context, &g.p, &bytes), want, r->word);
        ASSERT_REFUSED(r->name, clattn_layer_backward_prepare(context, &g.p), want, r->word);
    }
    end(&g, r->name, event);
}

START_TEST(shapes) {
    check_refused(&invalid[_i], CLATTN_INVALID_ARGUMENT, true);
}
END_TEST

START_TEST(buffers) {
    check_refused(&invalid_buffers[_i], CLATTN_INVALID_ARGUMENT, false);
}
END_TEST

// The forward call must refuse the same errors, without mentioning gradients.
static void check_forward_refused(const struct refusal *r, clattn_status want) {
    struct good_call g;
    cl_event event = NULL;
    begin(&g);
    g.p.dout = g.p.dx = absent;
    r->spoil(&g.p);
    ASSERT_REFUSED(r->name,
                   clattn_layer_forward_enqueue(harness()->context, harness()->queue, &g.p, 0, NULL, &event),
                   want, r->word);
    end(&g, r->name, event);
}

START_TEST(no_gradients) {
    check_refused(&unsupported[_i], CLATTN_UNSUPPORTED, true);
    // An expression without a derivative is valid in a forward call.
    if (strcmp(unsupported[_i].word, "score_mod") != 0)
        check_forward_refused(&unsupported[_i], CLATTN_UNSUPPORTED);
}
END_TEST

START_TEST(forward_calls) {
    check_forward_refused(&forward_invalid[_i], CLATTN_INVALID_ARGUMENT);
}
END_TEST

START_TEST(kept) {
    check_refused(&kept_invalid[_i], CLATTN_INVALID_ARGUMENT, true);
    check_forward_refused(&kept_invalid[_i], CLATTN_INVALID_ARGUMENT);
}
END_TEST

START_TEST(the_good_call_is_good) {
    struct good_call g;
    begin(&g);
    const clattn_status status =
        clattn_layer_backward_enqueue(harness()->context, harness()->queue, &g.p, 0, NULL, NULL);
    ck_assert_msg(status == CLATTN_OK, "%s", harness_log_text());
    ck_assert_int_eq(clattn_layer_forward_enqueue(harness()->context, harness()->queue, &g.p, 0, NULL, NULL),
                     CLATTN_OK);
    harness_finish(harness()->queue);
    end(&g, NULL, NULL);
}
END_TEST

START_TEST(nulls) {
    struct good_call g;
    clattn_context *context = harness()->context;
    begin(&g);
    ASSERT_INVALID("params", clattn_layer_backward_enqueue(context, harness()->queue, NULL, 0, NULL, NULL),
                   "params");
    ASSERT_INVALID("queue", clattn_layer_backward_enqueue(context, NULL, &g.p, 0, NULL, NULL), "queue");
    ASSERT_INVALID("bytes", clattn_layer_backward_workspace(context, &g.p, NULL), "bytes");
    ASSERT_INVALID("numbers", clattn_layer_kept(context, &g.p, NULL), "numbers");
    ASSERT_INVALID("params", clattn_layer_forward_enqueue(context, harness()->queue, NULL, 0, NULL, NULL),
                   "params");
    ASSERT_INVALID("queue", clattn_layer_forward_enqueue(context, NULL, &g.p, 0, NULL, NULL), "queue");
    end(&g, "nulls", NULL);
}
END_TEST

START_TEST(workspace_too_small) {
    struct good_call g;
    cl_int status;
    size_t bytes = 0;
    begin(&g);
    ck_assert_int_eq(clattn_layer_backward_workspace(harness()->context, &g.p, &bytes), CLATTN_OK);
    g.p.workspace = clCreateBuffer(harness()->opencl, CL_MEM_READ_WRITE, bytes - 1, NULL, &status);
    harness_expect(status, "clCreateBuffer");
    ASSERT_INVALID("workspace",
                   clattn_layer_backward_enqueue(harness()->context, harness()->queue, &g.p, 0, NULL, NULL),
                   "workspace");
    clReleaseMemObject(g.p.workspace);
    end(&g, "workspace", NULL);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {the_good_call_is_good, nulls, workspace_too_small, NULL};
    Suite *suite = suite_create("errors of a layer's gradients");
    TCase *group = harness_add(suite, "layer_backward", tests);
    REFUSED_LOOP(group, shapes, invalid);
    REFUSED_LOOP(group, buffers, invalid_buffers);
    REFUSED_LOOP(group, no_gradients, unsupported);
    REFUSED_LOOP(group, forward_calls, forward_invalid);
    REFUSED_LOOP(group, kept, kept_invalid);
    return harness_run(suite);
}
