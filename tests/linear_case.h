// linear_case.h: one projection as data, run through the library and compared with the reference. Leaves out
// the layer (layer_case.h). Used by test_linear.c and test_errors_linear.c.
#ifndef CLATTN_TESTS_LINEAR_CASE_H
#define CLATTN_TESTS_LINEAR_CASE_H

#include "array.h"

struct linear_case {
    const char *name;
    int64_t batch, rows, inner, columns; // B, N, K, M; batch 0: 1
    bool bias;
    clattn_type type, matrix_type, bias_type; // of x and out; of w; of b
    enum layout layout;                       // of every tensor
    clattn_projection projection;
};

struct linear_data {
    struct linear_case test; // with the defaults filled in
    double *x, *w, *b;
};

struct linear_arrays {
    struct array x, out, w, b;
    clattn_linear_params params;
};

struct linear_data *linear_data_make(const struct linear_case *test);
void linear_data_free(struct linear_data *data);
void linear_bind(const struct linear_data *data, struct linear_arrays *arrays);
void linear_unbind(struct linear_arrays *arrays);

// Waits for the queue. False with one line in why[size] when the result is not the reference's, or when a
// byte of an input or around the output changed.
bool linear_agrees(const struct linear_data *data, const struct linear_arrays *arrays, cl_command_queue queue,
                   char *why, size_t size);

// Run, and fail the Check test when the result is wrong.
void linear_assert(const struct linear_case *test);

#endif
