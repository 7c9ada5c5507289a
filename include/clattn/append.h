/* append.h: calls that change a cache of keys and values: new rows, and a shift of the keys'
 * positions. Included by clattn.h (letters, rules, contracts). */
#ifndef CLATTN_APPEND_H
#define CLATTN_APPEND_H

#include "rope.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ----------------------------------------------------------------------------------- append --- */

/* Write new rows into a cache: row r of batch item b becomes row start + r of the cache, converted
 * to its type. RoPE is applied to new keys before they are stored. [ONNX TensorScatter]
 *
 * See docs/keys.md, "How rows are quantised", for i8, float8, i4, u4 and blocks. A row, group or
 * block with an infinity or a NaN is read as NaN. */
typedef struct clattn_append_params {
    /* [B, Hkv, n, D] and [B, Hkv, n, Dv], of one type: f32, f16 or bf16. Keys or values may be
     * absent together with their cache. Without elements they need no buffer. */
    clattn_tensor k_new, v_new;
    /* [B, Hkv, capacity, D] and [B, Hkv, capacity, Dv], each of any type of clattn_kv */
    clattn_tensor k, v;
    clattn_tensor k_scale, v_scale; /* as in clattn_kv, but each of a type of its own */
    /* Optional, as in clattn_kv, for ranges from the least to the largest number; u4 requires
     * them. */
    clattn_tensor k_zero, v_zero;
    int32_t start;         /* first row, of every batch item: 0 to capacity - n */
    const int32_t *starts; /* [B], host memory: a start for each batch item; start is then 0 */
    /* [B], host memory: how many of the n rows each item appends; NULL: all */
    const int32_t *lengths;
    /* Rows go to (start + r) modulo capacity, start is 0 or more, n is at most capacity. */
    bool circular;
    /* Optional, for k_new: row r has position rope.position + start + r, which does not wrap, or
     * rope.positions[b, r]. k_positions is absent. */
    clattn_rope rope;
    /* As in clattn_kv: new rows are Hadamard-transformed, keys after RoPE, before they are
     * stored. */
    int32_t k_rotation, v_rotation;
    const clattn_progress *progress; /* optional: see clattn_progress */
} clattn_append_params;

/* The prepare contract applies. */
CLATTN_API clattn_status clattn_append_prepare(clattn_context *context, const clattn_append_params *params);

/* Enqueue the call. B, Hkv or n of 0 does nothing and succeeds; D or Dv of 0 is INVALID_ARGUMENT,
 * and so are rows outside the cache. Scratch memory is a few words for each frequency and batch
 * item.
 *    The enqueue contract applies. */
CLATTN_API clattn_status clattn_append_enqueue(clattn_context *context, cl_command_queue queue,
                                               const clattn_append_params *params, cl_uint wait_count,
                                               const cl_event *wait_list, cl_event *event);

/* ------------------------------------------------------------------------------------ shift --- */

/* Change the position of stored keys, in place: a key with RoPE for position p gets RoPE for p +
 * delta. A decoder whose context is full drops its oldest n keys, and shifts the others by -n. Rows
 * do not move.
 *
 * Quantised keys are converted to numbers, rotated and quantised again, which adds up to one
 * rounding of the type. A delta of 0 changes no byte.
 *
 * A range of rows is a view of k. For pages, k is the pool [pages, Hkv, page_size, D], and deltas
 * and lengths count pages: see docs/keys.md, "Context shift".
 *    Source: Su et al. 2021, "RoFormer", section 3.2 (rotations add up); llama.cpp's context
 *    shift */
typedef struct clattn_shift_params {
    clattn_tensor k;       /* [B, Hkv, N, D], of any type of clattn_kv's k */
    clattn_tensor k_scale; /* as in clattn_kv */
    clattn_tensor k_zero;  /* as in clattn_kv; u4 requires zero points */
    int32_t delta;         /* positions, of every batch item: -2^24 to 2^24 */
    const int32_t *deltas; /* [B], host memory: a delta for each batch item; delta is then 0 */
    /* [B], host memory: how many of its N rows each item has. The other rows keep their bytes.
     * NULL: all */
    const int32_t *lengths;
    /* The RoPE of the stored keys, without position, positions, k_positions and sections.
     * attention_factor is not applied again. DYNAMIC with length above original_length is
     * INVALID_ARGUMENT. R is at most 1024 for blocks, 4 bits, groups, 16-bit scales and zero
     * points. */
    clattn_rope rope;
    /* As in clattn_kv: blocks with a column below R are transformed back, rotated, and transformed
     * again. */
    int32_t k_rotation;
    const clattn_progress *progress; /* optional: see clattn_progress */
} clattn_shift_params;

/* The prepare contract applies. */
CLATTN_API clattn_status clattn_shift_prepare(clattn_context *context, const clattn_shift_params *params);

/* Enqueue the call. B, Hkv or N of 0 does nothing and succeeds; D of 0 is INVALID_ARGUMENT. Scratch
 * memory is a few words for each frequency and batch item.
 *    The enqueue contract applies. */
CLATTN_API clattn_status clattn_shift_enqueue(clattn_context *context, cl_command_queue queue,
                                              const clattn_shift_params *params, cl_uint wait_count,
                                              const cl_event *wait_list, cl_event *event);
#ifdef __cplusplus
}
#endif
#endif
