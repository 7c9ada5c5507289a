// test_plan.c: the planner is a pure function of capabilities and problem. It returns kernel, tile
// and reason. Synthetic devices replace absent ones. Uses the library's internals, from the static
// library.
#include "args/args.h"

#include "plan/plan_suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The smallest limits of OpenCL 1.2 devices in use.
static const clattn_capabilities small_gpu = {.name = "CPU", // names must not matter
                                              .is_gpu = true,
                                              .compute_units = 8,
                                              .float_vector_width = 1,
                                              .max_work_group = 256,
                                              .max_work_item = {256, 256, 64},
                                              .local_memory_bytes = 32768,
                                              .global_memory_bytes = 1u << 30,
                                              .max_allocation_bytes = 1u << 28};

static problem make_problem(int n, int d, int dv) {
    return (problem){
        .batch = 1, .heads = 8, .kv_heads = 8, .n_q = n, .n_kv = n, .head_dim = d, .head_dim_v = dv};
}
static variant choose(const clattn_capabilities *device, const problem *p, clattn_status want) {
    const plan_input in = {.device = device, .shipped = &shipped};
    variant v;
    ck_assert_int_eq(cla_variant_choose(&in, p, &v), want);
    char why[256] = "";
    if (want == CLATTN_OK)
        cla_variant_explain(&in, p, &v, why);
    else
        cla_variant_refusal(&v, why);
    ck_assert_msg(why[0] != '\0', "no reason");
    return v;
}

static const int heads[] = {1, 5, 32, 40, 64, 80, 96, 128, 192, 256};
#define HEADS (sizeof heads / sizeof heads[0])

// The portable kernel, which a tuned row forces here, because other GPUs use tiles.
START_TEST(fits_small_devices) {
    tuned_rows own;
    char why[256];
    ck_assert(cla_tuned_parse("flash :", &own, why, sizeof why));
    const plan_input in = {.device = &small_gpu, .own = &own, .shipped = &shipped};
    for (size_t i = 0; i < HEADS * HEADS; i++) {
        const int d = heads[i / HEADS], dv = heads[i % HEADS];
        const problem p = make_problem(100, d, dv);
        variant v;
        ck_assert_int_eq(cla_variant_choose(&in, &p, &v), CLATTN_OK);
        ck_assert_int_eq(v.family->id, KERNEL_FLASH);
        ck_assert_uint_le(v.local_bytes, 32768);
        ck_assert_int_le(v.work_group, 256);
        ck_assert_int_eq(v.work_group, v.knobs.tile_q * v.knobs.row_items);
        ck_assert_uint_eq(v.local_bytes,
                          sizeof(float) * (size_t)FLASH_LOCAL_FLOATS(v.knobs.tile_q, v.knobs.tile_kv, d, dv));
    }
    cla_tuned_free(&own);
    // no tile supports this head size, but the unfused path does
    const problem huge = make_problem(100, 1000, 64);
    ck_assert_int_eq(choose(&small_gpu, &huge, CLATTN_OK).family->path, CLATTN_KERNEL_UNFUSED);
}
END_TEST

// The device passed the probe of the dot product with this rate. Multiply-adds reach 100 GFLOP/s.
static probe_results dot_works(float rate) {
    const unsigned both = 1u << PROBE_FMA | 1u << PROBE_DOT_BF16;
    return (probe_results){both, both, both, {[PROBE_FMA] = 100.0f, [PROBE_DOT_BF16] = rate}};
}

