// tuned_rows.c: the rows that the library ships, as `clattn tune` printed them. Measured with PoCL 3.1 and
// Intel's CPU runtime 2026.2 on an AVX-512 machine of two cores; the rows for 8 lanes there, too, with the runtime
// told to make AVX2 code (CL_CONFIG_CPU_TARGET_ARCH=core-avx2); the rows for 4 lanes are those cut in two.
#include "plan/rows/tuned.h"

// `lanes` is the vector that the planner takes (cla_plan_lanes): a CPU device without one that is right and worth it,
// such as rusticl on llvmpipe (Mesa 22.3), gets the portable kernels.
const char clattn_tuned_rows_text[] =
    // Few rows: as many vectors as there are rows, so that no lane is idle.
    "flash_lanes cpu=1 lanes=16.. nq=..16 : ROW_VECTORS=1 KEY_BLOCK=8 TILE_KV=64\n"
    "flash_lanes cpu=1 lanes=16.. nq=17..32 : ROW_VECTORS=2 KEY_BLOCK=8 TILE_KV=64\n"
    "flash_lanes cpu=1 lanes=16.. nq=33..48 : ROW_VECTORS=3 KEY_BLOCK=8 TILE_KV=64\n"
    "flash_lanes cpu=1 lanes=16.. nq=65..80 : ROW_VECTORS=5 KEY_BLOCK=3 TILE_KV=84\n"
    "flash_lanes cpu=1 lanes=16.. nq=81..96 : ROW_VECTORS=6 KEY_BLOCK=3 TILE_KV=96\n"
    "flash_lanes cpu=1 lanes=16.. nq=97..128 : ROW_VECTORS=4 KEY_BLOCK=4 TILE_KV=128\n" // two whole tiles
    // A narrow window: a tile of fewer rows sees fewer keys that are not seen by all of them. Zen 4, D = 64, of the
    // time with a wider tile: float32, N = 2048, a window of 64 keys 90 %, of 250 keys 97 %, none 100 to 104 %; bfloat16, N = 1000,
    // 125 keys 90 %, 250 keys 95 %. A block mask of documents: 99 %, within the noise.
    "flash_lanes cpu=1 lanes=16.. type=f32 nq=97.. band=..512 tall=0 : ROW_VECTORS=1 KEY_BLOCK=8 "
    "TILE_KV=128\n"
    "flash_lanes cpu=1 lanes=16.. type=bf16 nq=97.. band=..256 tall=0 : ROW_VECTORS=2 KEY_BLOCK=8 "
    "TILE_KV=128\n"
    // Long rows stream K and V from memory: the more rows share a pass, the less. One head, D = 64, causal,
    // as a part of the FMA peak: N = 32768 81 % with two vectors and 87 % with four; N = 65536 69 %, 82 %,
    // and 86 % with six; N = 131072 70 % with six and 85 % with eight.
    "flash_lanes cpu=1 lanes=16.. type=f32 nq=8193..49152 : ROW_VECTORS=4 KEY_BLOCK=4 TILE_KV=128\n"
    "flash_lanes cpu=1 lanes=16.. type=f32 nq=98305.. : ROW_VECTORS=8 KEY_BLOCK=2 TILE_KV=64\n"
    "flash_lanes cpu=1 lanes=16.. type=f32 nq=49153.. : ROW_VECTORS=6 KEY_BLOCK=4 TILE_KV=64\n"
    "flash_lanes cpu=1 lanes=16.. type=f32 nq=97.. tall=1 : ROW_VECTORS=4 KEY_BLOCK=6 TILE_KV=66\n"
    "flash_lanes cpu=1 lanes=16.. type=f32 nq=97.. : ROW_VECTORS=2 KEY_BLOCK=8 TILE_KV=128\n"
    "flash_lanes cpu=1 lanes=16.. type=bf16 : ROW_VECTORS=4 KEY_BLOCK=4 TILE_KV=128\n"
    "flash_lanes cpu=1 lanes=16.. : ROW_VECTORS=4 KEY_BLOCK=4 TILE_KV=64\n"
    // Sixteen registers: twelve accumulators. Of AVX2 code (Intel's runtime told so, f32 N = 1024) 3 x 4 reached 77
    // and 81 % of the FMA peak with D = 64 and 128, 2 x 6 70 and 79 %.
    "flash_lanes cpu=1 lanes=8..15 : ROW_VECTORS=3 KEY_BLOCK=4 TILE_KV=64\n"
    "flash_lanes cpu=1 lanes=4..7 : ROW_VECTORS=4 KEY_BLOCK=6 TILE_KV=60\n"
    "decode_rows cpu=1 lanes=4.. nq=..16 share=16.. :\n"
    "decode_lanes cpu=1 lanes=4.. nq=..16 :\n"
    // Few rows are bound by reading W once; more by arithmetic. The planner chooses the tiles. Where CLBlast
    // was measured faster on the device, it takes the place of these.
    "linear_few_lanes cpu=1 lanes=4.. nq=..40 :\n"
    "linear_lanes cpu=1 lanes=4.. :\n";
