/* rope.h: rotary position embedding (RoPE): how it turns, and a call that does it alone. Included by clattn.h, which tells
 * the letters and the rules. */
#ifndef CLATTN_ROPE_H
#define CLATTN_ROPE_H

#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* -------------------------------------------------------------------------------------------- rope --- */

typedef enum clattn_rope_layout {
    CLATTN_ROPE_NONE = 0,    /* nothing is turned; every other field then is 0, or the call is refused */
    CLATTN_ROPE_HALF,        /* pairs (x[d], x[d + R/2]) [Hugging Face, GPT-NeoX] */
    CLATTN_ROPE_INTERLEAVED, /* pairs (x[2d], x[2d+1]) [RoFormer, GPT-J, Meta's Llama] */
    CLATTN_ROPE_COUNT
} clattn_rope_layout;

typedef enum clattn_rope_scaling {
    CLATTN_ROPE_SCALING_NONE = 0,
    CLATTN_ROPE_SCALING_LINEAR, /* position / factor */
    CLATTN_ROPE_SCALING_NTK,    /* base * factor^(R / (R - 2)), R of 4 or more */
    /* Each pair by the turns that it makes in original_length positions: above beta_fast they stay, below beta_slow their
     * frequencies are divided by factor, between them is a ramp over d; cosine and sine times attention_factor
     * [Peng et al. 2023, "YaRN"; its ends are whole numbers of d as in Hugging Face's Transformers] */
    CLATTN_ROPE_SCALING_YARN,
    /* Likewise by the turns: above high_factor they stay, below low_factor they are divided by factor, between them a
     * ramp over the turns [Llama 3.1's reference code] */
    CLATTN_ROPE_SCALING_LLAMA3,
    /* As NTK with the factor that fits the sequence at hand, factor * length / original_length - (factor - 1), where
     * `length` is above original_length; else none [dynamic NTK of Hugging Face's Transformers] */
    CLATTN_ROPE_SCALING_DYNAMIC,
    /* The frequency of pair d is divided by pair_factors[d]; cosine and sine are multiplied by attention_factor.
     * [LongRoPE: the factors for the length at hand. Proportional RoPE: infinity for pairs without rotation.] */
    CLATTN_ROPE_SCALING_PAIRS,
    CLATTN_ROPE_SCALING_COUNT
} clattn_rope_scaling;

/* Rotary position embedding: pair d of R/2 turns by position * base^(-2d/R).
 * In attention and a layer Q and K are turned before the scores: key j has position `position + j`; row i has
 * `position + i + shift[b]`, so both count on one ruler, unless positions are given.
 * Angles are exact to float32's rounding for positions up to 2^24: they are reduced to one turn in integers.
 * Source: Su et al. 2021, "RoFormer", section 3.2. */
typedef struct clattn_rope {
    clattn_rope_layout layout;
    int rotary_dim;   /* R, even, at most D; 0: D. The rest of a head passes through. */
    double base;      /* 0: 10000 */
    int64_t position; /* of the first: -2^24 to 2^24 - N where it counts N rows or keys */
    clattn_rope_scaling scaling;
    double factor; /* of the scaling, at least 1; pairs: not used */
    double
        original_length; /* yarn, llama3, dynamic: positions that the model was trained on before, at least 1 */
    double length;       /* dynamic: positions of the sequence now; of a cache, when its keys were turned */
    double low_factor, high_factor; /* llama3; 0: 1 and 4 */
    double beta_fast, beta_slow;    /* yarn; 0: 32 and 1 */
    double attention_factor;        /* yarn; 0: 0.1 ln(factor) + 1. pairs; 0: 1 */
    bool untruncated;               /* yarn: the ramp's ends need not be whole numbers [gpt-oss] */

    /* Optional, i32 [B or 1, N]: positions of the query rows, and of the keys, in place of `position`, which
     * then is 0, and of shift; each may be any int32, above 2^24 with the rounding of a float64 frequency. They concern RoPE
     * alone: causality, window and ALiBi count rows and keys as ever. Without k_positions the keys have those of the
     * rows, and are as many. Of what a ragged batch has packed they are packed, too: [1, T]. */
    clattn_tensor positions, k_positions;

    /* Optional, three axes of positions for images and video: of the R/2 pairs the first sections[0] turn by the first
     * position (time), the next sections[1] by the second (height), the last sections[2] by the third (width); their sum
     * is R/2. Positions then are given, and are [3, B or 1, N]. [M-RoPE of Qwen2-VL] */
    int32_t sections[3];
    /* Pair d turns by the second position where d % 3 is 1 and d < 3 * sections[1], by the third where d % 3 is 2 and
     * d < 3 * sections[2], else by the first. [Qwen3-VL] */
    bool sections_interleaved;

    /* With scaling pairs alone: R/2 factors. */
    const float *pair_factors; /* [pairs], host memory, read during the call: each 0.25 to infinity */
    int pairs;                 /* R/2 */
} clattn_rope;

