// layer_case.h: one layer case as data, run through the library and compared with the reference. Leaves out
// attention on its own (case.h). Used by test_layer.c and test_models.c.
#ifndef CLATTN_TESTS_LAYER_CASE_H
#define CLATTN_TESTS_LAYER_CASE_H

#include "array.h"
#include "evidence/reference.h"

// The four projections, as indices of matrices and biases.
enum { LAYER_Q, LAYER_K, LAYER_V, LAYER_O, LAYER_MATRICES };
#define LAYER_ALL_BIASES 15

struct layer_case {
    const char *name;
    int64_t batch, n_q, n_kv;                      // n_kv of self-attention: 0
    int64_t width, width_y, width_out;             // width_y 0: self-attention; width_out 0: width
    int64_t heads, kv_heads, head_dim, head_dim_v; // kv_heads 0: heads; head_dim_v 0: head_dim
    int biases;                                    // bit LAYER_Q...: that bias is there
    clattn_type type, matrix_type, bias_type;      // of x, y and out; of the matrices; of the biases
    enum layout layout;                            // of every tensor
    bool weights, scores;
    clattn_projection projection;
    uint64_t seed;
    clattn_attention_params options;
};

struct layer_data {
    struct layer_case test; // with the defaults filled in
    double *x, *y, *matrix[LAYER_MATRICES], *bias[LAYER_MATRICES];
};

struct layer_arrays {
    struct array x, y, out, weights, scores, matrix[LAYER_MATRICES], bias[LAYER_MATRICES];
    clattn_layer_params params;
};

struct layer_result {
    clattn_status status;
    bool intact;
    double *out, *weights, *scores; // scores: the raw tap
};

struct layer_data *layer_make(const struct layer_case *test);
void layer_free(struct layer_data *data);
void layer_bind(const struct layer_data *data, struct layer_arrays *arrays);
void layer_unbind(struct layer_arrays *arrays);
struct layer_result layer_collect(const struct layer_arrays *arrays, cl_command_queue queue);
struct layer_result layer_run(const struct layer_data *data, cl_command_queue queue);
struct layer_result layer_reference(const struct layer_data *data, clattn_type plain);
void layer_result_free(struct layer_result *result);
bool layer_agrees(const struct layer_data *data, const struct layer_result *got, char *why, size_t size);

// Sizes of a matrix: [out, in].
int64_t layer_rows(const struct layer_case *test, int matrix);
int64_t layer_columns(const struct layer_case *test, int matrix);

// Run and fail the Check test when the result is wrong.
void layer_assert(const struct layer_case *test);

#endif
