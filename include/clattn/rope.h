/* rope.h: rotary position embedding (RoPE): parameters and call; the Hadamard transform. Included
 * by clattn.h (letters, rules, contracts). */
#ifndef CLATTN_ROPE_H
#define CLATTN_ROPE_H

#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------- rope --- */

/* Which numbers of a head are a pair that rotates together. */
typedef enum clattn_rope_layout {
    CLATTN_ROPE_NONE = 0,    /* no RoPE; every other field must be 0 */
    CLATTN_ROPE_HALF,        /* pairs (x[d], x[d + R/2]) [Hugging Face, GPT-NeoX] */
    CLATTN_ROPE_INTERLEAVED, /* pairs (x[2d], x[2d+1]) [RoFormer, GPT-J, Meta's Llama] */
    CLATTN_ROPE_COUNT
} clattn_rope_layout;

/* How frequencies are stretched. See docs/rope.md for formulas. */
typedef enum clattn_rope_scaling {
    CLATTN_ROPE_SCALING_NONE = 0,
    CLATTN_ROPE_SCALING_LINEAR,  /* position / factor */
    CLATTN_ROPE_SCALING_NTK,     /* base * factor^(R / (R - 2)); R is at least 4 */
    CLATTN_ROPE_SCALING_YARN,    /* a ramp over pairs; uses attention_factor [Peng et al. 2023] */
    CLATTN_ROPE_SCALING_LLAMA3,  /* a ramp over rotations [Llama 3.1's reference code] */
    CLATTN_ROPE_SCALING_DYNAMIC, /* NTK whose factor follows `length` [Transformers' dynamic NTK] */
    /* frequency of pair d / pair_factors[d] [LongRoPE; proportional] */
    CLATTN_ROPE_SCALING_PAIRS,
    CLATTN_ROPE_SCALING_COUNT
} clattn_rope_scaling;

/* Rotary position embedding: pair d of R/2 rotates by the angle position * base^(-2d/R).
 *
 * Attention and layers apply RoPE to Q and K before the scores. Key j has position `position + j`,
 * query row i `position + i + shift[b]`, unless `positions` is set.
 *    Source: Su et al. 2021, "RoFormer", section 3.2. */
typedef struct clattn_rope {
    clattn_rope_layout layout;
    int rotary_dim;   /* R, even, at most D; 0: D. The other numbers of a head are copied. */
    double base;      /* 0: 10000 */
    int64_t position; /* of the first of N rows or keys: -2^24 to 2^24 - N */
    clattn_rope_scaling scaling;
    double factor; /* of the scaling, at least 1; PAIRS: not used */
    /* YARN, LLAMA3, DYNAMIC: positions of the original training, at least 1 */
    double original_length;
    /* DYNAMIC: positions of the sequence now; for a cache, at the time its keys were made */
    double length;
    double low_factor, high_factor; /* LLAMA3; 0: 1 and 4 */
    double beta_fast, beta_slow;    /* YARN; 0: 32 and 1 */
    double attention_factor;        /* YARN, 0: 0.1 ln(factor) + 1; PAIRS, 0: 1 */
    /* YARN: the ramp may begin and end between two pairs [gpt-oss] */
    bool untruncated;

    /* Optional, i32 [B or 1, N], packed [1, T], any int32: positions of query rows and keys for
     * RoPE alone, in place of `position` (then 0) and shift. Above 2^24 angles have float64's
     * rounding. Without k_positions, keys have those of the rows. */
    clattn_tensor positions, k_positions;

    /* Optional: pairs that rotate by time, height and width, R/2 in sum. Then positions is
     * [3, B or 1, N]. [M-RoPE of Qwen2-VL] */
    int32_t sections[3];
    /* the sections alternate, as docs/rope.md describes [Qwen3-VL] */
    bool sections_interleaved;

    const float *pair_factors; /* [pairs], host memory, with PAIRS only: each 0.25 to infinity */
    int pairs;                 /* R/2, with PAIRS only */
} clattn_rope;

/* Apply RoPE to one tensor, as attention does to q or k; in place if y equals x field by field. */
typedef struct clattn_rope_params {
    clattn_tensor x; /* [B, H, N, D], f32, f16 or bf16 */
    clattn_tensor y; /* [B, H, N, D], any of these types; x itself, or apart from it */
    /* Row n has position rope.position + n + offset, or rope.positions[b, n]. k_positions is
     * absent. */
    clattn_rope rope;
    int32_t offset;         /* of every batch item; rope.position + offset is -2^24 to 2^24 - N */
    const int32_t *offsets; /* [B], host memory: an offset for each batch item; offset is then 0 */
    /* Optional tables of cosines and sines in place of base and scaling (then 0), f32, f16 or bf16.
     * Shapes: [P, R/2] by position, or [B or 1, N, R/2] by row, without positions. rope.positions
     * are clamped to 0 .. P - 1; others must be in range. [ONNX RotaryEmbedding] */
    clattn_tensor cos, sin;
    const clattn_progress *progress; /* optional: see clattn_progress */
} clattn_rope_params;

/* The prepare contract applies. */
CLATTN_API clattn_status clattn_rope_prepare(clattn_context *context, const clattn_rope_params *params);

/* Enqueue the call. B, H or N of 0 does nothing and succeeds; D of 0 is INVALID_ARGUMENT, and so is
 * a y that partly overlaps x. Scratch memory is a few words for each frequency and batch item.
 *    The enqueue contract applies. */
CLATTN_API clattn_status clattn_rope_enqueue(clattn_context *context, cl_command_queue queue,
                                             const clattn_rope_params *params, cl_uint wait_count,
                                             const cl_event *wait_list, cl_event *event);
/* --------------------------------------------------------------------------------- Hadamard --- */

/* Multiply rows by the normalised Hadamard matrix, in blocks of n columns; in place if y equals x
 * field by field.
 *    y = x H / sqrt(n),   H[i][j] = (-1)^popcount(i & j)
 *
 * The matrix is its own inverse: a second call restores x. Transformed rows lose less in a cache of
 * 4 or 8 bits. See docs/keys.md, "Transformed caches".
 *    Source: Sylvester's construction; Ashkboos et al. 2024, "QuaRot", section 4; llama.cpp */
typedef struct clattn_hadamard_params {
    clattn_tensor x; /* [B, H, N, D], f32, f16 or bf16; D is even */
    /* [B, H, N, D], any of these types; x itself, or apart from it */
    clattn_tensor y;
    /* n: a power of two that divides D, 2 to 1024; 0: the largest of them */
    int block;
    const clattn_progress *progress; /* optional: see clattn_progress */
} clattn_hadamard_params;

/* The prepare contract applies. */
CLATTN_API clattn_status clattn_hadamard_prepare(clattn_context *context,
                                                 const clattn_hadamard_params *params);

/* Enqueue the call. B, H or N of 0 does nothing and succeeds. A y that partly overlaps x is
 * INVALID_ARGUMENT.
 *    The enqueue contract applies. */
CLATTN_API clattn_status clattn_hadamard_enqueue(clattn_context *context, cl_command_queue queue,
                                                 const clattn_hadamard_params *params, cl_uint wait_count,
                                                 const cl_event *wait_list, cl_event *event);
#ifdef __cplusplus
}
#endif
#endif
