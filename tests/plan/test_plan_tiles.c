// test_plan_tiles.c: the tile of flash_tiles on absent devices, by their limits, by the compiled
// kernel's limit, and by the alignment of rows. The order of families is in test_plan.c.
#include "args/args.h"
#include "probe/subgroups.h"
#include "plan/plan_suite.h"

#include <check.h>
#include <string.h>

static tuned_rows none;
static const int heads[] = {1, 5, 32, 40, 64, 80, 96, 128, 192, 256};
#define HEADS (sizeof heads / sizeof heads[0])

static problem make_problem(int n, int d, int dv) {
    return (problem){.batch = 1,
                     .heads = 8,
                     .kv_heads = 8,
                     .n_q = n,
                     .n_kv = n,
                     .head_dim = d,
                     .head_dim_v = dv,
                     .kernel = CLATTN_KERNEL_FLASH};
}

static const clattn_capabilities *sized_gpu(int kib, int items) {
    static clattn_capabilities gpu;
    gpu = (clattn_capabilities){.is_gpu = true, .compute_units = 8, .float_vector_width = 1};
    gpu.local_memory_bytes = (uint64_t)kib << 10;
    gpu.max_work_group = gpu.max_work_item[0] = (uint64_t)items;
    return &gpu;
}

static variant choose(const clattn_capabilities *gpu, const problem *p, int learned) {
    plan_input in = {.device = gpu, .shipped = &none};
    variant v;
    in.group_limit[KERNEL_FLASH_TILES] = (uint32_t)learned;
    ck_assert_int_eq(cla_variant_choose(&in, p, &v), CLATTN_OK);
    return v;
}

// Fail if the kernel's own #error checks or the device's limits exclude the tile.
static void check_tile(const variant *v, const clattn_capabilities *gpu, const problem *p) {
    const knobs *k = &v->knobs;
    ck_assert_int_eq(v->family->id, KERNEL_FLASH_TILES);
    ck_assert_uint_le(v->local_bytes, gpu->local_memory_bytes);
    ck_assert_uint_le((uint64_t)v->work_group, gpu->max_work_group);
    ck_assert_int_eq(v->work_group, k->group_rows * k->group_columns);
    ck_assert_int_eq(v->rows_per_group, k->micro_rows * k->group_rows);
    ck_assert_int_le(v->rows_per_group, v->work_group);
    ck_assert_uint_eq(v->local_bytes,
                      sizeof(float) * (size_t)FLASH_TILES_LOCAL_FLOATS(
                                          k->micro_rows, k->group_rows, k->group_columns, k->chunk,
                                          p->head_dim_v, FLASH_TILES_LINES(k->group_columns, k->subgroup)));
    ck_assert_int_le(FLASH_TILES_QUADS(k->group_columns, p->head_dim_v), 8);
}

// 16 KiB and 64 work-items are enough for a tile of any head size.
START_TEST(tiles_fit_small_devices) {
    static const int kib[] = {16, 32, 48, 64, 128}, items[] = {64, 128, 256, 1024},
                     rows[] = {9, 17, 33, 100, 4096};
    for (int i = 0; i < 5 * 4 * 5; i++)
        for (size_t n = 0; n < HEADS * HEADS; n++) {
            const problem p = make_problem(rows[i % 5], heads[n / HEADS], heads[n % HEADS]);
            const clattn_capabilities *gpu = sized_gpu(kib[i / 5 % 5], items[i / 25]);
            const variant v = choose(gpu, &p, 0);
            check_tile(&v, gpu, &p);
            if (p.n_q < 32) ck_assert_int_lt(v.rows_per_group, 2 * p.n_q);
        }
    // A head too wide for a work-item's registers, and too little local memory for any tile.
    const problem wide = make_problem(100, 64, 513), narrow = make_problem(100, 64, 64);
    ck_assert_int_eq(choose(sized_gpu(64, 256), &wide, 0).family->id, KERNEL_FLASH);
    ck_assert_int_eq(choose(sized_gpu(4, 64), &narrow, 0).family->id, KERNEL_FLASH);
}
END_TEST

