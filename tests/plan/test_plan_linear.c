// test_plan_linear.c: who computes a projection on synthetic devices without vector lanes: a kernel
// that fits, never a lanes kernel, and CLBlast only for float32 weights and many rows. CPUs use the
// lanes kernels.

#include "args/args.h"
#include "plan/plan_suite.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

static clattn_capabilities device_of(uint64_t local, uint64_t group, uint32_t units) {
    return (clattn_capabilities){.name = "made up",
                                 .is_gpu = true,
                                 .compute_units = units,
                                 .float_vector_width = 1,
                                 .max_work_group = group,
                                 .max_work_item = {group, group, 64},
                                 .local_memory_bytes = local};
}

static linear_problem problem_of(int64_t rows, int64_t columns, int64_t reduction, clattn_type w) {
    return (linear_problem){.type_x = w,
                            .type_w = w,
                            .type_y = w,
                            .rows = rows,
                            .columns = columns,
                            .reduction = reduction,
                            .align_x = 16,
                            .align_w = 16};
}

static void check_fits(const plan_input *in, const linear_problem *p, const linear_choice *c) {
    const uint64_t most = in->group_limit[c->id] ? in->group_limit[c->id] : in->device->max_work_group;
    ck_assert_msg(c->id == KERNEL_LINEAR_ROWS || c->id == KERNEL_LINEAR_TILES, "%s",
                  clattn_kernel_sources[c->id].name);
    ck_assert(c->work_group >= 1 && (uint64_t)c->work_group <= most);
    ck_assert_msg(c->local_bytes <= in->device->local_memory_bytes, "%s takes %zu bytes of %llu",
                  clattn_kernel_sources[c->id].name, c->local_bytes,
                  (unsigned long long)in->device->local_memory_bytes);
    ck_assert(c->column_tile > 0 && c->row_tile > 0);
    ck_assert(c->id != KERNEL_LINEAR_ROWS || c->row_tile >= p->rows || c->row_tile == 16);
    ck_assert(c->knobs.lanes == 0);
}

// Weights with scales always use clattn's own kernels, never CLBlast or a matrix engine. Only lanes
// kernels use integer products, for few rows only with 4-bit weights. The knobs describe the
// weights' layout. Tiles have local memory for the scales.
START_TEST(scales_of_groups) {
    static const clattn_type types[] = {CLATTN_TYPE_I8, CLATTN_TYPE_F8E4M3, CLATTN_TYPE_I4, CLATTN_TYPE_U4};
    const clattn_capabilities gpu = device_of(16384, 256, 8),
                              cpu = {.is_cpu = true, .compute_units = 2, .float_vector_width = 16};
    for (int n = 0; n < 16; n++) {
        plan_input in = {.device = n % 2 ? &gpu : &cpu, .has_clblast = true};
        linear_problem p = problem_of(n / 2 % 2 ? 512 : 1, 768, 768, types[n / 4]);
        linear_choice c, plain;
        p.type_x = p.type_y = CLATTN_TYPE_F32;
        p.scale_group = 64, p.type_scale = CLATTN_TYPE_F16, p.zero_points = true;
        in.shipped = &shipped;
        in.probes.ran = in.probes.proven = in.probes.sure = ~0u;
        for (int i = 0; i < PROBE_COUNT; i++) in.probes.rate[i] = 1.0f;
        in.probes.rate[PROBE_DOT_I8] = 1000.0f;
        ck_assert(!cla_variant_linear_is_open(&in, &p) && cla_variant_choose_linear(&in, &p, false, &c));
        ck_assert_int_eq(c.id, n % 2 ? (p.rows > 16 ? KERNEL_LINEAR_TILES : KERNEL_LINEAR_ROWS)
                                     : (p.rows > 16 ? KERNEL_LINEAR_LANES : KERNEL_LINEAR_FEW_LANES));
        ck_assert(c.knobs.scale_group == 64 && c.knobs.type_scale == CLATTN_TYPE_F16 &&
                  c.knobs.zero_points == 1);
        const bool integers =
            c.id == KERNEL_LINEAR_FEW_LANES ? n / 4 >= 2 : c.id == KERNEL_LINEAR_LANES && n / 4 != 1;
        ck_assert_int_eq(c.knobs.dot_i8, integers ? DOT_I8_VNNI : 0);
        ck_assert_int_eq(c.knobs.type_kv, (int)p.type_w);
        if (c.id != KERNEL_LINEAR_TILES) continue;
        check_fits(&in, &p, &c);
        p.type_w = CLATTN_TYPE_F16, p.scale_group = 0;
        ck_assert(cla_variant_choose_linear(&in, &p, true, &plain) && c.local_bytes > plain.local_bytes);
    }
}
END_TEST