/* Turn the rows of one tensor, as attention turns q or k: out of place, or in place where y is x, field by field. */
typedef struct clattn_rope_params {
    clattn_tensor x; /* [B, H, N, D], f32, f16 or bf16 */
    clattn_tensor y; /* [B, H, N, D], any of these types; x itself, or apart from it */
    clattn_rope
        rope; /* row n has position rope.position + n + offset, or rope.positions[b, n]; k_positions is absent */
    int32_t offset;         /* of every batch item; rope.position + offset is -2^24 to 2^24 - N */
    const int32_t *offsets; /* [B], host memory, read during the call: of each; offset then is 0 */
    /* Optional: cosines and sines of the caller's in place of base and scaling, which then are 0, both f32, f16 or
     * bf16: [P, R/2], of each position, or [B or 1, N, R/2], of each row, where no position is said. A
     * position below 0 or above P - 1 that rope.positions hold is taken for that end; one that is said here is
     * refused. [ONNX RotaryEmbedding: cos_cache, sin_cache, position_ids] */
    clattn_tensor cos, sin;
    const clattn_progress *progress; /* optional: as in clattn_attention_params */
} clattn_rope_params;

/* Compile ahead what the call needs. Buffers may be NULL (an optional tensor counts as present when its rank is not 0).
 * Threads: any.   Blocking: while the driver compiles.   Returns: as clattn_rope_enqueue. */
CLATTN_API clattn_status clattn_rope_prepare(clattn_context *context, const clattn_rope_params *params);

/* Enqueue it on the caller's queue, in-order or out-of-order; wait_list and event as in clattn_attention_enqueue. Sizes of
 * zero: B, H or N of 0 does nothing and succeeds; D of 0 is refused. It takes no scratch memory but a few words a frequency
 * and batch item.
 * Lifetime  buffers must live until the commands are done.
 * Threads   any, one queue a thread.
 * Blocking  never for the result, unless with `progress`; a kernel not yet compiled is compiled now.
 * Returns   INVALID_ARGUMENT  a rank, shape, type, stride, range, number, buffer or handle is wrong, or y lies partly over
 *                             x; nothing was enqueued
 *           CANCELLED         by params->progress
 *           OUT_OF_MEMORY, BUILD_FAILED, DEVICE_LOST, DRIVER */
CLATTN_API clattn_status clattn_rope_enqueue(clattn_context *context, cl_command_queue queue,
                                             const clattn_rope_params *params, cl_uint wait_count,
                                             const cl_event *wait_list, cl_event *event);
/* -------------------------------------------------------------------------------------- Hadamard --- */

/* Multiply rows by the normalised Hadamard matrix, out of place, or in place where y is x, field by field: y = x H / sqrt(n), with
 * H[i][j] = (-1)^popcount(i & j), in each block of n columns by itself. The matrix is its own inverse, so that a second call turns
 * back. A cache of 4 or 8 bits loses less of rows whose largest numbers are spread so: q and new keys are multiplied alike, behind
 * RoPE, which leaves each q k as it was; new values are multiplied, and out is multiplied back. clattn_kv's k_rotation
 * and v_rotation (attention.h) have the calls themselves do so.
 * Source: Sylvester's construction; Ashkboos et al. 2024, "QuaRot", section 4; llama.cpp's rotated caches, for the idea. */
typedef struct clattn_hadamard_params {
    clattn_tensor x; /* [B, H, N, D], f32, f16 or bf16 */
    clattn_tensor y; /* [B, H, N, D], any of these types; x itself, or apart from it */
    int block;       /* n: a power of two that divides D, 2 to 1024; 0: the largest of them. D is even. */
    const clattn_progress *progress; /* optional: as in clattn_attention_params */
} clattn_hadamard_params;

/* Compile ahead what the call needs. Buffers may be NULL (an optional tensor counts as present when its rank is not 0).
 * Threads: any.   Blocking: while the driver compiles.   Returns: as clattn_hadamard_enqueue. */
CLATTN_API clattn_status clattn_hadamard_prepare(clattn_context *context,
                                                 const clattn_hadamard_params *params);

/* Enqueue it on the caller's queue, in-order or out-of-order; wait_list and event as in clattn_attention_enqueue. B, H or N of 0
 * does nothing and succeeds. It takes no scratch memory.
 * Lifetime  buffers must live until the commands are done.
 * Threads   any, one queue a thread.
 * Blocking  never for the result, unless with `progress`; a kernel not yet compiled is compiled now.
 * Returns   INVALID_ARGUMENT  a rank, shape, type, stride, block, buffer or handle is wrong, or y lies partly over x; nothing was
 *                             enqueued
 *           CANCELLED         by params->progress
 *           OUT_OF_MEMORY, BUILD_FAILED, DEVICE_LOST, DRIVER */
CLATTN_API clattn_status clattn_hadamard_enqueue(clattn_context *context, cl_command_queue queue,
                                                 const clattn_hadamard_params *params, cl_uint wait_count,
                                                 const cl_event *wait_list, cl_event *event);
#ifdef __cplusplus
}
#endif
#endif
