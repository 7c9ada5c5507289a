// flash.cl: out = softmax(S) V with S = scale * Q K^T, in tiles with an online softmax (Dao et al.
// 2022). For any OpenCL 1.2 device: no sub-groups and no half arithmetic.
//
// A work-group owns TILE_Q query rows of one head, and one split: a range of the keys. The group
// loops over this range, TILE_KV keys at a time. ROW_ITEMS work-items share row r: work-item (r, c)
// computes the scores of keys c, c + ROW_ITEMS, ... of a tile, and output columns c, c + ROW_ITEMS,
// ...
//
// Local memory: a tile of Q, a tile of K that V then overwrites, and a tile of scores that become
// weights in place. The score matrix never reaches global memory. Barriers are uniform: all loop
// bounds depend on the group alone. Knobs: TILE_Q, TILE_KV, ROW_ITEMS. See docs/kernels.md.
#include "call/score.clh"

#if TILE_KV % ROW_ITEMS != 0
#error "TILE_KV is a multiple of ROW_ITEMS"
#endif
#if TILE_Q * ROW_ITEMS > 4096
#error "TILE_Q times ROW_ITEMS is a work-group of at most 4096"
#endif
#define GROUP (TILE_Q * ROW_ITEMS)
#define ITEM_KEYS (TILE_KV / ROW_ITEMS)
#define ITEM_COLUMNS ((HEAD_DIM_V + ROW_ITEMS - 1) / ROW_ITEMS)
#define Q_PITCH (HEAD_DIM + 1)
#define KV_PITCH (FLASH_KV_WIDTH(HEAD_DIM, HEAD_DIM_V) + 1)
#define P_PITCH (TILE_KV + 1)
#define HIDDEN (-1.0f) // a hidden key's place among the weights, which are never negative

// Load rows [k0, k0 + keys) of K or V into local memory, `width` floats each.
void load_tile(__local float *tile, const kv_head *rows, int k0, int keys, const int width, const int side) {
    for (int x = (int)get_local_id(0); x < keys * width; x += GROUP) {
        const int row = x / width, d = x % width;
        tile[row * KV_PITCH + d] = kv_at(kv_row_at(rows, k0 + row), d, side);
    }
}

// s[x] = dot product of the work-item's query row and key c + x * ROW_ITEMS of the tile.
void multiply_keys(float s[ITEM_KEYS], __local const float *q_row, __local const float *tile_kv, int c,
                   int keys) {
    for (int x = 0; x < ITEM_KEYS; x++) s[x] = 0.0f;
    for (int d = 0; d < HEAD_DIM; d++) {
        const float qv = q_row[d];
        for (int x = 0; x < ITEM_KEYS; x++) {
            const int key = min(c + x * ROW_ITEMS, keys - 1); // rows from `keys` on were not loaded
            s[x] = MULTIPLY_ADD(qv, tile_kv[key * KV_PITCH + d], s[x]);
        }
    }
}

// Scale the products and apply the call's score options; the results are in SCORE_UNIT. seen[x]
// becomes false for a hidden key.
void finish_scores(float s[ITEM_KEYS], bool seen[ITEM_KEYS], const score_call *call, score_place *at,
                   int first, int last, int k0, int c) {
    for (int x = 0; x < ITEM_KEYS; x++) {
        at->j = k0 + c + x * ROW_ITEMS;
        seen[x] = at->j >= first && at->j < last;
        s[x] = score_step(call, at, s[x] * (score_scale(call, at->h) * SCORE_UNIT), &seen[x]);
    }
}

#if DROPOUT
// Set the row's dropped weights to 0. The row's work-items share the keys, four at a time.
void drop_weights(__local float *p_row, const dropout_args *a, const score_place *at, int row, int k0, int c,
                  int keys) {
    for (int quad = k0 / 4 + c; 4 * quad < k0 + keys; quad += ROW_ITEMS) {
        const uint drops = dropout_drops(a, at->b, at->h, row, quad);
        for (int n = 0; n < 4; n++) {
            const int key = 4 * quad + n - k0;
            if (key < 0 || key >= keys || !(drops >> n & 1u)) continue;
            if (p_row[key] != HIDDEN) p_row[key] = 0.0f;
        }
    }
}
#define DROP_WEIGHTS(p_row, at, row, k0, c, keys) drop_weights(p_row, &dropout, at, row, k0, c, keys)
#else
#define DROP_WEIGHTS(p_row, at, row, k0, c, keys)
#endif

