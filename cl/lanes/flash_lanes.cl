// flash_lanes.cl: tiled attention with an online softmax for CPU devices (Dao et al. 2022, turned by 90
// degrees). A work-item is a whole work-group and owns LANE_ROWS query rows, one per vector lane. The scores of a
// block of keys are built transposed, S^T[key][row], so that maximum, sum and rescaling are vertical vector
// operations: no local memory, no barrier, no cross-lane step. With WEIGHTS it also returns the attention weights,
// without a second QK^T: scores go to the result as they are made, and become weights when the row's maximum and sum
// are known. Leaves out score taps.
// Global size: (row tiles * splits, heads, batch), local size 1. Enqueued by the attention entry.
//
// Measured on PoCL 3.1, Zen 4 (AVX-512, 2 cores), Nov 2026, as a part of a register-only FMA loop in the same
// run: f32 D = 128 92 %, D = 64 85 to 87 %, causal N = 2048 83 %; bf16 with DOT_BF16, of twice that loop,
// D = 128 85 %, D = 64 76 to 78 %. With a bias or a mask D = 64 has 73 to 77 %, with softcap 66 %.
//
// Tried and left out:
// - float32 K and V packed like the 16-bit types: 7 to 10 points slower;
// - prefetching the coming keys of the same head: nothing gained from memory, 1 to 2 points lost at D = 128;
// - rescaling the output in a pass of its own: it is one fma where the accumulators are stored;
// - more than 16 accumulators: within 2 points, at any ROW_VECTORS;
// - at the edges of a window each row vector with a product of its own, of the keys that it sees: 1.32 to 1.29 of the plain
//   call's time a key that is seen, where tiles of one vector have 1.22 (processor time, a busy machine);
// - masks no more asked about where a tile is trimmed to keys that all of its rows see: nothing gained.
#include "lanes/lanes_ahead.clh"
#include "lanes/lanes_dropout.clh"
#include "lanes/lanes_product.clh"

// The exponentials leave the load ports idle: the rows of V that come next are asked for meanwhile. Zen 5: 1.5 % at D = 64, at
// D = 128 1 % lost.
#if !PRODUCT_PACK_V && HEAD_DIM_V <= 64
void ask_for_value(const product_rows *kv, int j) {
    const kv_pointer at = PRODUCT_VALUE(kv, j).at;
#pragma unroll
    for (int d = 0; d < HEAD_DIM_V; d += AHEAD_LINE / 4) PREFETCH(at + d);
}
#define WEIGH_PARAMETERS , const product_rows *kv, int k0
#define WEIGH_VALUES , &kv, t.k0
#define WEIGH_STEP(j) ask_for_value(kv, k0 + j)
#else
#define WEIGH_VALUES
#endif
#include "lanes/lanes_softmax.clh"
#include "call/fused.clh"

// product_add_values where some value is not finite and some row does not see it: 0 * NaN must not reach that row.
void add_values_selected(VEC *o_tile, const VEC *p_tile, const VEC *keep, const product_rows *kv,
                         const tile_rows *t) {
    for (int d = 0; d < HEAD_DIM_V; d++)
        for (int b = 0; b < ROW_VECTORS; b++) {
            VEC o = o_tile[d * ROW_VECTORS + b] * keep[b];
            for (int j = 0; j < t->count; j++) {
                const VEC v = (VEC)(kv_at(kv_row_at(&kv->values, t->k0 + j), d));
                VEC p = p_tile[j / PRODUCT_STEP * ROW_VECTORS + b];
#if DOT_BF16
                p = AS_VEC(j % 2 != 0 ? AS_VEC_UINT(p) & 0xffff0000u : AS_VEC_UINT(p) << 16);
#endif
                o = select(o, fma(v, p, o), tile_sees(t, b, j));
            }
            o_tile[d * ROW_VECTORS + b] = o;
        }
}

void clear_values(VEC *o_tile) {
    for (int d = 0; d < HEAD_DIM_V * ROW_VECTORS; d++) o_tile[d] = (VEC)(0.0f);
}

// Q, transposed and scaled; no sums. The output is cleared where no block of keys writes it.
void start_rows(VEC *q_tile, row_softmax *x, __global const ELEMENT(TYPE_Q) * q, const tile_rows *t) {
    q += view_row(&t->args->q, t->b, t->h, t->i0);
#if DOT_BF16
    LOAD_ROWS(pair, q_tile, q, t->args->q.row, t->rows, HEAD_DIM);
#else
    LOAD_ROWS_SCALED(TYPE_Q, q_tile, q, t->args->q.row, t->rows, HEAD_DIM, t->scale * SCORE_UNIT);
#endif
    for (int b = 0; b < ROW_VECTORS; b++) x->m[b] = (VEC)(-INFINITY), x->l[b] = (VEC)(0.0f);
}

#if PAGED
#define FLASH_TILES kv_tile key_tile, value_tile
#define FLASH_TILES_VALUE , &key_tile, &value_tile
#else
#define FLASH_TILES (void)0
#define FLASH_TILES_VALUE
#endif