START_TEST(capabilities_decide) {
    problem p = make_problem(1024, 64, 64);
    ck_assert_int_eq(choose(&wide_cpu, &p, CLATTN_OK).family->id, KERNEL_FLASH_LANES);
    for (uint32_t width = 1; width <= 16; width *= 2) {
        clattn_capabilities cpu = wide_cpu;
        cpu.float_vector_width = width;
        const variant v = choose(&cpu, &p, CLATTN_OK);
        ck_assert_int_eq(v.family->id, width < 4 ? KERNEL_FLASH_TILES : KERNEL_FLASH_LANES);
        if (width >= 4) ck_assert_int_eq(v.knobs.lanes, (int)width);
    }
    p.n_q = 1;
    ck_assert_int_eq(choose(&wide_cpu, &p, CLATTN_OK).family->id, KERNEL_DECODE_LANES);
    ck_assert_int_eq(choose(&small_gpu, &p, CLATTN_OK).family->id, KERNEL_DECODE_GROUPS);
    // The dot product needs a passed probe, and bfloat16 in all three tensors.
    p = make_problem(1024, 64, 64);
    p.type_q = p.type_kv = p.type_out = CLATTN_TYPE_BF16;
    const plan_input proven = {.device = &wide_cpu, .shipped = &shipped, .probes = dot_works(200.0f)};
    variant v;
    ck_assert_int_eq(cla_variant_choose(&proven, &p, &v), CLATTN_OK);
    ck_assert_int_eq(v.knobs.dot_bf16, 1);
    ck_assert_int_eq(choose(&wide_cpu, &p, CLATTN_OK).knobs.dot_bf16, 0);
    p.type_kv = CLATTN_TYPE_F32;
    cla_variant_choose(&proven, &p, &v);
    ck_assert_int_eq(v.knobs.dot_bf16, 0);
}
END_TEST

// Passing the probe is not enough: an engine slower than multiply-adds is not used. A failed engine
// is never used.
START_TEST(rates_decide) {
    problem p = make_problem(1024, 64, 64);
    plan_input in = {.device = &wide_cpu, .shipped = &shipped, .probes = dot_works(200.0f)};
    variant v;
    p.type_q = p.type_kv = p.type_out = CLATTN_TYPE_BF16;
    for (int n_q = 1; n_q <= 1024; n_q += 1023) {
        p.n_q = n_q;
        in.probes = dot_works(101.0f);
        ck_assert_int_eq(cla_variant_choose(&in, &p, &v), CLATTN_OK);
        ck_assert_int_eq(v.knobs.dot_bf16, 1);
        in.probes = dot_works(50.0f);
        ck_assert_int_eq(cla_variant_choose(&in, &p, &v), CLATTN_OK);
        ck_assert_int_eq(v.knobs.dot_bf16, 0);
        in.probes = dot_works(200.0f);
        in.probes.proven &= ~(1u << PROBE_DOT_BF16);
        ck_assert_int_eq(cla_variant_choose(&in, &p, &v), CLATTN_OK);
        ck_assert_int_eq(v.knobs.dot_bf16, 0);
    }
}
END_TEST

// Integer products are used for integer caches, if the probe passed and they are faster, or if a
// tuned row requests them. Decode also needs 16-bit q and out. With many rows the choice depends on
// the bytes per query number and per weight.
enum {
    F32 = CLATTN_TYPE_F32,
    F16 = CLATTN_TYPE_F16,
    BF16 = CLATTN_TYPE_BF16,
    I8 = CLATTN_TYPE_I8,
    I4 = CLATTN_TYPE_I4
};
enum { Q8 = CLATTN_TYPE_Q8_0, Q4_1 = CLATTN_TYPE_Q4_1, F8 = CLATTN_TYPE_F8E4M3 };
static const char emulated[] = "decode_lanes : DOT_I8=1\nflash_lanes : DOT_I8=1",
                  tile[] = "flash_lanes : ROW_VECTORS=2 KEY_BLOCK=8 TILE_KV=64";
