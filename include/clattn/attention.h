/* attention.h: scores, keys and values, attention, merge. Included by clattn.h (letters, rules,
 * contracts). */
#ifndef CLATTN_ATTENTION_H
#define CLATTN_ATTENTION_H

#include "rope.h"
#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* -------------------------------------------------------------------------------- attention --- */

/* The position p = i + shift[b] of query row i among the keys, for causality, window, ALiBi and
 * RoPE. */
typedef enum clattn_alignment {
    CLATTN_ALIGN_TOP_LEFT = 0, /* shift = 0 [PyTorch is_causal] */
    /* shift = kv_length[b] - q_length[b], which may be negative [FlashAttention >= 2.1] */
    CLATTN_ALIGN_BOTTOM_RIGHT,
    /* shift = offsets[b], or `offset` if offsets is NULL [ONNX with a cache] */
    CLATTN_ALIGN_OFFSET,
    CLATTN_ALIGN_COUNT
} clattn_alignment;

/* The step after which the call copies its scores [ONNX Attention qk_matmul_output_mode]. */
typedef enum clattn_tap {
    CLATTN_TAP_RAW = 0, /* scale * dot(q, k) */
    CLATTN_TAP_SOFTCAP, /* after softcap */
    CLATTN_TAP_MASKED,  /* after bias, ALiBi and masks; a masked score is -inf */
    CLATTN_TAP_SOFTMAX, /* the attention weights */
    CLATTN_TAP_COUNT
} clattn_tap;

/* The path of a call. Each has several kernels, of which the planner selects one. */
typedef enum clattn_kernel {
    CLATTN_KERNEL_AUTO = 0,
    /* Scores, softmax and P*V in separate launches. The only path for score taps, for score_mod or
     * mask_mod with one-byte past keys, and on most devices for weights. */
    CLATTN_KERNEL_UNFUSED,
    CLATTN_KERNEL_FLASH,  /* tiled, online softmax: memory is inputs + outputs */
    CLATTN_KERNEL_DECODE, /* at most 16 query rows; ranges of keys are computed apart and merged */
    CLATTN_KERNEL_COUNT
} clattn_kernel;

/* Selects whether a shared past (past_k and past_v with 1 in B) is read once for all items, by a
 * launch of its own. Only rounding differs. See docs/keys.md, "Shared prefixes". [FlashInfer's
 * cascade, Ye et al. 2024; Hydragen, Juravsky et al. 2024] */
typedef enum clattn_cascade {
    CLATTN_CASCADE_AUTO = 0, /* the planner decides; the plan says why */
    CLATTN_CASCADE_NEVER,    /* each item reads the past */
    /* The past is read once, or the call is UNSUPPORTED with the reason. Equal to NEVER if B is
     * 1. */
    CLATTN_CASCADE_ALWAYS,
    CLATTN_CASCADE_COUNT
} clattn_cascade;

/* The path's word, such as "flash". The name contract applies. */
CLATTN_API const char *clattn_kernel_name(clattn_kernel kernel);

/* Tensors that score_mod and mask_mod may read. */
#define CLATTN_MOD_BUFFERS 4

/* Query rows and keys of a block of a block mask. */
#define CLATTN_BLOCK_ROWS 64
#define CLATTN_BLOCK_KEYS 64

/* The steps of a score, in this order; attention and layers share them:
 *    s[i,j] = scale * dot(q[i], k[j])               or head_scales[h] * dot(q[i], k[j])
 *    s = softcap * tanh(s / softcap)                if softcap > 0
 *    s = s + bias[i,j] - slope[h] * |p - j|         p = i + shift[b]
 *    s = score_mod(s, ...)                          the caller's expression
 *    s = -inf unless all masks keep (i, j)          causality, window, lengths, mask, mask_mod
 */
