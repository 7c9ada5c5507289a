// test_errors_layer.c: every refusal of a layer call: the status, a one-line reason, and nothing
// enqueued or written. Attention's own options, which a layer passes on, are in test_errors.c, with
// two examples here.
#define REFUSED_PARAMS clattn_layer_params
#include "refusals/refused.h"

#include <math.h>

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
                                      .biases = LAYER_ALL_BIASES};

static const int32_t any_numbers[] = {0, 1};
static const clattn_tensor absent;

// Keys and values that are already computed. They use the buffer of x, which has enough numbers for
// two heads.
#define many_heads clattn_tensor_bhsd(p->x.buffer, CLATTN_TYPE_F32, 2, 4, 7, 8)
#define few clattn_tensor_bhsd(p->x.buffer, CLATTN_TYPE_F32, 2, 2, 6, 8)
#define keys clattn_tensor_bhsd(p->x.buffer, CLATTN_TYPE_F32, 2, 2, 7, 8)
static void ready(clattn_layer_params *p, clattn_tensor k, clattn_tensor v) {
    p->kv.k = k, p->kv.v = v;
    p->y = p->wk = p->wv = p->bk = p->bv = absent;
}

#define INVALID(X)                                                                                           \
    X(x_absent, "x", p->x.buffer = NULL)                                                                     \
    X(x_rank, "x", p->x.rank = 4)                                                                            \
    X(x_last_stride, "x", p->x.stride[2] = 2)                                                                \
    X(x_leaves, "x", p->x.stride[1] = 1000000)                                                               \
    X(x_type, "x", p->x.type = CLATTN_TYPE_BOOL)                                                             \
    X(y_batch, "y", p->y.shape[0] = 1)                                                                       \
    X(y_type, "y", p->y.type = CLATTN_TYPE_F16)                                                              \
    X(y_rank, "y", p->y.rank = 2)                                                                            \
    X(out_absent, "out", p->out.buffer = NULL)                                                               \
    X(out_rows, "out", p->out.shape[1] = 4)                                                                  \
    X(out_type, "out", p->out.type = CLATTN_TYPE_F16)                                                        \
    X(out_repeats, "out", p->out.stride[0] = 0)                                                              \
    X(wq_absent, "wq", p->wq.buffer = NULL)                                                                  \
    X(wq_columns, "wq", p->wq.shape[1] = 23)                                                                 \
    X(wq_rows, "wq", p->wq.shape[0] = 30)                                                                    \
    X(wq_rows_past_32_bits, "wq: 4611686018427387904 rows: at most", p->wq.shape[0] = INT64_C(1) << 62)      \
    X(wv_rows_past_32_bits, "wv: 4611686018427387904 rows: at most", p->wv.shape[0] = INT64_C(1) << 62)      \
    X(wk_rows, "wk", p->wk.shape[0] = 14)                                                                    \
    X(wk_columns, "wk", p->wk.shape[1] = 19)                                                                 \
    X(wv_rows, "wv", p->wv.shape[0] = 15)                                                                    \
    X(wv_type, "wv", p->wv.type = CLATTN_TYPE_F16)                                                           \
    X(wo_rows, "out", p->wo.shape[0] = 27)                                                                   \
    X(wo_columns, "wo", p->wo.shape[1] = 31)                                                                 \
    X(wo_last_stride, "wo", p->wo.stride[1] = 2)                                                             \
    X(bq_size, "bq", p->bq.shape[0] = 31)                                                                    \
    X(bk_size, "bk", p->bk.shape[0] = 32)                                                                    \
    X(bv_rank, "bv", p->bv.rank = 2)                                                                         \
    X(bo_type, "bo", p->bo.type = CLATTN_TYPE_BOOL)                                                          \
    X(no_heads, "heads", p->heads = 0)                                                                       \
    X(negative_heads, "heads", p->heads = -4)                                                                \
    X(heads_not_of_wq, "wq", p->heads = 6)                                                                   \
    X(kv_heads_not_of_heads, "heads", p->kv_heads = 3)                                                       \
    X(negative_kv_heads, "heads", p->kv_heads = -1)                                                          \
    X(projection, "projection", p->projection = CLATTN_PROJECTION_COUNT)                                     \
    X(kv_k, "kv: of k and v there is one", p->kv.k = p->x)                                                   \
    X(kv_v, "kv: of k and v there is one", p->kv.v = p->x)                                                   \
    X(kv_k_and_v, "y: is there to make keys", p->kv.k = p->kv.v = p->x)                                      \
    X(kv_and_wk, "wk: is there to make keys", (p->kv.k = p->kv.v = p->x, p->y = absent))                     \
    X(kv_and_bk, "bk: is there to make keys", (p->kv.k = p->kv.v = p->x, p->y = p->wk = p->wv = absent))     \
    X(kv_rank, "kv: k and v must be", ready(p, p->x, p->x))                                                  \
    X(kv_heads, "kv: k has 4 heads", (ready(p, keys, keys), p->kv.k.shape[1] = 4))                           \
    X(kv_batch, "k: ", (ready(p, keys, keys), p->kv.k.shape[0] = 1))                                         \
    X(kv_size, "k: ", (ready(p, keys, keys), p->kv.k.shape[3] = 7))                                          \
    X(kv_values, "wo: ", (ready(p, keys, keys), p->kv.v.shape[3] = 7))                                       \
    X(kv_values_size, "kv: k and v must be", (ready(p, keys, keys), p->kv.v.shape[3] = INT64_C(1) << 61))    \
    X(kv_k_norm, "k_norm: is there to make", (ready(p, keys, keys), p->norm = 1, p->k_norm = p->bq))         \
    X(kv_packed, "packed_wk: is there", (ready(p, keys, keys), p->packed_wk.buffer = p->x.buffer))           \
    X(kv_written, "out", (ready(p, keys, keys), p->kv.v.buffer = p->out.buffer))                             \
    X(norm, "norm: ", p->norm = CLATTN_NORM_COUNT)                                                           \
    X(q_norm_alone, "q_norm: ", p->q_norm = p->bq)                                                           \
    X(k_norm_alone, "k_norm: ", p->k_norm = p->bk)                                                           \
    X(q_norm_size, "q_norm: ", (p->norm = CLATTN_NORM_HEADS, p->q_norm = p->bq))                             \
    X(k_norm_size, "k_norm: ", (p->norm = CLATTN_NORM_WIDTH, p->k_norm = p->bq))                             \
    X(q_norm_type,                                                                                           \
      "q_norm: ", (p->norm = CLATTN_NORM_WIDTH, p->q_norm = p->bq, p->q_norm.type = CLATTN_TYPE_I8))         \
    X(q_norm_leaves,                                                                                         \
      "q_norm: ", (p->norm = CLATTN_NORM_WIDTH, p->q_norm = p->bq, p->q_norm.offset = 1 << 20))              \
    X(norm_epsilon_alone, "norm_epsilon: ", p->norm_epsilon = 1e-6f)                                         \
    X(norm_epsilon_negative, "norm_epsilon: ", (p->norm = CLATTN_NORM_HEADS, p->norm_epsilon = -1e-6f))      \
    X(norm_epsilon_nan, "norm_epsilon: ", (p->norm = CLATTN_NORM_HEADS, p->norm_epsilon = NAN))              \
    X(norm_epsilon_inf, "norm_epsilon: ", (p->norm = CLATTN_NORM_HEADS, p->norm_epsilon = INFINITY))         \
    X(norm_plus_one_alone, "norm_plus_one: ", (p->norm = CLATTN_NORM_HEADS, p->norm_plus_one = true))        \
    X(gate_rows, "w_gate: 28 rows", (p->w_gate = p->wq, p->w_gate.shape[0] = 28))                            \
    X(gate_rank, "w_gate: ", p->w_gate = p->bq)                                                              \
    X(gate_columns, "w_gate: ", (p->w_gate = p->wq, p->w_gate.shape[1] = 23))                                \
    X(gate_type, "w_gate: its type", (p->w_gate = p->wq, p->w_gate.type = CLATTN_TYPE_F16))                  \
    X(gate_bias_size, "b_gate: ", (p->w_gate = p->wq, p->b_gate = p->bk))                                    \
    X(gate_bias_alone, "b_gate: is there for w_gate", p->b_gate = p->bq)                                     \
    X(gate_packed_alone, "packed_gate: is there for w_gate", p->packed_gate.buffer = p->x.buffer)            \
    X(kv_new, "k_new: a layer makes its new rows itself", p->kv.k_new = p->bq)                               \
    X(append_alone, "append: needs caches", p->append = true)                                                \
    X(rotation_alone, "k_rotation: is of rows that kv has", p->kv.k_rotation = 8)                            \
    X(v_rotation_alone, "v_rotation: is of rows that kv has", p->kv.v_rotation = 8)                          \
    X(append_heads, "k", (p->append = true, p->kv.k = p->kv.v = many_heads))                                 \
    X(append_more, "k_new: 7 rows of item 0 are more",                                                       \
      (p->append = true, p->kv.k = p->kv.v = few, p->kv.v.buffer = p->wq.buffer))                            \
    X(ragged_x, "x: 2 batch items: of a ragged batch", p->cu_seqlens_q = any_numbers)                        \
    X(ragged_keys, "cu_seqlens_kv: keys are made of x",                                                      \
      (p->y = absent, p->x.shape[0] = 1, p->cu_seqlens_q = p->kv.cu_seqlens_kv = any_numbers))               \
    X(ragged_most, "max_kv: keys are made of x",                                                             \
      (p->y = absent, p->x.shape[0] = 1, p->max_kv = 5, p->cu_seqlens_q = any_numbers))                      \
    X(ragged_none, "sequences: is 0 beside cu_seqlens_q",                                                    \
      (p->y = absent, p->x.shape[0] = 1, p->cu_seqlens_q = any_numbers))                                     \
    X(ragged_none_y, "sequences: is 0 beside cu_seqlens_q",                                                  \
      (p->x.shape[0] = 1, p->max_q = 5, p->cu_seqlens_q = any_numbers))                                      \
    X(ragged_numbers, "sequences: is of a ragged batch", p->sequences = 2)                                   \
    X(attention_dropout, "dropout", p->score.dropout = 1.5f)                                                 \
    X(attention_window, "window", (p->score.window = true, p->score.window_left = -2))

