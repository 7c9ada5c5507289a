/* append.h: what changes a cache of keys and values: new rows, and a shift of its keys' positions. Included by clattn.h, which tells
 * the letters and the rules. */
#ifndef CLATTN_APPEND_H
#define CLATTN_APPEND_H

#include "rope.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------ append --- */

/* Row r of batch item b goes to row start + r of its cache, r below n. The rows may have another type than the cache; keys
 * are turned by RoPE before they are stored, so that a cache is turned once. int8: a row's scale becomes max|x| / 127 in
 * float32, x then the nearest integer to x / scale, ties to even, where the device's division is exact; a row of zeros
 * has scale 0; the scale of one that holds an infinity or a NaN is none either, so that it is read as NaN. [ONNX TensorScatter]
 * Blocks are made by ggml's rule, but for ties of q8_0, which go to even: q8_0's d is max|x| / 127; q4_0's the number of the largest
 * size, with its sign, / -8; of q4_1 m is the least number, d the range / 15; d and m are then rounded to f16. A block that holds an
 * infinity or a NaN is read as NaN. [ggml]
 * i4, and any type with groups, scales of 16 bits or zero points: of each group, symmetric as int8 with the type's largest number, 7 of
 * i4; with zero points scale = (largest - least) / (H - L) of what the type holds, L to H, such as -8 to 7 or 0 to 15, or |x| where all
 * are alike, rounded to its type, and zero = L - least / scale by that, rounded likewise; both before numbers are divided by them. A
 * group whose scale or zero point is then infinite is read as NaN. [KIVI, Liu et al. 2024] */
typedef struct clattn_append_params {
    /* [B, Hkv, n, D] and [B, Hkv, n, Dv], of one type, f32, f16 or bf16. Keys or values may be absent with
     * their cache. Without elements they need no buffer: they have their axes, and count as given. */
    clattn_tensor k_new, v_new;
    clattn_tensor k,
        v; /* [B, Hkv, capacity, D] and [..., Dv], each of any type that k and v have in clattn_kv */
    clattn_tensor k_scale, v_scale; /* as clattn_kv's, but that each has a type of its own */
    /* Optional, as clattn_kv's: with them numbers are quantised between the least and the largest of a group. u4 needs them. */
    clattn_tensor k_zero, v_zero;
    int32_t start;          /* of every batch item, 0 to capacity - n */
    const int32_t *starts;  /* [B], host memory, read during the call: of each; start then is 0 */
    const int32_t *lengths; /* [B], host memory: how many of its n rows each appends; NULL: all */
    bool circular; /* rows go to (start + r) modulo capacity, start is any from 0; n is at most capacity */
    /* Optional: of k_new, whose row r has position rope.position + start + r, not wrapped, or rope.positions[b, r];
     * k_positions is absent. */
    clattn_rope rope;
    /* As in clattn_kv: rows are rotated, keys behind RoPE, before they are stored. */
    int32_t k_rotation, v_rotation;
    const clattn_progress *progress; /* optional: as in clattn_attention_params */
} clattn_append_params;

/* Compile ahead what the call needs. Buffers may be NULL (an optional tensor counts as present when its rank is not 0).
 * Threads: any.   Blocking: while the driver compiles.   Returns: as clattn_append_enqueue. */
CLATTN_API clattn_status clattn_append_prepare(clattn_context *context, const clattn_append_params *params);

/* Enqueue it on the caller's queue, in-order or out-of-order; wait_list and event as in clattn_attention_enqueue. B, Hkv or n
 * of 0 does nothing and succeeds; D or Dv of 0 is refused. It takes no scratch memory but a few words a frequency and batch
 * item.
 * Lifetime  buffers must live until the commands are done.
 * Threads   any, one queue a thread.
 * Blocking  never for the result, unless with `progress`; a kernel not yet compiled is compiled now.
 * Returns   INVALID_ARGUMENT  a rank, shape, type, stride, range, number, buffer or handle is wrong, or rows leave the
 *                             cache; nothing was enqueued
 *           CANCELLED         by params->progress
 *           OUT_OF_MEMORY, BUILD_FAILED, DEVICE_LOST, DRIVER */