static const struct {
    int n_q, q, kv, out, head_dim;
    float rate;
    const char *row;
    int dot_i8;
    int group, zero_points;
} integers[] = {
    {1, BF16, I8, BF16, 64, 200, "", DOT_I8_VNNI, 0, 0},
    {1, F16, Q4_1, BF16, 96, 200, "", DOT_I8_VNNI, 0, 0},
    {1, F32, I8, BF16, 64, 200, "", 0, 0, 0},
    {1, BF16, I8, F32, 64, 200, "", 0, 0, 0},
    {1, BF16, F8, BF16, 64, 200, "", 0, 0, 0},
    {1, BF16, I8, BF16, 80, 200, "", 0, 0, 0},
    {1, BF16, I8, BF16, 64, 90, "", 0, 0, 0},
    {1, BF16, I8, BF16, 64, 0, "", 0, 0, 0},
    {1, BF16, Q8, BF16, 64, 0, emulated, DOT_I8_EMULATION, 0, 0},
    {1, BF16, Q8, BF16, 64, 90, emulated, DOT_I8_EMULATION, 0, 0},
    {1, BF16, Q8, F32, 64, 0, emulated, 0, 0, 0},
    {1, BF16, I4, BF16, 64, 200, "", DOT_I8_VNNI, 32, 3},
    {1, F16, F8, F16, 64, 200, "", 0, 32, 0},
    {256, F16, I4, F16, 128, 165, "", DOT_I8_VNNI, 64, 0},
    {256, F16, I4, F16, 128, 165, "", 0, 32, 0},
    {256, F16, I4, F16, 128, 165, "", 0, 64, 3},
    {256, F16, I4, F16, 128, 180, "", DOT_I8_VNNI, 64, 3},
    {256, F32, I8, F32, 128, 200, "", DOT_I8_VNNI, 0, 0},
    {256, F32, I8, F32, 128, 150, "", 0, 0, 0},
    {256, F32, Q8, F32, 128, 200, "", 0, 0, 0},
    {256, F32, Q8, F32, 128, 250, "", DOT_I8_VNNI, 0, 0},
    {256, F16, Q8, F16, 128, 200, "", DOT_I8_VNNI, 0, 0},
    {256, F16, I8, F16, 128, 150, "", DOT_I8_VNNI, 0, 0},
    {256, F16, I8, F16, 128, 120, "", 0, 0, 0},
    {256, F16, I8, F32, 128, 150, "", 0, 0, 0},
    {256, BF16, I8, BF16, 128, 120, "", DOT_I8_VNNI, 0, 0},
    {256, BF16, I8, BF16, 128, 100, "", 0, 0, 0},
    {256, F16, I8, F16, 80, 400, "", 0, 0, 0},
    {256, F16, F8, F16, 128, 400, "", 0, 0, 0},
    {256, F16, I8, F16, 128, 0, "", 0, 0, 0},
    {256, F32, Q8, F32, 64, 0, emulated, DOT_I8_EMULATION, 0, 0},
    {256, F16, I8, F16, 128, 400, tile, 0, 0, 0},
};
START_TEST(integers_chosen) {
    for (size_t i = 0; i < sizeof integers / sizeof integers[0]; i++) {
        const unsigned both = 1u << PROBE_FMA | (integers[i].rate > 0.0f ? 1u << PROBE_DOT_I8 : 0u);
        problem p = make_problem(integers[i].n_q, integers[i].head_dim, integers[i].head_dim);
        tuned_rows own = {0};
        char why[256];
        p.type_q = (clattn_type)integers[i].q, p.type_kv = (clattn_type)integers[i].kv;
        p.type_out = (clattn_type)integers[i].out;
        p.scale_group = p.scale_group_v = integers[i].group, p.zero_points = integers[i].zero_points;
        ck_assert_msg(cla_tuned_parse(integers[i].row, &own, why, sizeof why), "%s", why);
        const plan_input in = {
            .device = &wide_cpu,
            .shipped = &shipped,
            .own = &own,
            .probes = {both, both, both, {[PROBE_FMA] = 100.0f, [PROBE_DOT_I8] = integers[i].rate}}};
        variant v;
        ck_assert_int_eq(cla_variant_choose(&in, &p, &v), CLATTN_OK);
        ck_assert_str_eq(clattn_kernel_sources[v.family->id].name,
                         integers[i].n_q == 1 ? "decode_lanes" : "flash_lanes");
        ck_assert_msg(v.knobs.dot_i8 == integers[i].dot_i8, "case %zu: DOT_I8 is %d", i, v.knobs.dot_i8);
        cla_tuned_free(&own);
    }
}
END_TEST

