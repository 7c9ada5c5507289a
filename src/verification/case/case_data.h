// case_data.h: the inputs of a case in host memory, generated from its seed, and the list of its
// tensors. case_run.h has the device, and case_shape.h the sizes.
#ifndef CLATTN_VERIFICATION_CASE_CASE_DATA_H
#define CLATTN_VERIFICATION_CASE_CASE_DATA_H

#include "verification/case/case.h"
#include "verification/reference/random.h"
#include "verification/reference/reference_backward.h"

// The tensors of a case; inputs come first.
enum {
    CASE_Q,
    CASE_K,
    CASE_V,
    CASE_X,
    CASE_Y,
    CASE_MATRIX,
    CASE_MATRIX_BIAS = CASE_MATRIX + LAYER_MATRICES,
    CASE_NORM = CASE_MATRIX_BIAS + LAYER_MATRICES, // weights of the norms of q and of k
    CASE_GATE = CASE_NORM + 2,
    CASE_GATE_BIAS,
    CASE_MASK,
    CASE_BIAS,
    CASE_PAST_K,
    CASE_PAST_V,
    CASE_DOUT, // derivatives of a backward
    CASE_DLSE,
    CASE_INPUTS,
    CASE_PACKED = CASE_INPUTS,
    CASE_OUT,
    CASE_LSE,
    CASE_WEIGHTS,
    CASE_SCORES,
    CASE_GRADIENT, // results of a backward, in the order of GRADIENT_Q
    CASE_TENSORS = CASE_GRADIENT + GRADIENTS,
    // Tensors that may have scales: k, v, their past, the matrices and the gate.
    CASE_SCALED = 5 + LAYER_MATRICES
};

// Inputs, row-major and rounded to their storage types; NULL: absent. A suite may change them
// before a run. An input of more than GUARDED_PERIOD elements is a table that repeats.
struct case_data {
    struct test_case test; // complete; its score has the host arrays
    union {
        double *input[CASE_INPUTS];
        struct {
            double *q, *k, *v, *x, *y, *matrix[LAYER_MATRICES], *matrix_bias[LAYER_MATRICES], *norm[2], *gate,
                *gate_bias, *mask, *bias, *past_k, *past_v, *dout, *dlse;
        };
    };
    float *floats[CASE_HOSTS];     // [H]
    int32_t *integers[CASE_HOSTS]; // [B]
    int32_t *past_lengths;         // [B]; NULL: every item has test.past rows
    int32_t *block_table;          // [B, blocks]; NULL: no pages
    int64_t map_period;            // elements after which mask and bias repeat; 0: GUARDED_PERIOD
    // Explicit RoPE positions of rows and of keys: [1 or 3, B, N]; NULL: none.
    double *positions[2];
};

struct case_data *case_make(const struct test_case *test);
void case_free(struct case_data *data);
// Replace random numbers by the hostile contents that the case names. Called by case_make.
void case_contents_fill(struct case_data *data);

// `count` random numbers in [-size, size], rounded to the type. The caller frees them.
double *case_random(struct random *random, int64_t count, clattn_type type, double size);

#endif