// Latents have 576 numbers, of which 512 are values. Their tile needs 48 KiB and must stay in
// registers. Rows are processed in groups of eight.
START_TEST(latents) {
    static const struct {
        int kib, n_q, heads, rows;
        enum kernel_id id;
    } wants[] = {{48, 1, 128, 64, KERNEL_DECODE_TILES}, {48, 1, 16, 16, KERNEL_DECODE_TILES},
                 {48, 2, 16, 32, KERNEL_DECODE_TILES},  {48, 1, 15, 4, KERNEL_DECODE_GROUPS},
                 {32, 1, 128, 4, KERNEL_DECODE_GROUPS}, {48, 300, 16, 64, KERNEL_FLASH_TILES},
                 {32, 300, 16, 0, KERNEL_FLASH}};
    for (size_t i = 0; i < sizeof wants / sizeof wants[0]; i++) {
        problem p = make_problem(wants[i].n_q, 576, 512);
        p.n_kv = 4096;
        p.heads = wants[i].heads, p.kv_heads = 1, p.kernel = CLATTN_KERNEL_AUTO;
        p.type_q = p.type_kv = CLATTN_TYPE_BF16, p.align_q = p.align_k = p.align_v = 8;
        const variant v = choose(sized_gpu(wants[i].kib, 256), &p, 0);
        ck_assert_int_eq(v.family->id, wants[i].id);
        if (wants[i].rows) ck_assert_int_eq(v.rows_per_group, wants[i].rows);
        if (wants[i].id == KERNEL_DECODE_TILES) {
            ck_assert_int_eq(v.knobs.aligned_vectors, 2);
            ck_assert_uint_eq(v.groups[0], (uint64_t)v.splits *
                                               (uint64_t)((wants[i].heads * p.n_q + v.rows_per_group - 1) /
                                                          v.rows_per_group));
            ck_assert_uint_eq(v.groups[1], 1);
            p.score_ops = ARGS_MASK;
            ck_assert_int_eq(choose(sized_gpu(48, 256), &p, 0).family->id, KERNEL_DECODE_GROUPS);
        }
    }
}
END_TEST

// Tiles by local memory, work-items and registers. Half the rows if the compiled kernel allowed
// fewer work-items.
START_TEST(tiles_by_limits) {
    static const struct {
        int kib, items, learned, n, dv, rows, columns, micro_rows;
    } wants[] = {
        {64, 256, 0, 1024, 64, 128, 16, 8},  {48, 256, 0, 1024, 64, 64, 16, 8},
        {32, 1024, 0, 1024, 128, 64, 16, 8}, {32, 256, 0, 1024, 256, 64, 16, 4},
        {16, 256, 0, 1024, 64, 64, 8, 8},    {32, 64, 0, 1024, 64, 64, 8, 8},
        {32, 256, 128, 1024, 64, 32, 16, 4}, {32, 256, 64, 1024, 64, 16, 16, 4},
        {48, 256, 0, 30, 64, 32, 16, 4},     {48, 256, 0, 10, 64, 16, 16, 4},
    };
    for (size_t i = 0; i < sizeof wants / sizeof wants[0]; i++) {
        const clattn_capabilities *gpu = sized_gpu(wants[i].kib, wants[i].items);
        const problem p = make_problem(wants[i].n, 64, wants[i].dv);
        const variant v = choose(gpu, &p, wants[i].learned);
        check_tile(&v, gpu, &p);
        ck_assert_msg(v.rows_per_group == wants[i].rows && v.knobs.group_columns == wants[i].columns &&
                          v.knobs.micro_rows == wants[i].micro_rows,
                      "%d: %d rows, %d columns, %d", (int)i, v.rows_per_group, v.knobs.group_columns,
                      v.knobs.micro_rows);
        if (wants[i].learned) ck_assert_int_le(v.work_group, wants[i].learned);
    }
}
END_TEST

