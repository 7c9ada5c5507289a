// test_plan_backward.c: which kernel makes gradients: by what a device has, or by a row, with tiles that fit it; and ranges of keys by
// sizes alone.
#include "args/backward_args.h"
#include "plan/absent_devices.h"
#include "plan/backward_plan.h"
#include "plan/plan_suite.h"

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

// What a kernel of one side says of itself is what its knobs make.
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

// Every device takes every head size: those whose work-items own vectors the kernel of lanes, others a tile that fits.
START_TEST(devices_take_all) {
    int others = 0, tiles = 0;
    for (int d = 0; d < absent_device_count; d++) {
        const clattn_capabilities *device = &absent_devices[d].is;
        const plan_input in = {.device = device, .shipped = &shipped};
        for (size_t i = 0; i < HEADS * HEADS; i++) {
            const problem p = problem_of(1, 4, 300, heads[i / HEADS], heads[i % HEADS]);
            // One row of keys and values, in the least local memory that OpenCL knows: 1 KiB.
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

// Tiles of registers by what the device has, and the portable kernel, which says why, where none fits.
static const struct {
    unsigned local, group,
        registers; // local memory in KiB; work-items; those that a compiled kernel allowed, 0: not known
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

// Ranges of keys cover them, are whole tiles, are more where there are few heads, and know nothing of the device's cores.
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

// A row says which kernel, and its knobs; what it cannot be is refused with its line.
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
    const problem wide = problem_of(1, 2, 200, 64, 257); // what the row's kernel cannot do the next does
    ck_assert_str_eq(choose(&wide_cpu, &own, &wide).family->name, "backward");
    cla_tuned_free(&own);
    ck_assert(!cla_tuned_parse("backward_tiles : MICRO_ROWS=6", &own, why, sizeof why));
    ck_assert(!cla_tuned_parse("backward_tiles : SUBGROUP=8", &own, why, sizeof why));
    ck_assert(!cla_tuned_parse("backward_lanes : TILE_KV=60", &own, why, sizeof why));
    ck_assert(!cla_tuned_parse("backward : TILE_KV=64", &own, why, sizeof why));
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
    const TTest *const tests[] = {devices_take_all, tiles_by_device, parts_by_sizes, rows_decide,
                                  wide_heads_refused};
    return PLAN_SUITE_RUN("plan_backward", tests);
}
