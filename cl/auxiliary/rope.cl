// rope.cl: rotary position embedding (Su et al. 2021). Pair d of a row at position n rotates by the
// angle n * frequency[d].
//
// The angle is computed in integers. `frequencies[d]` is the frequency in full circles, times 2^64.
// So `n * frequencies[d]` modulo 2^64 is the exact fraction of the last circle at any position. A
// float32 product would be wrong by 0.06 radians at position 1,000,000.
//
// A work-item has one pair or one single column. With the knob HADAMARD, a work-group has one row
// in local memory and multiplies it by the Hadamard matrix after RoPE. If rotary_dim is 0, it only
// does the latter: for the output over Hadamard-transformed values.
#include "call/rope.clh"
#include "call/items.clh"
#if HADAMARD
#include "auxiliary/hadamard.clh"
#if ROPE_TABLES
#error "cosines and sines of the caller's are of a call that does not rotate"
#endif
#define PUT(d, value) line[d] = (value)*args.scale
#define ROPE_KERNEL __kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
#else
#define PUT(d, value) STORE(TYPE_OUT, y, to + (d), value)
#define ROPE_KERNEL __kernel
#endif
#if RAGGED && POSITIONS
#error "explicit positions say all of a row: sequences are not asked for"
#endif
#if RAGGED // `batch` sequences are packed in one tensor
#define ROPE_BATCH 1
#else
#define ROPE_BATCH args.batch
#endif

#if HADAMARD
// True if row n is one of its item's rows in the call; a launch may have only some of them.
bool row_is_within(const rope_args *a, __global const int *table, int b, int n) {
    if (!(a->flags & ARGS_BATCH_ROWS)) return true;
#if RAGGED
    const ragged_row own = ragged_row_of(table, a->batch, RAGGED_START_Q, n);
    return own.i >= 0 && own.i < table[TABLE_ITEM_WORDS * (long)own.b + ARGS_ITEM_ROWS];
#else
    return n < table[TABLE_ITEM_WORDS * (long)b + ARGS_ITEM_ROWS];
#endif
}
#endif

// Global size: (rows * (pairs + single columns), batch * heads), any local size. Rows are in
// dimension 0, because GPUs limit the others to 65,535 groups. With HADAMARD: (rows * WORK_GROUP,
// batch * heads), local size WORK_GROUP. x and y may be the same tensor: each element is read
// before the same work-item, or its group, writes it.
ROPE_KERNEL void rope(__global const ELEMENT(TYPE_Q) * x, __global ELEMENT(TYPE_OUT) * y,
                      __global const ulong *frequencies, __global const int *table,
#if POSITIONS
                      __global const int *positions,
#endif
#if ROPE_TABLES
                      __global const ELEMENT(TYPE_BIAS) * cos_rows,
                      __global const ELEMENT(TYPE_BIAS) * sin_rows,
#endif
                      const rope_args args
#if POSITIONS || ROPE_TABLES
                      ,
                      const rope_source_args source
#endif
) {
    const int pairs = args.rotary_dim / 2;
#if HADAMARD
    __local float line[HADAMARD_MOST_COLUMNS];
    const int n = (int)(get_global_id(0) / WORK_GROUP), lane = (int)get_local_id(0);
    const int b = UNIFORM_ID(1) / args.heads, h = UNIFORM_ID(1) % args.heads;
    if (args.within && !row_is_within(&args, table, b, n)) return; // uniform
#else
    const long width = args.head_dim - pairs;
    const int pair = (int)((long)get_global_id(0) % width), n = (int)((long)get_global_id(0) / width);
    const int b = (int)get_global_id(1) / args.heads, h = (int)get_global_id(1) % args.heads;
    if ((long)get_global_id(0) >= width * args.n || b >= ROPE_BATCH) return;
#endif
    const long from = view_row(&args.x, b, h, n), to = view_row(&args.y, b, h, n);
#if HADAMARD
    for (int d = 2 * pairs + lane; d < args.head_dim; d += WORK_GROUP) PUT(d, LOAD(TYPE_Q, x, from + d));
    for (int pair = lane; pair < pairs; pair += WORK_GROUP) {
#else
    if (pair >= pairs) {
        const int d = pair + pairs;
        PUT(d, LOAD(TYPE_Q, x, from + d));
        return;
    }
#endif
#if POSITIONS
        const long position = positions[view_row(&source.positions, b, rope_axis(&source, pair), n)];
#else
#if RAGGED // positions count within a sequence; only queries have a shift
    const int starts = (args.flags & ARGS_BATCH_ROWS) ? RAGGED_START_Q : RAGGED_START_KV;
    const ragged_row own = ragged_row_of(table, args.batch, starts, n);
    const int i = own.i, item = own.b;
#else
    const int i = n, item = b;
#endif
    int shift = (args.flags & ARGS_BATCH_ROWS) ? table[TABLE_ITEM_WORDS * (long)item] : 0;
#if RAGGED
    if (args.past_word > 0) shift = table[args.past_word + item];
#endif
    const long position = args.position + i + shift;
#endif
#if ROPE_TABLES
        const int row = source.cached_rows > 0 ? (int)clamp(position, 0L, (long)source.cached_rows - 1) : n;
        const float c = LOAD(TYPE_BIAS, cos_rows, view_at(&source.cos, b, 0, row, pair)),
                    s = LOAD(TYPE_BIAS, sin_rows, view_at(&source.sin, b, 0, row, pair));
#else
    const float angle_over_pi = rope_angle_over_pi(position, frequencies[pair]);
    const float c = cospi(angle_over_pi) * args.amplitude, s = sinpi(angle_over_pi) * args.amplitude;
#endif

        const int d0 = args.interleaved ? 2 * pair : pair, d1 = args.interleaved ? d0 + 1 : pair + pairs;
        const float x0 = LOAD(TYPE_Q, x, from + d0), x1 = LOAD(TYPE_Q, x, from + d1);
        PUT(d0, x0 * c - x1 * s);
        PUT(d1, x1 * c + x0 * s);
#if HADAMARD
    }
    rotate_line(line, args.head_dim, args.block);
    for (int d = lane; d < args.head_dim; d += WORK_GROUP) STORE(TYPE_OUT, y, to + d, line[d]);
#endif
}
