// flash.cl: tiled attention with an online softmax for any OpenCL 1.2 device (Dao et al. 2022).
// A work-group owns TILE_Q query rows and walks over the keys TILE_KV at a time; the score matrix never leaves local
// memory. ROW_ITEMS work-items share a row: work-item (r, c) has the scores of keys c, c + ROW_ITEMS, ... of a tile
// and the output columns c, c + ROW_ITEMS, ... of row r. No sub-groups, no half arithmetic; barriers are uniform: all
// loop bounds depend on the group alone.
#include "mask.clh"
#include "softmax.clh"

#if TILE_KV % ROW_ITEMS != 0
#error "TILE_KV is a multiple of ROW_ITEMS"
#endif

#define GROUP (TILE_Q * ROW_ITEMS)
#define ITEM_KEYS (TILE_KV / ROW_ITEMS)
#define ITEM_COLUMNS ((HEAD_DIM_V + ROW_ITEMS - 1) / ROW_ITEMS)
#define Q_PITCH (HEAD_DIM + 1)
#define KV_PITCH (FLASH_KV_WIDTH(HEAD_DIM, HEAD_DIM_V) + 1)
#define P_PITCH (TILE_KV + 1)
#define HIDDEN (-1.0f) // in place of a weight: weights are never negative

typedef struct flash_tile {
    int b, h, i;     // the row of this work-item
    int k0;          // first key of the tile
    int first, last; // keys that the row sees
    __global const int *table;
    int shift;
} flash_tile;

// One score in SCORE_UNIT; -inf where the key is hidden, which *seen tells apart from a visible -inf.
static inline float flash_score(const attention_args *a, __global const uchar *mask,
                                __global const ELEMENT(TYPE_BIAS) * bias, const flash_tile *t, float dot,
                                int j, int *seen) {
    const int within = j >= t->first && j < t->last;
    *seen = within;
#if EXTRAS
    if (!within) return -INFINITY;
    const int keep = mask_keeps(a, mask, t->b, t->h, t->i, j);
    // The slope is read here each time: kept in the tile it crashed the compiler of Intel's CPU runtime 2026.2.
    const float slope = alibi_slope(a, t->table, t->h);
    const float s = biased(a, bias, slope, t->shift, softcapped(a, dot * a->scale), t->b, t->h, t->i, j);
    *seen = keep;
    return keep ? s : -INFINITY;
#else
    return within ? dot * (a->scale * SCORE_UNIT) : -INFINITY;
#endif
}

