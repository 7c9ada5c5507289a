/* block.h: the other steps of a transformer block: norms with residual, activations and gates,
 * embedding rows, and the choice of a token from logits. Included by clattn.h (letters, rules,
 * contracts).
 *
 * All calls: x and out are [B, N, width] views with a contiguous last axis, stored as f32, f16 or
 * bf16, computed in float32. B or N of 0 does nothing and succeeds; a width of 0 is
 * INVALID_ARGUMENT. The enqueue contract applies, without `progress`. */
#ifndef CLATTN_BLOCK_H
#define CLATTN_BLOCK_H

#include "layer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum clattn_norm_kind {
    /* y = h / sqrt(mean(h^2) + epsilon) * weight [Zhang and Sennrich 2019] */
    CLATTN_NORM_KIND_RMS = 0,
    /* y = (h - mean(h)) / sqrt(variance(h) + epsilon) * weight + bias [Ba et al. 2016] */
    CLATTN_NORM_KIND_LAYER,
    CLATTN_NORM_KIND_COUNT
} clattn_norm_kind;

/* out = norm(h), where h is x, or x + residual. `sum` receives h, rounded to x's type; the norm
 * then reads the rounded h. */
typedef struct clattn_norm_params {
    clattn_tensor x;        /* [B, N, M] */
    clattn_tensor residual; /* optional [B, N, M], any of the types */
    /* Optional [B, N, M], x's type, with residual; x or residual itself, or apart from both */
    clattn_tensor sum;
    /* [B, N, M], any of the types; x or residual itself, or apart from both */
    clattn_tensor out;
    clattn_tensor weight, bias; /* optional [M], of one type; without: 1 and 0 */
    clattn_norm_kind kind;
    float epsilon; /* 0: 1e-6 for RMS, 1e-5 for LAYER */
    bool plus_one; /* multiply by 1 + weight [Gemma]; needs weight */
} clattn_norm_params;

/* Enqueue the norm: see the top of this file. */
CLATTN_API clattn_status clattn_norm_enqueue(clattn_context *context, cl_command_queue queue,
                                             const clattn_norm_params *params, cl_uint wait_count,
                                             const cl_event *wait_list, cl_event *event);

/* out = activation(x) * up: SwiGLU with SILU, GeGLU with GELU [Shazeer 2020]. x and up may be the
 * halves of one projection's rows. */
typedef struct clattn_activation_params {
    clattn_tensor x;  /* [B, N, M] */
    clattn_tensor up; /* optional [B, N, M], x's type; required if activation is NONE */
    /* [B, N, M], any of the types; x or up itself, or apart from both */
    clattn_tensor out;
    clattn_activation activation;
} clattn_activation_params;

/* Enqueue the activation: see the top of this file. */
CLATTN_API clattn_status clattn_activation_enqueue(clattn_context *context, cl_command_queue queue,
                                                   const clattn_activation_params *params, cl_uint wait_count,
                                                   const cl_event *wait_list, cl_event *event);

/* out[b, n] = table[ids[b, n]] * scale. An id outside 0 .. V - 1, which only the device sees, makes
 * a row of zeros. */
typedef struct clattn_embedding_params {
    clattn_tensor ids;   /* i32 [B, N], any strides */
    clattn_tensor table; /* [V, M]; blocks (tensor.h) are [V, M / 32] */
    clattn_tensor out;   /* [B, N, M], any of the types */
    float scale;         /* 0: 1; sqrt(M) for Gemma */
} clattn_embedding_params;

/* Enqueue the look-up: see the top of this file. */
CLATTN_API clattn_status clattn_embedding_enqueue(clattn_context *context, cl_command_queue queue,
                                                  const clattn_embedding_params *params, cl_uint wait_count,
                                                  const cl_event *wait_list, cl_event *event);

/* out[b, n] = index of the greatest of x[b, n], the first of equals. A NaN is greater than all. */
typedef struct clattn_argmax_params {
    clattn_tensor x;   /* [B, N, V] */
    clattn_tensor out; /* i32 [B, N], any strides */
    /* Optional i32 [B, N], any strides: the call adds 1 to each, such as kv_lengths_device of the
     * next recorded step. */
    clattn_tensor lengths;
} clattn_argmax_params;

/* Enqueue the search: see the top of this file. */
CLATTN_API clattn_status clattn_argmax_enqueue(clattn_context *context, cl_command_queue queue,
                                               const clattn_argmax_params *params, cl_uint wait_count,
                                               const cl_event *wait_list, cl_event *event);

/* out[b, n] = an index of x[b, n], drawn with the probabilities softmax(x / temperature) among the
 * indices that top_k, then top_p, then min_p keep, as in Hugging Face's transformers.
 *
 * Equal arguments draw equal indices: use another seed for each step. See docs/decoder.md,
 * "Sampling".
 *
 * A row with a NaN returns the first NaN's index, a row with an infinity that of an infinity. Sums
 * are float32: top_p may keep another index on another device, by a rounding. */
typedef struct clattn_sample_params {
    clattn_tensor x;   /* [B, N, V]: logits, V at most 2^24 */
    clattn_tensor out; /* i32 [B, N], any strides */
    float temperature; /* above 0; clattn_argmax_enqueue finds the greatest */
    int32_t top_k;     /* keep this many of the greatest, and equals of the last; 0: all */
    /* keep the fewest of the greatest, and equals, with this probability together; 0, 1: all */
    float top_p;
    float min_p; /* keep those with at least this share of the greatest's probability; 0: all */
    uint64_t seed;
} clattn_sample_params;

/* Enqueue the draw: see the top of this file. */
CLATTN_API clattn_status clattn_sample_enqueue(clattn_context *context, cl_command_queue queue,
                                               const clattn_sample_params *params, cl_uint wait_count,
                                               const cl_event *wait_list, cl_event *event);
#ifdef __cplusplus
}
#endif
#endif