// acc += P V for the work-item's columns of the output.
void add_values(float acc[ITEM_COLUMNS], __local const float *p_row, __local const float *tile_kv, int c,
                int keys, bool partial) {
    for (int key = 0; key < keys; key++) {
        const float p = p_row[key];
        if (partial && p == HIDDEN) continue; // skip: 0 * NaN in a hidden row of V would be NaN
        for (int x = 0; x < ITEM_COLUMNS; x++) {
            const int d = min(c + x * ROW_ITEMS, HEAD_DIM_V - 1);
            acc[x] = MULTIPLY_ADD(p, tile_kv[key * KV_PITCH + d], acc[x]);
        }
    }
}

// Store acc * keep / l for the work-item's columns below `columns`, or 0 if the row sees no key.
void store_row(__global ELEMENT(TYPE_OUT) * to, const softmax_state *x, float keep,
               const float acc[ITEM_COLUMNS], int c, int columns) {
    const float factor = x->l == 0.0f ? 0.0f : keep / x->l;
    for (int y = 0; y < ITEM_COLUMNS; y++) {
        const int d = c + y * ROW_ITEMS;
        if (d < columns) STORE(TYPE_OUT, to, d, x->l == 0.0f ? 0.0f : acc[y] * factor);
    }
}

// Global size: (row tiles * splits * GROUP, heads, batch). Local size: (GROUP, 1, 1).
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void flash(FUSED_ARGUMENTS) {
    __local float tile_q[TILE_Q * Q_PITCH], tile_kv[TILE_KV * KV_PITCH], tile_p[TILE_Q * P_PITCH];
    const int id = (int)get_local_id(0), r = id / ROW_ITEMS, c = id % ROW_ITEMS;
    FUSED_DECLARE_PLACE;
    if (FUSED_IS_IDLE(GROUP, TILE_Q, 1)) return; // uniform
    const int tile = FUSED_PART, b = FUSED_ITEM(get_global_id), h = FUSED_HEAD(get_global_id);
    const int split = tile % args.splits, i0 = tile / args.splits * TILE_Q, h_kv = h / args.group;
    const mask_rows rows = mask_rows_of(&args, table, b);
    const int rows_end = min(args.n_q, rows.item.q_length);
    if (i0 >= rows_end) return; // uniform: the whole group leaves
    const int i = min(i0 + r, rows_end - 1), i_last = min(i0 + TILE_Q, rows_end) - 1;
    score_call call = SCORE_CALL;
    const block_rows block = {b, h, h, i0, i_last};
    const mask_tile bounds = BLOCKS_TILE(&call, &rows, &block, split);
    const int first = max(mask_first_key(&rows, i), bounds.begin), // row i sees keys [first, last)
        last = min(mask_last_key(&rows, i), bounds.end);
    const kv_buffers kv = KV_BUFFERS;
    const kv_head keys = kv_keys(&args, &kv, b, h_kv), values = kv_values(&args, &kv, b, h_kv);
    score_place at = {b, h, 0, rows.item.shift, i};
    __local float *p_row = tile_p + r * P_PITCH;
    for (int x = id; x < TILE_Q * HEAD_DIM; x += GROUP) {
        const int row = x / HEAD_DIM, d = x % HEAD_DIM;
        tile_q[row * Q_PITCH + d] = LOAD(TYPE_Q, q, view_row(&args.q, b, h, min(i0 + row, rows_end - 1)) + d);
    }
    float acc[ITEM_COLUMNS];
    for (int x = 0; x < ITEM_COLUMNS; x++) acc[x] = 0.0f;
    float m = -INFINITY, l = 0.0f; // l: this work-item's keys; the loop's bounds are uniform
    for (int k0 = BLOCKS_NEXT(&call, &block, bounds.begin, bounds.end), step; k0 < bounds.end;
         k0 = BLOCKS_NEXT(&call, &block, k0 + step, bounds.end)) {
        const int count = BLOCKS_RUN(&call, &block, k0, min(TILE_KV, bounds.end - k0));
        step = BLOCKS_STEP(count, TILE_KV);
        const bool whole = SCORE_WHOLE(call, BLOCKS_HOLD(&call, &block, k0, count));
        const bool partial =
            k0 < bounds.all_begin || k0 + TILE_KV > bounds.all_end || (bool)(SCORE_MASKED && !whole);
        barrier(CLK_LOCAL_MEM_FENCE); // V and P of the previous tile have been read
        load_tile(tile_kv, &keys, k0, count, HEAD_DIM, KV_KEY);
        barrier(CLK_LOCAL_MEM_FENCE); // K (and, in the first iteration, Q) is loaded
        float s[ITEM_KEYS];
        bool seen[ITEM_KEYS];
        multiply_keys(s, tile_q + r * Q_PITCH, tile_kv, c, count);
        finish_scores(s, seen, &call, &at, first, BLOCKS_CUT(last, k0 + count), k0, c);
        for (int x = 0; x < ITEM_KEYS; x++) p_row[c + x * ROW_ITEMS] = s[x];
        barrier(CLK_LOCAL_MEM_FENCE); // all scores of the row are written; K has been read
        float m_new = m;
        for (int key = 0; key < TILE_KV; key++) m_new = fmax(m_new, p_row[key]);
        const float base = softmax_base(m_new), keep = exp2((m - base) * SCORE_TO_EXP2);
        m = m_new;
        load_tile(tile_kv, &values, k0, count, HEAD_DIM_V, KV_VALUE);
        barrier(CLK_LOCAL_MEM_FENCE); // the row's maximum is final: scores may become weights
        float sum = 0.0f;
        for (int x = 0; x < ITEM_KEYS; x++) {
            const float p = exp2((s[x] - base) * SCORE_TO_EXP2);
            sum += seen[x] ? p : 0.0f;
            p_row[c + x * ROW_ITEMS] = seen[x] ? p : HIDDEN;
        }
        l = l * keep + sum;
        for (int x = 0; x < ITEM_COLUMNS; x++) acc[x] *= keep;
        if (DROPOUT) barrier(CLK_LOCAL_MEM_FENCE); // other work-items' weights are written
        DROP_WEIGHTS(p_row, &at, i + args.first_row, k0, c, count);
        barrier(CLK_LOCAL_MEM_FENCE); // V and the weights are written
        add_values(acc, p_row, tile_kv, c, count, partial);
    }
    barrier(CLK_LOCAL_MEM_FENCE); // the last weights have been read: p_row is reused for l
    p_row[c] = l;
    barrier(CLK_LOCAL_MEM_FENCE);
    softmax_state x = {m * SCORE_TO_NATURAL, 0.0f};
    for (int y = 0; y < ROW_ITEMS; y++) x.l += p_row[y];
    float keep = 1.0f;
    if ((args.flags & ARGS_SINK) && split == 0) {
        const softmax_state with = softmax_add(x, table_sink(&args, table, h));
        keep = exp(x.m - softmax_base(with.m));
        x = with;
    }
    // Rows past the end run on with 0 columns: PoCL 3.1 breaks a return after barriers.
    const int columns = i0 + r < rows_end ? HEAD_DIM_V : 0;
    __global ELEMENT(TYPE_OUT) *to = out + split * args.split_out + view_row(&args.out, b, h, i0 + r);
    if ((args.flags & ARGS_LSE) && c == 0 && columns)
        softmax_store(lse, split * args.split_lse + view_row(&args.lse, b, h, i0 + r), args.flags, x);
    store_row(to, &x, DROPOUT_SCALED(keep), acc, c, columns);
}