// Every size, type and limit, forced and with AUTO, with rows that name the lanes kernels, and with
// compiled kernels that allow fewer work-items.
START_TEST(never_lanes) {
    static const uint64_t local[] = {1024, 8192, 16384, 32768, 49152, 65536},
                          groups[] = {1, 8, 64, 128, 256, 1024};
    static const int64_t sizes[][3] = {{1, 4096, 4096},
                                       {16, 768, 768},
                                       {17, 64, 5},
                                       {512, 768, 3072},
                                       {4096, 11008, 4096},
                                       {0, 8, 8},
                                       {(int64_t)1 << 46, 1 << 30, 1},
                                       {5, INT32_MAX - 65536, INT32_MAX - 65536}};
    tuned_rows own;
    char why[256];
    ck_assert(cla_tuned_parse("linear_lanes :\nlinear_few_lanes :\n", &own, why, sizeof why));
    for (int n = 0; n < 6 * 6 * 8 * 3 * 8; n++) {
        const clattn_capabilities gpu = device_of(local[n % 6], groups[n / 6 % 6], n % 2 ? 1 : 132);
        const int64_t *size = sizes[n / 36 % 8];
        linear_problem p = problem_of(size[0], size[1], size[2], (clattn_type)(n / 288 % 3));
        plan_input in = {.device = &gpu, .shipped = &shipped, .own = n / 864 % 2 ? &own : NULL};
        in.has_clblast = n / 1728 % 2;
        p.rope_head = n / 3456 % 2 ? 8 : 0;
        p.align_w = n % 5 ? 16 : 1;
        linear_choice c;
        ck_assert(cla_variant_choose_linear(&in, &p, true, &c));
        check_fits(&in, &p, &c);
        ck_assert_int_eq(c.knobs.rope, p.rope_head ? 1 : 0);
        in.group_limit[c.id] = (uint32_t)(c.work_group + 1) / 2;
        ck_assert(cla_variant_choose_linear(&in, &p, true, &c));
        check_fits(&in, &p, &c);
        const bool native = cla_variant_choose_linear(&in, &p, false, &c);
        ck_assert_int_eq(native, p.rows <= FAMILY_FEW_ROWS || p.type_w != CLATTN_TYPE_F32 || !in.has_clblast);
        ck_assert(cla_variant_linear_why(&in, &p, native)[0] != '\0');
    }
    cla_tuned_free(&own);
}
END_TEST

// A measurement decides only for float32 weights. A caller's row has precedence.
START_TEST(measured_and_asked) {
    const clattn_capabilities gpu = device_of(32768, 256, 8);
    const linear_problem few = problem_of(4, 768, 768, CLATTN_TYPE_F32),
                         many = problem_of(512, 768, 768, CLATTN_TYPE_F32),
                         half = problem_of(512, 768, 768, CLATTN_TYPE_F16);
    plan_input in = {.device = &gpu, .shipped = &shipped, .has_clblast = true};
    tuned_rows own;
    linear_choice c;
    char why[256];
    ck_assert(cla_variant_linear_is_open(&in, &few) && cla_variant_linear_is_open(&in, &many) &&
              !cla_variant_linear_is_open(&in, &half));
    in.measured[PLAN_MANY_ROWS] = PLAN_NATIVE_FASTER, in.measured[PLAN_FEW_ROWS] = PLAN_CLBLAST_FASTER;
    ck_assert(cla_variant_choose_linear(&in, &many, false, &c) && c.id == KERNEL_LINEAR_TILES);
    ck_assert(!cla_variant_choose_linear(&in, &few, false, &c));
    ck_assert(strstr(cla_variant_linear_why(&in, &few, false), "measured as"));
    in.measured[PLAN_MANY_ROWS] = PLAN_CLBLAST_FASTER;
    ck_assert(!cla_variant_choose_linear(&in, &many, false, &c));
    ck_assert(cla_variant_choose_linear(&in, &half, false, &c) && c.id == KERNEL_LINEAR_TILES);
    ck_assert(cla_tuned_parse(
        "clblast type=f16 :\nlinear_rows nq=100.. band=513.. :\nlinear_tiles : MICRO_ROWS=4\n", &own, why,
        sizeof why));
    in.own = &own;
    ck_assert(!cla_variant_choose_linear(&in, &half, false, &c) && !cla_variant_linear_is_open(&in, &many));
    ck_assert(cla_variant_choose_linear(&in, &half, true, &c) && c.id == KERNEL_LINEAR_TILES);
    ck_assert(cla_variant_choose_linear(&in, &many, false, &c) && c.id == KERNEL_LINEAR_ROWS);
    ck_assert(cla_variant_choose_linear(&in, &few, false, &c) && c.id == KERNEL_LINEAR_TILES &&
              c.knobs.micro_rows == 4);
    cla_tuned_free(&own);
}
END_TEST

// CPUs with vectors use these kernels only if a row names them.
START_TEST(cpus_keep_theirs) {
    clattn_capabilities cpu = device_of(1 << 20, 4096, 2);
    const linear_problem many = problem_of(512, 768, 768, CLATTN_TYPE_BF16);
    plan_input in = {.device = &cpu, .shipped = &shipped, .has_clblast = true};
    tuned_rows own;
    linear_choice c;
    char why[256];
    cpu.is_gpu = false, cpu.is_cpu = true, cpu.float_vector_width = 16;
    ck_assert(cla_variant_choose_linear(&in, &many, false, &c) && c.id == KERNEL_LINEAR_LANES);
    ck_assert(cla_tuned_parse("linear_tiles :\n", &own, why, sizeof why));
    in.own = &own;
    ck_assert(cla_variant_choose_linear(&in, &many, false, &c) && c.id == KERNEL_LINEAR_TILES);
    cla_tuned_free(&own);
    // A CPU that reports no vectors is planned like a GPU, and uses lanes if a row names them.
    cpu.float_vector_width = 1, in.own = NULL;
    ck_assert(cla_variant_choose_linear(&in, &many, false, &c) && c.id == KERNEL_LINEAR_TILES);
    ck_assert(cla_tuned_parse("linear_lanes :\n", &own, why, sizeof why));
    in.own = &own;
    ck_assert(cla_variant_choose_linear(&in, &many, false, &c) && c.id == KERNEL_LINEAR_LANES);
    cla_tuned_free(&own);
}
END_TEST