// Each attention family has a one-line reason for every problem, and exactly one is marked as
// chosen.
START_TEST(families_review) {
    static const int rows[] = {1, 8, 16, 17, 1024};
    for (int i = 0; i < 5 * 2 * 3; i++) {
        problem p = make_problem(rows[i % 5], 64, 64);
        const plan_input in = {.device = i / 5 % 2 ? &small_gpu : &wide_cpu, .shipped = &shipped};
        const family *f;
        variant v;
        char why[256];
        int index = 0, seen = 0, chosen = 0;
        p.wants_weights = i / 10 == 1, p.wants_scores = i / 10 == 2;
        ck_assert_int_eq(cla_variant_choose(&in, &p, &v), CLATTN_OK);
        for (; cla_variant_review(&in, &p, &v, &index, &f, why); seen++) {
            chosen += f == v.family;
            ck_assert_msg(strlen(why) > 5, "%s says nothing", f->name);
            ck_assert_msg((f == v.family) ==
                              (strstr(why, ": ") && !strncmp(why, clattn_kernel_name(f->path), 4) &&
                               !strstr(why, "fits, but")),
                          "%s: %s", f->name, why);
        }
        ck_assert_int_eq(chosen, 1);
        ck_assert_int_eq(seen, 19);
    }
}
END_TEST

// All parameters of CLBlast's kernels but the last few.
#define DIRECT(kwid, dim)                                                                                    \
    "KWID=" kwid " MDIMAD=8 MDIMCD=" dim " NDIMBD=8 NDIMCD=8 PADA=1 PADB=1 VWMD=4 VWND=4"
#define XGEMM(gemmk, mwg, vwm)                                                                               \
    "GEMMK=" gemmk " KREG=1 KWG=16 KWI=2 MDIMA=8 MDIMC=8 MWG=" mwg                                           \
    " NDIMB=8 NDIMC=8 NWG=64 SA=1 SB=1 STRM=0 STRN=0 VWM=" vwm " VWN=4"

