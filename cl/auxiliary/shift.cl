// shift.cl: applies RoPE in place to keys of a cache, by `delta` positions. Rotations add up: a key
// with RoPE of position p becomes a key with RoPE of position p + delta (Su et al. 2021). Quantised
// keys are converted to float32, rotated and quantised again.
//
// A work-group of WORK_GROUP items has one row, as in append.cl. Every element is read before it is
// overwritten. One work-item has both elements of a pair. The old scale of int8 and float8 is read
// before a barrier. For blocks and groups with scales the rotated row waits in local memory. In a
// Hadamard-transformed cache (knob HADAMARD) the transform is undone before RoPE and applied again
// after it, in the columns that RoPE reaches.
#ifndef ROPE
#define ROPE 1
#endif
#include "call/rope.clh"
#include "auxiliary/hadamard.clh"
#include "auxiliary/quantise.clh"

#if !ROPE
#error "ROPE is 1 (half) or 2 (pairs)"
#endif

// A row and its rotation.
typedef struct roped_row {
    cache_pointer x;
    // Pairs, and pairs plus single columns; both 0 if the row does not change.
    int pairs, units;
    int delta;
    float factor; // the row's scale
#if HADAMARD
    __local float *line; // the rotated row, with pairs = 0
#endif
#if SCALE_GROUP
    scale_place place;
    long scales; // index of the row's first scale in the place
    int group;
#endif
} roped_row;

// Column c as float32.
float number_of(const roped_row *row, int c) {
#if SCALE_GROUP
    scale_place place = row->place;
    place.at = row->scales + c / row->group;
    const group_scale s = scale_of_group(&place);
    return (LOAD(TYPE_KV, row->x, c) - s.zero) * s.scale;
#else
    return LOAD(TYPE_KV, row->x, c) * row->factor;
#endif
}

// Both columns of unit u after RoPE, or its single column.
float2 roped_unit(const roped_row *row, int u, __global const ulong *frequencies) {
#if HADAMARD
    return (float2)(row->line[u], 0.0f);
#else
    const float x0 = number_of(row, unit_column(row->pairs, u));
    if (u >= row->pairs) return (float2)(x0, 0.0f);
    const float x1 = number_of(row, unit_partner(row->pairs, u));
    const float angle = rope_angle_over_pi(row->delta, frequencies[u]);
    const float c = cospi(angle), s = sinpi(angle);
    return (float2)(x0 * c - x1 * s, x1 * c + x0 * s);
#endif
}

#if HADAMARD
// Load the row into its line, undo the Hadamard transform of the first `width` columns (whole
// blocks), apply RoPE, and transform again.
void rope_line(const roped_row *row, const shift_args *a, int pairs, int width,
               __global const ulong *frequencies) {
    const int lane = (int)get_local_id(0);
    for (int d = lane; d < row->units; d += WORK_GROUP)
        row->line[d] = number_of(row, d) * (d < width ? a->scale : 1.0f);
    rotate_line(row->line, width, a->block);
    for (int pair = lane; pair < pairs; pair += WORK_GROUP) {
        const float angle = rope_angle_over_pi(row->delta, frequencies[pair]);
        const float c = cospi(angle) * a->scale, s = sinpi(angle) * a->scale;
        __local float *to0 = row->line + unit_column(pairs, pair),
                      *to1 = row->line + unit_partner(pairs, pair);
        const float x0 = *to0, x1 = *to1;
        *to0 = x0 * c - x1 * s, *to1 = x1 * c + x0 * s;
    }
    for (int d = 2 * pairs + lane; d < width; d += WORK_GROUP) row->line[d] *= a->scale;
    rotate_line(row->line, width, a->block);
}
#endif

