// probe_ask.cl: how fast does a work-item of decode_lanes.cl read keys and values from memory, if
// the next tile's rows are prefetched into the cache level of the knob PREFETCH_LEVEL? CPUs differ
// in cache sizes, in outstanding loads and in hardware prefetch. On a Zen 5 the first level is
// fastest, on a Zen 4 the second (up to 1.9 times). A plain reading loop hardly shows this, so the
// kernel itself is timed.
#ifndef TYPE_Q
#define TYPE_Q 2
#endif
#ifndef TYPE_KV
#define TYPE_KV 2
#endif
#ifndef HEAD_DIM
#define HEAD_DIM 128
#endif
#ifndef HEAD_DIM_V
#define HEAD_DIM_V 128
#endif
#define PART_OF_PROBE
#include "lanes/decode_lanes.cl"

#if TYPE_Q != STORE_BF16 || TYPE_KV != STORE_BF16 || HEAD_DIM != PROBE_ASK_DIM || HEAD_DIM_V != PROBE_ASK_DIM
#error "the probe is laid out for bfloat16 and heads of PROBE_ASK_DIM"
#endif
#if KEY_TILE * PROBE_ASK_DIM != 2 * PROBE_ASK_WORDS || ROWS * PROBE_ASK_DIM >= PROBE_ASK_RESULT
#error "tiles and rows are as many as the host thinks"
#endif

// A key/value head after the result.
kv_head probe_head(__global const uint *at) {
    const kv_head h = {(kv_pointer)at, PROBE_ASK_DIM};
    return h;
}

// `words` begins with the query rows. After PROBE_ASK_RESULT words of result there are
// PROBE_ASK_TILES tiles of KEY_TILE keys, then as many of values. A round uses the next tile of
// both, whose index is in the result's last word, so that no tile is in a cache. The result is the
// output rows as float32. rounds 0 is one round.
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void probe_ask(__global const uint *words,
                                                                       __global uint *result, int rounds) {
    __global const uint *memory = result + PROBE_ASK_RESULT;
    __global const int *table = (__global const int *)words; // not used
    const int turn = (int)(result[PROBE_ASK_RESULT - 1] % PROBE_ASK_TILES);
    attention_args args;
    args.softcap = 0.0f, args.flags = 0;
    const score_call call = SCORE_CALL;
    query_rows rows;
    rows.b = rows.shift = rows.split = 0;
    for (int s = 0; s < SLOT_VECTORS; s++)
        rows.scale[s] = (VEC)(1.0f), rows.sum[s] = (VEC)(0.0f), rows.most[s] = (VEC)(-INFINITY);
    for (int r = 0; r < ROWS; r++) {
        (void)load_query((__global const ushort *)words + r * PROBE_ASK_DIM, &rows.query[r]);
        rows.first[r] = 0, rows.last[r] = INT_MAX;
        for (int c = 0; c < ALL_PAIRS_V; c++) rows.out[r][c] = (vec_pair){(VEC)(0.0f), (VEC)(0.0f)};
    }
    key_tile tile = {probe_head(memory), probe_head(memory + PROBE_ASK_TILES * PROBE_ASK_WORDS),
                     turn * KEY_TILE, KEY_TILE, 0};
    for (int n = 0; n < max(rounds, 1); n++) {
        tile.left = PROBE_ASK_TILES * KEY_TILE - tile.first;
        add_tile(&call, &rows, &tile);
        tile.first = tile.left > KEY_TILE ? tile.first + KEY_TILE : 0;
    }
    result[PROBE_ASK_RESULT - 1] = (uint)(tile.first / KEY_TILE);
    for (int r = 0; r < ROWS; r++) store_row((__global float *)result + r * PROBE_ASK_DIM, &rows, r, 1.0f);
}