// Rows that their family could not run, and a word of the error.
static const char *const bad_rows[][2] = {
    {"decode_lanes cpu=1 : KEY_BLOCK=3", "KEY_BLOCK"},
    {"decode_lanes : ROWS=9", "ROWS"},
    {"decode_lanes : PREFETCH_LEVEL=4", "PREFETCH_LEVEL"},
    {"flash_lanes : DOT_I8=3", "DOT_I8"},
    {"flash_lanes : DOT_I8=1 TILE_KV=66 KEY_BLOCK=2", "TILE_KV"},
    {"flash_lanes : DOT_I8=1 TILE_KV=320", "TILE_KV"},
    {"flash_lanes : DOT_I8=1 TILE_KV=60 KEY_BLOCK=3", "KEY_BLOCK"},
    {"decode_lanes : TILE_KV=64", "not a row"}, // no knob of this kernel
    {"decode_groups : ROWS=3", "ROWS"},
    {"decode_groups : WORK_GROUP=24", "WORK_GROUP"},
    {"decode_groups : SUBGROUP=12", "SUBGROUP"},
    {"decode_groups : DOT_I8=2", "DOT_I8"},
    {"decode_groups : WORK_GROUP=16 SUBGROUP=32", "WORK_GROUP"},
    {"flash_lanes : TILE_KV=65536 ROW_VECTORS=8 KEY_BLOCK=4", "TILE_KV"},
    {"flash_lanes : TILE_KV=7", "TILE_KV"},
    {"flash_lanes : KEY_BLOCK=5", "KEY_BLOCK"},
    {"flash_lanes : KEY_BLOCK=33 TILE_KV=33", "KEY_BLOCK"},
    {"flash_lanes : ROW_VECTORS=9", "ROW_VECTORS"},
    {"flash_lanes : LANES=5", "LANES"},
    {"flash_lanes : LANES=16 LANES", "not a row"},
    {"flash_lanes : =5", "not a row"},
    {"flash : =5", "not a row"},
    {"flash_lanes =5 :", "not a row"},
    {"flash_lanes cpu=2..1 :", "not a row"},
    {"flash_lanes d=1x :", "not a row"},
    {"flash_lanes type=bool2 :", "not a row"},
    {"flash_lanes size=3 :", "not a row"},
    {"flash : TILE_Q=3", "not a row"},
    {"flash_tiles : ALIGNED_VECTORS=1", "not a row"},
    {"flash_tiles : MICRO_ROWS=6", "MICRO_ROWS"},
    {"flash_tiles : GROUP_COLUMNS=4", "GROUP_COLUMNS"},
    {"flash_tiles : GROUP_ROWS=65", "GROUP_ROWS"},
    {"flash_tiles : GROUP_ROWS=33 GROUP_COLUMNS=32", "GROUP_ROWS"},
    {"flash_tiles : CHUNK=10", "CHUNK"},
    {"flash_tiles : CHUNK=68", "CHUNK"},
    {"softmax :", "not a row"},
    {"clblast : LANES=4", "not a row"},
    {"linear_lanes : REDUCTION_TILE=17", "REDUCTION_TILE"},
    {"linear_lanes : ROW_PANELS=3", "ROW_PANELS"},
    {"linear_lanes : DOT_I8=3", "DOT_I8"},
    {"linear_lanes : DOT_I8=1 REDUCTION_TILE=48", "DOT_I8"},
    {"linear_lanes : COLUMN_BLOCK=5", "COLUMN_BLOCK"},
    {"linear_few_lanes : ROW_BLOCK=9", "ROW_BLOCK"},
    {"linear_few_lanes : COLUMN_TILE=6 COLUMN_BLOCK=4", "COLUMN_TILE"},
    {"linear_rows : WORK_GROUP=96", "WORK_GROUP"},
    {"clblast_gemm :", "every parameter"},
    {"clblast_gemm : XGEMM_MIN_INDIRECT_SIZE=1 XGEMM_MIN_INDIRECT_SIZE=2", "not a row"},
    {"clblast_gemm : GEMMK=0", "not a row"},
    {"clblast_gemm nq=5 : XGEMM_MIN_INDIRECT_SIZE=1", "cpu and lanes"},
    {"clblast_xgemm_direct : " DIRECT("2", "8") " WGD=24", "divide"},
    {"clblast_xgemm_direct : " DIRECT("3", "8") " WGD=32", "divide"},
    {"clblast_xgemm_direct : " DIRECT("2", "16") " WGD=32", "divide"},
    {"clblast_xgemm_direct : " DIRECT("2", "0") " WGD=32", "1 to 1024"},
    {"clblast_xgemm : " XGEMM("1", "64", "4"), "GEMMK"},
    {"clblast_xgemm : " XGEMM("0", "48", "4"), "divide"},
    {"clblast_xgemm : " XGEMM("0", "64", "3"), "VWM"},
    {"clblast :  XGEMM_MIN_INDIRECT_SIZE=1", "not a row"},
    {"linear_rows : ROW_ITEMS=256", "ROW_ITEMS"},
    {"linear_rows : ROW_BLOCK=5", "ROW_BLOCK"},
    {"linear_tiles : MICRO_ROWS=5", "MICRO_ROWS"},
    {"linear_tiles : GROUP_ROWS=128", "GROUP_ROWS"},
    {"linear_tiles : CHUNK=6", "CHUNK"},
    {"linear_tiles : CHUNK=4 GROUP_ROWS=32", "CHUNK"},
    {"flash_matrix : TILE_KV=48", "TILE_KV"},
    {"flash_matrix : TILE_KV=544", "TILE_KV"},
    {"flash_matrix : MATRIX_ENGINE=3", "MATRIX_ENGINE"},
    {"linear_matrix : MATRIX_ENGINE=3", "MATRIX_ENGINE"},
    {"flash_fragments : MATRIX_ENGINE=2", "MATRIX_ENGINE"},
    {"flash_fragments : MATRIX_ENGINE=6", "MATRIX_ENGINE"},
    {"flash_fragments : MATRIX_ENGINE=4 TILE_KV=32", "TILE_KV"},
    {"flash_fragments : MATRIX_ENGINE=4 GROUP_ROWS=6", "GROUP_ROWS"},
    {"flash_fragments : MATRIX_ENGINE=1 EMULATED=4 ROW_VECTORS=2", "ROW_VECTORS"},
    {"flash_fragments : TILE_KV=128", "TILE_KV"},
    {"flash_fragments : BF16_TERMS=2", "TERMS"},
    {"flash_fragments : MATRIX_ENGINE=5 EMULATED=5", "EMULATED"},
    {"linear_matrix : COLUMN_TILE=48", "COLUMN_TILE"},
    {"linear_matrix : COLUMN_TILE=544", "COLUMN_TILE"},
    {"linear_matrix : REDUCTION_TILE=40", "REDUCTION_TILE"},
    {"linear_matrix : REDUCTION_TILE=1056", "REDUCTION_TILE"},
    {"flash_matrix : LANES=16", "not a row"},
    {"flash_lanes", "not a row"},
    {"flash nq=99999999999 :", "not a row"},
    {"flash nq=2147483648 :", "not a row"},
    {"flash nq=18446744073709551617 :", "not a row"},
    {"flash nq=1..99999999999 :", "not a row"},
    {"flash nq=+5 :", "not a row"},
    {"flash nq=1..+5 :", "not a row"},
    {"flash nq=\v5 :", "not a row"},
    {"flash nq=5x :", "not a row"},
    {"flash nq= :", "not a row"},
    {"flash nq=5..4 :", "not a row"},
    {"flash_lanes : TILE_KV=+64", "not a row"},
    {"flash_lanes : TILE_KV=64x", "not a row"},
    {"flash_lanes : TILE_KV=4294967360", "not a row"},
};

