// test_plan_backward.c: which kernel computes gradients, by the device or by a tuned row, with
// tiles that fit. Ranges of keys depend only on sizes.
#include "args/backward_args.h"
#include "plan/absent_devices.h"
#include "plan/backward_plan.h"
#include "plan/plan_suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int heads[] = {1, 40, 64, 77, 128, 256, 576};
#define HEADS (sizeof heads / sizeof heads[0])

static problem problem_of(int batch, int kv_heads, int n, int d, int dv) {
    return (problem){.batch = batch,
                     .heads = 2 * kv_heads,
                     .kv_heads = kv_heads,
                     .n_q = n,
                     .n_kv = n,
                     .head_dim = d,
                     .head_dim_v = dv};
}

static backward_variant choose(const clattn_capabilities *device, const tuned_rows *own, const problem *p) {
    const plan_input in = {.device = device, .own = own, .shipped = &shipped};
    backward_variant v;
    const char *why = cla_backward_choose(&in, p, &v);
    ck_assert_msg(!why, "%s: %s", device->name, why);
    ck_assert_msg(v.why[0] != '\0', "no reason");
    return v;
}

// The work-group and local memory of a one-sided kernel follow from its knobs.
static void assert_one_side(const backward_variant *v, const problem *p) {
    const knobs *k = &v->knobs;
    if (!strcmp(v->family->name, "backward")) {
        ck_assert_int_eq(v->work_group, k->tile_q * k->row_items);
        ck_assert_int_eq(v->own_rows, k->tile_q);
        return;
    }
    const int widest = p->head_dim > p->head_dim_v ? p->head_dim : p->head_dim_v;
    ck_assert_str_eq(v->family->name, "backward_tiles");
    ck_assert_int_le(widest, 256);
    ck_assert_int_eq(v->work_group, k->group_rows * k->group_columns);
    ck_assert_int_eq(v->own_rows, k->micro_rows * k->group_rows);
    ck_assert_int_eq(v->other_rows, 4 * k->group_columns);
    ck_assert_uint_eq(v->local_bytes,
                      sizeof(float) * (size_t)BACKWARD_TILES_LOCAL_FLOATS(
                                          k->micro_rows, k->group_rows, k->group_columns, k->chunk, widest));
}

// Every device supports every head size. Devices with vector lanes use the lanes kernel, and others
// a tile that fits.
START_TEST(devices_take_all) {
    int others = 0, tiles = 0;
    for (int d = 0; d < absent_device_count; d++) {
        const clattn_capabilities *device = &absent_devices[d].is;
        const plan_input in = {.device = device, .shipped = &shipped};
        for (size_t i = 0; i < HEADS * HEADS; i++) {
            const problem p = problem_of(1, 4, 300, heads[i / HEADS], heads[i % HEADS]);
            // Skip devices whose local memory cannot hold one row of keys and values. OpenCL's
            // minimum is 1 KiB.
            if (device->local_memory_bytes < sizeof(float) * (size_t)(p.head_dim + p.head_dim_v + 8))
                continue;
            const backward_variant v = choose(device, NULL, &p);
            const bool has = cla_plan_has_lanes(&in);
            ck_assert_int_eq(!strcmp(v.family->name, "backward_lanes"), has);
            ck_assert_int_eq(v.one_pass, has);
            ck_assert_uint_le(v.local_bytes, device->local_memory_bytes);
            ck_assert_uint_le((uint64_t)v.work_group, device->max_work_group);
            if (!has) assert_one_side(&v, &p);
            tiles += !strcmp(v.family->name, "backward_tiles");
            others += !strcmp(v.family->name, "backward");
        }
    }
    const problem p = problem_of(1, 4, 300, 64, 64);
    ck_assert_str_eq(choose(&wide_cpu, NULL, &p).family->name, "backward_lanes");
    ck_assert_int_gt(others, 0);
    ck_assert_int_gt(tiles, others);
}
END_TEST

