// scores.cl: S = scale * Q K^T with softcap, bias and masks, the first step of the unfused path.
// For any OpenCL 1.2 device; kept simple, because the fused kernels are compared with this one.
//
// A work-item computes BLOCK_ROWS x BLOCK_KEYS scores of one head in registers, so that each number
// read from memory is used four times. There is no local memory, and any local size works.
// chunk.tap selects which scores are stored: raw, after softcap, or after the masks.
#include "call/score.clh"

#define BLOCK_ROWS 4
#define BLOCK_KEYS 4

// Apply the steps up to the tap to one scaled dot product. After the masks a hidden score is -inf.
float scores_tapped(const score_call *c, const mask_rows *rows, const score_place *at, float s, int tap) {
    // a key past the item's length is hidden at every tap
    if (at->j >= rows->item.kv_length) return -INFINITY;
    if (tap == ARGS_TAP_RAW) return s;
    s = score_cap(c->args, s);
    if (tap == ARGS_TAP_SOFTCAP) return s;
    s = score_change(c, at, s);
    const bool within = at->j >= mask_first_key(rows, at->i) && at->j < mask_last_key(rows, at->i);
    return within && score_kept(c, at) ? s : -INFINITY;
}

// Global size: (key blocks, row blocks of the chunk, items of the chunk); item = b*heads + h.
__kernel void scores(__global const ELEMENT(TYPE_Q) * q, KV_KEY_ARGUMENTS KV_PLACE_ARGUMENTS,
                     __global float *s, __global const int *table SCORE_ARGUMENTS, FUSED_ARGS,
                     const chunk_args chunk) {
    FUSED_DECLARE_ARGS;
    const int item = chunk.first_item + (int)get_global_id(2);
    const int b = item / args.heads, h = item % args.heads;
    const int j0 = (int)get_global_id(0) * BLOCK_KEYS;
    const int i0 = chunk.first_row + (int)get_global_id(1) * BLOCK_ROWS;
    const mask_rows rows = mask_rows_of(&args, table, b);
    const int i_end = min(min(args.n_q, rows.item.q_length), chunk.first_row + chunk.rows);
    if (j0 >= args.n_kv || i0 >= i_end) return;
#if RAGGED
    ragged_move_call(&args, table, b);
#endif
    // Without valid keys, nothing is read. Past an item's length, PAST has no rows. In a ragged
    // batch, the next rows belong to another sequence, or do not exist.
#if PAST || RAGGED
    const int last = rows.item.kv_length - 1, columns = j0 <= last ? args.head_dim : 0,
              keys_read = last < 0 ? 0 : BLOCK_KEYS;
#else
    const int last = args.n_kv - 1, columns = args.head_dim, keys_read = BLOCK_KEYS;
#endif

    // Rows past the last row are copies of it, and are not stored; so are keys. So the loop has no
    // branch and no read is out of bounds.
    __global const ELEMENT(TYPE_Q) * q_row[BLOCK_ROWS];
    const kv_buffers kv = KV_KEYS_ONLY;
    const kv_head keys = kv_keys(&args, &kv, b, h / args.group);
    kv_row k_row[BLOCK_KEYS];
    for (int r = 0; r < BLOCK_ROWS; r++) q_row[r] = q + view_row(&args.q, b, h, min(i0 + r, i_end - 1));
    for (int c = 0; c < keys_read; c++) kv_row_put(&k_row[c], &keys, min(j0 + c, last));

    float sum[BLOCK_ROWS][BLOCK_KEYS];
    for (int r = 0; r < BLOCK_ROWS; r++)
        for (int c = 0; c < BLOCK_KEYS; c++) sum[r][c] = 0.0f;
    for (int d = 0; d < columns; d++) {
        float kv[BLOCK_KEYS];
        for (int c = 0; c < BLOCK_KEYS; c++) kv[c] = kv_at(k_row[c], d, KV_KEY);
        for (int r = 0; r < BLOCK_ROWS; r++) {
            const float qv = LOAD(TYPE_Q, q_row[r], d);
            for (int c = 0; c < BLOCK_KEYS; c++) sum[r][c] = MULTIPLY_ADD(qv, kv[c], sum[r][c]);
        }
    }
    const score_call call = SCORE_CALL;
    const float scale = score_scale(&call, h);
    for (int r = 0; r < BLOCK_ROWS && i0 + r < i_end; r++)
        for (int c = 0; c < BLOCK_KEYS && j0 + c < args.n_kv; c++) {
            const score_place at = {b, h, j0 + c, rows.item.shift, i0 + r};
            s[view_at(&args.weights, b, h, at.i, at.j)] =
                scores_tapped(&call, &rows, &at, sum[r][c] * scale, chunk.tap);
        }
}
