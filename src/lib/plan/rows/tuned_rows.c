// tuned_rows.c: the tuned rows that the library ships, as `clattn tune` printed them. They were
// measured with PoCL 3.1 and Intel's CPU runtime 2026.2, on a two-core machine with AVX-512. For 8
// lanes the runtime was limited to AVX2 (CL_CONFIG_CPU_TARGET_ARCH=core-avx2). The rows for 4 lanes
// are derived from those for 8.
#include "plan/rows/tuned.h"

// `lanes` is the width that the planner uses (cla_plan_lanes). A CPU device without a usable width,
// such as rusticl on llvmpipe, gets the portable kernels.
const char clattn_tuned_rows_text[] =
    // Few rows: as many vectors as the rows fill, so that no lane is idle.
    "flash_lanes cpu=1 lanes=16.. nq=..16 : ROW_VECTORS=1 KEY_BLOCK=8 TILE_KV=64\n"
    "flash_lanes cpu=1 lanes=16.. nq=17..32 : ROW_VECTORS=2 KEY_BLOCK=8 TILE_KV=64\n"
    "flash_lanes cpu=1 lanes=16.. nq=33..48 : ROW_VECTORS=3 KEY_BLOCK=8 TILE_KV=64\n"
    "flash_lanes cpu=1 lanes=16.. nq=65..80 : ROW_VECTORS=5 KEY_BLOCK=3 TILE_KV=84\n"
    "flash_lanes cpu=1 lanes=16.. nq=81..96 : ROW_VECTORS=6 KEY_BLOCK=3 TILE_KV=96\n"
    // exactly two tiles
    "flash_lanes cpu=1 lanes=16.. nq=97..128 : ROW_VECTORS=4 KEY_BLOCK=4 TILE_KV=128\n"
    // Narrow windows: with fewer rows per tile, fewer keys are hidden from some of its rows.
    // Measured up to 10 % faster (Zen 4, D = 64).
    "flash_lanes cpu=1 lanes=16.. type=f32 nq=97.. band=..512 tall=0 : ROW_VECTORS=1 KEY_BLOCK=8 "
    "TILE_KV=128\n"
    "flash_lanes cpu=1 lanes=16.. type=bf16 nq=97.. band=..256 tall=0 : ROW_VECTORS=2 KEY_BLOCK=8 "
    "TILE_KV=128\n"
    // Long sequences stream K and V from memory. More rows per pass need less traffic: for N =
    // 131072 (causal, D = 64) eight vectors reached 85 % of the FMA peak, and six 70 %.
    "flash_lanes cpu=1 lanes=16.. type=f32 nq=8193..49152 : ROW_VECTORS=4 KEY_BLOCK=4 TILE_KV=128\n"
    "flash_lanes cpu=1 lanes=16.. type=f32 nq=98305.. : ROW_VECTORS=8 KEY_BLOCK=2 TILE_KV=64\n"
    "flash_lanes cpu=1 lanes=16.. type=f32 nq=49153.. : ROW_VECTORS=6 KEY_BLOCK=4 TILE_KV=64\n"
    "flash_lanes cpu=1 lanes=16.. type=f32 nq=97.. tall=1 : ROW_VECTORS=4 KEY_BLOCK=6 TILE_KV=66\n"
    "flash_lanes cpu=1 lanes=16.. type=f32 nq=97.. : ROW_VECTORS=2 KEY_BLOCK=8 TILE_KV=128\n"
    "flash_lanes cpu=1 lanes=16.. type=bf16 : ROW_VECTORS=4 KEY_BLOCK=4 TILE_KV=128\n"
    "flash_lanes cpu=1 lanes=16.. : ROW_VECTORS=4 KEY_BLOCK=4 TILE_KV=64\n"
    // Sixteen registers hold twelve accumulators. 3 x 4 was faster than 2 x 6 with AVX2.
    "flash_lanes cpu=1 lanes=8..15 : ROW_VECTORS=3 KEY_BLOCK=4 TILE_KV=64\n"
    "flash_lanes cpu=1 lanes=4..7 : ROW_VECTORS=4 KEY_BLOCK=6 TILE_KV=60\n"
    "decode_rows cpu=1 lanes=4.. nq=..16 share=16.. :\n"
    "decode_lanes cpu=1 lanes=4.. nq=..16 :\n"
    // Few rows: reading W limits the speed. Many rows: arithmetic does. The planner chooses the
    // tiles. If CLBlast was measured faster on the device, CLBlast is used instead.
    "linear_few_lanes cpu=1 lanes=4.. nq=..40 :\n"
    "linear_lanes cpu=1 lanes=4.. :\n";
