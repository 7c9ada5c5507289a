// backward_lanes.cl: the gradients of attention with respect to q, k and v for CPU devices, in one pass over pairs of tiles: five
// products of matrices, nothing computed twice. A work-item is a whole work-group and owns a range of keys of one key/value head. It
// takes them TILE_KV at a time, brings K and V of the tile into private memory as floats, and meets there, in ascending order, the
// tiles of LANE_ROWS query rows, of each query head of the group, that see any of the keys:
//   S^T[key][row], dP^T[key][row]   rows in lanes, as flash_lanes.cl's scores, so that one pipeline serves both directions
//   P and dT of the tile            exp(s - lse), and the gradient of scale * dot(q, k) times the scale
//   dV += P^T dO, dK += dT^T Q      sums of the tile of keys, in private memory
//   dQ += dT K                      of the range, float32 in scratch memory, which this work-item alone reads and writes
// The last three have columns in lanes and broadcast P and dT: nothing but Q and dO is ever transposed, once for TILE_KV keys.
// Every sum has one order. Keys past an item's, rows past an item's, and rows that see nothing are 0 or left alone as the header says.
// Global size: (parts, Hkv, batch), local size 1. Enqueued by the backward entry, after backward_rows.cl.
#include "lanes/backward_tiles.clh"

#if DROPOUT
#define DROPOUT_PASSED , dropout // of a function that has DROPOUT_PARAMETER
#else
#define DROPOUT_PASSED
#endif

#define GRAD_DERIVES ((bool)(SCORE_OPS & (ARGS_SOFTCAP | ARGS_SCORE_MOD)))
#define GRAD_SEES(t, x, j, seen)                                                                             \
    select((VEC)(0.0f), seen, tile_sees(t, (x) % ROW_VECTORS, (j) + (x) / ROW_VECTORS))

// Weights of the block's keys [j, j + KEY_BLOCK), whose rows of K begin at k. A hidden one is 0 by selection.
REGISTER_INLINE void grad_weigh_keys(const grad_tiles *g, const tile_rows *t, const product_key_element *k,
                                     int j) {
    VEC s[KEY_BLOCK][ROW_VECTORS];
    product_key keys[KEY_BLOCK];
#pragma unroll
    for (int a = 0; a < KEY_BLOCK; a++) keys[a] = k + (j + a) * PITCH_K;
    product_score_block(s, g->q_tile, keys, HEAD_DIM);
    tile_scale_scores(s, t);
    tile_change_scores(s, t, j);
    VEC *p = g->p + j * ROW_VECTORS;
#pragma unroll
    for (int x = 0; x < KEY_BLOCK * ROW_VECTORS; x++)
        p[x] = exp2_lanes((s[x / ROW_VECTORS][x % ROW_VECTORS] - g->lse[x % ROW_VECTORS]) * SCORE_TO_EXP2);
    if (!tile_all_see(t, j, KEY_BLOCK)) {
#pragma unroll
        for (int x = 0; x < KEY_BLOCK * ROW_VECTORS; x++) p[x] = GRAD_SEES(t, x, j, p[x]);
    }
}

// Weights and dT of those keys as the products take them.
REGISTER_INLINE void grad_keep(const grad_tiles *g, const VEC *p, const VEC *dt, int j) {
#if DOT_BF16
#pragma unroll
    for (int a = 0; a < KEY_BLOCK; a++) {
        keep_words(g->p_rows + (j + a) * GRAD_WORDS, p + a * ROW_VECTORS, ROW_VECTORS);
        keep_words(g->dt_rows + (j + a) * GRAD_WORDS, dt + a * ROW_VECTORS, ROW_VECTORS);
    }
#pragma unroll
    for (int x = 0; x < KEY_BLOCK / 2 * ROW_VECTORS; x++) {
        const int at = x / ROW_VECTORS * 2 * ROW_VECTORS + x % ROW_VECTORS;
        g->dt_keys[j / 2 * ROW_VECTORS + x] = pair_lanes(dt[at], dt[at + ROW_VECTORS]);
    }
#else
    (void)p; // they are there
#pragma unroll
    for (int x = 0; x < KEY_BLOCK * ROW_VECTORS; x++) g->dt_keys[j * ROW_VECTORS + x] = dt[x];
#endif
}

