// test_errors_backward.c: every refusal of a call for gradients: the status, a one-line reason, and
// nothing enqueued or written. Errors of the forward call are in test_errors.c, with a few examples
// here.
#define REFUSED_PARAMS clattn_attention_backward_params
#include "refusals/refused.h"

#include <math.h>

static const struct test_case good = {.op = CASE_BACKWARD,
                                      .name = "good",
                                      .batch = 2,
                                      .heads = 4,
                                      .kv_heads = 2,
                                      .n_q = 5,
                                      .n_kv = 7,
                                      .head_dim = 8,
                                      .head_dim_v = 12,
                                      .dlse = true,
                                      .bias = {.rank = 2},
                                      .hosts = CASE_HOST_BIT(CASE_SINKS) | CASE_HOST_BIT(CASE_ALIBI) |
                                               CASE_HOST_BIT(CASE_HEAD_SCALES)};

static const clattn_tensor absent;
static const int32_t too_long[] = {8, 1}, no_numbers[] = {0, 5};

// A view for keys in pages or in a past, in an existing buffer.
static clattn_tensor shaped(cl_mem buffer, clattn_type type, int64_t a, int64_t b, int64_t c, int64_t d) {
    return clattn_tensor_dense(buffer, type, 4, (const int64_t[]){a, b, c, d});
}
static void page(clattn_kv *kv) {
    kv->block_table = clattn_tensor_dense(kv->k.buffer, CLATTN_TYPE_I32, 2, (const int64_t[]){2, 1});
    kv->page_size = 7;
}

#define FORWARD p->forward
#define INVALID_SHAPES(X)                                                                                    \
    X(q_rank, "q", FORWARD.q.rank = 3)                                                                       \
    X(k_heads, "heads", FORWARD.kv.k.shape[1] = FORWARD.kv.v.shape[1] = 3)                                   \
    X(v_keys, "v", FORWARD.kv.v.shape[2] = 6)                                                                \
    X(softcap, "softcap", FORWARD.score.softcap = -1)                                                        \
    X(dropout, "dropout", FORWARD.score.dropout = 1)                                                         \
    X(window, "window", (FORWARD.score.window = true, FORWARD.score.window_left = -2))                       \
    X(lengths, "kv_lengths", FORWARD.score.kv_lengths = too_long)                                            \
    X(out_rows, "out", FORWARD.out.shape[2] = 4)                                                             \
    X(out_type, "out", FORWARD.out.type = CLATTN_TYPE_I8)                                                    \
    X(lse_rank, "lse", FORWARD.lse.rank = 2)                                                                 \
    X(lse_rows, "lse", FORWARD.lse.shape[2] = 4)                                                             \
    X(lse_type, "lse", FORWARD.lse.type = CLATTN_TYPE_F16)                                                   \
    X(dout_rank, "dout", p->dout.rank = 3)                                                                   \
    X(dout_batch, "dout", p->dout.shape[0] = 1)                                                              \
    X(dout_heads, "dout", p->dout.shape[1] = 2)                                                              \
    X(dout_rows, "dout", p->dout.shape[2] = 4)                                                               \
    X(dout_size, "dout", p->dout.shape[3] = 8)                                                               \
    X(dout_type, "dout", p->dout.type = CLATTN_TYPE_BOOL)                                                    \
    X(dout_last_stride, "dout", p->dout.stride[3] = 2)                                                       \
    X(dlse_rank, "dlse", p->dlse.rank = 4)                                                                   \
    X(dlse_rows, "dlse", p->dlse.shape[2] = 6)                                                               \
    X(dlse_type, "dlse", p->dlse.type = CLATTN_TYPE_F16)                                                     \
    X(dq_rank, "dq", p->dq.rank = 3)                                                                         \
    X(dq_rows, "dq", p->dq.shape[2] = 4)                                                                     \
    X(dq_size, "dq", p->dq.shape[3] = 12)                                                                    \
    X(dq_type, "dq", p->dq.type = CLATTN_TYPE_I8)                                                            \
    X(dq_repeats, "dq", p->dq.stride[1] = 0)                                                                 \
    X(dq_last_stride, "dq", p->dq.stride[3] = 2)                                                             \
    X(dk_heads, "dk", p->dk.shape[1] = 4)                                                                    \
    X(dk_keys, "dk", p->dk.shape[2] = 5)                                                                     \
    X(dk_size, "dk", p->dk.shape[3] = 12)                                                                    \
    X(dk_repeats, "dk", p->dk.stride[0] = 0)                                                                 \
    X(dv_size, "dv", p->dv.shape[3] = 8)                                                                     \
    X(dv_type, "dv", p->dv.type = CLATTN_TYPE_F16)                                                           \
    X(dbias_rank, "dbias", p->dbias.rank = 4)                                                                \
    X(dbias_keys, "dbias", p->dbias.shape[1] = 1)                                                            \
    X(dbias_type, "dbias", p->dbias.type = CLATTN_TYPE_BF16)                                                 \
    X(dbias_repeats, "dbias", p->dbias.stride[0] = 0)                                                        \
    X(dbias_of_none, "dbias", FORWARD.score.bias = absent)                                                   \
    X(dsinks_count, "dsinks", p->dsinks.shape[0] = 2)                                                        \
    X(dsinks_rank, "dsinks", p->dsinks.rank = 2)                                                             \
    X(dsinks_type, "dsinks", p->dsinks.type = CLATTN_TYPE_F16)                                               \
    X(dsinks_of_none, "dsinks", FORWARD.score.sinks = NULL)                                                  \
    X(slopes_count, "dalibi_slopes", p->dalibi_slopes.shape[0] = 3)                                          \
    X(slopes_of_none, "dalibi_slopes", FORWARD.score.alibi_slopes = NULL)                                    \
    X(scales_count, "dhead_scales", p->dhead_scales.shape[0] = 5)                                            \
    X(scales_of_none, "dhead_scales", FORWARD.score.head_scales = NULL)                                      \
    X(no_sequences, "sequences: is 0", (FORWARD.q.shape[0] = 1, FORWARD.cu_seqlens_q = no_numbers))          \
    X(gradient_of_nothing, "score_mod_gradient", p->score_mod_gradient = "1.0f")                             \
    X(gradient_is_no_expression, "score_mod_gradient",                                                       \
      (FORWARD.score.score_mod = "score * score", p->score_mod_gradient = "2 * (score"))                     \
    X(gradient_of_an_absent_buffer, "score_mod_gradient",                                                    \
      (FORWARD.score.score_mod = "score * score", p->score_mod_gradient = "buffer0(j)"))                     \
    X(score_mod, "score_mod", (FORWARD.score.score_mod = "score +", p->score_mod_gradient = "1.0f"))