// The first block of keys from k0 on of which some row sees any. Apart from the kernel's loop: in that a `continue` crashed the
// compiler of Intel's CPU runtime 2026.2, with f16.
void next_block(tile_rows *t, const kv_head *values, int k0) {
    for (t->next = k0;;) {
        t->k0 = tile_pass_over(t, t->next);
        if (t->k0 >= t->end) return;
        t->count = product_run(values, t->k0, tile_run(t, min(TILE_KV, t->end - t->k0)));
        t->next = t->k0 + t->count;
        tile_look(t);
        if (!TILE_SKIPS || t->count > 0) return;
    }
}

#if PART_OF_LAYER // layer_few_lanes.cl, which says which tile of how many
void flash_lanes(FUSED_ARGUMENTS, const int tile, const int tiles, const int b, const int h) {
#else
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void flash_lanes(FUSED_ARGUMENTS) {
    FUSED_TILE(LANE_ROWS, get_global_id);
    const int tiles = FUSED_PLACE(place.parts, (int)get_num_groups(0));
#endif
    // With causality the last tiles have the most keys: they start first, so that no core idles at the end.
    const int group = tiles - 1 - tile, split = group % args.splits;
    const mask_rows bounds = mask_rows_of(&args, table, b);
    const score_call call = SCORE_CALL;
    VEC q_tile[PRODUCT_STEPS(HEAD_DIM) * ROW_VECTORS] LANES_ALIGNED,
        o_tile[HEAD_DIM_V * ROW_VECTORS] LANES_ALIGNED;
    VEC s_tile[TILE_KV * ROW_VECTORS] LANES_ALIGNED;
    VEC bias_tile[TILE_BIAS_VECTORS] LANES_ALIGNED, seen_tile[TILE_SEEN_VECTORS] LANES_ALIGNED;
    float pack_k[PRODUCT_PACK_K ? KEY_BLOCK * PRODUCT_PITCH_K : 1] LANES_ALIGNED;
    float pack_v[PRODUCT_PACK_V ? PRODUCT_STEPS(TILE_KV) * PRODUCT_PITCH_V : 1] LANES_ALIGNED;

    tile_rows t;
    t.args = &args, t.b = b, t.h = h, t.i0 = group / args.splits * LANE_ROWS, t.shift = bounds.item.shift;
    t.rows = min(LANE_ROWS, min(args.n_q, bounds.item.q_length) - t.i0);
    t.scale = score_scale(&call, h), t.slope = score_slope(&call, h), t.bias = bias_tile,
    t.seen_tile = seen_tile, t.call = &call;
#if RAGGED
    t.place = &place;
#endif
    if (t.rows <= 0) return;
    tile_begin_mods(&t);
    const long keys = bounds.item.kv_length, span = args.splits > 1 ? args.split_keys : keys,
               begin = split * span;
    tile_find_intervals(&t, &bounds, (int)min(begin, keys), (int)min(begin + span, keys));
    const int h_kv = h / args.group;
    const kv_buffers buffers = KV_BUFFERS;
    FLASH_TILES;
    const product_rows kv = {kv_keys(&args, &buffers, b, h_kv), kv_values(&args, &buffers, b, h_kv), t.end,
                             pack_k, pack_v FLASH_TILES_VALUE};
    __global ELEMENT(TYPE_OUT) *out_rows = out + split * args.split_out + view_row(&args.out, b, h, t.i0);
    row_softmax x;
    VEC keep[ROW_VECTORS];
    next_block(&t, &kv.values, t.begin);
    const ahead next = ahead_find(&t, q, &buffers, &kv.keys, &kv.values, out_rows);
    start_rows(q_tile, &x, q, &t);
    bool empty = true; // nothing is in the output
    for (; t.k0 < t.end; next_block(&t, &kv.values, t.next)) {
        tile_load_bias(&t, &call);
        product_find_rows(&kv, t.k0, t.count);
        VEC m[ROW_VECTORS];
#pragma unroll
        for (int c = 0; c < ROW_VECTORS; c++) m[c] = x.m[c];
#pragma unroll 1
        for (int j = 0; j < t.count; j += KEY_BLOCK) {
#if WEIGHTS
            ahead_ask_weights(weights, &t, j / KEY_BLOCK);
#endif
            product_score_keys(s_tile, m, q_tile, &kv, &t, j, &next, t.k0 + j);
        }
#if WEIGHTS
        store_scores(weights, &t, s_tile);
#endif
        weigh_scores(s_tile, &x, m, keep, t.count WEIGH_VALUES);
        DROPOUT_DROP(s_tile, &t, DOT_BF16);
        if (!tile_all_see(&t, 0, t.count) && !product_values_finite(&kv, &t)) {
            if (empty) clear_values(o_tile);
            add_values_selected(o_tile, s_tile, keep, &kv, &t);
        } else {
            product_values values;
            product_find_values(&values, &kv, t.k0, t.count);
            values.first = empty;
            product_add_values(o_tile, s_tile, keep, &values);
        }
        empty = false;
    }
    if (empty) clear_values(o_tile);
    finish_rows(&x, x.l, keep, o_tile, split == 0 ? table_sink(&args, table, h) * SCORE_UNIT : -INFINITY);
#if WEIGHTS
    finish_weights(weights, &t, &x);
#endif
    DROPOUT_SCALE_ROWS(keep);
    store_rows(out_rows, args.out.row, t.rows, o_tile, keep);
    if (args.flags & ARGS_LSE) store_lse(lse + split * args.split_lse, &args.lse, &t, &x);
}
