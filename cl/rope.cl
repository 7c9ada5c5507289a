// rope.cl: rotary position embedding (Su et al. 2021): pair d of a row at position n turns by n * frequency[d].
// The angle is reduced in integers: `turns[d]` is the frequency as a fraction of a full turn, scaled by 2^64, so that
// n * turns[d] modulo 2^64 is the exact part of the last turn, at position 10 as at position 2^24. A float32 product
// would be off by 0.06 radians at position 1,000,000.
#include "table.clh"
#if RAGGED // of `batch` sequences in one tensor
#include "ragged.clh"
#define ROPE_BATCH 1
#else
#define ROPE_BATCH args.batch
#endif

// Global size: (rows * (pairs + passed-through columns), batch * heads): rows are in the first dimension, because GPUs
// limit the others to 65,535 groups. Work-items past the end do nothing, as in every kernel of independent ones.
__kernel void rope(__global const ELEMENT(TYPE_Q) * x, __global ELEMENT(TYPE_OUT) * y,
                   __global const ulong *turns, __global const int *table, const rope_args args) {
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
#if RAGGED // positions count inside each sequence; the queries alone have a shift
    const int starts = (args.flags & ARGS_BATCH_ROWS) ? RAGGED_START_Q : RAGGED_START_KV;
    const ragged_row row = ragged_row_of(table, args.batch, starts, n);
    const int i = row.i, item = row.b;
#else
    const int i = n, item = b;
#endif
    const int shift = (args.flags & ARGS_BATCH_ROWS) ? table[TABLE_ITEM_WORDS * (long)item] : 0;
    const ulong part = (ulong)(args.position + i + shift) * turns[pair];
    const float half_turns = (float)(long)part * 0x1.0p-63f; // in [-1, 1): the angle in units of pi
    const float c = cospi(half_turns) * args.amplitude, s = sinpi(half_turns) * args.amplitude;

    const int d0 = args.interleaved ? 2 * pair : pair, d1 = args.interleaved ? d0 + 1 : pair + pairs;
    const float x0 = LOAD(TYPE_Q, x, from + d0), x1 = LOAD(TYPE_Q, x, from + d1);
    STORE(TYPE_OUT, y, to + d0, x0 * c - x1 * s);
    STORE(TYPE_OUT, y, to + d1, x1 * c + x0 * s);
}