// dT of those keys, whose rows of V begin at v.
REGISTER_INLINE void grad_keys(const grad_tiles *g, const tile_rows *t, const product_key_element *v,
                               int j DROPOUT_PARAMETER) {
    VEC dp[KEY_BLOCK][ROW_VECTORS], dt[KEY_BLOCK * ROW_VECTORS];
    product_key values[KEY_BLOCK];
#pragma unroll
    for (int a = 0; a < KEY_BLOCK; a++) values[a] = v + (j + a) * PITCH_V;
    product_score_block(dp, g->dout_tile, values, HEAD_DIM_V);
    VEC *p = g->p + j * ROW_VECTORS;
    const VEC *by = g->derivatives + j * ROW_VECTORS;
#pragma unroll
    for (int x = 0; x < KEY_BLOCK * ROW_VECTORS; x++) {
        VEC z = dp[x / ROW_VECTORS][x % ROW_VECTORS], weight = p[x];
#if DROPOUT // a dropped weight has the sign bit
        const VEC_INT drops = AS_VEC_INT(weight) < 0;
        weight = AS_VEC(AS_VEC_INT(weight) & 0x7fffffff);
        z = select(z * dropout->factor, (VEC)(0.0f), drops);
        p[x] = select(weight * dropout->factor, (VEC)(0.0f), drops);
#endif
        const VEC ds = weight * (z - g->delta[x % ROW_VECTORS]);
        dt[x] = (GRAD_DERIVES ? ds * by[x] : ds) * t->scale;
    }
    if (!tile_all_see(t, j, KEY_BLOCK)) {
#pragma unroll
        for (int x = 0; x < KEY_BLOCK * ROW_VECTORS; x++) dt[x] = GRAD_SEES(t, x, j, dt[x]);
    }
    grad_keep(g, p, dt, j);
}

#if DROPOUT
// The sign bit of the weights that are dropped. A block of keys may begin and end within a quad.
void grad_drop(const grad_tiles *g, const tile_rows *t, const dropout_args *a) {
    for (int quad = t->k0 / 4; 4 * quad < t->k0 + t->count; quad++)
        for (int b = 0; b < ROW_VECTORS; b++) {
            VEC_INT drops[4];
            dropout_lanes(drops, a, t->b, TILE_HEADS(t, b), TILE_ROWS(t, b) + t->args->first_row,
                          (VEC_INT)(quad));
#pragma unroll
            for (int n = 0; n < 4; n++) {
                const int j = 4 * quad + n - t->k0;
                if (j < 0 || j >= t->count) continue;
                VEC *p = g->p + j * ROW_VECTORS + b;
                *p = AS_VEC(AS_VEC_UINT(*p) | (AS_VEC_UINT(drops[n]) & 0x80000000u));
            }
        }
}
#endif

// The tile of rows meets the block of keys at hand, which is in the tile of keys from row `first` on. dq points at the first row.
void grad_meet(const grad_tiles *g, const tile_rows *t, int first, int wants, __global float *dq,
               long stride DROPOUT_PARAMETER) {
    const product_key_element *k = g->k + first * PITCH_K, *v = g->v + first * PITCH_V;
#pragma unroll 1
    for (int j = 0; j < t->count; j += KEY_BLOCK) grad_weigh_keys(g, t, k, j);
#if DROPOUT
    grad_drop(g, t, dropout);
#endif
#pragma unroll 1
    for (int j = 0; j < t->count; j += KEY_BLOCK) grad_keys(g, t, v, j DROPOUT_PASSED);
    const int keys = LANES_ROUND_UP(t->count, PRODUCT_STEP); // a step's second key may be hidden
    if (!(g->keys_finite && g->rows_finite) && !tile_all_see(t, 0, keys)) {
        grad_add_selected(g, t, first, wants & ARGS_WANTS_DQ ? dq : 0, stride);
        return;
    }
    VEC_INT sees_first[ROW_VECTORS] LANES_ALIGNED, sees_last[ROW_VECTORS] LANES_ALIGNED;
#pragma unroll
    for (int b = 0; b < ROW_VECTORS; b++)
        sees_first[b] = t->first[b] - t->k0, sees_last[b] = t->last[b] - t->k0;
    const grad_block at = {(const int *)sees_first, (const int *)sees_last, t->count, t->rows};
    if (wants & ARGS_WANTS_DV) grad_add_dv(g->dv + first * PITCH_V, g->p_rows, g->dout, &at);
    if (wants & ARGS_WANTS_DK) grad_add_dk(g->dk + first * PITCH_K, g->dt_rows, g->q, &at);
    if (wants & ARGS_WANTS_DQ)
        grad_add_dq(dq, stride, g->dt_keys, g->k_steps + first / PRODUCT_STEP * PITCH_K, &at);
}

// What the tiles of a work-group share: where a head's rows lie, and their gradients of this range of keys.
typedef struct grad_call {
    const backward_args *grads;
    __global const ELEMENT(TYPE_Q) * q;
    __global const ELEMENT(TYPE_OUT) * dout;
    __global const float2 *rows;
    __global float *dq;
    int n_q;
} grad_call;