// Global size: (rows * items * WORK_GROUP, heads). Items are in dimension 0: they may be pages,
// more than the 65,535 groups that GPUs allow in the other dimensions.
__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1))) void shift(cache_pointer k,
#if STORE_IS_SCALED(TYPE_KV)
                                                                            scale_memory k_scale,
#endif
#if ZERO_POINTS
                                                                            scale_memory k_zero,
#endif
                                                                            __global const ulong *frequencies,
                                                                            __global const int *table,
                                                                            const shift_args args) {
    const long group = (long)get_group_id(0) + (long)(get_global_offset(0) / WORK_GROUP);
    const int n = (int)(group % args.n), b = (int)(group / args.n), h = UNIFORM_ID(1);
    const bool tabled = args.flags & ARGS_BATCH_ROWS;
    const int lane = (int)get_local_id(0), delta = tabled ? table[SHIFT_ITEM_WORDS * (long)b] : args.delta;
    const bool turns_on = delta != 0 && n < (tabled ? table[SHIFT_ITEM_WORDS * (long)b + 1] : args.n);
    const int pairs = turns_on ? args.rotary_dim / 2 : 0; // not a return before a barrier
    roped_row row = {k + view_row(&args.k, b, h, n), pairs, turns_on ? args.head_dim - pairs : 0, delta,
                     1.0f};
#if SCALE_GROUP
    row.scales = view_row(&args.k_scale, b, h, n), row.place.scale = k_scale;
#if ZERO_POINTS
    row.place.zero = k_zero + args.k_scale.column;
#endif
    row.group = SCALE_GROUP > 1 ? SCALE_GROUP : args.head_dim;
#elif STORE_IS_SCALED(TYPE_KV)
    const long scale_at = view_row(&args.k_scale, b, h, n);
    row.factor = k_scale[scale_at];
#endif
#if HADAMARD
    __local float line[HADAMARD_MOST_COLUMNS];
    const int changed = (2 * pairs + args.block - 1) & ~(args.block - 1); // columns
    row.line = line, row.units += pairs;
    rope_line(&row, &args, pairs, changed, frequencies);
    row.pairs = 0;
#elif !STORE_IS_SCALED(TYPE_KV) || SCALE_GROUP
    const int changed = 2 * pairs; // single columns do not change
#endif
#if STORE_IS_SCALED(TYPE_KV) && !SCALE_GROUP
    __local float part[WORK_GROUP];
    float largest = 0.0f;
    for (int u = lane; u < row.units; u += WORK_GROUP) {
        const float2 x = fabs(roped_unit(&row, u, frequencies));
        largest = larger(x.s0, larger(x.s1, largest));
    }
    const float scale = largest_of_group(largest, part) / LARGEST_STORED;
    if (lane == 0 && turns_on) k_scale[scale_at] = scale;
    const int last = row.units;
#elif !((STORE_IS_BLOCKS(TYPE_KV) || SCALE_GROUP) && HADAMARD)
    const int last = changed - row.pairs;
#endif
#if (STORE_IS_BLOCKS(TYPE_KV) || SCALE_GROUP) && !HADAMARD
    __local float line[SHIFT_MOST_BLOCK_WIDTH];
    for (int u = lane; u < last; u += WORK_GROUP) {
        const float2 x = roped_unit(&row, u, frequencies);
        line[unit_column(row.pairs, u)] = x.s0, line[unit_partner(row.pairs, u)] = x.s1;
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE); // all pairs were read and are in the line
#endif
#if SCALE_GROUP
    // A group may have both rotated and single columns. Single columns are read with the group's
    // old scale.
    for (int first = lane * row.group; first < changed; first += WORK_GROUP * row.group) {
        row.place.at = row.scales + first / row.group;
        const group_scale old = scale_of_group(&row.place);
#define SHIFTED_NUMBER(c) ((c) < changed ? line[c] : (LOAD(TYPE_KV, row.x, c) - old.zero) * old.scale)
        STORE_GROUP(row.x, &row.place, first, first + row.group, SHIFTED_NUMBER);
    }
#elif STORE_IS_BLOCKS(TYPE_KV)
    for (int block = lane; block < (changed + 31) / 32; block += WORK_GROUP) {
        float x[32];
        for (int c = 0; c < 32; c++) {
            const int at = 32 * block + c;
            x[c] = at < changed ? line[at] : LOAD(TYPE_KV, row.x, at);
        }
        store_block(row.x + block, x);
    }
#else
    for (int u = lane; u < last; u += WORK_GROUP) {
        const float2 x = roped_unit(&row, u, frequencies);
        STORE_NEW(row.x, unit_column(row.pairs, u), x.s0);
        if (u < row.pairs) STORE_NEW(row.x, unit_partner(row.pairs, u), x.s1);
    }
#endif
}