// Register tiles by device limits. If none fits, the portable kernel runs and the plan has the
// reason.
static const struct {
    unsigned local, group,
        // local memory in KiB; work-items; work-items that a compiled kernel allowed, 0: unknown
        registers;
    int d, micro_rows, group_rows, group_columns; // 0: the portable kernel
} tiles[] = {{48, 1024, 0, 64, 8, 8, 16},   {48, 1024, 0, 128, 8, 8, 32},   {48, 1024, 0, 256, 4, 8, 32},
             {48, 1024, 0, 320, 0, 0, 0},   {32, 1024, 0, 64, 8, 8, 16},    {32, 1024, 0, 128, 8, 8, 32},
             {32, 1024, 0, 256, 4, 16, 16}, {32, 1024, 0, 320, 0, 0, 0},    {16, 64, 0, 64, 4, 8, 8},
             {16, 64, 0, 128, 4, 4, 16},    {16, 64, 0, 256, 0, 0, 0},      {16, 64, 0, 320, 0, 0, 0},
             {48, 1024, 100, 64, 4, 4, 16}, {48, 1024, 100, 128, 4, 4, 16}, {48, 1024, 20, 64, 0, 0, 0}};

START_TEST(tiles_by_device) {
    for (size_t n = 0; n < sizeof tiles / sizeof tiles[0]; n++) {
        const clattn_capabilities gpu = {.local_memory_bytes = tiles[n].local << 10,
                                         .max_work_group = tiles[n].group,
                                         .max_work_item = {1024, 1024, 64},
                                         .compute_units = 8};
        const problem p = problem_of(1, 4, 300, tiles[n].d, tiles[n].d);
        plan_input in = {.device = &gpu, .shipped = &shipped};
        in.group_limit[KERNEL_BACKWARD_TILES] = tiles[n].registers;
        backward_variant v;
        const char *why = cla_backward_choose(&in, &p, &v);
        ck_assert_msg(!why, "%s", why);
        ck_assert_uint_le(v.local_bytes, gpu.local_memory_bytes);
        ck_assert_uint_le((unsigned)v.work_group, tiles[n].group);
        assert_one_side(&v, &p);
        ck_assert_int_eq(v.knobs.micro_rows, tiles[n].micro_rows);
        ck_assert_int_eq(v.knobs.group_rows, tiles[n].group_rows);
        ck_assert_int_eq(v.knobs.group_columns, tiles[n].group_columns);
        if (!tiles[n].micro_rows)
            ck_assert_msg(strstr(v.why, tiles[n].d > 256 ? "up to 256" : "no tile of this head size"), "%s",
                          v.why);
    }
}
END_TEST

// Ranges of keys cover all keys and are whole tiles. There are more ranges with few heads. They do
// not depend on the device's core count.
START_TEST(parts_by_sizes) {
    clattn_capabilities few = wide_cpu, many = wide_cpu;
    few.compute_units = 1, many.compute_units = 128;
    int most = 0;
    for (int kv_heads = 1; kv_heads <= 64; kv_heads *= 4)
        for (int n = 0; n <= 5000; n = 2 * n + 77) {
            const problem p = problem_of(1, kv_heads, n, 64, 64);
            const backward_variant a = choose(&few, NULL, &p), b = choose(&many, NULL, &p);
            ck_assert_int_eq(a.parts, b.parts);
            ck_assert_int_eq(a.part_keys, b.part_keys);
            ck_assert_int_ge(a.parts, 1);
            ck_assert_int_ge((int64_t)a.parts * a.part_keys, n);
            if (a.parts > 1) ck_assert_int_lt((int64_t)(a.parts - 1) * a.part_keys, n);
            if (a.parts > 1) ck_assert_int_eq(a.part_keys % a.knobs.tile_kv, 0);
            if (kv_heads == 64) ck_assert_int_eq(a.parts, 1);
            most = a.parts > most ? a.parts : most;
        }
    ck_assert_int_gt(most, 1);
}
END_TEST