// Rows that their family could not run are refused, with the line and the error.
START_TEST(rows_refused) {
    static const char *const good =
        "# a comment\n\nflash_lanes cpu=1 lanes=4..8 type=bf16 d=..64 nq=3.. : LANES=8 "
        "ROW_VECTORS=3 KEY_BLOCK=4 TILE_KV=64 # more\nclblast :\nflash cpu=0 :\n"
        "decode_lanes : KEY_BLOCK=4 ROWS=8";
    tuned_rows rows;
    char why[256], text[300];
    for (size_t i = 0; i < sizeof bad_rows / sizeof bad_rows[0]; i++) {
        snprintf(text, sizeof text, "flash :\n%s\n", bad_rows[i][0]);
        ck_assert_msg(!cla_tuned_parse(text, &rows, why, sizeof why), "accepted: %s", bad_rows[i][0]);
        ck_assert_msg(strstr(why, "line 2") && strstr(why, bad_rows[i][1]), "%s: %s", bad_rows[i][0], why);
        ck_assert_ptr_null(rows.rows);
    }
    ck_assert_msg(cla_tuned_parse(good, &rows, why, sizeof why), "%s", why);
    ck_assert_int_eq(rows.count, 4);
    ck_assert_int_eq(rows.rows[0].when[CONDITION_lanes].most, 8);
    ck_assert_int_eq(rows.rows[0].knobs.tile_kv, 64);
    cla_tuned_free(&rows);
}
END_TEST

// A tile that fits narrow heads and not wide ones: wide heads use the next family, and no build
// fails.
START_TEST(tile_of_wide_heads) {
    problem p = make_problem(1024, 64, 64), wide = make_problem(1024, 576, 576);
    tuned_rows own;
    char why[256];
    ck_assert(cla_tuned_parse("flash_lanes : TILE_KV=4096 ROW_VECTORS=1", &own, why, sizeof why));
    const plan_input in = {.device = &wide_cpu, .own = &own, .shipped = &shipped};
    variant v;
    ck_assert_int_eq(cla_variant_choose(&in, &p, &v), CLATTN_OK);
    ck_assert_int_eq(v.family->id, KERNEL_FLASH_LANES);
    ck_assert_int_eq(v.knobs.tile_kv, 4096);
    ck_assert_int_eq(cla_variant_choose(&in, &wide, &v), CLATTN_OK);
    ck_assert_int_eq(v.family->id, KERNEL_FLASH);
    cla_tuned_free(&own);
}
END_TEST