// If the device can compile for a sub-group size, work-items have the registers of the smallest
// size. Tiles then have 4 rows, and a kernel without sub-groups requests that size. Sub-groups of 8
// have narrow tiles, for up to 96 columns.
START_TEST(tiles_by_registers) {
    static const struct {
        unsigned sizes, proven;
        int dv, micro_rows, columns, subgroup, asked;
    } wants[] = {
        {0, 0, 64, 8, 16, 0, 0},
        {8 | 16, 0, 64, 4, 16, 0, 8},
        {16 | 32, 0, 64, 4, 16, 0, 16},
        {16 | 32, 16, 64, 4, 16, 16, 0},
        {8 | 16, 8 | 16, 64, 4, 8, 8, 0},
        {8 | 16, 8 | 16, 96, 4, 8, 8, 0},
        {8 | 16, 8 | 16, 128, 4, 16, 0, 8},
        {8 | 16, 16, 64, 4, 16, 0, 8},
        {16 | 32, 16 | 32, 128, 4, 16, 16, 0},
    };
    for (size_t i = 0; i < sizeof wants / sizeof wants[0]; i++) {
        clattn_capabilities gpu = *sized_gpu(64, 1024);
        gpu.subgroups = true, gpu.subgroup_sizes = wants[i].sizes;
        gpu.subgroup_ways = CLATTN_SUBGROUPS_INTEL | (wants[i].sizes ? CLATTN_SUBGROUPS_SIZE_INTEL : 0);
        plan_input in = {.device = &gpu, .shipped = &none};
        for (int size = 8; size <= 64; size *= 2)
            if (wants[i].proven & (unsigned)size) in.probes.proven |= 1u << cla_subgroup_probe(size);
        const problem p = make_problem(1024, 64, wants[i].dv);
        variant v;
        ck_assert_int_eq(cla_variant_choose(&in, &p, &v), CLATTN_OK);
        check_tile(&v, &gpu, &p);
        ck_assert_msg(v.knobs.micro_rows == wants[i].micro_rows &&
                          v.knobs.group_columns == wants[i].columns &&
                          v.knobs.subgroup == wants[i].subgroup && v.knobs.subgroup_asked == wants[i].asked,
                      "%d: %d rows, %d columns, sub-groups of %d, asked for %d", (int)i, v.knobs.micro_rows,
                      v.knobs.group_columns, v.knobs.subgroup, v.knobs.subgroup_asked);
    }
}
END_TEST

// After register spills the planner uses fewer sums for the same head size. A head size whose tile
// already has fewer sums keeps it.
START_TEST(tiles_by_spills) {
    static const struct {
        unsigned spilled;
        int dv, micro_rows, sums;
    } wants[] = {{0, 128, 8, 96}, {96, 128, 4, 48}, {96, 64, 8, 64},
                 {64, 64, 4, 32}, {32, 64, 4, 0},   {80, 256, 4, 0}};
    for (size_t i = 0; i < sizeof wants / sizeof wants[0]; i++) {
        const clattn_capabilities *gpu = sized_gpu(48, 256);
        plan_input in = {.device = gpu, .shipped = &none};
        const problem p = make_problem(1024, 64, wants[i].dv);
        variant v;
        in.spilled_sums = wants[i].spilled;
        ck_assert_int_eq(cla_variant_choose(&in, &p, &v), CLATTN_OK);
        check_tile(&v, gpu, &p);
        ck_assert_msg(v.knobs.micro_rows == wants[i].micro_rows && v.sums == wants[i].sums,
                      "%d: %d rows, %d sums", (int)i, v.knobs.micro_rows, v.sums);
    }
}
END_TEST

// Rows are read in groups of four or eight if q, k and v are aligned. The plan says which.
START_TEST(tiles_by_alignment) {
    for (int i = 0; i < 8; i++) {
        problem p = make_problem(100, 64, 64);
        char why[256];
        const clattn_capabilities *gpu = sized_gpu(32, 256);
        const plan_input in = {.device = gpu, .shipped = &none};
        p.align_q = i & 1 ? 4 : 2, p.align_k = i & 2 ? 16 : 1, p.align_v = i & 4 ? 8 : 2;
        const variant v = choose(gpu, &p, 0);
        cla_variant_explain(&in, &p, &v, why);
        ck_assert_int_eq(v.knobs.aligned_vectors, i == 7);
        ck_assert_msg((strstr(why, "by fours") != NULL) == (i == 7), "%s", why);
    }
    // 8-bit and 16-bit types in groups of eight, if rows are aligned.
    for (int i = 0; i < 16; i++) {
        problem p = make_problem(100, 64, 64);
        char why[256];
        const clattn_capabilities *gpu = sized_gpu(32, 256);
        const plan_input in = {.device = gpu, .shipped = &none};
        static const clattn_type types[] = {CLATTN_TYPE_F32, CLATTN_TYPE_F16, CLATTN_TYPE_BF16,
                                            CLATTN_TYPE_I8};
        p.type_kv = types[i / 4], p.align_q = i & 1 ? 8 : 4, p.align_k = 16, p.align_v = i & 2 ? 8 : 4;
        const variant v = choose(gpu, &p, 0);
        cla_variant_explain(&in, &p, &v, why);
        ck_assert_int_eq(v.knobs.aligned_vectors, i / 4 && i % 4 == 3 ? 2 : 1);
        ck_assert_msg(strstr(why, v.knobs.aligned_vectors == 2 ? "by eights" : "by fours") != NULL, "%s",
                      why);
    }
}
END_TEST

