// flash_lanes.cl: tiled attention with an online softmax for CPU devices (Dao et al. 2022, turned by 90
// degrees). A work-item is a whole work-group and owns ROWS query rows, one per vector lane. The scores of a
// block of keys are built transposed, S^T[key][row], so that maximum, sum and rescaling are vertical vector
// operations: no local memory, no barrier, no cross-lane step. Leaves out returned weights and score taps.
// Global size: (row tiles * splits, heads, batch), local size 1. Enqueued by the attention entry.
#include "common.clh"

#ifndef HEAD_DIM
#define HEAD_DIM 64
#endif
#ifndef HEAD_DIM_V
#define HEAD_DIM_V 64
#endif
#include "lanes_mask.clh"

// The online softmax of the tile's rows, in base 2: running maximum and running sum of 2^(s - m).
typedef struct row_softmax {
    VEC m[ROW_VECTORS], l[ROW_VECTORS];
} row_softmax;

// What is subtracted from a score: 0 while no key was seen, so that -inf - -inf does not arise.
inline VEC softmax_base_lanes(VEC m) {
    return m == -INFINITY ? (VEC)(0.0f) : m;
}

// Scores become weights, in place; keep[b] is what the older sums are multiplied by.
REGISTER_INLINE void scores_to_weights(VEC *s_tile, row_softmax *x, const VEC *m_new, VEC *keep, int count) {
    VEC base[ROW_VECTORS], sum[ROW_VECTORS];
#pragma unroll
    for (int b = 0; b < ROW_VECTORS; b++) {
        base[b] = softmax_base_lanes(m_new[b]);
        keep[b] = exp2_lanes(x->m[b] - base[b]);
        x->m[b] = m_new[b];
        sum[b] = (VEC)(0.0f);
    }
    for (int j = 0; j < count; j++)
#pragma unroll
        for (int b = 0; b < ROW_VECTORS; b++) {
            const VEC p = exp2_lanes(s_tile[j * ROW_VECTORS + b] - base[b]);
            s_tile[j * ROW_VECTORS + b] = p;
            sum[b] += p;
        }
#pragma unroll
    for (int b = 0; b < ROW_VECTORS; b++) x->l[b] = fma(x->l[b], keep[b], sum[b]);
}

// add_values where some value is not finite and some row does not see it: 0 * NaN must not reach that row.
inline void add_values_selected(VEC *o_tile, const VEC *p_tile, const VEC *keep, const value_rows *values,
                                const tile_rows *t, const uchar *seen, int k0) {
    for (int d = 0; d < HEAD_DIM_V; d++)
        for (int b = 0; b < ROW_VECTORS; b++) {
            VEC o = o_tile[d * ROW_VECTORS + b] * keep[b];
            for (int j = 0; j < values->count; j++) {
                const VEC_INT seen_j = sees(t, seen + (j * ROW_VECTORS + b) * LANES, b, k0 + j);
                const VEC v = (VEC)(values->v[j * values->stride + d]);
                o = select(o, fma(v, p_tile[j * ROW_VECTORS + b], o), seen_j);
            }
            o_tile[d * ROW_VECTORS + b] = o;
        }
}

// The sink joins the softmax; keep[b] then normalises the output: 0 where a row saw nothing.
REGISTER_INLINE void finish_rows(row_softmax *x, VEC *keep, float sink) {
#pragma unroll
    for (int b = 0; b < ROW_VECTORS; b++) {
        const VEC m = max_lanes(x->m[b], (VEC)(sink)), base = softmax_base_lanes(m);
        const VEC scale = exp2_lanes(x->m[b] - base);
        x->m[b] = m;
        x->l[b] = fma(x->l[b], scale, exp2_lanes(sink - base));
        keep[b] = x->l[b] == 0.0f ? (VEC)(0.0f) : scale / x->l[b];
    }
}

inline void store_lse(__global float *lse, const args_view *view, const tile_rows *t, const row_softmax *x) {
    for (int b = 0; b < ROW_VECTORS; b++) {
        float y[LANES] LANES_ALIGNED;
        *(VEC *)y = x->l[b] == 0.0f ? (VEC)(-INFINITY) : (softmax_base_lanes(x->m[b]) + log2(x->l[b])) * LN2;
        for (int r = b * LANES; r < min(t->rows, (b + 1) * LANES); r++)
            lse[view_row(view, t->b, t->h, t->i0 + r)] = y[r - b * LANES];
    }
}