// Splits requested for no rows: nothing runs, and nothing is refused.
START_TEST(nothing_to_split) {
    for (int i = 0; i < 6; i++) {
        problem p = make_problem(4, 64, 64);
        p.kernel = CLATTN_KERNEL_DECODE, p.splits = 3;
        if (i % 3 == 0) p.batch = 0;
        if (i % 3 == 1) p.heads = p.kv_heads = 0;
        if (i % 3 == 2) p.n_q = 0;
        const variant v = choose(i < 3 ? &wide_cpu : &small_gpu, &p, CLATTN_OK);
        ck_assert_uint_eq(v.workspace_bytes, 0);
    }
}
END_TEST

// Sizes at the limit of the kernels' counters: a right plan or a refusal, never a product that
// overflowed.
START_TEST(huge_shapes) {
    problem p = make_problem(8, 1, 1);
    p.heads = 1 << 28, p.kv_heads = 1, p.n_kv = 5, p.type_kv = CLATTN_TYPE_F16;
    const variant v = choose(&wide_cpu, &p, CLATTN_OK);
    ck_assert_uint_eq(v.groups[1], ((uint64_t)8 << 28) / 8);
    p = make_problem(16, 128, 128);
    p.heads = p.kv_heads = 1 << 27, p.n_kv = 1 << 30, p.splits = 1 << 30, p.kernel = CLATTN_KERNEL_DECODE;
    choose(&wide_cpu, &p, CLATTN_UNSUPPORTED);
}
END_TEST

START_TEST(what_is_asked_for) {
    problem p = make_problem(64, 64, 64);
    p.wants_scores = true;
    ck_assert_int_eq(choose(&wide_cpu, &p, CLATTN_OK).family->path, CLATTN_KERNEL_UNFUSED);
    p.kernel = CLATTN_KERNEL_FLASH;
    choose(&wide_cpu, &p, CLATTN_UNSUPPORTED);
    p = make_problem(64, 64, 64);
    p.wants_weights = true;
    ck_assert_int_eq(choose(&small_gpu, &p, CLATTN_OK).family->path, CLATTN_KERNEL_UNFUSED);
    const variant v = choose(&wide_cpu, &p, CLATTN_OK);
    ck_assert_int_eq(v.knobs.weights, 1);
    ck_assert_int_eq(v.splits, 1);
    p = make_problem(17, 64, 64);
    p.kernel = CLATTN_KERNEL_DECODE;
    choose(&wide_cpu, &p, CLATTN_UNSUPPORTED);
    p.n_q = 16, p.splits = 3;
    ck_assert_int_eq(choose(&wide_cpu, &p, CLATTN_OK).splits, 3);
    p.kernel = CLATTN_KERNEL_AUTO;
    choose(&wide_cpu, &p, CLATTN_UNSUPPORTED);
}
END_TEST

START_TEST(scratch_is_bounded) {
    for (int n = 1; n <= 1 << 20; n *= 2) {
        problem p = make_problem(n, 64, 64);
        p.heads = p.kv_heads = 1;
        const variant flash = choose(&wide_cpu, &p, CLATTN_OK);
        ck_assert_uint_le(flash.workspace_bytes, 64u << 20);
        // every key is in a range
        ck_assert_int_ge((int64_t)flash.splits * flash.split_keys, p.n_kv);
        ck_assert_int_lt((int64_t)(flash.splits - 1) * flash.split_keys, p.n_kv);
        p.kernel = CLATTN_KERNEL_UNFUSED;
        const variant unfused = choose(&wide_cpu, &p, CLATTN_OK);
        ck_assert_uint_le(unfused.workspace_bytes, 64u << 20);
        const unfused_chunk chunk = cla_unfused_chunk(&p);
        ck_assert(chunk.rows >= 1 && chunk.items >= 1);
    }
}
END_TEST

int main(void) {
    const TTest *const tests[] = {fits_small_devices, capabilities_decide, rates_decide,
                                  integers_chosen,    families_review,     rows_refused,
                                  tile_of_wide_heads, nothing_to_split,    huge_shapes,
                                  what_is_asked_for,  scratch_is_bounded};
    return PLAN_SUITE_RUN("plan", tests);
}
