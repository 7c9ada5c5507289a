// fragments.h: sizes of a warp's fragments for each matrix engine, for the host and fragments.clh.
// An engine is a value of the knob MATRIX_ENGINE (args.h).
#ifndef CLATTN_ARGS_FRAGMENTS_H
#define CLATTN_ARGS_FRAGMENTS_H

// flash_fragments.cl: steps of 16 numbers in a row of d 16-bit numbers.
#define FRAGMENTS_STEPS(d) (((d) + 15) / 16)
#define FRAGMENTS_FLAG_BYTES 16
// Per engine: work-items of a warp, query rows of a fragment, and bytes that a work-item of the
// emulation exchanges (there are two such buffers).
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
// Bytes of a row in local memory. NVIDIA: whole lines of 128, because copies with other pitches are
// slower. AMD: an odd multiple of 16, so that rows spread over all banks. A row of an AMD values
// tile is one channel's keys; after eight such rows come 16 bytes of padding, for the same reason.
#define FRAGMENTS_TRANSPOSES_VALUES(engine) ((engine) >= MATRIX_ENGINE_WMMA && (engine) <= MATRIX_ENGINE_MFMA)
#define FRAGMENTS_PITCH(engine, d)                                                                           \
    ((engine) <= MATRIX_ENGINE_WGMMA       ? ((d) + 63) / 64 * 128                                           \
     : FRAGMENTS_TRANSPOSES_VALUES(engine) ? 32 * FRAGMENTS_STEPS(d) + 16                                    \
                                           : 32 * FRAGMENTS_STEPS(d))
#define FRAGMENTS_EIGHT_BYTES(keys) (8 * (2 * (keys) + 16) + 16)
#define FRAGMENTS_VALUE_BYTES(engine, keys, dv)                                                              \
    (FRAGMENTS_TRANSPOSES_VALUES(engine) ? ((dv) + 31) / 32 * 4 * FRAGMENTS_EIGHT_BYTES(keys)                \
                                         : (keys)*FRAGMENTS_PITCH(engine, dv))
// Queries stay in registers, except on Intel, where a row's output fills them.
#define FRAGMENTS_KEEPS_QUERIES(engine) ((engine) < MATRIX_ENGINE_DPAS_8)
// Local memory for a tile's keys and values. Queries that stay in registers are loaded through it.
#define FRAGMENTS_TILE_BYTES(engine, keys, d, dv)                                                            \
    ((keys)*FRAGMENTS_PITCH(engine, d) + FRAGMENTS_VALUE_BYTES(engine, keys, dv))
// wgmma reads tiles from local memory. A third tile, of keys or values, is loaded meanwhile.
#define FRAGMENTS_PLACE_BYTES(engine, keys, d, dv)                                                           \
    ((keys)*FRAGMENTS_MOST(FRAGMENTS_PITCH(engine, d), FRAGMENTS_PITCH(engine, dv)))
#define FRAGMENTS_LOCAL_BYTES(engine, rows, keys, d, dv)                                                     \
    ((engine) == MATRIX_ENGINE_WGMMA                                                                         \
         ? FRAGMENTS_MOST((rows)*FRAGMENTS_PITCH(engine, d), 3 * FRAGMENTS_PLACE_BYTES(engine, keys, d, dv)) \
     : FRAGMENTS_KEEPS_QUERIES(engine)                                                                       \
         ? FRAGMENTS_MOST((rows)*FRAGMENTS_PITCH(engine, d), FRAGMENTS_TILE_BYTES(engine, keys, d, dv))      \
         : (rows)*FRAGMENTS_PITCH(engine, d) + FRAGMENTS_TILE_BYTES(engine, keys, d, dv))
// linear_fragments.cl: rows that share a line of local memory if a line is longer than a chunk.
// Then copies of an operand's rows: two buffers, or one buffer per term. Then bytes of all rows.
#define LINEAR_FRAGMENTS_FOLD(engine, chunk) ((engine) <= MATRIX_ENGINE_WGMMA && (chunk) == 32 ? 2 : 1)
#define LINEAR_FRAGMENTS_TERMS(terms, is_f32) ((terms) <= 1 ? 2 : (is_f32) ? (terms) : 1)
#define LINEAR_FRAGMENTS_LOCAL_BYTES(engine, rows, chunk)                                                    \
    ((rows) / LINEAR_FRAGMENTS_FOLD(engine, chunk) *                                                         \
     FRAGMENTS_PITCH(engine, LINEAR_FRAGMENTS_FOLD(engine, chunk) * (chunk)))
#define LINEAR_FRAGMENTS_SEEN_BYTES 128 // a word per bit of the numbers that terms cannot hold
// Stages in which queries are loaded through local memory. Two stages need no more memory than a
// tile of keys and values, so two groups fit on AMD with heads of 128, and three terms fit on
// NVIDIA.
#define FRAGMENTS_ROUNDS(engine, warps, terms)                                                               \
    ((FRAGMENTS_TRANSPOSES_VALUES(engine) || ((terms) > 1 && FRAGMENTS_KEEPS_QUERIES(engine))) &&            \
             (warps) % 2 == 0                                                                                \
         ? 2                                                                                                 \
         : 1)
#endif
