// test_errors_linear.c: every refusal of a linear call: the status, a one-line reason, and nothing
// enqueued or written.
#define REFUSED_PARAMS clattn_linear_params
#include "refusals/refused.h"

static const struct test_case good = {
    .op = CASE_LINEAR, .name = "good", .batch = 2, .n_q = 5, .width = 24, .head_dim = 28, .biases = 1};

// Valid scales: the tensor of the bias.
#define SCALED(p) ((p)->w.type = CLATTN_TYPE_I8, (p)->w_scale = (p)->b)

#define INVALID(X)                                                                                           \
    X(x_absent, "x", p->x = (clattn_tensor){0})                                                              \
    X(x_no_buffer, "x", p->x.buffer = NULL)                                                                  \
    X(x_rank, "x", p->x.rank = 2)                                                                            \
    X(x_last_stride, "x", p->x.stride[2] = 2)                                                                \
    X(x_leaves, "x", p->x.stride[1] = 1000000)                                                               \
    X(x_negative, "x", p->x.shape[1] = -1)                                                                   \
    X(x_negative_stride, "x", p->x.stride[1] = -24)                                                          \
    X(x_negative_offset, "x", p->x.offset = -1)                                                              \
    X(x_type, "x", p->x.type = CLATTN_TYPE_BOOL)                                                             \
    X(x_inner, "w", p->x.shape[2] = 23)                                                                      \
    X(no_inner, "x", p->x.shape[2] = p->w.shape[1] = 0)                                                      \
    X(out_absent, "out", p->out = (clattn_tensor){0})                                                        \
    X(out_rank, "out", p->out.rank = 4)                                                                      \
    X(out_batch, "out", p->out.shape[0] = 1)                                                                 \
    X(out_rows, "out", p->out.shape[1] = 4)                                                                  \
    X(out_columns, "w", p->out.shape[2] = 27)                                                                \
    X(out_last_stride, "out", p->out.stride[2] = 2)                                                          \
    X(out_leaves, "out", p->out.offset = 1000000)                                                            \
    X(out_type, "out", p->out.type = CLATTN_TYPE_F16)                                                        \
    X(out_repeats, "out", p->out.stride[0] = 0)                                                              \
    X(no_columns, "out", p->out.shape[2] = p->w.shape[0] = p->b.shape[0] = 0)                                \
    X(w_absent, "w", p->w = (clattn_tensor){0})                                                              \
    X(w_no_buffer, "w", p->w.buffer = NULL)                                                                  \
    X(w_rank, "w", p->w.rank = 3)                                                                            \
    X(w_overflows, "w", (p->w.type = CLATTN_TYPE_Q4_0, p->w.shape[1] = INT64_C(1) << 59))                    \
    X(w_rows, "w", p->w.shape[0] = 27)                                                                       \
    X(w_columns, "w", p->w.shape[1] = 23)                                                                    \
    X(w_last_stride, "w", p->w.stride[1] = 2)                                                                \
    X(w_leaves, "w", p->w.stride[0] = 1000000)                                                               \
    X(w_type, "w", p->w.type = CLATTN_TYPE_BOOL)                                                             \
    X(w_blocks_cut, "multiple of 32", p->w.type = CLATTN_TYPE_Q8_0)                                          \
    X(w_blocks_columns, "w: shape", (p->w.type = CLATTN_TYPE_Q4_0, p->x.shape[2] = 32))                      \
    X(w_blocks_offset, "2^57", (p->w.type = CLATTN_TYPE_Q4_1, p->w.offset = (int64_t)1 << 57))               \
    X(x_blocks, "x: type q8_0", p->x.type = CLATTN_TYPE_Q8_0)                                                \
    X(b_blocks, "b: type q4_0", p->b.type = CLATTN_TYPE_Q4_0)                                                \
    X(b_rank, "b", p->b.rank = 2)                                                                            \
    X(b_size, "b", p->b.shape[0] = 27)                                                                       \
    X(b_type, "b", p->b.type = CLATTN_TYPE_BOOL)                                                             \
    X(b_stride, "b", p->b.stride[0] = 2)                                                                     \
    X(activation, "activation", p->activation = CLATTN_ACTIVATION_COUNT)                                     \
    X(b_up_alone, "b_up", p->b_up = p->b)                                                                    \
    X(up_packed_alone, "packed_up", p->packed_up.buffer = p->w.buffer)                                       \
    X(up_rows, "w_up", (p->w_up = p->w, p->w_up.shape[0] = 27))                                              \
    X(up_type, "w_up: its type", (p->w_up = p->w, p->w_up.type = CLATTN_TYPE_F16))                           \
    X(up_bias_type, "b_up: its type", (p->w_up = p->w, p->b_up = p->b, p->b_up.type = CLATTN_TYPE_F16))      \
    X(scale_needless, "w_scale: is for weights", p->w_scale = p->b)                                          \
    X(zero_needless, "w_zero: is for weights", p->w_zero = p->b)                                             \
    X(scale_absent, "w_scale", p->w.type = CLATTN_TYPE_I8)                                                   \
    X(scale_rows, "w_scale: 27 rows", (SCALED(p), p->w_scale.shape[0] = 27))                                 \
    X(scale_groups, "w_scale: 2 groups",                                                                     \
      (SCALED(p), p->w_scale = p->w, p->w_scale.type = CLATTN_TYPE_F16, p->w_scale.shape[1] = 2))            \
    X(scale_type, "w_scale: type", (SCALED(p), p->w_scale.type = CLATTN_TYPE_I8))                            \
    X(scale_leaves, "w_scale", (SCALED(p), p->w_scale.offset = 1000000))                                     \
    X(zero_type, "w_zero: its type", (SCALED(p), p->w_zero = p->b, p->w_zero.type = CLATTN_TYPE_F16))        \
    X(zero_stride, "w_zero: its type", (SCALED(p), p->w_zero = p->b, p->w_zero.stride[0] = 0))               \
    X(nibbles_cut, "multiple of 2", (p->w.type = CLATTN_TYPE_I4, p->x.shape[2] = 23))                        \
    X(up_scale_alone, "w_up_scale: is there for w_up", p->w_up_scale = p->b)                                 \
    X(up_zero_alone, "w_up_zero: is there for w_up", p->w_up_zero = p->b)                                    \
    X(up_scale_type, "w_up_scale: must have",                                                                \
      (SCALED(p), p->w_up = p->w, p->w_up_scale = p->b, p->w_up_scale.type = CLATTN_TYPE_F16))               \
    X(up_zero_needless, "w_up_zero: is given with w_zero",                                                   \
      (SCALED(p), p->w_up = p->w, p->w_up_scale = p->w_up_zero = p->b))                                      \
    X(residual_shape, "residual", (p->residual = p->out, p->residual.shape[1] = 4))                          \
    X(residual_type, "residual: its type", (p->residual = p->out, p->residual.type = CLATTN_TYPE_BF16))      \
    X(residual_partly, "overlap", (p->residual = p->out, p->residual.offset += 1))                           \
    X(projection, "projection", p->projection = CLATTN_PROJECTION_COUNT)                                     \
    X(negative_projection, "projection", p->projection = (clattn_projection)-1)

