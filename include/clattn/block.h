/* block.h: what a transformer block does beside its attention layer and its projections: norms with residual addition,
 * activations and gates, embedding rows, and the choice of a token by its logits. With layer.h a whole decoder needs no kernel of its own.
 * Included by clattn.h, which tells the letters and the rules.
 *
 * All functions: x and out are [B, N, width] views whose last axis is contiguous; numbers are stored as f32, f16 or bf16,
 * and computed in float32. Sizes of zero: B or N of 0 does nothing and succeeds; a width of 0 is refused. They take no
 * scratch memory. wait_list and event as in clattn_attention_enqueue.
 * Lifetime  buffers must live until the commands are done.
 * Threads   any, one queue a thread.
 * Blocking  never for the result; a kernel not yet compiled is compiled now.
 * Returns   INVALID_ARGUMENT  a rank, shape, type, stride, range, number, buffer or handle is wrong, or what is written lies
 *                             partly over something else of the call; nothing was enqueued
 *           OUT_OF_MEMORY, BUILD_FAILED, DEVICE_LOST, DRIVER */
#ifndef CLATTN_BLOCK_H
#define CLATTN_BLOCK_H

#include "layer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum clattn_norm_kind {
    CLATTN_NORM_KIND_RMS = 0, /* y = h / sqrt(mean(h^2) + epsilon) * weight [Zhang and Sennrich 2019] */
    CLATTN_NORM_KIND_LAYER, /* y = (h - mean(h)) / sqrt(variance(h) + epsilon) * weight + bias [Ba et al. 2016] */
    CLATTN_NORM_KIND_COUNT
} clattn_norm_kind;

/* out = norm(h), where h = x, or x + residual. With `sum` h is stored there, rounded to x's type, and what is normalised is h as it
 * is stored: the stream of a block that normalises before each of its halves, in one call each. */
typedef struct clattn_norm_params {
    clattn_tensor x;        /* [B, N, M] */
    clattn_tensor residual; /* optional [B, N, M], any of the types */
    clattn_tensor
        sum; /* optional [B, N, M], x's type, with a residual; x itself, the residual where it is of x's type, or apart from them */
    clattn_tensor
        out; /* [B, N, M], any of the types; x or the residual itself where it is of that type, or apart from them */
    clattn_tensor weight, bias; /* optional [M], of one type; without: 1 and 0 */
    clattn_norm_kind kind;
    float epsilon; /* 0: 1e-6 of RMS, 1e-5 of LAYER, as frameworks have it */
    bool plus_one; /* times 1 + weight [Gemma]; needs weight */
} clattn_norm_params;

/* Enqueue the norm, as the top of this file says of all. */
CLATTN_API clattn_status clattn_norm_enqueue(clattn_context *context, cl_command_queue queue,
                                             const clattn_norm_params *params, cl_uint wait_count,
                                             const cl_event *wait_list, cl_event *event);

/* out = activation(x) * up: SwiGLU with SILU, GeGLU with GELU [Shazeer 2020]. x and up may be two halves of the rows of one
 * projection, whose weights are the gate's and the up projection's, one below the other. */
typedef struct clattn_activation_params {
    clattn_tensor x;  /* [B, N, M] */
    clattn_tensor up; /* optional [B, N, M], x's type; needed where activation is NONE */
    clattn_tensor
        out; /* [B, N, M], any of the types; x or up itself where it is of x's type, or apart from them */
    clattn_activation activation;
} clattn_activation_params;

/* Enqueue the activation, as the top of this file says of all. */
CLATTN_API clattn_status clattn_activation_enqueue(clattn_context *context, cl_command_queue queue,
                                                   const clattn_activation_params *params, cl_uint wait_count,
                                                   const cl_event *wait_list, cl_event *event);

/* out[b, n] = table[ids[b, n]] * scale. An id below 0 or of V or more, which only the device can see, gives a row of zeros. */
typedef struct clattn_embedding_params {
    clattn_tensor ids;   /* i32 [B, N], any strides */
    clattn_tensor table; /* [V, M]; of blocks (q8_0, q4_0, q4_1: tensor.h) [V, M / 32] */
    clattn_tensor out;   /* [B, N, M], any of the types */
    float scale;         /* 0: 1; Gemma's is sqrt(M) */
} clattn_embedding_params;

/* Enqueue the look-up of the rows, as the top of this file says of all. */
CLATTN_API clattn_status clattn_embedding_enqueue(clattn_context *context, cl_command_queue queue,
                                                  const clattn_embedding_params *params, cl_uint wait_count,
                                                  const cl_event *wait_list, cl_event *event);

/* out[b, n] = the place of the greatest of x[b, n], the first of several; a NaN is greater than all, as in NumPy and PyTorch:
 * greedy decoding, where x are logits. */
typedef struct clattn_argmax_params {
    clattn_tensor x;   /* [B, N, V] */
    clattn_tensor out; /* i32 [B, N], any strides */
    clattn_tensor
        lengths; /* i32 [B, N], any strides, optional: each becomes one more, as a text does by a token. Where these are the
                              next step's kv_lengths_device, a recorded step is replayed without a word from the host */
} clattn_argmax_params;

/* Enqueue the search of the greatest, as the top of this file says of all. */
CLATTN_API clattn_status clattn_argmax_enqueue(clattn_context *context, cl_command_queue queue,
                                               const clattn_argmax_params *params, cl_uint wait_count,
                                               const cl_event *wait_list, cl_event *event);

/* out[b, n] = a place of x[b, n], drawn with the probabilities softmax(x / temperature), of those places alone that are left by
 * top_k, then top_p, then min_p, in this order as in Hugging Face's transformers. Equal arguments draw equal places, whatever the
 * strides; each step wants another seed. Words are Philox 4x32-10 [Salmon et al. 2011] of key `seed` and counter (v / 4, n, 2^32 - 1, b),
 * and a place is that of the greatest of x / temperature - log(-log(u)), where u = ((word >> 9) + 1/2) / 2^23 [Gumbel 1954]. Sums are
 * float32, so that a place which top_p leaves by a rounding alone may be left on one device and not on another.
 * A row with a NaN gives the place of the first, one with an infinity that of an infinity. V is at most 2^24. */
typedef struct clattn_sample_params {
    clattn_tensor x;   /* [B, N, V]: logits */
    clattn_tensor out; /* i32 [B, N], any strides */
    float temperature; /* above 0; for the greatest there is clattn_argmax_enqueue */
    int32_t top_k;     /* the so many greatest, and what equals the last of them; 0: all */
    float
        top_p; /* the fewest of the greatest, and equals, that have this probability together; 0 or 1: all */
    float min_p; /* those that have this much of the greatest's probability; 0: all */
    uint64_t seed;
} clattn_sample_params;

/* Enqueue the draw, as the top of this file says of all. */
CLATTN_API clattn_status clattn_sample_enqueue(clattn_context *context, cl_command_queue queue,
                                               const clattn_sample_params *params, cl_uint wait_count,
                                               const cl_event *wait_list, cl_event *event);
#ifdef __cplusplus
}
#endif
#endif
