// fragments.h: the shape of what a warp shares on a matrix engine, for the host and for fragments.clh. An engine is a value of the knob
// MATRIX_ENGINE: args.h.
#ifndef CLATTN_ARGS_FRAGMENTS_H
#define CLATTN_ARGS_FRAGMENTS_H

// flash_fragments.cl: steps of 16 of a row of d numbers of 16 bits.
#define FRAGMENTS_STEPS(d) (((d) + 15) / 16)
#define FRAGMENTS_FLAG_BYTES 16
// Of an engine: the work-items of its warp, the query rows of a fragment, and what the emulation's work-item exchanges, twice over.
#define FRAGMENTS_ITEMS(engine)                                                                              \
    ((engine) == MATRIX_ENGINE_MFMA      ? 64                                                                \
     : (engine) == MATRIX_ENGINE_DPAS_8  ? 8                                                                 \
     : (engine) == MATRIX_ENGINE_DPAS_16 ? 16                                                                \
                                         : 32)
#define FRAGMENTS_ROWS(engine)                                                                               \
    ((engine) == MATRIX_ENGINE_MFMA ? 32 : (engine) == MATRIX_ENGINE_DPAS_8 ? 8 : 16)
#define FRAGMENTS_EXCHANGE_BYTES(engine)                                                                     \
    ((engine) <= MATRIX_ENGINE_WGMMA     ? 48                                                                \
     : (engine) == MATRIX_ENGINE_WMMA_12 ? 64                                                                \
     : (engine) == MATRIX_ENGINE_MFMA    ? 32                                                                \
                                         : 128)
#define PROBE_FRAGMENTS_ITEMS 128
#define PROBE_FRAGMENTS_SIDE 32 // keys, channels and numbers of a row
#define FRAGMENTS_MOST(x, y) ((x) > (y) ? (x) : (y))
// Bytes of a row in local memory. NVIDIA: whole lines of 128, since copies to others are slower. AMD: an odd number of 16 bytes, so that
// rows fall on all banks. Of a tile of values: on AMD a row is a channel's keys, and eight of them have 16 bytes more behind them, so
// that items fall on all banks that put keys of every eighth channel.
#define FRAGMENTS_TURNS_VALUES(engine) ((engine) >= MATRIX_ENGINE_WMMA && (engine) <= MATRIX_ENGINE_MFMA)
#define FRAGMENTS_PITCH(engine, d)                                                                           \
    ((engine) <= MATRIX_ENGINE_WGMMA  ? ((d) + 63) / 64 * 128                                                \
     : FRAGMENTS_TURNS_VALUES(engine) ? 32 * FRAGMENTS_STEPS(d) + 16                                         \
                                      : 32 * FRAGMENTS_STEPS(d))
#define FRAGMENTS_EIGHT_BYTES(keys) (8 * (2 * (keys) + 16) + 16)
#define FRAGMENTS_VALUE_BYTES(engine, keys, dv)                                                              \
    (FRAGMENTS_TURNS_VALUES(engine) ? ((dv) + 31) / 32 * 4 * FRAGMENTS_EIGHT_BYTES(keys)                     \
                                    : (keys)*FRAGMENTS_PITCH(engine, dv))
// Queries stay in registers, but Intel's: there a row's output takes all that there are.
#define FRAGMENTS_KEEPS_QUERIES(engine) ((engine) < MATRIX_ENGINE_DPAS_8)
// Local memory of a tile's keys and values, in whose place queries that stay in registers lie first.
#define FRAGMENTS_TILE_BYTES(engine, keys, d, dv)                                                            \
    ((keys)*FRAGMENTS_PITCH(engine, d) + FRAGMENTS_VALUE_BYTES(engine, keys, dv))
// wgmma reads tiles from local memory by itself: a third tile, of keys or values, is on its way meanwhile.
#define FRAGMENTS_PLACE_BYTES(engine, keys, d, dv)                                                           \
    ((keys)*FRAGMENTS_MOST(FRAGMENTS_PITCH(engine, d), FRAGMENTS_PITCH(engine, dv)))
#define FRAGMENTS_LOCAL_BYTES(engine, rows, keys, d, dv)                                                     \
    ((engine) == MATRIX_ENGINE_WGMMA                                                                         \
         ? FRAGMENTS_MOST((rows)*FRAGMENTS_PITCH(engine, d), 3 * FRAGMENTS_PLACE_BYTES(engine, keys, d, dv)) \
     : FRAGMENTS_KEEPS_QUERIES(engine)                                                                       \
         ? FRAGMENTS_MOST((rows)*FRAGMENTS_PITCH(engine, d), FRAGMENTS_TILE_BYTES(engine, keys, d, dv))      \
         : (rows)*FRAGMENTS_PITCH(engine, d) + FRAGMENTS_TILE_BYTES(engine, keys, d, dv))
// linear_fragments.cl: rows of a tile that share a line of local memory, where a line is longer than a chunk; how often an operand's rows
// are there, in two buffers, or in one a term of a number each; and the bytes of all rows.
#define LINEAR_FRAGMENTS_FOLD(engine, chunk) ((engine) <= MATRIX_ENGINE_WGMMA && (chunk) == 32 ? 2 : 1)
#define LINEAR_FRAGMENTS_TERMS(terms, is_f32) ((terms) <= 1 ? 2 : (is_f32) ? (terms) : 1)
#define LINEAR_FRAGMENTS_LOCAL_BYTES(engine, rows, chunk)                                                    \
    ((rows) / LINEAR_FRAGMENTS_FOLD(engine, chunk) *                                                         \
     FRAGMENTS_PITCH(engine, LINEAR_FRAGMENTS_FOLD(engine, chunk) * (chunk)))
#define LINEAR_FRAGMENTS_SEEN_BYTES 128 // a word for each bit of what terms do not hold
// They come in so many turns, so that they need no more local memory than keys and values do: AMD's heads of 128 numbers leave room for
// two groups then. Three terms of them are three times as much on NVIDIA, too.
#define FRAGMENTS_TURNS(engine, warps, terms)                                                                \
    ((FRAGMENTS_TURNS_VALUES(engine) || ((terms) > 1 && FRAGMENTS_KEEPS_QUERIES(engine))) &&                 \
             (warps) % 2 == 0                                                                                \
         ? 2                                                                                                 \
         : 1)
#endif
