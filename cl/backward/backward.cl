// backward.cl: gradients of q (GRADIENT_OF_KV 0), or of k and v (GRADIENT_OF_KV 1), for any OpenCL
// 1.2 device. The formulas are in clattn/backward.h.
//
// A work-group owns TILE_Q rows of the result: query rows, or keys. It loops over the other side,
// TILE_KV rows at a time, in local memory: keys and values, or query rows and dout. With
// GRADIENT_OF_KV, it also loops over the query heads that share the key. Each kernel computes both
// dot products of a score again. So groups share no sums and need no atomics, for seven matrix
// products instead of five.
//
// ROW_ITEMS work-items share row r. Work-item (r, c) has the scores of rows c, c + ROW_ITEMS, ...
// of the other side's tile. It has the same columns of the result. Local size: (TILE_Q * ROW_ITEMS,
// 1, 1).
#include "backward/backward.clh"

#if TILE_KV % ROW_ITEMS != 0
#error "TILE_KV is a multiple of ROW_ITEMS"
#endif
#if TILE_Q * ROW_ITEMS > 4096
#error "TILE_Q times ROW_ITEMS is a work-group of at most 4096"
#endif
#define GROUP (TILE_Q * ROW_ITEMS)
#define ITEM_OTHERS (TILE_KV / ROW_ITEMS)
#define COLUMNS(width) (((width) + ROW_ITEMS - 1) / ROW_ITEMS)
#define PITCH (TILE_KV + 1)
#define HIDDEN (-1.0f) // a hidden key's place among the weights, which are never negative

// Element d of an own row: first of the tensor with head size D (k or q), second of the one with
// head size Dv (v or dout).
#if GRADIENT_OF_KV
#define OWN_FIRST(r, d) kv_at((r)->key, d, KV_KEY)
#define OWN_SECOND(r, d) kv_at((r)->value, d, KV_VALUE)
#else
#define OWN_FIRST(r, d) LOAD(TYPE_Q, (r)->query, d)
#define OWN_SECOND(r, d) LOAD(TYPE_OUT, (r)->dout, d)
#endif
typedef struct own_row {
    __global const ELEMENT(TYPE_Q) * query;
    __global const ELEMENT(TYPE_OUT) * dout;
    kv_row key, value;
} own_row;

// The inputs of one head.
typedef struct head_inputs {
    __global const ELEMENT(TYPE_Q) * query;
    __global const ELEMENT(TYPE_OUT) * dout;
    kv_head keys, values;
    long query_row, dout_row;
} head_inputs;

// Load rows [o0, o0 + count) of the other side of a head into local memory.
void load_others(__local float *first, __local float *second, const head_inputs *in, int o0, int count) {
    for (int x = (int)get_local_id(0); x < count * HEAD_DIM; x += GROUP) {
        const int row = x / HEAD_DIM, d = x % HEAD_DIM;
        first[row * (HEAD_DIM + 1) + d] = GRADIENT_OF_KV
                                              ? LOAD(TYPE_Q, in->query + (o0 + row) * in->query_row, d)
                                              : kv_at(kv_row_at(&in->keys, o0 + row), d, KV_KEY);
    }
    for (int x = (int)get_local_id(0); x < count * HEAD_DIM_V; x += GROUP) {
        const int row = x / HEAD_DIM_V, d = x % HEAD_DIM_V;
        second[row * (HEAD_DIM_V + 1) + d] = GRADIENT_OF_KV
                                                 ? LOAD(TYPE_OUT, in->dout + (o0 + row) * in->dout_row, d)
                                                 : kv_at(kv_row_at(&in->values, o0 + row), d, KV_VALUE);
    }
}

// dot(q, k) and dot(dout, v) of the work-item's row with its `count` rows or fewer of the tile.
void multiply_others(float dot[ITEM_OTHERS], float value[ITEM_OTHERS], const own_row *own,
                     __local const float *first, __local const float *second, int c, int count) {
    for (int x = 0; x < ITEM_OTHERS; x++) dot[x] = value[x] = 0.0f;
    for (int d = 0; d < HEAD_DIM; d++) {
        const float y = OWN_FIRST(own, d);
        for (int x = 0; x < ITEM_OTHERS; x++)
            dot[x] = MULTIPLY_ADD(y, first[min(c + x * ROW_ITEMS, count - 1) * (HEAD_DIM + 1) + d], dot[x]);
    }
    for (int d = 0; d < HEAD_DIM_V; d++) {
        const float y = OWN_SECOND(own, d);
        for (int x = 0; x < ITEM_OTHERS; x++)
            value[x] =
                MULTIPLY_ADD(y, second[min(c + x * ROW_ITEMS, count - 1) * (HEAD_DIM_V + 1) + d], value[x]);
    }
}

// sum[x] += factor * row of a tile, for the work-item's columns.
void add_row(float *sum, float factor, __local const float *row, int c, const int width) {
    for (int x = 0; x < COLUMNS(width); x++)
        sum[x] = MULTIPLY_ADD(factor, row[min(c + x * ROW_ITEMS, width - 1)], sum[x]);
}

void store_columns(__global ELEMENT(TYPE_GRADIENT) * to, const float *sum, int c, const int width) {
    for (int x = 0; x < COLUMNS(width); x++)
        if (c + x * ROW_ITEMS < width) STORE(TYPE_GRADIENT, to, c + x * ROW_ITEMS, sum[x]);
}