// CLBlast's parameters must be complete and valid, or the row is refused. A row of parameters does
// not choose who projects.
START_TEST(parameters_of_clblast) {
    static const char text[] = "clblast_xgemm cpu=0 : GEMMK=0 KREG=1 KWG=16 KWI=2 MDIMA=16 MDIMC=16 MWG=128 "
                               "NDIMB=16 NDIMC=16 NWG=128 SA=1 SB=1 "
                               "STRM=0 STRN=0 VWM=4 VWN=4\nclblast_xgemm_direct : KWID=2 MDIMAD=8 MDIMCD=8 "
                               "NDIMBD=8 NDIMCD=8 PADA=1 PADB=1 "
                               "VWMD=4 VWND=4 WGD=32\nclblast_gemm lanes=1 : XGEMM_MIN_INDIRECT_SIZE=0\n";
    const clattn_capabilities gpu = device_of(32768, 256, 8);
    const linear_problem few = problem_of(4, 768, 768, CLATTN_TYPE_F32);
    tuned_rows own;
    linear_choice c;
    char why[256];
    ck_assert_msg(cla_tuned_parse(text, &own, why, sizeof why), "%s", why);
    ck_assert_int_eq(own.count, 3);
    const plan_input in = {.device = &gpu, .own = &own, .has_clblast = true};
    ck_assert(cla_variant_linear_is_open(&in, &few) && cla_variant_choose_linear(&in, &few, false, &c));
    ck_assert(cla_clblast_fits(CLBLAST_XGEMM, own.rows[0].clblast, 256, 16384));
    ck_assert(!cla_clblast_fits(CLBLAST_XGEMM, own.rows[0].clblast, 255, 16384));
    ck_assert(!cla_clblast_fits(CLBLAST_XGEMM, own.rows[0].clblast, 256, 16383));
    ck_assert(cla_clblast_fits(CLBLAST_XGEMM_DIRECT, own.rows[1].clblast, 64, 8448));
    ck_assert(!cla_clblast_fits(CLBLAST_XGEMM_DIRECT, own.rows[1].clblast, 64, 8447));
    cla_tuned_free(&own);
}
END_TEST

// Aligned loads need aligned rows: 16 bytes for few rows; for many rows four elements, or eight
// 16-bit elements.
START_TEST(alignment) {
    const clattn_capabilities gpu = device_of(32768, 256, 8);
    const plan_input in = {.device = &gpu, .shipped = &shipped};
    for (int n = 0; n < 5 * 5 * 3 * 3 * 2; n++) {
        linear_problem p = problem_of(n % 2 ? 4 : 512, 768, 768, (clattn_type)(n / 2 % 3));
        linear_choice c;
        p.type_x = (clattn_type)(n / 6 % 3), p.align_x = 1 << n / 18 % 5, p.align_w = 1 << n / 90;
        ck_assert(cla_variant_choose_linear(&in, &p, true, &c));
        const int x = n % 2 && p.type_x ? 8 : 4, w = n % 2 && p.type_w ? 8 : 4;
        const bool eights = n % 2 == 0 && p.type_w && p.align_x >= 8 && p.align_w >= 8;
        ck_assert_int_eq(c.knobs.aligned_vectors, eights ? 2 : p.align_x >= x && p.align_w >= w);
    }
}
END_TEST

// Precedence: the caller's rows, the measurement, the library's rows. A forced choice overrides
// all.
START_TEST(who_projects) {
    const linear_problem many = {.rows = 512, .columns = 768, .reduction = 768};
    const linear_problem few = {.rows = 4, .columns = 768, .reduction = 768};
    plan_input in = {.device = &wide_cpu, .shipped = &shipped};
    tuned_rows own;
    linear_choice c;
    char why[256];
    ck_assert(cla_variant_choose_linear(&in, &many, false, &c) && c.id == KERNEL_LINEAR_LANES);
    ck_assert(cla_variant_choose_linear(&in, &few, false, &c) && c.id == KERNEL_LINEAR_FEW_LANES);
    ck_assert(cla_variant_linear_is_open(&in, &many));
    in.measured[PLAN_MANY_ROWS] = PLAN_CLBLAST_FASTER;
    in.measured[PLAN_FEW_ROWS] = PLAN_NATIVE_FASTER;
    ck_assert(!cla_variant_choose_linear(&in, &many, false, &c));
    ck_assert(cla_variant_choose_linear(&in, &few, false, &c));
    ck_assert(cla_variant_choose_linear(&in, &many, true, &c) && c.id == KERNEL_LINEAR_LANES);
    ck_assert(cla_tuned_parse("linear_lanes nq=33.. :\nclblast :\n", &own, why, sizeof why));
    in.own = &own;
    ck_assert(cla_variant_choose_linear(&in, &many, false, &c));
    ck_assert(!cla_variant_choose_linear(&in, &few, false, &c));
    ck_assert(!cla_variant_linear_is_open(&in, &many) && !cla_variant_linear_is_open(&in, &few));
    cla_tuned_free(&own);
}
END_TEST

