// test_plan_linear_attention.c: which kernel computes linear attention on synthetic devices. Lanes
// need a CPU with vectors. A work-item has as many columns as keep every core busy, and its part of
// the state fits the first-level cache.
#include "plan/linear_attention_plan.h"

#include <check.h>
#include <string.h>

static linear_attention_plan plan_of(bool is_cpu, int lanes, int64_t units, int64_t sequences, int64_t heads,
                                     int64_t dk, int64_t dv) {
    const linear_attention_problem p = {.is_cpu = is_cpu,
                                        .lanes = lanes,
                                        .compute_units = units,
                                        .sequences = sequences,
                                        .heads = heads,
                                        .head_dim = dk,
                                        .head_dim_v = dv};
    linear_attention_plan plan;
    cla_plan_linear_attention(&p, &plan);
    ck_assert_int_eq(plan.knobs.head_dim, (int)dk);
    ck_assert(plan.why[0]);
    return plan;
}

static const struct {
    int lanes, units, sequences, heads, dk, dv, vectors;
    const char *why;
} cpus[] = {
    {8, 2, 1, 16, 128, 128, 4,
     "a CPU with vectors of 8 floats: 32 columns of a head's state a work-item, 64 work-items"},
    // 64 columns of 128 rows would be 32 KiB.
    {16, 2, 1, 16, 128, 128, 2, "vectors of 16 floats: 32 columns"},
    {4, 2, 1, 16, 128, 128, 4, "vectors of 4 floats: 16 columns of a head's state a work-item, 128"},
    // Few heads on many cores.
    {8, 32, 1, 4, 128, 128, 2, "16 columns of a head's state a work-item, 32 work-items"},
    {8, 64, 1, 4, 128, 128, 1, "8 columns"},
    {8, 64, 16, 4, 128, 128, 4, "32 columns"},
    // A long key.
    {8, 2, 1, 16, 576, 128, 1, "8 columns"},
    {8, 2, 1, 16, 200, 128, 2, "16 columns"},
};

START_TEST(on_cpus) {
    const linear_attention_plan plan = plan_of(true, cpus[_i].lanes, cpus[_i].units, cpus[_i].sequences,
                                               cpus[_i].heads, cpus[_i].dk, cpus[_i].dv);
    ck_assert_int_eq(plan.id, KERNEL_LINEAR_ATTENTION_LANES);
    ck_assert_int_eq(plan.knobs.lanes, cpus[_i].lanes);
    ck_assert_int_eq(plan.knobs.row_vectors, cpus[_i].vectors);
    ck_assert_int_eq(plan.group, 0);
    ck_assert_msg(strstr(plan.why, cpus[_i].why), "%s", plan.why);
}
END_TEST

START_TEST(elsewhere) {
    const linear_attention_plan gpu = plan_of(false, 0, 132, 1, 16, 128, 128);
    ck_assert_int_eq(gpu.id, KERNEL_LINEAR_ATTENTION);
    ck_assert_int_eq(gpu.knobs.row_items, 4);
    ck_assert_int_eq(gpu.group, 64);
    ck_assert_str_eq(gpu.why, "not a CPU: 4 work-items for each column of a head's state");
    const linear_attention_plan scalar = plan_of(true, 0, 4, 1, 16, 128, 128);
    ck_assert_int_eq(scalar.id, KERNEL_LINEAR_ATTENTION);
    ck_assert_int_eq(scalar.knobs.row_items, 1);
    ck_assert_str_eq(scalar.why,
                     "a CPU without vectors of floats: 1 work-item for each column of a head's state");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("plan_linear_attention");
    TCase *group = tcase_create("plans");
    tcase_add_loop_test(group, on_cpus, 0, (int)(sizeof cpus / sizeof cpus[0]));
    tcase_add_test(group, elsewhere);
    suite_add_tcase(suite, group);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
