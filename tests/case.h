// case.h: one attention case as data: sizes, types, layout and options, run through the library and compared
// with the reference. Leaves out merge and the layer. Used by every attention suite.
//
//   case_assert(&(struct test_case){.name = "causal", .n_q = 9, .n_kv = 9, .head_dim = 32,
//                                   .options = {.causal = true}});
#ifndef CLATTN_TESTS_CASE_H
#define CLATTN_TESTS_CASE_H

#include "array.h"
#include "evidence/reference.h"

// A mask or bias: the last `rank` axes of [B, H, Nq, Nkv]; rank 0: absent. Bit a of `repeat` gives axis a
// size 1.
struct score_map {
    int rank, repeat;
    clattn_type type; // of a bias
};
#define MAP_REPEAT_BATCH 1
#define MAP_REPEAT_HEADS 2
#define MAP_REPEAT_ROWS 4

struct test_case {
    const char *name;
    int64_t batch, heads, kv_heads, n_q, n_kv, head_dim,
        head_dim_v; // 0: 1; kv_heads: heads; head_dim_v: head_dim
    clattn_type q_type, kv_type, out_type;
    enum layout layout; // of every tensor
    bool packed;        // q, k and v are views of one buffer [B, N, H + 2 Hkv, D]
    struct score_map mask, bias;
    bool alibi, sinks;    // random slopes and sink logits
    bool no_lse;          // else the log-sum-exp is always asked for
    bool weights, scores; // ask for them; options.scores_at says which scores
    clattn_type weights_type;
    uint64_t seed;
    clattn_attention_params options; // everything that is not a tensor
};

// A case with its inputs, dense and already rounded to their storage types. A suite may change them before a
// run.
struct case_data {
    struct test_case test; // with the defaults filled in
    double *q, *k, *v, *mask, *bias;
    float *slopes, *sinks;
};

// The same on the device, and the call that is ready to be enqueued.
struct case_arrays {
    struct array packed, q, k, v, out, lse, weights, scores, mask, bias;
    clattn_attention_params params;
};

// What the library returned and wrote; arrays that were not asked for are NULL.
struct case_result {
    clattn_status status;
    bool intact; // nothing around the outputs changed, and no input
    double *out, *lse, *weights, *scores;
};

struct case_data *case_make(const struct test_case *test);
void case_free(struct case_data *data);

void case_bind(const struct case_data *data, struct case_arrays *arrays);
void case_unbind(struct case_arrays *arrays);

// Read what the bound arrays hold now, after waiting for the queue.
struct case_result case_collect(const struct case_arrays *arrays, cl_command_queue queue);
// Bind, enqueue, collect, unbind.
struct case_result case_run(const struct case_data *data, cl_command_queue queue);
struct case_result case_reference(const struct case_data *data, clattn_type plain);
void case_result_free(struct case_result *result);

// Compare with the reference; false with one line in why[size]. The status must be OK.
bool case_agrees(const struct case_data *data, const struct case_result *got, char *why, size_t size);

// Run with options.kernel and fail the Check test when the result is wrong.
void case_assert_data(const struct case_data *data);
void case_assert(const struct test_case *test);

// The same with every kernel that may do the case: unfused and auto always, flash where no weights or scores
// are asked for, decode where there are few rows (its UNSUPPORTED is counted and passed over).
void case_assert_data_kernels(struct case_data *data);
void case_assert_kernels(const struct test_case *test);
int case_decode_skipped(void);

// The kernel of loop step n in 0..2: flash, unfused, auto; and its name.
clattn_kernel case_kernel(int n);
const char *case_kernel_name(clattn_kernel kernel);

#endif