CLATTN_API clattn_status clattn_append_enqueue(clattn_context *context, cl_command_queue queue,
                                               const clattn_append_params *params, cl_uint wait_count,
                                               const cl_event *wait_list, cl_event *event);

/* ------------------------------------------------------------------------------------------- shift --- */

/* Turn stored keys on, in place: a key that RoPE turned at position p is then as if it had been turned at p + delta. A decoder whose
 * context is full drops its oldest n keys, and the others move by delta = -n. Rows stay where they are; values have no positions.
 * What is not float is read as numbers, turned and quantised anew as clattn_append_enqueue does: rows of i8 and float8 get new
 * scales; of blocks, and of groups that have scales, those that have no column below R keep their bytes. So it loses up to one rounding
 * of the type each time; a delta of 0 changes nothing, not a byte.
 * A range of rows is a view of them. Of pages the pool is k, [pages, Hkv, page_size, D], and deltas and lengths are those of pages:
 * a page that several sequences share is turned once, and one that stays has a delta of 0.
 * Source: Su et al. 2021, "RoFormer", section 3.2 (turns add up); llama.cpp's context shift, for the idea. */
typedef struct clattn_shift_params {
    clattn_tensor k;       /* [B, Hkv, N, D], of any type that k has in clattn_kv */
    clattn_tensor k_scale; /* as clattn_kv's */
    clattn_tensor k_zero;  /* likewise; u4 needs them */
    int32_t delta;         /* positions, of every batch item: -2^24 to 2^24 */
    const int32_t *deltas; /* [B], host memory, read during the call: of each; delta then is 0 */
    const int32_t *
        lengths; /* [B], host memory: how many of its N rows each has, the others keep their bytes; NULL: all */
    /* As it was when the keys were turned, without positions: position, positions, k_positions and sections (whose three axes all
     * move by delta) are absent. YaRN's attention_factor is in the keys, and is not applied again. Dynamic scaling with a length
     * above original_length is refused, because keys of other lengths were turned by other frequencies. R is at most 1024 of
     * blocks, and of k with groups, with scales of 16 bits, with zero points, or of 4 bits. */
    clattn_rope rope;
    /* As in clattn_kv: rows are rotated back, turned and rotated again, in blocks that have a column below R. */
    int32_t k_rotation;
    const clattn_progress *progress; /* optional: as in clattn_attention_params */
} clattn_shift_params;

/* Compile ahead what the call needs. Buffers may be NULL (an optional tensor counts as present when its rank is not 0).
 * Threads: any.   Blocking: while the driver compiles.   Returns: as clattn_shift_enqueue. */
CLATTN_API clattn_status clattn_shift_prepare(clattn_context *context, const clattn_shift_params *params);

/* Enqueue it on the caller's queue, in-order or out-of-order; wait_list and event as in clattn_attention_enqueue. B, Hkv or N of 0
 * does nothing and succeeds; D of 0 is refused. It takes no scratch memory but a few words a frequency and batch item.
 * Lifetime  buffers must live until the commands are done.
 * Threads   any, one queue a thread.
 * Blocking  never for the result, unless with `progress`; a kernel not yet compiled is compiled now.
 * Returns   INVALID_ARGUMENT  a rank, shape, type, stride, range, number, buffer or handle is wrong; nothing was enqueued
 *           CANCELLED         by params->progress
 *           OUT_OF_MEMORY, BUILD_FAILED, DEVICE_LOST, DRIVER */
CLATTN_API clattn_status clattn_shift_enqueue(clattn_context *context, cl_command_queue queue,
                                              const clattn_shift_params *params, cl_uint wait_count,
                                              const cl_event *wait_list, cl_event *event);
#ifdef __cplusplus
}
#endif
#endif