// Errors of buffers, which plan and prepare do not check.
#define INVALID_BUFFERS(X)                                                                                   \
    X(q_absent, "q", FORWARD.q.buffer = NULL)                                                                \
    X(out_absent, "out", FORWARD.out.buffer = NULL)                                                          \
    X(lse_absent, "lse", FORWARD.lse.buffer = NULL)                                                          \
    X(dout_absent, "dout", p->dout.buffer = NULL)                                                            \
    X(nothing_asked, "dq",                                                                                   \
      p->dq = p->dk = p->dv = p->dbias = p->dsinks = p->dalibi_slopes = p->dhead_scales = absent)            \
    X(dout_leaves, "dout", p->dout.offset = 1 << 20)                                                         \
    X(dlse_leaves, "dlse", p->dlse.offset = 1 << 20)                                                         \
    X(dq_leaves, "dq", p->dq.offset = 1 << 20)                                                               \
    X(dv_leaves, "dv", p->dv.stride[0] = 1 << 20)                                                            \
    X(dbias_leaves, "dbias", p->dbias.offset = 1 << 20)                                                      \
    X(dsinks_leave, "dsinks", p->dsinks.offset = 1 << 20)                                                    \
    X(dq_over_q, "overlaps", p->dq.buffer = FORWARD.q.buffer)                                                \
    X(dk_over_k, "overlaps", p->dk.buffer = FORWARD.kv.k.buffer)                                             \
    X(dv_over_out, "overlaps", p->dv.buffer = FORWARD.out.buffer)                                            \
    X(dv_over_dout, "overlaps", p->dv.buffer = p->dout.buffer)                                               \
    X(dk_over_dv, "overlaps", p->dk.buffer = p->dv.buffer)                                                   \
    X(dbias_over_bias, "overlaps", p->dbias.buffer = FORWARD.score.bias.buffer)                              \
    X(dsinks_over_dlse, "overlaps", p->dsinks.buffer = p->dlse.buffer)                                       \
    X(dsinks_over_lse, "overlaps", p->dsinks.buffer = FORWARD.lse.buffer)                                    \
    X(dslopes_over_dscales, "overlaps", p->dalibi_slopes.buffer = p->dhead_scales.buffer)