// The bfloat16 dot product is used if its probe passed and it is faster, with lanes that support
// it.
START_TEST(dot_product) {
    static const struct {
        int width, row_tile; // the device's vector width; REDUCTION_TILE of a caller's row
        clattn_type x, w;
        bool proven;
        float fma, dot;
        bool taken;
    } cases[] = {{16, 0, CLATTN_TYPE_BF16, CLATTN_TYPE_BF16, true, 243, 450, true}, // Zen 5
                 // Sapphire Rapids
                 {16, 0, CLATTN_TYPE_BF16, CLATTN_TYPE_BF16, true, 135, 68, false},
                 {16, 0, CLATTN_TYPE_BF16, CLATTN_TYPE_BF16, false, 243, 450, false},
                 {16, 0, CLATTN_TYPE_F32, CLATTN_TYPE_BF16, true, 243, 450, false},
                 {16, 0, CLATTN_TYPE_BF16, CLATTN_TYPE_F16, true, 243, 450, false},
                 {16, 96, CLATTN_TYPE_BF16, CLATTN_TYPE_BF16, true, 243, 450, true},
                 {16, 48, CLATTN_TYPE_BF16, CLATTN_TYPE_BF16, true, 243, 450, false},
                 {8, 0, CLATTN_TYPE_BF16, CLATTN_TYPE_BF16, true, 243, 450, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        clattn_capabilities cpu = wide_cpu;
        tuned_rows own = {0};
        linear_choice c;
        char text[64], why[256];
        plan_input in = {.device = &cpu, .shipped = &shipped};
        linear_problem p = problem_of(512, 768, 768, cases[i].w);
        p.type_x = cases[i].x, cpu.float_vector_width = (uint32_t)cases[i].width;
        in.probes.proven = 1u << PROBE_FMA | (cases[i].proven ? 1u << PROBE_DOT_BF16 : 0);
        in.probes.rate[PROBE_FMA] = cases[i].fma, in.probes.rate[PROBE_DOT_BF16] = cases[i].dot;
        snprintf(text, sizeof text, "linear_lanes : REDUCTION_TILE=%d\n", cases[i].row_tile);
        if (cases[i].row_tile) {
            ck_assert_msg(cla_tuned_parse(text, &own, why, sizeof why), "%s", why);
            in.own = &own;
        }
        ck_assert(cla_variant_choose_linear(&in, &p, false, &c) && c.id == KERNEL_LINEAR_LANES);
        ck_assert_msg(c.knobs.dot_bf16 == cases[i].taken, "case %zu", i);
        if (!cases[i].row_tile) ck_assert_int_eq(c.knobs.reduction_tile, cases[i].taken ? 512 : 256);
        if (cases[i].row_tile) cla_tuned_free(&own);
        p.rows = 4; // few rows are limited by reading W
        ck_assert(cla_variant_choose_linear(&in, &p, true, &c) && c.knobs.dot_bf16 == 0);
    }
}
END_TEST

// Integer products with many rows, for blocks, int8, i4 and u4: used if the probe passed and they
// promise to be faster, or if a row requests them. A row without DOT_I8 selects floats.
static const struct {
    int width;
    clattn_type x, w;
    bool proven;
    float fma, dot;
    const char *row;
    int dot_i8;
} of_integers[] = {
    {16, CLATTN_TYPE_F32, CLATTN_TYPE_Q8_0, true, 117, 234, NULL, DOT_I8_VNNI}, // Zen 4
    {16, CLATTN_TYPE_F32, CLATTN_TYPE_Q4_1, true, 117, 234, NULL, DOT_I8_VNNI},
    {8, CLATTN_TYPE_BF16, CLATTN_TYPE_Q4_0, true, 60, 120, NULL, DOT_I8_VNNI},
    {16, CLATTN_TYPE_F32, CLATTN_TYPE_I4, true, 117, 234, NULL, DOT_I8_VNNI},
    {16, CLATTN_TYPE_F32, CLATTN_TYPE_I8, true, 117, 210, NULL, DOT_I8_VNNI},
    // correcting for the offset needs time
    {16, CLATTN_TYPE_F32, CLATTN_TYPE_U4, true, 117, 210, NULL, 0},
    {16, CLATTN_TYPE_F32, CLATTN_TYPE_F8E4M3, true, 117, 234, NULL, 0},
    {16, CLATTN_TYPE_F32, CLATTN_TYPE_Q8_0, true, 117, 200, NULL, 0},
    {16, CLATTN_TYPE_F16, CLATTN_TYPE_Q8_0, true, 117, 200, NULL, DOT_I8_VNNI},
    {16, CLATTN_TYPE_F32, CLATTN_TYPE_Q8_0, false, 117, 234, NULL, 0},
    {4, CLATTN_TYPE_F32, CLATTN_TYPE_Q8_0, true, 30, 60, NULL, 0},
    {16, CLATTN_TYPE_F32, CLATTN_TYPE_F16, true, 117, 234, NULL, 0},
    {16, CLATTN_TYPE_F32, CLATTN_TYPE_Q8_0, true, 117, 234, "linear_lanes :", 0},
    {16, CLATTN_TYPE_F32, CLATTN_TYPE_Q8_0, true, 117, 100, "linear_lanes : DOT_I8=2", DOT_I8_VNNI},
    {16, CLATTN_TYPE_F32, CLATTN_TYPE_Q8_0, false, 117, 0, "linear_lanes : DOT_I8=2", 0},
    {16, CLATTN_TYPE_F32, CLATTN_TYPE_Q8_0, false, 117, 0, "linear_lanes : DOT_I8=1", DOT_I8_EMULATION},
    {16, CLATTN_TYPE_F32, CLATTN_TYPE_F32, false, 117, 0, "linear_lanes : DOT_I8=1", 0},
    {16, CLATTN_TYPE_F32, CLATTN_TYPE_Q4_0, false, 117, 0, "linear_lanes : LANES=4 DOT_I8=1", 0}};
START_TEST(integer_product) {
    for (size_t i = 0; i < sizeof of_integers / sizeof of_integers[0]; i++) {
        clattn_capabilities cpu = wide_cpu;
        tuned_rows own = {0};
        linear_choice c;
        char why[256];
        plan_input in = {.device = &cpu, .shipped = &shipped};
        linear_problem p = problem_of(512, 768, 768, of_integers[i].w);
        p.type_x = p.type_y = of_integers[i].x, cpu.float_vector_width = (uint32_t)of_integers[i].width;
        in.probes.proven = 1u << PROBE_FMA | (of_integers[i].proven ? 1u << PROBE_DOT_I8 : 0);
        in.probes.rate[PROBE_FMA] = of_integers[i].fma, in.probes.rate[PROBE_DOT_I8] = of_integers[i].dot;
        if (of_integers[i].row) {
            ck_assert_msg(cla_tuned_parse(of_integers[i].row, &own, why, sizeof why), "%s", why);
            in.own = &own;
        }
        ck_assert(cla_variant_choose_linear(&in, &p, false, &c) && c.id == KERNEL_LINEAR_LANES);
        ck_assert_msg(c.knobs.dot_i8 == of_integers[i].dot_i8, "case %zu: DOT_I8 is %d", i, c.knobs.dot_i8);
        ck_assert_int_eq(c.knobs.reduction_tile, c.knobs.dot_i8 ? 512 : 256);
        ck_assert(c.column_tile % c.knobs.column_block == 0 && c.column_tile <= LINEAR_TILE_COLUMNS);
        if (of_integers[i].row) cla_tuned_free(&own);
    }
}
END_TEST

// Heads with fused RoPE fit completely into the projection's tile.
START_TEST(whole_heads) {
    const plan_input in = {.device = &wide_cpu, .shipped = &shipped};
    for (int head = 1; head <= 512; head++) {
        linear_problem p = {.rows = 512, .columns = 8 * head, .reduction = 512, .rope_head = head};
        linear_choice c;
        ck_assert(cla_variant_choose_linear(&in, &p, false, &c));
        if (c.knobs.rope) ck_assert_int_eq(c.column_tile % head, 0);
        ck_assert_int_eq(c.column_tile % c.knobs.lanes + c.column_tile % c.knobs.column_block, 0);
        ck_assert(c.column_tile > 0 && c.column_tile <= LINEAR_TILE_COLUMNS);
        if (head % 2) ck_assert_int_eq(c.knobs.rope, 0);
        if (head % 16 == 0) ck_assert_int_eq(c.knobs.rope, 1);
        p.rope_interleaved = true;
        p.rows = 3;
        ck_assert(cla_variant_choose_linear(&in, &p, false, &c));
        ck_assert_int_eq(c.knobs.rope, head % 2 ? 0 : 2);
    }
    // A head larger than any tile, near INT_MAX; and no rows at all.
    linear_problem vast = {.rows = (int64_t)1 << 46, .columns = 1 << 30, .reduction = 1};
    linear_problem huge = {.rows = 512, .columns = 89478490, .reduction = 512, .rope_head = 89478490},
                   none = huge;
    linear_choice c;
    none.rows = 0, none.rope_head = 64;
    ck_assert(cla_variant_choose_linear(&in, &vast, false, &c) && c.column_tile > 0);
    ck_assert(cla_variant_choose_linear(&in, &huge, false, &c) && c.knobs.rope == 0 && c.column_tile > 0);
    ck_assert(cla_variant_choose_linear(&in, &none, false, &c) && c.knobs.row_block > 0 && c.column_tile > 0);
}
END_TEST

// With one row, work-items have as many columns as leave eight work-items per core, at most 64.
// With integer products small results have more columns per work-item.
START_TEST(columns_of_one_row) {
    static const struct {
        int64_t columns;
        int units, floats, integers; // COLUMN_TILE
    } cases[] = {{49152, 2, 64, 64}, {1536, 2, 64, 64}, {576, 2, 32, 32}, {192, 2, 8, 32},
                 {4096, 16, 32, 32}, {4096, 64, 8, 8},  {64, 16, 8, 16},  {1, 1, 8, 32}};
    for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++)
        for (int integers = 0; integers < 2; integers++) {
            clattn_capabilities cpu = device_of(1 << 20, 4096, cases[n].units);
            linear_problem p = problem_of(1, cases[n].columns, 576, CLATTN_TYPE_F32);
            plan_input in = {.device = &cpu, .shipped = &shipped};
            linear_choice c;
            cpu.is_gpu = false, cpu.is_cpu = true, cpu.float_vector_width = 16;
            if (integers) p.type_w = CLATTN_TYPE_Q4_0, in.probes.proven |= 1u << PROBE_DOT_I8;
            in.probes.rate[PROBE_DOT_I8] = 200, in.probes.rate[PROBE_FMA] = 100;
            ck_assert(cla_variant_choose_linear(&in, &p, true, &c) && c.id == KERNEL_LINEAR_FEW_LANES);
            ck_assert_int_eq(c.knobs.dot_i8 != 0, integers);
            ck_assert_msg(c.column_tile == (integers ? cases[n].integers : cases[n].floats),
                          "case %zu, integers %d: COLUMN_TILE=%d", n, integers, c.column_tile);
        }
}
END_TEST