__kernel void flash_lanes(__global const ELEMENT(TYPE_Q) * q, __global const ELEMENT(TYPE_KV) * k,
                          __global const ELEMENT(TYPE_KV) * v, __global ELEMENT(TYPE_OUT) * out,
                          __global float *lse, __global const uchar *mask,
                          __global const ELEMENT(TYPE_BIAS) * bias, __global const int *table,
                          const attention_args args) {
    // With causality the last tiles have the most keys: they start first, so that no core idles at the end.
    const int group = (int)get_num_groups(0) - 1 - (int)get_group_id(0);
    const int b = (int)get_group_id(2), h = (int)get_group_id(1), split = group % args.splits;
    const batch_row batch = batch_row_of(&args, table, b);
    tile_rows t;
    t.b = b, t.h = h, t.i0 = group / args.splits * ROWS, t.shift = batch.shift;
    t.rows = min(ROWS, min(args.n_q, batch.q_length) - t.i0);
    t.slope = alibi_slope(&args, table, h);
    if (t.rows <= 0) return;
    const long split_begin = (long)split * args.split_keys;
    find_intervals(&t, &args, &batch, (int)min(split_begin, (long)batch.kv_length),
                   (int)min(split_begin + args.split_keys, (long)batch.kv_length));
    const bool masked = EXTRAS && (args.flags & ARGS_MASK);

    VEC q_tile[HEAD_DIM * ROW_VECTORS] LANES_ALIGNED, o_tile[HEAD_DIM_V * ROW_VECTORS] LANES_ALIGNED;
    VEC s_tile[TILE_KV * ROW_VECTORS] LANES_ALIGNED;
    uchar seen[EXTRAS ? TILE_KV * ROWS : 1] LANES_ALIGNED;
    PACK_TILES(pack_k, pack_v)
    row_softmax x;
    VEC keep[ROW_VECTORS];
    load_rows(q_tile, q + view_row(&args.q, b, h, t.i0), args.q.row, t.rows,
              args.scale * (EXTRAS ? 1.0f : LOG2E));
    for (int d = 0; d < HEAD_DIM_V * ROW_VECTORS; d++) o_tile[d] = (VEC)(0.0f);
    for (int c = 0; c < ROW_VECTORS; c++) x.m[c] = (VEC)(-INFINITY), x.l[c] = (VEC)(0.0f);
    const key_rows kv = {k + view_row(&args.k, b, h / args.group, 0),
                         v + view_row(&args.v, b, h / args.group, 0), args.k.row, args.v.row, t.end};

    for (int k0 = t.begin; k0 < t.end; k0 += TILE_KV) {
        const int count = min(TILE_KV, t.end - k0);
#if EXTRAS
        load_mask(seen, &t, &args, mask, k0, count);
        load_bias(s_tile, &t, &args, bias, k0, count);
#endif
        VEC m[ROW_VECTORS];
#pragma unroll
        for (int c = 0; c < ROW_VECTORS; c++) m[c] = x.m[c];
        for (int j = 0; j < count; j += KEY_BLOCK) {
            VEC s[KEY_BLOCK][ROW_VECTORS];
            kv_floats keys[KEY_BLOCK];
            find_keys(keys, &kv, pack_k, k0 + j);
            score_block(s, q_tile, keys);
            const bool hide = masked || k0 + j < t.all_begin || k0 + j + KEY_BLOCK > t.all_end;
#pragma unroll
            for (int a = 0; a < KEY_BLOCK; a++)
#pragma unroll
                for (int c = 0; c < ROW_VECTORS; c++) {
                    const int at = (j + a) * ROW_VECTORS + c;
#if EXTRAS
                    s[a][c] = finish_score(&t, &args, s[a][c], s_tile[at], c, k0 + j + a);
#endif
                    if (hide)
                        s[a][c] =
                            select((VEC)(-INFINITY), s[a][c], sees(&t, seen + at * LANES, c, k0 + j + a));
                    m[c] = max_lanes(s[a][c], m[c]);
                    s_tile[at] = s[a][c];
                }
        }
        scores_to_weights(s_tile, &x, m, keep, count);
        const value_rows values = find_values(&kv, pack_v, k0, count);
        const bool partial = masked || k0 < t.all_begin || k0 + count > t.all_end;
        if (partial && !values_finite(&values))
            add_values_selected(o_tile, s_tile, keep, &values, &t, seen, k0);
        else
            add_values(o_tile, s_tile, keep, &values);
    }

    finish_rows(&x, keep, split == 0 ? sink_logit(&args, table, h) * LOG2E : -INFINITY);
    store_rows(out + split * args.split_out + view_row(&args.out, b, h, t.i0), args.out.row, t.rows, o_tile,
               keep);
    if (args.flags & ARGS_LSE) store_lse(lse + split * args.split_lse, &args.lse, &t, &x);
}
