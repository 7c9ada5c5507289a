// fragments.h: the shape of what a warp shares on a matrix engine, for the host and for fragments.clh. An engine is a value of the knob
// MATRIX_ENGINE: args.h.
#ifndef CLATTN_ARGS_FRAGMENTS_H
#define CLATTN_ARGS_FRAGMENTS_H

// flash_fragments.cl: steps of 16 of a row of d numbers of 16 bits; bytes of a row in local memory, whole lines of 128, since copies to
// others are slower; local memory of a tile's keys and values, in whose place queries lie first.
#define FRAGMENTS_STEPS(d) (((d) + 15) / 16)
#define FRAGMENTS_PITCH(d) (((d) + 63) / 64 * 128)
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
    ((engine) == MATRIX_ENGINE_MMA       ? 48                                                                \
     : (engine) == MATRIX_ENGINE_WMMA_12 ? 64                                                                \
     : (engine) == MATRIX_ENGINE_MFMA    ? 32                                                                \
                                         : 128)
#define PROBE_FRAGMENTS_ITEMS 128
#define PROBE_FRAGMENTS_SIDE 32 // keys, channels and numbers of a row
#define FRAGMENTS_MOST(x, y) ((x) > (y) ? (x) : (y))
#define FRAGMENTS_LOCAL_BYTES(rows, keys, d, dv)                                                             \
    FRAGMENTS_MOST((rows)*FRAGMENTS_PITCH(d), (keys) * (FRAGMENTS_PITCH(d) + FRAGMENTS_PITCH(dv)))
// Queries come in so many turns, so that they need no more local memory than keys and values do: most engines' heads of 128 numbers leave
// room for two groups then.
#define FRAGMENTS_TURNS(engine, warps) ((engine) == MATRIX_ENGINE_MMA || (warps) % 2 ? 1 : 2)
#endif