// Integer products if the probe passed and they are faster, or if a row requests them.
START_TEST(integers) {
    static const struct {
        clattn_type x, w;
        int64_t rows;
        float integers, floats; // rates; integers 0: not proven
        const char *own;
        int dot_i8;
    } cases[] = {
        {CLATTN_TYPE_F32, CLATTN_TYPE_Q8_0, 1, 200, 100, NULL, DOT_I8_VNNI},
        {CLATTN_TYPE_F32, CLATTN_TYPE_Q8_0, 1, 0, 100, NULL, 0},
        {CLATTN_TYPE_F32, CLATTN_TYPE_Q8_0, 1, 120, 100, NULL, 0}, // slow integers
        {CLATTN_TYPE_F32, CLATTN_TYPE_Q8_0, 4, 200, 100, NULL, 0}, // each row needs three products
        {CLATTN_TYPE_BF16, CLATTN_TYPE_Q8_0, 2, 200, 100, NULL, DOT_I8_VNNI},
        {CLATTN_TYPE_F32, CLATTN_TYPE_Q4_0, 4, 200, 100, NULL, DOT_I8_VNNI},
        {CLATTN_TYPE_F32, CLATTN_TYPE_Q4_1, 1, 200, 100, NULL, DOT_I8_VNNI},
        {CLATTN_TYPE_F32, CLATTN_TYPE_I4, 1, 200, 100, NULL, DOT_I8_VNNI},
        {CLATTN_TYPE_BF16, CLATTN_TYPE_U4, 4, 200, 100, NULL, DOT_I8_VNNI},
        // int8 weights: memory limits float products too, so integers gain nothing
        {CLATTN_TYPE_BF16, CLATTN_TYPE_I8, 1, 200, 100, NULL, 0},
        {CLATTN_TYPE_F32, CLATTN_TYPE_I8, 1, 0, 100, "linear_few_lanes : DOT_I8=1\n", DOT_I8_EMULATION},
        {CLATTN_TYPE_F32, CLATTN_TYPE_F8E4M3, 1, 200, 100, "linear_few_lanes : DOT_I8=1\n", 0},
        {CLATTN_TYPE_F32, CLATTN_TYPE_F32, 1, 200, 100, NULL, 0},
        {CLATTN_TYPE_F32, CLATTN_TYPE_Q4_0, 1, 200, 100, "linear_few_lanes :\n", 0},
        {CLATTN_TYPE_F32, CLATTN_TYPE_Q4_0, 1, 200, 100, "linear_few_lanes : LANES=4 DOT_I8=1\n", 0},
        {CLATTN_TYPE_F32, CLATTN_TYPE_Q4_0, 4, 0, 100, "linear_few_lanes : DOT_I8=2\n", 0},
        {CLATTN_TYPE_F32, CLATTN_TYPE_Q4_0, 4, 0, 100, "linear_few_lanes : DOT_I8=1\n", DOT_I8_EMULATION}};
    for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) {
        clattn_capabilities cpu = device_of(1 << 20, 4096, 2);
        linear_problem p = problem_of(cases[n].rows, 576, 576, cases[n].x);
        plan_input in = {.device = &cpu, .shipped = &shipped};
        tuned_rows own;
        linear_choice c;
        char why[256];
        p.type_w = cases[n].w;
        cpu.is_gpu = false, cpu.is_cpu = true, cpu.float_vector_width = 16;
        if (cases[n].integers > 0) in.probes.proven |= 1u << PROBE_DOT_I8;
        in.probes.rate[PROBE_DOT_I8] = cases[n].integers, in.probes.rate[PROBE_FMA] = cases[n].floats;
        if (cases[n].own) ck_assert(cla_tuned_parse(cases[n].own, &own, why, sizeof why));
        if (cases[n].own) in.own = &own;
        ck_assert(cla_variant_choose_linear(&in, &p, true, &c) && c.id == KERNEL_LINEAR_FEW_LANES);
        ck_assert_msg(c.knobs.dot_i8 == cases[n].dot_i8, "case %zu: DOT_I8=%d", n, c.knobs.dot_i8);
        ck_assert_int_eq(c.column_tile, c.knobs.dot_i8 || p.rows <= 1 ? 32 : 8);
        if (cases[n].own) cla_tuned_free(&own);
    }
}
END_TEST