// Options without gradients. The message names the option.
#define UNSUPPORTED(X)                                                                                       \
    X(pages, "block_table", page(&FORWARD.kv))                                                               \
    X(past, "past_k",                                                                                        \
      (FORWARD.kv.past_k = shaped(FORWARD.kv.k.buffer, CLATTN_TYPE_F32, 1, 2, 3, 8),                         \
       FORWARD.kv.past_v = shaped(FORWARD.kv.v.buffer, CLATTN_TYPE_F32, 1, 2, 3, 12)))                       \
    X(append, "k_new",                                                                                       \
      (FORWARD.kv.k_new = shaped(FORWARD.q.buffer, CLATTN_TYPE_F32, 2, 2, 1, 8),                             \
       FORWARD.kv.v_new = shaped(FORWARD.q.buffer, CLATTN_TYPE_F32, 2, 2, 1, 12)))                           \
    X(bytes, "k", FORWARD.kv.k.type = FORWARD.kv.v.type = CLATTN_TYPE_I8)                                    \
    X(two_types, "v: its type f16 differs from k's", FORWARD.kv.v.type = CLATTN_TYPE_F16)                    \
    X(rotation, "k_rotation", FORWARD.kv.k_rotation = 8)                                                     \
    X(v_rotation, "v_rotation", FORWARD.kv.v_rotation = 4)                                                   \
    X(weights, "weights", FORWARD.weights = shaped(FORWARD.q.buffer, CLATTN_TYPE_F32, 2, 4, 5, 7))           \
    X(scores, "scores", FORWARD.scores = shaped(FORWARD.q.buffer, CLATTN_TYPE_F32, 2, 4, 5, 7))              \
    X(kernel, "kernel", FORWARD.kernel = CLATTN_KERNEL_FLASH)                                                \
    X(splits, "splits", FORWARD.splits = 2)                                                                  \
    X(derivative, "score_mod", FORWARD.score.score_mod = "as_float(as_int(score) ^ 1)")

REFUSED_TABLE(invalid_shapes, INVALID_SHAPES)
REFUSED_TABLE(invalid_buffers, INVALID_BUFFERS)
REFUSED_TABLE(unsupported, UNSUPPORTED)

REFUSED_CASES(shapes, invalid_shapes, good, backward, clattn_attention_backward, CLATTN_INVALID_ARGUMENT)
REFUSED_CASES(buffers, invalid_buffers, good, backward, clattn_attention_backward, CLATTN_INVALID_ARGUMENT)
REFUSED_CASES(no_gradients, unsupported, good, backward, clattn_attention_backward, CLATTN_UNSUPPORTED)

// Plan, workspace and prepare must refuse the same calls as enqueue.
static void check_ahead(const struct refusal *refusal, clattn_status want) {
    struct refused_case call = refused_case_begin(&good);
    clattn_context *context = harness()->context;
    clattn_attention_backward_params *p = &call.arrays.backward;
    clattn_plan plan;
    size_t bytes;
    refusal->spoil(p);
    ASSERT_REFUSED(refusal->name, clattn_attention_backward_plan(context, p, &plan), want, refusal->word);
    ASSERT_REFUSED(refusal->name, clattn_attention_backward_workspace(context, p, &bytes), want,
                   refusal->word);
    ASSERT_REFUSED(refusal->name, clattn_attention_backward_prepare(context, p), want, refusal->word);
    refused_case_end(&call, refusal->name, NULL);
}

START_TEST(shapes_ahead) {
    check_ahead(&invalid_shapes[_i], CLATTN_INVALID_ARGUMENT);
}
END_TEST

START_TEST(no_gradients_ahead) {
    check_ahead(&unsupported[_i], CLATTN_UNSUPPORTED);
}
END_TEST

START_TEST(the_good_call_is_good) {
    case_assert(&good);
}
END_TEST

START_TEST(nulls) {
    struct refused_case call = refused_case_begin(&good);
    const struct harness *h = harness();
    ASSERT_INVALID("params", clattn_attention_backward_enqueue(h->context, h->queue, NULL, 0, NULL, NULL),
                   "params");
    ASSERT_INVALID("queue",
                   clattn_attention_backward_enqueue(h->context, NULL, &call.arrays.backward, 0, NULL, NULL),
                   "queue");
    refused_case_end(&call, "nulls", NULL);
}
END_TEST

START_TEST(workspace_too_small) {
    struct refused_case call = refused_case_begin(&good);
    clattn_attention_backward_params *p = &call.arrays.backward;
    cl_int status;
    size_t bytes = 0;
    ck_assert_int_eq(clattn_attention_backward_workspace(harness()->context, p, &bytes), CLATTN_OK);
    if (bytes > 1) {
        p->workspace = clCreateBuffer(harness()->opencl, CL_MEM_READ_WRITE, bytes - 1, NULL, &status);
        harness_expect(status, "clCreateBuffer");
        ASSERT_INVALID(
            "workspace",
            clattn_attention_backward_enqueue(harness()->context, harness()->queue, p, 0, NULL, NULL),
            "workspace");
        clReleaseMemObject(p->workspace);
    }
    refused_case_end(&call, "workspace", NULL);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {the_good_call_is_good, nulls, workspace_too_small, NULL};
    Suite *suite = suite_create("errors of gradients");
    TCase *group = harness_add(suite, "backward", tests);
    REFUSED_LOOP(group, shapes, invalid_shapes);
    REFUSED_LOOP(group, shapes_ahead, invalid_shapes);
    REFUSED_LOOP(group, buffers, invalid_buffers);
    REFUSED_LOOP(group, no_gradients, unsupported);
    REFUSED_LOOP(group, no_gradients_ahead, unsupported);
    return harness_run(suite);
}
