// rope.cl: rotary position embedding (Su et al. 2021): pair d of a row at position n turns by n * frequency[d].
// The angle is reduced in integers: `turns[d]` is the frequency as a fraction of a full turn, scaled by 2^64, so that
// n * turns[d] modulo 2^64 is the exact part of the last turn, at position 10 as at position 2^24. A float32 product
// would be off by 0.06 radians at position 1,000,000.
#include "call/rope.clh"
#include "call/items.clh"
#if RAGGED && POSITIONS
#error "explicit positions say all of a row: sequences are not asked for"
#endif
#if RAGGED // of `batch` sequences in one tensor
#define ROPE_BATCH 1
#else
#define ROPE_BATCH args.batch
#endif

// Global size: (rows * (pairs + passed-through columns), batch * heads): rows are in the first dimension, because GPUs
// limit the others to 65,535 groups. Work-items past the end do nothing, as in every kernel of independent ones. x and y may
// be one tensor: who writes an element has read it, and nobody else does.
__kernel void rope(__global const ELEMENT(TYPE_Q) * x, __global ELEMENT(TYPE_OUT) * y,
                   __global const ulong *turns, __global const int *table,
#if POSITIONS
                   __global const int *positions,
#endif
#if CACHED
                   __global const ELEMENT(TYPE_BIAS) * cos_rows, __global const ELEMENT(TYPE_BIAS) * sin_rows,
#endif
                   const rope_args args
#if POSITIONS || CACHED
                   ,
                   const rope_source_args source
#endif
) {
    const int pairs = args.rotary_dim / 2;
    const long width = args.head_dim - pairs;
    const int pair = (int)((long)get_global_id(0) % width), n = (int)((long)get_global_id(0) / width);
    const int b = (int)get_global_id(1) / args.heads, h = (int)get_global_id(1) % args.heads;
    if ((long)get_global_id(0) >= width * args.n || b >= ROPE_BATCH) return;
    const long from = view_row(&args.x, b, h, n), to = view_row(&args.y, b, h, n);
    if (pair >= pairs) {
        const int d = pair + pairs;
        STORE(TYPE_OUT, y, to + d, LOAD(TYPE_Q, x, from + d));
        return;
    }
#if POSITIONS
    const long position = positions[view_row(&source.positions, b, rope_axis(&source, pair), n)];
#else
#if RAGGED // positions count inside each sequence; the queries alone have a shift
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
#if CACHED
    const int row = source.cached_rows > 0 ? (int)clamp(position, 0L, (long)source.cached_rows - 1) : n;
    const float c = LOAD(TYPE_BIAS, cos_rows, view_at(&source.cos, b, 0, row, pair)),
                s = LOAD(TYPE_BIAS, sin_rows, view_at(&source.sin, b, 0, row, pair));
#else
    const float half_turns = rope_half_turns(position, turns[pair]);
    const float c = cospi(half_turns) * args.amplitude, s = sinpi(half_turns) * args.amplitude;
#endif

    const int d0 = args.interleaved ? 2 * pair : pair, d1 = args.interleaved ? d0 + 1 : pair + pairs;
    const float x0 = LOAD(TYPE_Q, x, from + d0), x1 = LOAD(TYPE_Q, x, from + d1);
    STORE(TYPE_OUT, y, to + d0, x0 * c - x1 * s);
    STORE(TYPE_OUT, y, to + d1, x1 * c + x0 * s);
}
