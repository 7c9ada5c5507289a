// test_subgroups.c: kernels with sub-groups of each size that the device has, in each of its spellings and where no size can be
// asked for: the plan says that they are used, and results agree with the reference. The probes are test_probe.c's.
#include "case_assert.h"
#include "harness.h"

#include "core/probe.h"
#include "core/subgroups.h"

#include <stdio.h>
#include <string.h>

// Partial sums of a score that meet in a sub-group, half there and half in local memory, and of rows that are not aligned; a
// pass of two rows, with much of what can hide a key.
static const char *const cases[] = {
    "decode-f32-b1-h4-hkv1-n1-nkv150-d128-full-decode-lse",
    "decode-f16-b1-h2-hkv1-n1-nkv150-d96-full-decode-lse-splits2",
    "decode-f32-b1-h3-hkv1-n1-nkv70-d41-dv23-full-decode-padded-lse",
    "attend-bf16-b2-h2-n2-nkv90-d64-causal-decode-lse-window40:m1-maskqk-sinks-kvlen90:33-hiddennan",
};

static const unsigned spellings[] = {
    ~0u,
    ~CLATTN_SUBGROUPS_INTEL,
    ~(CLATTN_SUBGROUPS_INTEL | CLATTN_SUBGROUPS_SHUFFLE_KHR),
    ~(CLATTN_SUBGROUPS_INTEL | CLATTN_SUBGROUPS_SIZE_INTEL),
};

static void run(clattn_context *c, const char *name, const char *word) {
    struct test_case test;
    struct place place = *harness_place();
    struct case_arrays arrays;
    clattn_plan plan;
    char why[512] = "";
    ck_assert_msg(case_parse(name, &test, why), "%s: %s", name, why);
    struct case_data *data = case_make(&test);
    place.context = c;
    case_bind(data, &place, &arrays);
    ck_assert_int_eq(clattn_attention_plan(c, &arrays.params, &plan), CLATTN_OK);
    case_unbind(&arrays);
    ck_assert_msg(strstr(plan.why, word), "%s: %s", name, plan.why);
    struct case_result got = case_execute(data, &place);
    const bool good = case_agrees(data, &got, why, sizeof why);
    case_result_free(&got);
    case_free(data);
    ck_assert_msg(good, "%s: %s: %s", name, plan.why, why);
}

START_TEST(each_size_and_spelling) {
    const clattn_capabilities *device = clattn_context_capabilities(harness()->context);
    const unsigned ways = device->subgroup_ways & spellings[_i];
    int sized = 0;
    // Every size in the first spelling; in the others one tells as much.
    for (int size = 8; size <= 64 && !(_i > 0 && sized > 0); size *= 2) {
        char row[64], word[32];
        snprintf(row, sizeof row, "decode_groups : SUBGROUP=%d", size);
        snprintf(word, sizeof word, "sub-groups of %d", size);
        if (!(ways & (CLATTN_SUBGROUPS_KHR | CLATTN_SUBGROUPS_INTEL))) continue;
        if (ways & CLATTN_SUBGROUPS_SIZE_INTEL && !(device->subgroup_sizes & (unsigned)size)) continue;
        const clattn_context_params params = {.device = harness()->device,
                                              .context = harness()->opencl,
                                              .log = harness_log(),
                                              .tuned_rows = row};
        clattn_context *c = NULL;
        ck_assert_int_eq(clattn_context_create(&params, &c), CLATTN_OK);
        c->capabilities.subgroup_ways = ways;
        // Where no size can be asked for, the compiler's choice is found by the probes.
        const bool proven = cla_probe_results(c, PROBES_SUBGROUPS).proven >> cla_subgroup_probe(size) & 1u;
        if (ways & CLATTN_SUBGROUPS_SIZE_INTEL) ck_assert(proven);
        sized += proven;
        for (size_t n = 0; proven && n < sizeof cases / sizeof cases[0]; n++) run(c, cases[n], word);
        clattn_context_destroy(c);
    }
    printf("spelling %#x: %d sizes\n", ways, sized);
}
END_TEST

int main(void) {
    const TTest *const none[] = {NULL};
    Suite *suite = suite_create("subgroups");
    TCase *group = harness_add(suite, "decode_groups", none);
    tcase_add_loop_test(group, each_size_and_spelling, 0, sizeof spellings / sizeof spellings[0]);
    return harness_run(suite);
}