typedef struct clattn_score {
    float scale; /* 0: 1/sqrt(D) */
    /* [H], host memory: a finite scale for each head, with scale = 0. 0 means 0 here. [Swin
     * Transformer V2, Liu et al. 2022, learned logit scale] */
    const float *head_scales;
    float softcap; /* 0: none, else above 0; before bias and masks [FlashAttention, ONNX >= 1.22] */

    bool causal; /* row i sees keys j <= p; never inferred from shapes */
    clattn_alignment alignment;
    int32_t offset;         /* with ALIGN_OFFSET: the shift of every batch item */
    const int32_t *offsets; /* [B], host memory, with ALIGN_OFFSET: the shift of each batch item */
    bool window;            /* row i sees p - window_left <= j <= p + window_right; -1: unbounded */
    int32_t window_left, window_right;

    /* [B], host memory; NULL: all. q_lengths, 0 to Nq: later rows are not written. kv_lengths, 0 to
     * Nkv: later keys are hidden. */
    const int32_t *q_lengths, *kv_lengths;

    /* Bool, true keeps: [Nkv], [Nq, Nkv], [H, Nq, Nkv] or [B, H, Nq, Nkv]; a size of 1 repeats. */
    clattn_tensor mask;
    clattn_tensor bias;        /* f32, f16 or bf16, added; shapes as mask */
    const float *alibi_slopes; /* [H], host memory [Press et al. 2022] */
    const float *sinks;        /* [H], host memory: sink logits, neither NaN nor +infinity */
    /* [H], f32, f16 or bf16: sinks in a buffer instead, such as learned ones. Values are not
     * checked; a NaN makes the rows of its head NaN. */
    clattn_tensor sinks_device;

    /* Expressions of OpenCL C, compiled into the kernel; NULL: none. The value of score_mod is the
     * new score (float). A key whose mask_mod is 0 is hidden. See docs/expressions.md for names,
     * language and errors, and mods.h for ready texts. [FlexAttention, Dong et al. 2024] */
    const char *score_mod, *mask_mod;
    /* Tensors of 1 to 4 axes, f32, f16, bf16, bool, i8 or i32, which expressions read as
     * buffer0(x0, ...) to buffer3. */
    clattn_tensor mod_buffers[CLATTN_MOD_BUFFERS];

    /* Optional: blocks that kernels may skip, from clattn_block_mask_enqueue with the same masks,
     * positions and lengths. A wrong block mask is not detected, and changes results.
     * [FlexAttention's BlockMask] */
    clattn_tensor block_mask;

    /* P, 0 to below 1: probability to drop a weight after softmax (docs/training.md). Kept weights
     * are divided by 1 - P. Results lse, weights and scores are those before dropout. A dropped
     * weight is 0; NaN and infinity in seen values propagate. */
    float dropout;
    /* Selects the dropped weights, the same on every device and in every kernel. [Srivastava et al.
     * 2014; Salmon et al. 2011] */
    uint64_t dropout_seed;
} clattn_score;

/* How keys and values are stored; attention and layers share it. A layer makes k and v where both
 * are absent. See docs/keys.md for each layout, quantised caches, latent attention and what to set.
 *
 *                  k                              k_new           Nkv*                    RoPE
 *    dense         [B, Hkv, N, D]                                 N                       q, k
 *    cache         [B, Hkv, N, D]                 [B, Hkv, n, D]  N                       q, k_new
 *    past          [B, Hkv, N, D] behind past_k                   P + N                   q, k
 *    past, cache   [B, Hkv, N, D] behind past_k   [B, Hkv, n, D]  P + N                   q, k_new
 *    pages         [pages, Hkv, page_size, D]     optional        max_blocks * page_size  q, k_new
 *    packed keys   [1, Hkv, T, D], cu_seqlens_kv  refused         max_kv (+ P)            q, k
 *    packed q      as above but packed keys       [1, Hkv, T, D]  as above                as above
 *
 * * the axis of keys in mask, bias, weights, scores and block_mask. kv_lengths count all keys of an
 * item: past rows, rows of k, and new rows. Without kv_lengths an item has all keys, past_length[b]
 * + N with a past.
 *
 * The tensor v may be a view of k, as in multi-head latent attention [DeepSeek-V2, 2024]. Scales
 * and zero points of v are then the same views of k's, with the groups of Dv. */