// Global size: (row tiles * splits * GROUP, heads, batch).
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void
flash(__global const ELEMENT(TYPE_Q) * q, __global const ELEMENT(TYPE_KV) * k,
      __global const ELEMENT(TYPE_KV) * v, __global ELEMENT(TYPE_OUT) * out, __global float *lse,
      __global const uchar *mask, __global const ELEMENT(TYPE_BIAS) * bias, __global const int *table,
      const attention_args args) {
    __local float tile_q[TILE_Q * Q_PITCH], tile_kv[TILE_KV * KV_PITCH], tile_p[TILE_Q * P_PITCH];
    const int id = (int)get_local_id(0), r = id / ROW_ITEMS, c = id % ROW_ITEMS;
    const int split = (int)get_group_id(0) % args.splits;
    const int i0 = (int)get_group_id(0) / args.splits * TILE_Q;
    const int b = (int)get_global_id(2), h = (int)get_global_id(1), h_kv = h / args.group;
    const batch_row rows = batch_row_of(&args, table, b);
    const int rows_end = min(args.n_q, rows.q_length);
    if (i0 >= rows_end) return; // uniform: the whole group leaves

    // The intervals move right with the row, so the first and the last row bound the keys that the tile visits.
    const int i = min(i0 + r, rows_end - 1), i_last = min(i0 + TILE_Q, rows_end) - 1;
    const int split_first = split * args.split_keys, split_last = split_first + args.split_keys;
    const int begin = max(first_key(&args, &rows, i0), split_first);
    const int end = min(last_key(&args, &rows, i_last), split_last);
    const int all_first = max(first_key(&args, &rows, i_last), split_first);
    const int all_last = min(last_key(&args, &rows, i0), split_last);
    flash_tile t = {b,
                    h,
                    i,
                    0,
                    max(first_key(&args, &rows, i), split_first),
                    min(last_key(&args, &rows, i), split_last),
                    table,
                    rows.shift};

    for (int x = id; x < TILE_Q * HEAD_DIM; x += GROUP) {
        const int row = x / HEAD_DIM, d = x % HEAD_DIM;
        tile_q[row * Q_PITCH + d] = LOAD(TYPE_Q, q, view_row(&args.q, b, h, min(i0 + row, rows_end - 1)) + d);
    }
    float acc[ITEM_COLUMNS];
    for (int x = 0; x < ITEM_COLUMNS; x++) acc[x] = 0.0f;
    float m = -INFINITY, l = 0.0f; // l: of this work-item's keys alone; the row's is summed at the end

    for (t.k0 = begin; t.k0 < end; t.k0 += TILE_KV) {
        const int keys = min(TILE_KV, end - t.k0);
        const bool partial = t.k0 < all_first || t.k0 + TILE_KV > all_last || (args.flags & ARGS_MASK);

        barrier(CLK_LOCAL_MEM_FENCE); // V and P of the tile before have been read
        for (int x = id; x < keys * HEAD_DIM; x += GROUP) {
            const int row = x / HEAD_DIM, d = x % HEAD_DIM;
            tile_kv[row * KV_PITCH + d] = LOAD(TYPE_KV, k, view_row(&args.k, b, h_kv, t.k0 + row) + d);
        }
        barrier(CLK_LOCAL_MEM_FENCE); // K (and, in the first round, Q) is there

        float s[ITEM_KEYS];
        int seen[ITEM_KEYS];
        for (int x = 0; x < ITEM_KEYS; x++) s[x] = 0.0f;
        for (int d = 0; d < HEAD_DIM; d++) {
            const float qv = tile_q[r * Q_PITCH + d];
            for (int x = 0; x < ITEM_KEYS; x++) {
                const int key = min(c + x * ROW_ITEMS, keys - 1); // rows past `keys` hold nothing
                s[x] = fma(qv, tile_kv[key * KV_PITCH + d], s[x]);
            }
        }
        for (int x = 0; x < ITEM_KEYS; x++) {
            const int key = c + x * ROW_ITEMS;
            s[x] = flash_score(&args, mask, bias, &t, s[x], t.k0 + key, &seen[x]);
            tile_p[r * P_PITCH + key] = s[x];
        }
        barrier(CLK_LOCAL_MEM_FENCE); // the row's scores are there; K has been read

        float m_new = m;
        for (int key = 0; key < TILE_KV; key++) m_new = fmax(m_new, tile_p[r * P_PITCH + key]);
        const float base = softmax_base(m_new), keep = exp2((m - base) * TO_EXP2);
        m = m_new;
        for (int x = id; x < keys * HEAD_DIM_V; x += GROUP) {
            const int row = x / HEAD_DIM_V, d = x % HEAD_DIM_V;
            tile_kv[row * KV_PITCH + d] = LOAD(TYPE_KV, v, view_row(&args.v, b, h_kv, t.k0 + row) + d);
        }
        barrier(CLK_LOCAL_MEM_FENCE); // every work-item has its row's maximum: scores may become weights

        float sum = 0.0f;
        for (int x = 0; x < ITEM_KEYS; x++) {
            const float p = exp2((s[x] - base) * TO_EXP2);
            sum += seen[x] ? p : 0.0f;
            tile_p[r * P_PITCH + c + x * ROW_ITEMS] = seen[x] ? p : HIDDEN;
        }
        l = l * keep + sum;
        for (int x = 0; x < ITEM_COLUMNS; x++) acc[x] *= keep;
        barrier(CLK_LOCAL_MEM_FENCE); // V and the weights are there

        for (int key = 0; key < keys; key++) {
            const float p = tile_p[r * P_PITCH + key];
            if (partial && p == HIDDEN) continue; // a hidden NaN in V must not be multiplied by 0
            for (int x = 0; x < ITEM_COLUMNS; x++) {
                const int d = min(c + x * ROW_ITEMS, HEAD_DIM_V - 1);
                acc[x] = fma(p, tile_kv[key * KV_PITCH + d], acc[x]);
            }
        }
    }

    barrier(CLK_LOCAL_MEM_FENCE); // the last weights have been read: their place takes the sums
    tile_p[r * P_PITCH + c] = l;
    barrier(CLK_LOCAL_MEM_FENCE);
    softmax_state x = {m * TO_NATURAL, 0.0f};
    for (int y = 0; y < ROW_ITEMS; y++) x.l += tile_p[r * P_PITCH + y];
    float keep = 1.0f;
    if ((args.flags & ARGS_SINK) && split == 0) {
        const softmax_state with = softmax_add(x, sink_logit(&args, table, h));
        keep = exp(x.m - softmax_base(with.m));
        x = with;
    }
    // Not a return: PoCL 3.1 ignored one here, after the barriers, in a kernel that has another before them.
    const int columns = i0 + r < rows_end ? HEAD_DIM_V : 0;
    const float factor = x.l == 0.0f ? 0.0f : keep / x.l;
    for (int y = 0; y < ITEM_COLUMNS; y++) {
        const int d = c + y * ROW_ITEMS;
        if (d < columns)
            STORE(TYPE_OUT, out, split * args.split_out + view_row(&args.out, b, h, i0 + r) + d,
                  x.l == 0.0f ? 0.0f : acc[y] * factor);
    }
    if ((args.flags & ARGS_LSE) && c == 0 && columns)
        lse[split * args.split_lse + view_row(&args.lse, b, h, i0 + r)] = softmax_lse(x);
}