REFUSED_TABLE(invalid, INVALID)

static clattn_status enqueue(const clattn_linear_params *params) {
    return clattn_linear_enqueue(harness()->context, harness()->queue, params, 0, NULL, NULL);
}

REFUSED_CASES(invalid_calls, invalid, good, linear, clattn_linear, CLATTN_INVALID_ARGUMENT)

START_TEST(the_good_call_is_good) {
    case_assert(&good);
}
END_TEST

START_TEST(workspace_too_small) {
    if (!harness_has_clblast()) return;
    struct test_case test = good;
    struct case_arrays arrays;
    size_t bytes = 0;
    cl_int code;
    test.q_type = CLATTN_TYPE_F16;
    test.projection = CLATTN_PROJECTION_CLBLAST;
    struct case_data *data = case_make(&test);
    case_bind(data, harness_place(), &arrays);
    ck_assert(clattn_linear_workspace(harness()->context, &arrays.linear, &bytes) == CLATTN_OK && bytes > 1);
    cl_mem small = clCreateBuffer(harness()->opencl, CL_MEM_READ_WRITE, bytes - 1, NULL, &code);
    harness_expect(code, "clCreateBuffer");
    arrays.linear.workspace = small;
    ASSERT_INVALID("workspace", enqueue(&arrays.linear), "workspace");
    ck_assert(guarded_intact(&arrays.out, harness()->queue));
    clReleaseMemObject(small);
    case_unbind(&arrays);
    case_free(data);
}
END_TEST

START_TEST(without_clblast) {
    struct test_case test = good;
    struct case_arrays arrays;
    test.projection = CLATTN_PROJECTION_CLBLAST;
    if (harness_has_clblast()) return;
    struct case_data *data = case_make(&test);
    case_bind(data, harness_place(), &arrays);
    ASSERT_REFUSED("no CLBlast", enqueue(&arrays.linear), CLATTN_UNSUPPORTED, "CLBlast");
    case_unbind(&arrays);
    case_free(data);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {the_good_call_is_good, workspace_too_small, without_clblast, NULL};
    Suite *suite = suite_create("errors of the linear call");
    TCase *group = harness_add(suite, "linear", tests);
    REFUSED_LOOP(group, invalid_calls, invalid);
    return harness_run(suite);
}