typedef struct clattn_kv {
    clattn_tensor k; /* see the table */
    clattn_tensor v; /* as k, with Dv in place of D; the type may differ from k's */
    /* Scales of i8, float8, i4 and u4, required there and only there, of one type: f32, f16 or
     * bf16. Shape: k's without D, a scale a row; or k's with D / G, a scale for G numbers. G is a
     * multiple of 32 that divides D. [ONNX DequantizeLinear] */
    clattn_tensor k_scale, v_scale;
    /* Optional zero points, any real numbers, of the type, shape and strides of their scales: a
     * number is (stored - zero) * scale. [KIVI, Liu et al. 2024; ONNX DequantizeLinear] */
    clattn_tensor k_zero, v_zero;

    /* Optional past rows [B or 1, Hkv, P, D or Dv], of k's and v's type. The keys of item b are
     * past rows 0 to past_length[b] - 1, then the rows of k. With 1 in B, all items share the past.
     * Past rows already have RoPE; row n of k has position rope.position + past_length[b] + n. */
    clattn_tensor past_k, past_v;
    /* [B or 1, Hkv, P], or with D / G behind, of the type and G of k_scale and v_scale */
    clattn_tensor past_k_scale, past_v_scale;
    /* with k_zero and v_zero; at the offset of their scales */
    clattn_tensor past_k_zero, past_v_zero;
    const int32_t *past_lengths; /* [B], host memory, each 0 to P; NULL: P */

    /* i32 [B, max_blocks], optional, not with past_k: key j of item b is row j % page_size of page
     * block_table[b][j / page_size] of the pool k. Items may share pages. A page number outside the
     * pool reads its first or last page. [vLLM, Kwon et al. 2023] */
    clattn_tensor block_table;
    int32_t page_size; /* rows of a page, 1 or more; with block_table */

    /* Optional, f32, f16 or bf16: new rows, which the call writes into the caches k and v before it
     * reads them. They are the last n keys of an item. Conversion is as in clattn_append_enqueue.
     * See docs/keys.md, "New rows", for positions, lengths, pages and errors. */
    clattn_tensor k_new, v_new;

    /* [B+1], host memory: k and v are packed, see clattn_attention_params */
    const int32_t *cu_seqlens_kv;
    clattn_tensor cu_seqlens_kv_device; /* i32 [B+1]: cu_seqlens_kv in a buffer instead */
    /* i32 [B]: kv_lengths in a buffer, with cu_seqlens_q_device and keys that are not packed
     * [FlashAttention's seqused_k] */
    clattn_tensor kv_lengths_device;

    /* Block size of a Hadamard transform (rope.h), 0 for none. All rows of k or v, also past rows,
     * are stored transformed. It is a power of two from 2 on that divides D or Dv, at most 1024.
     * See docs/keys.md, "Transformed caches". [QuaRot, Ashkboos et al. 2024; llama.cpp] */
    int32_t k_rotation, v_rotation;
} clattn_kv;

/* One attention call: scores as in clattn_score, then
 *    m = max_j s,  l = sum_j exp(s - m)             plus exp(sink[h] - m) in l with sinks
 *    out[i] = sum_j exp(s - m) / l * v[j]           lse[i] = m + ln l, natural
 *
 * A row without a visible key, or whose scores are all -inf, has out = 0, weights = 0 and lse =
 * -inf (with a sink: lse = sink). A hidden NaN in K or V has no effect. A NaN or infinity in a
 * visible key propagates by IEEE 754; a hidden key's weight stays 0.
 *
 * Types may differ between q, k, v and out: q and out are f32, f16 or bf16. Sums and softmax are
 * float32.
 *
 * A ragged batch packs B = `sequences` of different lengths, one behind the other. The tensors q,
 * out and lse then have 1 in place of B and T rows in place of Nq. Sequence b has the rows
 * cu_seqlens_q[b] to cu_seqlens_q[b + 1] - 1. See docs/keys.md, "Ragged batches".
 *    Sources: Vaswani et al. 2017; Milakov and Gimelshein 2018 (online softmax); Dao et al. 2022
 *    (FlashAttention) */