// A tuned row selects the kernel and its knobs. A row that the kernel cannot run is refused with
// its line.
START_TEST(rows_decide) {
    tuned_rows own;
    char why[256];
    const problem p = problem_of(1, 2, 200, 64, 64);
    ck_assert(cla_tuned_parse("backward :", &own, why, sizeof why));
    ck_assert_str_eq(choose(&wide_cpu, &own, &p).family->name, "backward");
    cla_tuned_free(&own);
    ck_assert(
        cla_tuned_parse("backward_lanes d=..64 : LANES=8 ROW_VECTORS=1 TILE_KV=64", &own, why, sizeof why));
    const backward_variant v = choose(&wide_cpu, &own, &p);
    ck_assert_str_eq(v.family->name, "backward_lanes");
    ck_assert_int_eq(v.knobs.lanes, 8);
    ck_assert_int_eq(v.knobs.tile_kv, 64);
    cla_tuned_free(&own);
    ck_assert(cla_tuned_parse("backward_tiles : MICRO_ROWS=4 GROUP_ROWS=4 GROUP_COLUMNS=8 CHUNK=16", &own,
                              why, sizeof why));
    const backward_variant small = choose(&wide_cpu, &own, &p);
    ck_assert_str_eq(small.family->name, "backward_tiles");
    ck_assert_int_eq(small.own_rows, 16);
    ck_assert_int_eq(small.knobs.chunk, 16);
    // if the row's kernel does not support a problem, the next kernel runs
    const problem wide = problem_of(1, 2, 200, 64, 257);
    ck_assert_str_eq(choose(&wide_cpu, &own, &wide).family->name, "backward");
    cla_tuned_free(&own);
    ck_assert(!cla_tuned_parse("backward_tiles : MICRO_ROWS=6", &own, why, sizeof why));
    ck_assert(!cla_tuned_parse("backward_tiles : SUBGROUP=8", &own, why, sizeof why));
    ck_assert(!cla_tuned_parse("backward_lanes : TILE_KV=60", &own, why, sizeof why));
    ck_assert(!cla_tuned_parse("backward : TILE_KV=64", &own, why, sizeof why));
}
END_TEST

// Tiles of a matrix engine, chosen like forward's: if the probe passed and they are predicted to be
// faster, or if a row names them, also emulated. They need bfloat16 q, k, v and dout, and heads of
// at most 256. With an engine or such a row, the plan says why they are not used.
static const struct tiles_case {
    const char *own;
    float rate; // GFLOP/s, 0: not proven; multiply-adds 100, dot product 200
    int engine; // expected engine; 0: another family
    const char *kernel, *why;
} tiles_cases[] = {
    {NULL, 0.0f, 0, "backward_lanes", "bfloat16 dot product"},
    {NULL, 1800.0f, MATRIX_ENGINE_AMX, "backward_matrix", "AMX, 1800 GFLOP/s"},
    {NULL, 800.0f, 0, "backward_lanes", "not backward_matrix: vectors are predicted to be faster"},
    {"backward_lanes :", 1800.0f, 0, "backward_lanes", "bfloat16 dot product"},
    {"backward :", 1800.0f, 0, "backward", "local memory"},
    {"flash_lanes :", 1800.0f, MATRIX_ENGINE_AMX, "backward_matrix", "AMX"},
    {"backward_matrix :", 0.0f, MATRIX_ENGINE_EMULATION, "backward_matrix", "a tuned row, emulated"},
    {"backward_matrix :", 100.0f, MATRIX_ENGINE_AMX, "backward_matrix", "AMX, 100 GFLOP/s"},
    {"backward_matrix : MATRIX_ENGINE=1", 1800.0f, MATRIX_ENGINE_EMULATION, "backward_matrix", "emulated"},
    {"backward_matrix : MATRIX_ENGINE=2", 0.0f, 0, "backward_lanes",
     "asks for AMX, which the device has not proven"}};

