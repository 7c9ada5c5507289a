// test_plan_rows.c: plans of decode_rows on a synthetic CPU, for many query rows on one key/value
// head, with every score option. Tiles use no more lanes and memory than the rows need. Other
// families are in test_plan.c.
#include "args/args.h"

#include "plan/plan_suite.h"

#include <stdio.h>
#include <string.h>

static problem latent(int heads, int n_q, int n_kv) {
    return (problem){.batch = 1,
                     .heads = heads,
                     .kv_heads = 1,
                     .n_q = n_q,
                     .n_kv = n_kv,
                     .head_dim = 576,
                     .head_dim_v = 512,
                     .shared_kv = true,
                     .align_q = 1,
                     .align_k = 1,
                     .align_v = 1};
}

static variant plan(const plan_input *in, const problem *p) {
    variant v;
    ck_assert_int_eq(cla_variant_choose(in, p, &v), CLATTN_OK);
    return v;
}

// From sixteen rows on, with any score option and dropout. Fewer rows and ragged batches use
// decode_lanes.
START_TEST(who_takes_it) {
    const plan_input in = {.device = &wide_cpu, .shipped = &shipped};
    problem p = latent(16, 1, 4096);
    ck_assert_str_eq(plan(&in, &p).family->name, "decode_rows");
    ck_assert_int_eq(plan(&in, &p).knobs.shared_kv, 1);
    for (int ops = 1; ops <= ARGS_SCORE_OPS; ops *= 2) {
        if (!(ops & ARGS_SCORE_OPS)) continue;
        p.score_ops = ops, p.dropout = !p.dropout;
        ck_assert_str_eq(plan(&in, &p).family->name, "decode_rows");
        ck_assert_int_eq(plan(&in, &p).knobs.score_ops, ops & ~ARGS_BLOCKS);
    }
    p.ragged = true, p.packed_rows = 1;
    ck_assert_str_eq(plan(&in, &p).family->name, "decode_lanes");
    p = latent(15, 1, 4096);
    ck_assert_str_eq(plan(&in, &p).family->name, "decode_lanes");
    p.n_q = 2, p.shared_kv = false;
    ck_assert_str_eq(plan(&in, &p).family->name, "decode_rows");
    ck_assert_int_eq(plan(&in, &p).knobs.shared_kv, 0);
    p.wants_weights = true;
    ck_assert_str_eq(plan(&in, &p).family->name, "flash_lanes");
}
END_TEST

// Every row is in a tile, no vector is unused, and a work-item's memory stays within its limit.
START_TEST(shapes) {
    const plan_input in = {.device = &wide_cpu, .shipped = &shipped};
    for (int n_q = 1; n_q <= 8; n_q++)
        for (int heads = 16; heads <= 300; heads += 7) {
            const problem p = latent(heads, n_q, 4096);
            const variant v = plan(&in, &p);
            const int lane_rows = v.knobs.lanes * v.knobs.row_vectors, all = heads * n_q;
            ck_assert_str_eq(v.family->name, "decode_rows");
            ck_assert_int_eq(v.knobs.tile_q % lane_rows, 0);
            ck_assert_int_eq(v.rows_per_group, v.knobs.tile_q);
            ck_assert_int_le(v.knobs.tile_q, 128);
            ck_assert_int_lt((v.knobs.row_vectors - 1) * v.knobs.lanes, all);
            ck_assert_uint_ge(v.groups[1] * (size_t)v.knobs.tile_q, (size_t)all);
            ck_assert_uint_lt((v.groups[1] - 1) * (size_t)v.knobs.tile_q, (size_t)all);
            ck_assert_int_eq(v.knobs.tile_kv % v.knobs.key_block, 0);
        }
}
END_TEST

// A small call is cut into tiles until each compute unit has one.
START_TEST(many_units) {
    clattn_capabilities many = wide_cpu;
    const plan_input in = {.device = &many, .shipped = &shipped};
    const problem p = latent(128, 1, 512);
    ck_assert_int_eq(plan(&in, &p).knobs.tile_q, 128);
    many.compute_units = 64;
    ck_assert_int_eq(plan(&in, &p).knobs.tile_q, 32);
}
END_TEST

// If the kernel has lanes, the plan says how the caller's expressions run: as vectors, or why lane
// by lane.
START_TEST(expressions) {
    static const clattn_capabilities no_cpu = {
        .max_work_group = 256, .local_memory_bytes = 32768, .compute_units = 8};
    const plan_input in = {.device = &wide_cpu, .shipped = &shipped},
                     other = {.device = &no_cpu, .shipped = &shipped};
    for (int ops = 1; ops <= ARGS_SCORE_OPS; ops *= 2) {
        problem p = latent(16, 1, 4096);
        char why[256];
        p.score_ops = ops & ARGS_SCORE_OPS;
        variant v = plan(&in, &p);
        for (int scalar = 0; scalar < 2; scalar++) {
            p.lane_by_lane[0] = p.lane_by_lane[1] = scalar ? "not known in vectors: 'fma'" : NULL;
            const char *const how = scalar ? "lane by lane (not known in vectors: 'fma'), " : "in vectors, ";
            char words[2][96];
            snprintf(words[0], sizeof words[0], "score_mod %s", how);
            snprintf(words[1], sizeof words[1], "mask_mod %s", how);
            cla_variant_explain(&in, &p, &v, why);
            ck_assert_msg((strstr(why, words[0]) != NULL) == (ops == ARGS_SCORE_MOD), "%s", why);
            ck_assert_msg((strstr(why, words[1]) != NULL) == (ops == ARGS_MASK_MOD), "%s", why);
        }
        p = (problem){
            .batch = 1, .heads = 2, .kv_heads = 2, .n_q = 64, .n_kv = 64, .head_dim = 64, .head_dim_v = 64};
        p.score_ops = ops & ARGS_SCORE_OPS;
        p.lane_by_lane[0] = p.lane_by_lane[1] = "some reason";
        v = plan(&other, &p);
        cla_variant_explain(&other, &p, &v, why);
        ck_assert_msg(strstr(why, "_mod") == NULL, "%s", why);
    }
}
END_TEST

START_TEST(refused_rows) {
    static const char *const rows[][2] = {{"decode_rows : LANES=5", "LANES"},
                                          {"decode_rows : ROW_VECTORS=9", "ROW_VECTORS"},
                                          {"decode_rows : KEY_BLOCK=33 TILE_KV=33", "KEY_BLOCK"},
                                          {"decode_rows : KEY_BLOCK=8 TILE_KV=60", "TILE_KV"},
                                          {"decode_rows : KEY_BLOCK=8", "TILE_KV"},
                                          {"decode_rows : KEY_BLOCK=4 TILE_KV=65536", "65536"},
                                          {"decode_rows : SHARED_KV=1", "not a row"}};
    for (size_t n = 0; n < sizeof rows / sizeof rows[0]; n++) {
        tuned_rows own;
        char why[256];
        ck_assert_msg(!cla_tuned_parse(rows[n][0], &own, why, sizeof why), "%s is taken", rows[n][0]);
        ck_assert_msg(strstr(why, rows[n][1]) != NULL, "%s: %s", rows[n][0], why);
    }
}
END_TEST

int main(void) {
    const TTest *const tests[] = {who_takes_it, shapes, many_units, expressions, refused_rows};
    return PLAN_SUITE_RUN("plan_rows", tests);
}