// Global size: (tiles of rows * GROUP, query or key/value heads, batch). With GRADIENT_OF_KV, the
// first result is dk and the second dv; else the first is dq and the second is unused.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void
backward(BACKWARD_INPUTS, __global ELEMENT(TYPE_GRADIENT) * first_result,
         __global ELEMENT(TYPE_GRADIENT) * second_result, BACKWARD_CALL) {
    __local float first[TILE_KV * (HEAD_DIM + 1)], second[TILE_KV * (HEAD_DIM_V + 1)];
    __local float weights[TILE_Q * PITCH], slopes[TILE_Q * PITCH];
    const int r = (int)get_local_id(0) / ROW_ITEMS, c = (int)get_local_id(0) % ROW_ITEMS;
    const int own0 = (int)get_group_id(0) * TILE_Q, b = (int)get_global_id(2);
    FUSED_DECLARE_ARGS;
    BACKWARD_ITEM(b);
    const mask_rows bounds = mask_rows_of(&item_args, table, b);
    const backward_place place = backward_place_of(&args, &grads, &bounds, (int)get_global_id(1));
    const int own_end = place.end, written_end = place.written_end;
    if (own0 >= written_end) return; // uniform
    const int row = max(min(own0 + r, own_end - 1), 0), row_last = min(own0 + TILE_Q, own_end) - 1;
    const kv_buffers kv = KV_BUFFERS;
    score_call call = SCORE_CALL;
    call.args = &item_args;
    head_inputs in;
    in.keys = kv_keys(&item_args, &kv, b, place.h_kv), in.values = kv_values(&item_args, &kv, b, place.h_kv);
    in.query_row = args.q.row, in.dout_row = args.out.row;
    const int2 others = own0 < own_end ? backward_others(&bounds, own0, row_last) : (int2)(0, 0);
    float sum[COLUMNS(HEAD_DIM)], sum_second[COLUMNS(HEAD_DIM_V)];
    for (int x = 0; x < COLUMNS(HEAD_DIM); x++) sum[x] = 0.0f;
    for (int x = 0; x < COLUMNS(HEAD_DIM_V); x++) sum_second[x] = 0.0f;
    for (int h = place.h; h < place.h_end; h++) {
        const float scale = score_scale(&call, h);
        __global const float2 *pairs = backward_rows_of(&grads, item_rows, b, h);
        own_row mine;
        in.query = q + view_row(&item_args.q, b, h, 0),
        in.dout = dout + view_row(&item_args.VIEW_DOUT, b, h, 0);
#if GRADIENT_OF_KV
        if (others.x < others.y) mine.key = kv_row_at(&in.keys, row), mine.value = kv_row_at(&in.values, row);
#else
        mine.query = in.query + row * in.query_row, mine.dout = in.dout + row * in.dout_row;
#endif
        for (int o0 = others.x; o0 < others.y; o0 += TILE_KV) { // uniform
            const int count = min(TILE_KV, others.y - o0);
            const block_rows block = {b, h, h, GRADIENT_OF_KV ? o0 : own0,
                                      GRADIENT_OF_KV ? o0 + count - 1 : row_last};
            (void)block; // used with block masks only
            const int holds = BLOCKS_HOLD(&call, &block, GRADIENT_OF_KV ? own0 : o0,
                                          GRADIENT_OF_KV ? row_last - own0 + 1 : count);
            if (holds == ARGS_BLOCK_EMPTY) continue; // uniform
            (void)SCORE_WHOLE(call, holds);
            barrier(CLK_LOCAL_MEM_FENCE); // the previous tile has been read
            load_others(first, second, &in, o0, count);
            barrier(CLK_LOCAL_MEM_FENCE);
            float dot[ITEM_OTHERS], value[ITEM_OTHERS];
            multiply_others(dot, value, &mine, first, second, c, count);
            for (int x = 0; x < ITEM_OTHERS; x++) {
                const int other = o0 + c + x * ROW_ITEMS, there = min(other, others.y - 1);
                const int i = GRADIENT_OF_KV ? there : row, j = GRADIENT_OF_KV ? row : there;
                const score_place at = {b, h, j, bounds.item.shift, i};
                const bool seen = other < o0 + count && own0 + r < own_end &&
                                  j >= mask_first_key(&bounds, i) && j < mask_last_key(&bounds, i);
                const backward_score s =
                    backward_score_of(&call, &at, scale, dot[x], value[x], pairs[i], seen DROPOUT_VALUE);
                weights[r * PITCH + c + x * ROW_ITEMS] = s.seen ? s.weight : HIDDEN;
                slopes[r * PITCH + c + x * ROW_ITEMS] = s.scaled * scale;
            }
            barrier(CLK_LOCAL_MEM_FENCE); // all scores of the row are written
            for (int other = 0; other < count; other++) {
                const float weight = weights[r * PITCH + other];
                if (weight == HIDDEN) continue; // skip: 0 * NaN would be NaN
                add_row(sum, slopes[r * PITCH + other], first + other * (HEAD_DIM + 1), c, HEAD_DIM);
                if (GRADIENT_OF_KV)
                    add_row(sum_second, weight, second + other * (HEAD_DIM_V + 1), c, HEAD_DIM_V);
            }
        }
    }
    const args_view *to = GRADIENT_OF_KV ? &item_args.VIEW_DK : &item_args.VIEW_DQ;
    const bool stores = own0 + r < written_end; // not a return: see flash.cl
    const int h_to = GRADIENT_OF_KV ? place.h_kv : place.h;
    if (stores && grads.wants & (GRADIENT_OF_KV ? ARGS_WANTS_DK : ARGS_WANTS_DQ))
        store_columns(first_result + view_row(to, b, h_to, own0 + r), sum, c, HEAD_DIM);
    if (stores && GRADIENT_OF_KV && grads.wants & ARGS_WANTS_DV)
        store_columns(second_result + view_row(&item_args.VIEW_DV, b, h_to, own0 + r), sum_second, c,
                      HEAD_DIM_V);
}