REFUSED_TABLE(invalid, INVALID)

REFUSED_CASES(invalid_calls, invalid, good, layer, clattn_layer, CLATTN_INVALID_ARGUMENT)

START_TEST(the_good_call_is_good) {
    case_assert(&good);
}
END_TEST

START_TEST(workspace_too_small) {
    struct refused_case call = refused_case_begin(&good);
    clattn_layer_params *p = &call.arrays.layer;
    cl_int status;
    size_t bytes = 0;
    ck_assert(clattn_layer_workspace(harness()->context, p, &bytes) == CLATTN_OK && bytes > 1);
    p->workspace = clCreateBuffer(harness()->opencl, CL_MEM_READ_WRITE, bytes - 1, NULL, &status);
    harness_expect(status, "clCreateBuffer");
    ASSERT_INVALID("workspace", clattn_layer_enqueue(harness()->context, harness()->queue, p, 0, NULL, NULL),
                   "workspace");
    clReleaseMemObject(p->workspace);
    refused_case_end(&call, "workspace", NULL);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {the_good_call_is_good, workspace_too_small, NULL};
    Suite *suite = suite_create("errors of the layer");
    TCase *group = harness_add(suite, "layer", tests);
    REFUSED_LOOP(group, invalid_calls, invalid);
    return harness_run(suite);
}