// Fragments of warps for 16-bit projections of many rows: used if a passed engine is not slower
// than tiles of multiply-adds. A caller's row can force them on any passed engine or on the
// emulation, except for wgmma. A row's knobs are kept if they fit.
static const struct linear_fragments_case {
    const char *own;
    float rate; // rate of NVIDIA's engine for both types; 0: not proven. Tiles have the rate 100
    int64_t rows, columns;
    int engine; // expected engine; 0: another kernel
    int row_tile, column_tile;
} linear_fragments_cases[] = {
    {NULL, 0.0f, 4096, 4096, 0, 0, 0},
    {NULL, 4000.0f, 4096, 4096, MATRIX_ENGINE_MMA, 128, 128},
    // a tile for each of the 108 compute units
    {NULL, 4000.0f, 512, 1024, MATRIX_ENGINE_MMA, 64, 64},
    {NULL, 4000.0f, 17, 77, MATRIX_ENGINE_MMA, 32, 64},
    {NULL, 4000.0f, 16, 4096, 0, 0, 0},
    {NULL, 99.0f, 4096, 4096, 0, 0, 0},
    {"linear_tiles :", 4000.0f, 4096, 4096, 0, 0, 0},
    {"linear_fragments :", 99.0f, 4096, 4096, MATRIX_ENGINE_MMA, 128, 128},
    {"linear_fragments :", 0.0f, 1, 8, MATRIX_ENGINE_EMULATION, 32, 64},
    {"linear_fragments : MATRIX_ENGINE=1 EMULATED=7", 4000.0f, 1, 8, MATRIX_ENGINE_EMULATION, 64, 64},
    {"linear_fragments : MATRIX_ENGINE=5", 4000.0f, 4096, 4096, MATRIX_ENGINE_MMA, 128,
     128}, // unsupported here: planned without the row
    {"linear_fragments : MATRIX_ENGINE=3", 0.0f, 4096, 4096, 0, 0, 0},
    {"linear_fragments : ROW_VECTORS=2 GROUP_ROWS=4", 4000.0f, 4096, 4096, MATRIX_ENGINE_MMA, 128, 128},
    {"linear_fragments : GROUP_ROWS=8 GROUP_COLUMNS=2", 4000.0f, 4096, 4096, MATRIX_ENGINE_MMA, 256, 128}};

