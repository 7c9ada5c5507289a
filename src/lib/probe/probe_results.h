// probe_results.h: probe results as the planner sees them, without OpenCL. The probes are in
// probe.h.
#ifndef CLATTN_PROBE_PROBE_RESULTS_H
#define CLATTN_PROBE_PROBE_RESULTS_H

typedef enum probe_id {
    PROBE_NONE = 0,
    PROBE_FMA,
    PROBE_DOT_BF16,
    PROBE_SUBGROUPS_8, // sub-groups of 8, 16, 32 and 64 work-items: subgroups.h
    PROBE_SUBGROUPS_16,
    PROBE_SUBGROUPS_32,
    PROBE_SUBGROUPS_64,
    PROBE_AMX,
    PROBE_TILES,   // products through local memory, as on devices without lanes
    PROBE_LANES_4, // vectors of 4, 8 and 16 floats, as in the lanes kernels
    PROBE_LANES_8,
    PROBE_LANES_16,
    PROBE_LOADS_2X8, // multiply-adds with loads: vectors of rows x keys
    PROBE_LOADS_4X6,
    // Decode from memory: no prefetch, or prefetch of rows into the first or second cache.
    PROBE_ASK_NOTHING,
    PROBE_ASK_FIRST,
    PROBE_ASK_SECOND,
    PROBE_MMA_F16, // matrix fragments of a warp: fragments.h
    PROBE_MMA_BF16,
    PROBE_DOT_I8,   // integer dot products of bytes and of 16-bit words
    PROBE_WMMA_F16, // more matrix fragments
    PROBE_WMMA_BF16,
    PROBE_MFMA_F16,
    PROBE_MFMA_BF16,
    PROBE_DPAS_F16,
    PROBE_DPAS_BF16,
    PROBE_WGMMA_F16,
    PROBE_WGMMA_BF16,
    PROBE_DOT_I8_OWN, // products of eight bytes on GPUs, in integers and in float32: int8_dot_gpu.h
    PROBE_EIGHTS,
    PROBE_AMX_I8, // matrix tiles of bytes
    PROBE_COUNT
} probe_id;

#define PROBES_LOADS (1u << PROBE_LOADS_2X8 | 1u << PROBE_LOADS_4X6)
#define PROBES_MMA (1u << PROBE_MMA_F16 | 1u << PROBE_MMA_BF16)
#define PROBES_WMMA (1u << PROBE_WMMA_F16 | 1u << PROBE_WMMA_BF16)
#define PROBES_MFMA (1u << PROBE_MFMA_F16 | 1u << PROBE_MFMA_BF16)
#define PROBES_DPAS (1u << PROBE_DPAS_F16 | 1u << PROBE_DPAS_BF16)
#define PROBES_WGMMA (1u << PROBE_WGMMA_F16 | 1u << PROBE_WGMMA_BF16)
#define PROBES_FRAGMENTS (PROBES_MMA | PROBES_WMMA | PROBES_MFMA | PROBES_DPAS | PROBES_WGMMA)
#define PROBES_AMX_I8 (1u << PROBE_AMX | 1u << PROBE_AMX_I8) // needed for attention over int8
#define PROBES_ASK (1u << PROBE_ASK_NOTHING | 1u << PROBE_ASK_FIRST | 1u << PROBE_ASK_SECOND)

// Bit 1 << id is set in `ran` if the probe ran, in `proven` if it passed, and in `sure` if no other
// load of the machine disturbed its rate (rates.h). Rates are in GFLOP/s of one work-item.
typedef struct probe_results {
    unsigned ran, proven, sure;
    float rate[PROBE_COUNT];
} probe_results;
#endif