// Every set of sub-group sizes that a probe may find, in every spelling. The plan uses a probed
// size in which the work-items of a row are neighbours. Whole rows share a sub-group only if the
// device has shuffles. Otherwise the tile uses no sub-groups.
START_TEST(subgroups_of_every_size) {
    static const unsigned ways[] = {SUBGROUPS_KHR, SUBGROUPS_INTEL, SUBGROUPS_KHR | SUBGROUPS_SHUFFLE_KHR,
                                    SUBGROUPS_KHR | SUBGROUPS_SHUFFLE_QCOM};
    const unsigned shuffles = SUBGROUPS_INTEL | SUBGROUPS_SHUFFLE_KHR | SUBGROUPS_SHUFFLE_QCOM;
    int taken[65] = {0};
    for (unsigned set = 0; set < 16; set++)
        for (int i = 0; i < 4 * 4 * 3; i++) {
            static const int kib[] = {16, 32, 64}, items[] = {64, 128, 256, 1024};
            clattn_capabilities gpu = *sized_gpu(kib[i / 16], items[i / 4 % 4]);
            const problem p = make_problem(300, 64, 64);
            plan_input in = {.device = &gpu, .shipped = &none};
            variant v, without;
            strcpy(gpu.version, "OpenCL 3.0");
            gpu.subgroups = true, gpu.subgroup_ways = ways[i % 4];
            ck_assert_int_eq(cla_variant_choose(&in, &p, &without), CLATTN_OK);
            for (int n = 0; n < 4; n++)
                if (set >> n & 1u) in.probes.proven |= 1u << cla_subgroup_probe(8 << n);
            ck_assert_int_eq(cla_variant_choose(&in, &p, &v), CLATTN_OK);
            check_tile(&v, &gpu, &p);
            const int size = v.knobs.subgroup, columns = v.knobs.group_columns;
            taken[size]++;
            if (size == 0) {
                ck_assert_str_eq(v.family->name, "flash_tiles");
                ck_assert(memcmp(&v.knobs, &without.knobs, sizeof v.knobs) == 0);
                ck_assert_msg(!set || !(ways[i % 4] & shuffles), "set %u, device %d", set, i);
                continue;
            }
            ck_assert_str_eq(v.family->name, "flash_subgroups");
            ck_assert_msg(set & (unsigned)size / 8, "a size of %d was not probed", size);
            ck_assert_msg(v.work_group % size == 0 && size >= columns && size % columns == 0, "%d for %d",
                          size, columns);
            ck_assert(size == columns || ways[i % 4] & shuffles);
            ck_assert_ptr_nonnull(v.options);
        }
    ck_assert(taken[0] && taken[8] && taken[16] && taken[32] && taken[64]);
}
END_TEST

// A row can switch sub-groups off, as `clattn tune` may find.
START_TEST(a_row_leaves_subgroups_alone) {
    clattn_capabilities gpu = *sized_gpu(32, 256);
    const problem p = make_problem(300, 64, 64);
    tuned_rows own;
    char why[256];
    variant v;
    strcpy(gpu.version, "OpenCL 3.0");
    gpu.subgroups = true, gpu.subgroup_ways = SUBGROUPS_INTEL;
    for (int n = 0; n < 2; n++) {
        ck_assert(cla_tuned_parse(n ? "flash_tiles : SUBGROUP=1" : "flash_tiles : SUBGROUP=16", &own, why,
                                  sizeof why));
        plan_input in = {.device = &gpu, .own = &own, .shipped = &none, .probes.proven = PROBES_SUBGROUPS};
        ck_assert_int_eq(cla_variant_choose(&in, &p, &v), CLATTN_OK);
        ck_assert_str_eq(v.family->name, n ? "flash_tiles" : "flash_subgroups");
        cla_tuned_free(&own);
    }
}
END_TEST

int main(void) {
    const TTest *const tests[] = {tiles_fit_small_devices, latents,
                                  tiles_by_limits,         tiles_by_registers,
                                  tiles_by_spills,         tiles_by_alignment,
                                  subgroups_of_every_size, a_row_leaves_subgroups_alone};
    return PLAN_SUITE_RUN("plan_tiles", tests);
}