typedef struct clattn_attention_params {
    clattn_tensor q;   /* [B, H, Nq, D] */
    clattn_kv kv;      /* keys and values */
    clattn_tensor out; /* [B, H, Nq, Dv] */
    clattn_tensor lse; /* optional, f32 [B, H, Nq] */
    /* Optional attention weights [B, H, Nq, Nkv], f32, f16 or bf16. With 1 in place of Nq, f32:
     * their sums over query rows [H2O, Zhang et al. 2023; SnapKV, Li et al. 2024] */
    clattn_tensor weights;
    /* Optional, f32 [B, H, Nq, Nkv]: scores after the step `scores_at`. Keys past a length are -inf
     * at every step; other hidden keys keep their score, NaN or not, until masks are applied. */
    clattn_tensor scores;
    clattn_tap scores_at;

    clattn_score score;

    /* Applied to q and k before the scores. Scratch memory holds copies with RoPE, rounded to the
     * types of q and k. */
    clattn_rope rope;

    /* a path that cannot do the call is UNSUPPORTED; no other path replaces it */
    clattn_kernel kernel;
    /* ranges of keys on the decode path, at most 16 query rows; 0: the planner decides */
    int32_t splits;
    clattn_cascade cascade; /* for a past that items share */

    /* B of a ragged batch. 0 with cu_seqlens_q is INVALID_ARGUMENT, except with T = 0. */
    int32_t sequences;
    /* [B+1], host memory: first row of each sequence; starts with 0, never decreases, last is at
     * most T */
    const int32_t *cu_seqlens_q;
    /* i32 [B+1]: cu_seqlens_q in a buffer instead. Values are clamped: no access leaves the
     * tensors. */
    clattn_tensor cu_seqlens_q_device;
    /* Bounds of the longest sequence's rows, and packed keys. With host arrays 0 means that the
     * call finds them. With buffers both are required: 1 or more, unless B or T is 0. */
    int32_t max_q, max_kv;

    /* Optional scratch memory of at least clattn_attention_workspace() bytes, which no other
     * command may use meanwhile. The context then lends only a few words per batch item, head or
     * frequency. */
    cl_mem workspace;

    /* Optional: the call reports progress, can be cancelled, and blocks. */
    const clattn_progress *progress;
} clattn_attention_params;

/* Which kernel a call uses, and why. */
typedef struct clattn_plan {
    clattn_kernel kernel;
    /* the .cl file, such as "flash"; "unfused" for the three kernels of that path */
    char kernel_name[32];
    int tile_q, tile_kv; /* query rows and keys of a tile; 0: no tiles */
    int work_group;      /* work-items */
    int splits;          /* ranges of keys that are computed apart; 1: none */
    int prefix_keys;     /* keys of a shared past that one launch reads for all items; 0: none */
    /* the kernel uses instructions that a self-test found, such as dot products */
    bool matrix_instructions;
    size_t local_bytes;     /* local memory of a work-group */
    size_t workspace_bytes; /* scratch memory of the call */
    char why[256];          /* one line */
} clattn_plan;

/* Plan a call without running it: OK with kernel and workspace size, or UNSUPPORTED with the
 * option's name in the message. After OK the call does not fail for options, sizes or scratch
 * memory. params->workspace counts as large enough.
 *
 * The plan is a pure function of the device, tuned rows, probes and shapes. Buffers may be NULL; an
 * optional tensor counts as present when its rank is not 0.
 *    Threads    any
 *    Blocking   only for probes: at a context's first bf16 call (60 ms on a CPU, then cached), and
 *               at its first call on a CPU device with float_vector_width below 4 (seconds with a
 *               slow compiler)
 *    Returns    as clattn_attention_enqueue */
CLATTN_API clattn_status clattn_attention_plan(clattn_context *context, const clattn_attention_params *params,
                                               clattn_plan *plan);

/* One kernel family, and its answer to a call. */
typedef struct clattn_family {
    char name[32];        /* such as "flash_lanes" */
    clattn_kernel kernel; /* the family's path */
    bool taken;           /* true: the plan uses it */
    char why[256];        /* one line: why the plan uses it, or why not */
} clattn_family;

/* List all kernel families in order of preference, with the plan's reasons. The list contract
 * applies. Otherwise as clattn_attention_plan. */