static void check_tiles(const plan_input *in, const problem *p, const char *kernel, int engine,
                        const char *text) {
    backward_variant v;
    const char *why = cla_backward_choose(in, p, &v);
    ck_assert_msg(!why && !strcmp(v.family->name, kernel), "%s: %s in place of %s", in->device->name,
                  why ? why : v.family->name, kernel);
    ck_assert_int_eq(v.knobs.matrix_engine, engine);
    ck_assert_msg(strstr(v.why, text), "%s: %s", v.why, text);
    if (v.family->id != KERNEL_BACKWARD_MATRIX) return;
    ck_assert(v.one_pass && v.work_group == 1 && v.part_keys % v.knobs.tile_kv == 0);
    // rounding must also match the passed probe
    ck_assert_int_eq(v.knobs.dot_bf16, engine == MATRIX_ENGINE_AMX);
    ck_assert(v.knobs.lanes == 16 && v.knobs.row_vectors % 2 == 0 && v.knobs.tile_kv % 32 == 0);
}

static void check_tiles_case(const struct tiles_case *c) {
    const clattn_type bf16 = CLATTN_TYPE_BF16, f32 = CLATTN_TYPE_F32;
    const bool row = c->own && strstr(c->own, "backward"), matrix = c->own && strstr(c->own, "_matrix"),
               others = !row || matrix;
    const char *const passed = c->rate > 0.0f || matrix ? "; not backward_matrix: " : "",
                      *const elsewhere = others ? "backward_lanes" : c->kernel;
    tuned_rows own = {0};
    char why[256];
    plan_input in = {.device = &wide_cpu, .own = &own, .shipped = &shipped};
    in.probes.proven = 1u << PROBE_FMA | 1u << PROBE_DOT_BF16 | (c->rate > 0.0f ? 1u << PROBE_AMX : 0u);
    in.probes.rate[PROBE_FMA] = 100.0f, in.probes.rate[PROBE_DOT_BF16] = 200.0f;
    in.probes.rate[PROBE_AMX] = c->rate;
    if (c->own) ck_assert(cla_tuned_parse(c->own, &own, why, sizeof why));
    problem p = problem_of(1, 4, 1024, 64, 80);
    p.type_q = p.type_kv = p.type_out = bf16;
    check_tiles(&in, &p, c->kernel, c->engine, c->why);
    clattn_type *const types[] = {&p.type_q, &p.type_kv, &p.type_out};
    for (int n = 0; n < 3; n++) {
        *types[n] = f32;
        check_tiles(&in, &p, elsewhere, 0, others ? passed : "");
        *types[n] = bf16;
    }
    p.head_dim = 257;
    check_tiles(&in, &p, elsewhere, 0, others ? passed : "");
    p.head_dim = 256, p.head_dim_v = 250;
    check_tiles(&in, &p, c->kernel, c->engine, c->why);
    cla_tuned_free(&own);
}

START_TEST(tiles_by_rate) {
    for (size_t i = 0; i < sizeof tiles_cases / sizeof tiles_cases[0]; i++) check_tiles_case(&tiles_cases[i]);
    static const char *const refused[] = {"TILE_KV=48",      "ROW_VECTORS=3", "KEY_BLOCK=3",   "KEY_BLOCK=12",
                                          "MATRIX_ENGINE=3", "LANES=16",      "ROW_VECTORS=10"};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        tuned_rows own;
        char row[64], why[256];
        snprintf(row, sizeof row, "backward_matrix : %s", refused[i]);
        ck_assert_msg(!cla_tuned_parse(row, &own, why, sizeof why), "%s", row);
    }
}
END_TEST

START_TEST(wide_heads_refused) {
    const plan_input in = {.device = &wide_cpu, .shipped = &shipped};
    const problem p = problem_of(1, 2, 200, 577, 64);
    backward_variant v;
    const char *why = cla_backward_choose(&in, &p, &v);
    ck_assert(why && strstr(why, "576"));
}
END_TEST

int main(void) {
    const TTest *const tests[] = {devices_take_all, tiles_by_device, parts_by_sizes,
                                  rows_decide,      tiles_by_rate,   wide_heads_refused};
    return PLAN_SUITE_RUN("plan_backward", tests);
}
