// test_plan_cascade.c: when the planner reads a shared past once for all items, on synthetic
// devices. It pays off for a long past and many items. Strides decide between the ways of folding.
// The plan must match its reason.
#include "args/args.h"
#include "plan/cascade.h"

#include "plan/plan_suite.h"

#include <string.h>

static problem decode(int batch, int group, int n_q, int prefix, int own) {
    return (problem){.batch = batch,
                     .heads = 8 * group,
                     .kv_heads = 8,
                     .n_q = n_q,
                     .n_kv = prefix + own,
                     .head_dim = 128,
                     .head_dim_v = 128,
                     .past = true,
                     .align_q = 1,
                     .align_k = 1,
                     .align_v = 1};
}

static cascade_input input(int prefix) {
    return (cascade_input){.prefix = prefix, .folds = (1u << CASCADE_ONE) - 1};
}

static cascade_plan choose(const plan_input *in, const problem *p, const cascade_input *c,
                           clattn_status want) {
    variant today;
    cascade_plan plan;
    ck_assert_int_eq(cla_variant_choose(in, p, &today), CLATTN_OK);
    ck_assert_int_eq(cla_cascade_choose(in, p, c, &today, &plan), want);
    ck_assert_int_eq(plan.on, plan.why == NULL);
    return plan;
}

static void assert_says(const cascade_plan *plan, const char *words) {
    char why[256] = "decode: x";
    cla_cascade_explain(plan, why, sizeof why);
    ck_assert_msg(strncmp(why, "decode: x; ", 11) == 0 && strstr(why, words), "%s", why);
}

// A longer past is never worth less. A few keys are not worth a cascade. Thousands of keys are, if
// many items share them.
START_TEST(worth) {
    const plan_input in = {.device = &wide_cpu, .shipped = &shipped};
    for (int group = 1; group <= 4; group *= 2)
        for (int batch = 2; batch <= 32; batch *= 2) {
            bool before = false;
            for (int prefix = 16; prefix <= 1 << 16; prefix *= 2) {
                const problem p = decode(batch, group, 1, prefix, 100);
                const cascade_input c = input(prefix);
                const cascade_plan plan = choose(&in, &p, &c, CLATTN_OK);
                ck_assert_msg(plan.on >= before, "%d items, %d keys", batch, prefix);
                before = plan.on;
                if (prefix <= 32) ck_assert(!plan.on);
                if (prefix >= 4096 && batch >= 8) ck_assert(plan.on);
                assert_says(&plan, plan.on ? "shared keys are read" : "each item reads the shared past: ");
            }
        }
}
END_TEST

// The plan: the past in batches of key/value heads, then own keys, and room for all partial
// results.
START_TEST(launches) {
    const plan_input in = {.device = &wide_cpu, .shipped = &shipped};
    const problem p = decode(16, 4, 1, 2048, 128);
    const cascade_input c = input(2048);
    const cascade_plan plan = choose(&in, &p, &c, CLATTN_OK);
    ck_assert(plan.on && plan.has_suffix);
    ck_assert_str_eq(plan.of_prefix.family->name, "decode_rows");
    ck_assert_str_eq(plan.of_suffix.family->name, "decode_lanes");
    ck_assert(plan.times == 1 && plan.times_before == 16);
    ck_assert_uint_eq(plan.of_prefix.groups[2], 8);
    ck_assert(!plan.of_prefix.knobs.past && !plan.of_suffix.knobs.past);
    ck_assert_int_eq(plan.of_prefix.knobs.type_out, CLATTN_TYPE_F32);
    const uint64_t splits = (uint64_t)plan.of_prefix.splits + (uint64_t)plan.of_suffix.splits, rows = 16 * 32;
    ck_assert_uint_eq(plan.partial_lse, splits * rows * 128 * 4);
    ck_assert_uint_eq(plan.partial_bytes, splits * rows * 130 * 4);
    ck_assert_uint_ge(plan.workspace_bytes, plan.partial_bytes);
    assert_says(&plan, "2048 shared keys are read 1 times by decode_rows, not 16");
}
END_TEST

// Every way of folding covers all rows, whichever axes become heads and rows. If strides allow
// none, the plan says so.
START_TEST(folds) {
    const plan_input in = {.device = &wide_cpu, .shipped = &shipped};
    for (int fold = 0; fold < CASCADE_FOLDS; fold++)
        for (int n_q = 1; n_q <= 64; n_q *= 4) {
            problem p = decode(4, 2, n_q, 4096, 64);
            cascade_input c = input(4096);
            if (fold == CASCADE_ONE) p.kv_heads = 1, p.heads = 2;
            c.folds = 1u << fold, c.asked = CLATTN_CASCADE_ALWAYS;
            const problem m = cla_cascade_prefix(&p, &c, (cascade_fold)fold);
            ck_assert_int_eq(m.batch * m.heads * m.n_q, p.batch * p.heads * p.n_q);
            ck_assert_int_eq(m.kv_heads, 1);
            const cascade_plan plan = choose(&in, &p, &c, CLATTN_OK);
            ck_assert_int_eq(plan.fold, fold);
        }
    const problem p = decode(4, 2, 1, 4096, 64);
    cascade_input c = input(4096);
    c.folds = 0;
    cascade_plan plan = choose(&in, &p, &c, CLATTN_OK);
    assert_says(&plan, "strides");
    c.asked = CLATTN_CASCADE_ALWAYS;
    plan = choose(&in, &p, &c, CLATTN_UNSUPPORTED);
    c.folds = 1, c.refusal = "for a reason";
    plan = choose(&in, &p, &c, CLATTN_UNSUPPORTED);
    assert_says(&plan, "for a reason");
}
END_TEST

// Many rows per item fill tiles anyway, so a cascade gains nothing.
START_TEST(many_rows) {
    const plan_input in = {.device = &wide_cpu, .shipped = &shipped};
    const problem p = decode(8, 1, 960, 2048, 960);
    const cascade_input c = input(2048);
    const cascade_plan plan = choose(&in, &p, &c, CLATTN_OK);
    ck_assert(!plan.on);
    assert_says(&plan, plan.times < plan.times_before ? "costs less than" : "read as often");
}
END_TEST

int main(void) {
    const TTest *const tests[] = {worth, launches, folds, many_rows};
    return PLAN_SUITE_RUN("plan_cascade", tests);
}