CLATTN_API clattn_status clattn_attention_families(clattn_context *context,
                                                   const clattn_attention_params *params,
                                                   clattn_family *families, size_t capacity, size_t *count);

/* Scratch memory of the call in bytes, usually 0 for flash. Otherwise as clattn_attention_plan. */
CLATTN_API clattn_status clattn_attention_workspace(clattn_context *context,
                                                    const clattn_attention_params *params, size_t *bytes);

/* The prepare contract applies. */
CLATTN_API clattn_status clattn_attention_prepare(clattn_context *context,
                                                  const clattn_attention_params *params);

/* Enqueue one attention call. B, H or Nq of 0 only writes k_new and v_new, and succeeds. Nkv of 0
 * makes every row empty. D or Dv of 0 is INVALID_ARGUMENT, and so is Hkv of 0 where H is not 0. A
 * q, k, v, out, k_new, v_new or block_table without elements needs no buffer.
 *    The enqueue contract applies; the probes of clattn_attention_plan block, too. */
CLATTN_API clattn_status clattn_attention_enqueue(clattn_context *context, cl_command_queue queue,
                                                  const clattn_attention_params *params, cl_uint wait_count,
                                                  const cl_event *wait_list, cl_event *event);

/* Write params->score.block_mask: the blocks that mask and mask_mod of `params` hide, and those
 * they keep whole. Any call with the same masks may use it.
 *    params->score.block_mask  bool [B or 1, H or 1, ceil(Nq / CLATTN_BLOCK_ROWS), ceil(Nkv /
 *                              CLATTN_BLOCK_KEYS)], written: 0 no row of the block sees a key of
 *                              it, 2 all rows see all keys, else 1. An axis of 1 holds for all
 *                              batch items or heads
 *    params->q, kv, out        only their sizes count
 *    params->score             checked as for the call
 *    other fields              lse, weights, scores, rope, kernel, splits and cascade are ignored
 *    The enqueue contract applies. */
CLATTN_API clattn_status clattn_block_mask_enqueue(clattn_context *context, cl_command_queue queue,
                                                   const clattn_attention_params *params, cl_uint wait_count,
                                                   const cl_event *wait_list, cl_event *event);

/* Write which weights dropout keeps in such a call. A size of 0 does nothing and succeeds.
 *    The enqueue contract applies. */
typedef struct clattn_dropout_mask_params {
    clattn_tensor mask;    /* bool [B, H, Nq, Nkv], written: 1 keeps */
    float dropout;         /* as in clattn_score */
    uint64_t dropout_seed; /* as in clattn_score */
} clattn_dropout_mask_params;
CLATTN_API clattn_status clattn_dropout_mask_enqueue(clattn_context *context, cl_command_queue queue,
                                                     const clattn_dropout_mask_params *params,
                                                     cl_uint wait_count, const cl_event *wait_list,
                                                     cl_event *event);

/* Merge two partial results over disjoint keys into `a`, in place.
 *    lse = ln(exp(lse_a) + exp(lse_b)),  out = out_a exp(lse_a - lse) + out_b exp(lse_b - lse)
 *
 * A part without visible keys (lse = -inf) changes nothing, whatever its out holds. Weights of the
 * parts have the rounding of float32 lse: 1e-6 where lse is about 10, useless with scores of 1e7.
 *
 * B, H or Nq of 0 does nothing and succeeds; Dv of 0 merges lse alone.
 *    The enqueue contract applies.
 *    Source: Dao et al. 2022, section 3.1 */
typedef struct clattn_merge_params {
    /* [B, H, Nq, Dv], f32, f16 or bf16; f32 [B, H, Nq]; read and written */
    clattn_tensor out_a, lse_a;
    clattn_tensor out_b, lse_b; /* b: read, with the types and shapes of a */
} clattn_merge_params;
CLATTN_API clattn_status clattn_merge_enqueue(clattn_context *context, cl_command_queue queue,
                                              const clattn_merge_params *params, cl_uint wait_count,
                                              const cl_event *wait_list, cl_event *event);
#ifdef __cplusplus
}
#endif
#endif