static void check_linear_fragments(const struct linear_fragments_case *of, clattn_type type, int align) {
    clattn_capabilities gpu = device_of(48 << 10, 4096, 108);
    linear_problem p = {.type_x = type, .type_w = type, .rows = of->rows, .columns = of->columns};
    tuned_rows own = {0};
    linear_choice c;
    char why[256];
    gpu.compute_capability = 80;
    plan_input in = {.device = &gpu, .own = &own, .shipped = &shipped, .has_clblast = true};
    in.probes.rate[PROBE_TILES] = 100.0f;
    in.probes.rate[PROBE_MMA_BF16] = in.probes.rate[PROBE_MMA_F16] = of->rate;
    in.probes.proven = 1u << PROBE_TILES | (of->rate > 0.0f ? PROBES_MMA : 0);
    if (of->own) ck_assert_msg(cla_tuned_parse(of->own, &own, why, sizeof why), "%s", why);
    p.reduction = 768, p.rope_head = 64, p.align_x = 16, p.align_w = align;
    ck_assert(cla_variant_choose_linear(&in, &p, true, &c));
    const bool half = type != CLATTN_TYPE_F32, taken = c.id == KERNEL_LINEAR_FRAGMENTS;
    ck_assert_msg(taken == (half && of->engine != 0), "%s: %s", of->own, clattn_kernel_sources[c.id].name);
    if (taken) {
        ck_assert_int_eq(c.knobs.matrix_engine, of->engine);
        ck_assert_int_eq(c.row_tile, of->row_tile);
        ck_assert_int_eq(c.column_tile, of->column_tile);
        ck_assert_int_eq(c.knobs.aligned_vectors, align >= 8 ? 2 : 0);
        ck_assert_int_eq(c.knobs.rope, 1);
        ck_assert_uint_le(c.local_bytes, gpu.local_memory_bytes);
        ck_assert(!cla_variant_linear_is_open(&in, &p));
        ck_assert(cla_variant_choose_linear(&in, &p, false, &c));
    }
    cla_tuned_free(&own);
}

START_TEST(projections_on_fragments) {
    for (size_t i = 0; i < sizeof linear_fragments_cases / sizeof linear_fragments_cases[0]; i++)
        for (int type = 0; type < 3; type++)
            for (int align = 4; align <= 8; align += 4)
                check_linear_fragments(&linear_fragments_cases[i], (clattn_type)type, align);
    static const char *const refused[] = {"MATRIX_ENGINE=2", "MATRIX_ENGINE=4",
                                          "MATRIX_ENGINE=6", "MATRIX_ENGINE=1 EMULATED=4",
                                          "EMULATED=5",      "GROUP_ROWS=65536 GROUP_COLUMNS=65536",
                                          "GROUP_ROWS=9",    "CHUNK=48",
                                          "ROW_VECTORS=8",   "COLUMN_TILE=24",
                                          "COLUMN_TILE=128", "GROUP_ROWS=1 ROW_VECTORS=1"};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        tuned_rows own;
        char row[128], why[256] = "";
        snprintf(row, sizeof row, "linear_fragments : %s", refused[i]);
        ck_assert_msg(!cla_tuned_parse(row, &own, why, sizeof why) && strlen(why) > 20, "%s: '%s'", row, why);
    }
}
END_TEST