// The tiles of rows of query head t->h that see any of the keys [first, end) meet them.
void grad_take_head(grad_tiles *g, tile_rows *t, const grad_call *c, const mask_rows *bounds, int first,
                    int end DROPOUT_PARAMETER) {
    const args_view *view = &t->args->VIEW_DQ;
    __global const float2 *rows = backward_rows_of(c->grads, c->rows, t->b, t->h);
    for (int i0 = 0; i0 < c->n_q; i0 += LANE_ROWS) {
        const int last = min(i0 + LANE_ROWS, c->n_q) - 1;
        if (max(mask_first_key(bounds, i0), first) >= min(mask_last_key(bounds, last), end)) continue;
        tile_begin_rows(t, bounds, i0, c->n_q);
        tile_begin_mods(t);
        tile_find_intervals(t, bounds, first, end);
        t->begin -= (t->begin - first) % PRODUCT_STEP; // a tile of keys begins with a whole step
        tile_next(t, 0, t->begin);
        if (t->k0 >= t->end) continue;
        grad_take_rows(g, c->q, c->dout, rows, t);
        __global float *dq = c->dq + view_row(view, t->b, t->h, i0);
        for (; t->k0 < t->end; tile_next(t, 0, t->next)) {
            tile_load_bias(t, t->call);
            grad_meet(g, t, t->k0 - first, c->grads->wants, dq, view->row DROPOUT_PASSED);
        }
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void
backward_lanes(BACKWARD_INPUTS, __global float *dq, __global ELEMENT(TYPE_GRADIENT) * dk,
               __global ELEMENT(TYPE_GRADIENT) * dv, BACKWARD_CALL) {
    const int part = UNIFORM_ID(0), h_kv = UNIFORM_ID(1), b = UNIFORM_ID(2);
    FUSED_DECLARE_ARGS;
    BACKWARD_ITEM(b);
    const mask_rows bounds = mask_rows_of(&item_args, table, b);
    const int q_length = bounds.item.q_length, kv_length = bounds.item.kv_length,
              h_end = (h_kv + 1) * args.group;
    const int written_q = RAGGED ? q_length : args.n_q, written = grads.packed_keys ? kv_length : args.n_kv;
    const grad_call c = {&grads, q, dout, item_rows, dq + part * grads.part_dq, min(args.n_q, q_length)};
    score_call call = SCORE_CALL;
    call.args = &item_args;
    const kv_buffers buffers = KV_BUFFERS;
    const kv_head keys = kv_keys(&item_args, &buffers, b, h_kv),
                  values = kv_values(&item_args, &buffers, b, h_kv);
    product_key_element k_rows[GRAD_KEYS * PITCH_K] LANES_ALIGNED, v_rows[GRAD_KEYS * PITCH_V] LANES_ALIGNED;
    float dk_rows[GRAD_KEYS * PITCH_K] LANES_ALIGNED, dv_rows[GRAD_KEYS * PITCH_V] LANES_ALIGNED,
        q_steps[GRAD_WORDS * PITCH_K] LANES_ALIGNED, dout_steps[GRAD_WORDS * PITCH_V] LANES_ALIGNED;
    VEC q_tile[PRODUCT_STEPS(HEAD_DIM) * ROW_VECTORS] LANES_ALIGNED,
        dout_tile[PRODUCT_STEPS(HEAD_DIM_V) * ROW_VECTORS] LANES_ALIGNED,
        p_tile[TILE_KV * ROW_VECTORS] LANES_ALIGNED, dt_tile[TILE_KV * ROW_VECTORS] LANES_ALIGNED;
    VEC bias_tile[TILE_BIAS_VECTORS] LANES_ALIGNED, seen_tile[TILE_SEEN_VECTORS] LANES_ALIGNED;
#if DOT_BF16
    float k_steps[GRAD_KEYS / 2 * PITCH_K] LANES_ALIGNED, p_rows[TILE_KV * GRAD_WORDS] LANES_ALIGNED,
        dt_rows[TILE_KV * GRAD_WORDS] LANES_ALIGNED;
    VEC dt_keys[TILE_KV / 2 * ROW_VECTORS] LANES_ALIGNED;
#else // one and the same
    float *k_steps = k_rows, *p_rows = (float *)p_tile, *dt_rows = (float *)dt_tile;
    VEC *dt_keys = dt_tile;
#endif
    grad_tiles g = {k_rows, v_rows,    k_steps, dk_rows, dv_rows, q_steps, dout_steps,
                    q_tile, dout_tile, p_tile,  dt_tile, p_rows,  dt_rows, dt_keys};
    tile_rows t;
    t.args = &item_args, t.call = &call, t.b = b, t.bias = bias_tile, t.seen_tile = seen_tile;
    t.derivatives = dt_tile;

    if (grads.wants & ARGS_WANTS_DQ)
        for (int h = h_kv * args.group; h < h_end; h++)
            grad_clear(c.dq + view_row(&item_args.VIEW_DQ, b, h, 0), args.VIEW_DQ.row, written_q);
    const int end = (int)min((part + 1L) * grads.part_keys, (long)written);
    for (int first = (int)min((long)part * grads.part_keys, (long)written); first < end; first += TILE_KV) {
        const int count = min(TILE_KV, end - first), seen = clamp(kv_length - first, 0, count);
        grad_take_keys(&g, &keys, &values, first, seen);
        for (t.h = h_kv * args.group; t.h < h_end && seen > 0; t.h++)
            grad_take_head(&g, &t, &c, &bounds, first, first + seen DROPOUT_VALUE);
        if (grads.wants & ARGS_WANTS_DK)
            grad_store(dk + view_row(&item_args.VIEW_DK, b, h_kv, first), args.VIEW_DK.row, dk_rows, count,
                       HEAD_DIM);
        if (grads.wants & ARGS_WANTS_DV)
            grad_store(dv + view_row(&item_args.VIEW_DV, b, h_kv, first), args.VIEW_DV.row, dv_rows, count,
                       HEAD_DIM_V);
    }
}
