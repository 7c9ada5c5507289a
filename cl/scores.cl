// scores.cl: S = scale * Q K^T with softcap, bias and masks, the first step of the unfused path.
// Plain on purpose: it runs on any OpenCL 1.2 device and is what the fused kernels are compared with. Each work-item
// computes a block of BLOCK_ROWS x BLOCK_KEYS scores in registers, so that a value read from memory is used four
// times. args.tap stops the pipeline early: the caller sees raw scores, or those after softcap, or after the masks.
#include "mask.clh"

#define BLOCK_ROWS 4
#define BLOCK_KEYS 4

// What the pipeline makes of one scaled dot product, up to the tap. A hidden score is -inf by selection, so a NaN in
// a hidden key goes no further.
static inline float tapped(const attention_args *a, __global const uchar *mask,
                           __global const ELEMENT(TYPE_BIAS) * bias, __global const int *table, float s,
                           int b, int h, int i, int j) {
    const batch_row rows = batch_row_of(a, table, b);
    if (j >= rows.kv_length) return -INFINITY; // what lies past a length reaches no output, not even a tap
    if (a->tap == ARGS_TAP_RAW) return s;
    s = softcapped(a, s);
    if (a->tap == ARGS_TAP_SOFTCAP) return s;
    s = biased(a, bias, alibi_slope(a, table, h), rows.shift, s, b, h, i, j);
    const bool seen =
        j >= first_key(a, &rows, i) && j < last_key(a, &rows, i) && mask_keeps(a, mask, b, h, i, j);
    return seen ? s : -INFINITY;
}

// Global size: (key blocks, row blocks of the chunk, items of the chunk); item = b*heads + h.
__kernel void scores(__global const ELEMENT(TYPE_Q) * q, __global const ELEMENT(TYPE_KV) * k,
                     __global float *s, __global const uchar *mask, __global const ELEMENT(TYPE_BIAS) * bias,
                     __global const int *table, const attention_args args) {
    const int item = args.first_item + (int)get_global_id(2);
    const int b = item / args.heads, h = item % args.heads;
    const int j0 = (int)get_global_id(0) * BLOCK_KEYS;
    const int i0 = args.first_row + (int)get_global_id(1) * BLOCK_ROWS;
    const batch_row rows = batch_row_of(&args, table, b);
    const int i_end = min(min(args.n_q, rows.q_length), args.first_row + args.chunk_rows);
    if (j0 >= args.n_kv || i0 >= i_end) return;

    // A row or key past the end is computed from the last one and not stored: no branch in the loop, no read
    // past a buffer.
    __global const ELEMENT(TYPE_Q) * q_row[BLOCK_ROWS];
    __global const ELEMENT(TYPE_KV) * k_row[BLOCK_KEYS];
    for (int r = 0; r < BLOCK_ROWS; r++) q_row[r] = q + view_row(&args.q, b, h, min(i0 + r, i_end - 1));
    for (int c = 0; c < BLOCK_KEYS; c++)
        k_row[c] = k + view_row(&args.k, b, h / args.group, min(j0 + c, args.n_kv - 1));

    float sum[BLOCK_ROWS][BLOCK_KEYS];
    for (int r = 0; r < BLOCK_ROWS; r++)
        for (int c = 0; c < BLOCK_KEYS; c++) sum[r][c] = 0.0f;
    for (int d = 0; d < args.head_dim; d++) {
        float kv[BLOCK_KEYS];
        for (int c = 0; c < BLOCK_KEYS; c++) kv[c] = LOAD(TYPE_KV, k_row[c], d);
        for (int r = 0; r < BLOCK_ROWS; r++) {
            const float qv = LOAD(TYPE_Q, q_row[r], d);
            for (int c = 0; c < BLOCK_KEYS; c++) sum[r][c] = fma(qv, kv[c], sum[r][c]);
        }
    }
    for (int r = 0; r < BLOCK_ROWS && i0 + r < i_end; r++)
        for (int c = 0; c < BLOCK_KEYS && j0 + c < args.n_kv; c++)
            s[view_at(&args.weights, b, h, i0 + r, j0 + c)] =
                tapped(&args, mask, bias, table, sum[r][c] * args.scale, b, h, i0 + r, j0 + c);
}