// float32 split into terms, if the call allows it: six products, or three if one side is bfloat16,
// at half of the engine's rate. Also if a row names the kernel. Never with float16, with short
// reductions, or if the call does not allow it.
static const struct linear_terms_case {
    const char *own;
    float rate; // NVIDIA's engine; tiles 100
    clattn_type x, w;
    bool split;
    int64_t reduction;
    int engine, column_tile, local_bytes;
} linear_terms_cases[] = {
    {NULL, 4000.0f, CLATTN_TYPE_F32, CLATTN_TYPE_F32, true, 768, MATRIX_ENGINE_MMA, 64, 3 * (64 + 64) * 64},
    {NULL, 4000.0f, CLATTN_TYPE_F32, CLATTN_TYPE_F32, false, 768, 0, 0, 0},
    {NULL, 4000.0f, CLATTN_TYPE_F32, CLATTN_TYPE_F32, true, 63, 0, 0, 0},
    {NULL, 4000.0f, CLATTN_TYPE_F32, CLATTN_TYPE_F16, true, 768, 0, 0, 0},
    {NULL, 4000.0f, CLATTN_TYPE_F16, CLATTN_TYPE_F32, true, 768, 0, 0, 0},
    {NULL, 4000.0f, CLATTN_TYPE_F32, CLATTN_TYPE_Q8_0, true, 768, 0, 0, 0},
    {NULL, 1201.0f, CLATTN_TYPE_F32, CLATTN_TYPE_F32, true, 768, MATRIX_ENGINE_MMA, 64, 3 * (64 + 64) * 64},
    {NULL, 1199.0f, CLATTN_TYPE_F32, CLATTN_TYPE_F32, true, 768, 0, 0, 0},
    {NULL, 601.0f, CLATTN_TYPE_F32, CLATTN_TYPE_BF16, true, 768, MATRIX_ENGINE_MMA, 64, (3 * 64 + 64) * 64},
    {NULL, 601.0f, CLATTN_TYPE_BF16, CLATTN_TYPE_F32, true, 768, MATRIX_ENGINE_MMA, 64, (64 + 3 * 64) * 64},
    {NULL, 599.0f, CLATTN_TYPE_F32, CLATTN_TYPE_BF16, true, 768, 0, 0, 0},
    {"linear_fragments :", 1.0f, CLATTN_TYPE_F32, CLATTN_TYPE_F32, true, 768, MATRIX_ENGINE_MMA, 64,
     3 * (64 + 64) * 64},
    {"linear_fragments :", 0.0f, CLATTN_TYPE_F32, CLATTN_TYPE_F32, true, 768, MATRIX_ENGINE_EMULATION, 64,
     3 * (64 + 64) * 64 + 128 * 48},
    {"linear_fragments :", 4000.0f, CLATTN_TYPE_F32, CLATTN_TYPE_F32, false, 768, 0, 0, 0}};

START_TEST(projections_in_terms) {
    for (size_t i = 0; i < sizeof linear_terms_cases / sizeof linear_terms_cases[0]; i++) {
        const struct linear_terms_case *of = &linear_terms_cases[i];
        clattn_capabilities gpu = device_of(48 << 10, 4096, 108);
        linear_problem p = {.type_x = of->x, .type_w = of->w, .rows = 4096, .columns = 4096};
        tuned_rows own = {0};
        linear_choice c;
        char why[256];
        gpu.compute_capability = 80;
        plan_input in = {.device = &gpu, .own = &own, .shipped = &shipped, .has_clblast = true};
        in.probes.rate[PROBE_TILES] = 100.0f, in.probes.rate[PROBE_MMA_BF16] = of->rate;
        in.probes.proven = 1u << PROBE_TILES | (of->rate > 0.0f ? PROBES_MMA : 0);
        if (of->own) ck_assert_msg(cla_tuned_parse(of->own, &own, why, sizeof why), "%s", why);
        p.reduction = of->reduction, p.split = of->split, p.align_x = p.align_w = 16;
        ck_assert(cla_variant_choose_linear(&in, &p, true, &c));
        const bool taken = c.id == KERNEL_LINEAR_FRAGMENTS;
        ck_assert_msg(taken == (of->engine != 0), "%zu: %s", i, clattn_kernel_sources[c.id].name);
        if (taken) {
            ck_assert_int_eq(c.knobs.bf16_terms, 3);
            ck_assert_int_eq(c.knobs.matrix_engine, of->engine);
            ck_assert_int_eq(c.column_tile, of->column_tile);
            ck_assert_uint_eq(c.local_bytes, (size_t)of->local_bytes + 128);
            ck_assert(cla_variant_choose_linear(&in, &p, false, &c) && c.id == KERNEL_LINEAR_FRAGMENTS);
        }
        cla_tuned_free(&own);
    }
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        scales_of_groups,      never_lanes,         measured_and_asked, cpus_keep_theirs,
        parameters_of_clblast, alignment,           who_projects,       dot_product,
        integer_product,       whole_heads,         integers,           projections_on_fragments,
        columns_of_one_row,    projections_in_terms};
    return PLAN_SUITE_RUN("plan_linear", tests);
}
