// test_cascade.c: a past that all batch items share, read once for all, compared with the float64
// reference. It covers sizes, layouts, types, options that must follow their rows, hostile numbers,
// refusals, and three levels with clattn's merge. The rule that decides is in test_plan_cascade.c.
// Unused rows are NaN in every case.
#include "support/case_assert.h"
#include "support/harness.h"

#include "verification/reference/reference.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct test_case base(const char *tokens) {
    struct test_case test;
    char name[CASE_NAME_SIZE], why[256] = "";
    snprintf(name, sizeof name, "attend-%s-sharedpast-cascadealways", tokens);
    ck_assert_msg(case_read(name, &test, why), "%s: %s", name, why);
    test.name = tokens;
    return test;
}

// Check the case with the planner's kernel, with flash, and, for few rows, with decode.
static void check(const char *tokens) {
    struct test_case test = base(tokens);
    for (int n = 0; n < 3; n++) {
        test.kernel = n == 0 ? CLATTN_KERNEL_AUTO : n == 1 ? CLATTN_KERNEL_FLASH : CLATTN_KERNEL_DECODE;
        struct case_data *data = case_make(&test);
        struct case_arrays arrays;
        clattn_plan plan;
        case_bind(data, harness_place(), &arrays);
        const clattn_status status = clattn_attention_plan(harness()->context, &arrays.params, &plan);
        case_unbind(&arrays);
        if (n < 2) {
            ck_assert_msg(status == CLATTN_OK, "%s: %s", tokens, harness_log_text());
            ck_assert_int_gt(plan.prefix_keys, 0);
        }
        // decode has no kernel for all rows at once
        if (status == CLATTN_OK) case_assert_data(data);
        case_free(data);
    }
}

// Sizes: one query row and several; one query head per key/value head and several; few, many and no
// own keys; both dense layouts.
START_TEST(sizes) {
    static const char *const cases[] = {
        "f32-b3-h4-hkv2-n1-nkv100-d32-causal-lse-past70-sinks",
        "f32-b5-h4-hkv1-n1-nkv333-d32-full-lse-past300-kvlen300:301:333:320:310",
        "f32-b3-h4-n4-nkv80-d32-causal-bshd-lse-past70-sinks-qlen4:0:2-kvlen80:70:77",
        "f32-b2-h6-hkv2-n3-nkv150-d32-causal-lse-past9:8:8-sinks",
        "f32-b3-h4-hkv2-n3-nkv150-d32-causal-bshd-past140-window150:0",
        "f32-b2-h4-hkv2-n40-nkv200-d32-causal-lse-past160-sinks",
        "f32-b3-h4-hkv2-n2-nkv64-d32-full-lse-past64",
        "f32-b16-h2-n1-nkv70-d32-causal-lse-past65-offsets65:69:65:65:65:65:65:65:65:65:65:65:65:65:65:65",
    };
    for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) check(cases[n]);
}
END_TEST

// Mask and bias stay with their rows, with any repeated axes.
START_TEST(options) {
    static const char *const cases[] = {
        "f32-b3-h4-hkv2-n1-nkv100-d32-causal-lse-softcap5-past70-maskbhqk-biasbhqk-sinks",
        "f32-b3-h4-hkv2-n4-nkv100-d32-causal-lse-softcap5-past70-maskb11k-biask",
        "f32-b3-h4-n3-nkv100-d32-full-bshd-lse-softcap5-past70-maskk-bias1h1k-infbias",
        "f32-b3-h4-hkv2-n4-nkv90-d32-causal-lse-past70-ropehalf-ropepos5",
        "f32-b3-h4-hkv2-n3-nkv100-d32-causal-lse-past70-sinks-qlen3:0:2-kvlen100:73:80-devicesinks",
        "f32-b3-h4-hkv2-n2-nkv100-d32-causal-lse-past70-ropehalf-append2",
    };
    for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) check(cases[n]);
}
END_TEST

START_TEST(types) {
    check("bf16-b5-h4-hkv2-n1-nkv100-d32-causal-lse-past70-sinks-kvlen100:70:71:90:99");
    check("f16-b3-h4-hkv2-n2-nkv100-d40-dv24-causal-kvi8-bshd-lse-past70");
}
END_TEST

// A NaN in one row, a NaN in a key that all rows see, and distant or huge scores, which partial
// results must not round away.
START_TEST(hostile) {
    static const char *const contents[] = {"rownan", "seennan", "huge", "hugeneg", "dominant"};
    for (size_t n = 0; n < sizeof contents / sizeof contents[0]; n++) {
        char name[CASE_NAME_SIZE];
        const char *mask = strncmp(contents[n], "huge", 4) == 0 ? "-maskbhqk" : "";
        snprintf(name, sizeof name, "f32-b3-h4-hkv2-n3-nkv100-d32-causal-lse-past70%s-%s", mask, contents[n]);
        check(name);
    }
}
END_TEST

// A NaN in a key of the past reaches only the item that sees that key.
START_TEST(nan_of_one_item) {
    struct test_case test = base("f32-b3-h4-hkv2-n1-nkv100-d32-causal-lse-past70-maskb11k");
    struct case_data *data = case_make(&test);
    for (int64_t j = 0; j < 100; j++)
        for (int64_t b = 0; b < 3; b++) data->mask[b * 100 + j] = j != 11 || b == 1;
    for (int64_t h = 0; h < 2; h++)
        for (int64_t d = 0; d < 32; d++)
            data->past_k[(h * 70 + 11) * 32 + d] = data->past_v[(h * 70 + 11) * 32 + d] = (double)NAN;
    case_assert_data(data);
    data->test.kernel = CLATTN_KERNEL_FLASH;
    case_assert_data(data);
    case_free(data);
}
END_TEST

// Options that prevent the cascade. With CLATTN_CASCADE_ALWAYS the reason is an error. Otherwise
// the plan has the reason, and the call is right. For options with kernels of their own, the
// covering arrays (test_pairs.c) test that.
#define RIGHT_FROM 7
static const char *const refused[][2] = {
    {"f32-b3-h4-n1-nkv100-d32-causal-lse-past70-alibi", "ALiBi"},
    {"f32-b3-h4-n1-nkv100-d32-causal-lse-past70-headscales", "head_scales"},
    {"f32-b3-h4-n1-nkv100-d32-causal-lse-past70-biasqk-mods", "score_mod and mask_mod"},
    {"f32-b3-h4-n1-nkv100-d32-causal-lse-past70-maskqk-blocks", "block mask"},
    {"f32-b3-h4-n1-nkv100-d32-causal-lse-past70-dropout0.5:1", "dropout"},
    {"f32-b3-h4-n1-nkv100-d32-causal-lse-weights-past70", "weights or scores"},
    {"f32-b3-h4-n1-nkv100-d32-causal-unfused-lse-past70", "unfused"},
    {"f32-b3-h4-n1-nkv100-d32-causal-decode-lse-splits2-past70", "splits"},
    {"f32-b3-h4-n1-nkv100-d32-causal-topleft-lse-past70", "causality or the window hides"},
    {"f32-b3-h4-n1-nkv100-d32-causal-lse-past70-window40:0", "the window hides"},
    {"f32-b3-h4-n1-nkv100-d32-causal-lse-past70-kvlen100:69:100", "kv_lengths"},
    {"f32-b3-h4-n1-nkv100-d32-causal-lse-past70:70:69:70", "differently many"},
    {"f32-b3-h4-n1-nkv70-d32-full-lse-past70-sinks", "sinks"},
    {"f32-b3-h4-n1-nkv70-d32-full-lse-past70-sinks-devicesinks", "sinks"},
    {"f32-b3-h4-hkv2-n2-nkv100-d32-causal-spaced-lse-past70", "strides"},
};
START_TEST(reasons) {
    struct test_case test = base(refused[_i][0]);
    struct case_data *data = case_make(&test);
    struct case_arrays arrays;
    clattn_plan plan;
    char why[512];
    case_bind(data, harness_place(), &arrays);
    harness_log_clear();
    ck_assert_int_eq(clattn_attention_plan(harness()->context, &arrays.params, &plan), CLATTN_UNSUPPORTED);
    clattn_context_last_error(harness()->context, why, sizeof why);
    ck_assert_msg(strstr(why, "cascade: ") && strstr(why, refused[_i][1]), "%s: %s", refused[_i][0], why);
    arrays.params.cascade = CLATTN_CASCADE_AUTO;
    ck_assert_int_eq(clattn_attention_plan(harness()->context, &arrays.params, &plan), CLATTN_OK);
    ck_assert_int_eq(plan.prefix_keys, 0);
    ck_assert_msg(strstr(plan.why, refused[_i][1]) || strlen(plan.why) > 200, "%s: %s", refused[_i][0],
                  plan.why);
    case_unbind(&arrays);
    data->test.cascade = CLATTN_CASCADE_AUTO;
    if (_i >= RIGHT_FROM) case_assert_data(data);
    case_free(data);
}
END_TEST

// No shared past: each item has its own past, the batch has one item, or the option is invalid.
START_TEST(no_shared_past) {
    struct test_case test = base("f32-b3-h4-n1-nkv100-d32-causal-lse-past70");
    struct case_arrays arrays;
    clattn_plan plan;
    char why[512];
    test.past_shared = false;
    struct case_data *data = case_make(&test);
    case_bind(data, harness_place(), &arrays);
    ck_assert_int_eq(clattn_attention_plan(harness()->context, &arrays.params, &plan), CLATTN_UNSUPPORTED);
    clattn_context_last_error(harness()->context, why, sizeof why);
    ck_assert_msg(strstr(why, "cascade: needs a past that items share"), "%s", why);
    arrays.params.cascade = CLATTN_CASCADE_COUNT;
    ck_assert_int_eq(clattn_attention_plan(harness()->context, &arrays.params, &plan),
                     CLATTN_INVALID_ARGUMENT);
    case_unbind(&arrays);
    case_free(data);
    check("f32-b2-h4-n1-nkv100-d32-causal-lse-past70");
}
END_TEST

// The planner uses the cascade if it pays, and never with CLATTN_CASCADE_NEVER. The results are
// right with and without it.
START_TEST(planned) {
    struct test_case test = base("f32-b8-h4-n1-nkv1100-d32-causal-lse-past1000");
    for (int n = 0; n < 3; n++) {
        clattn_plan plan;
        struct case_arrays arrays;
        test.cascade = n == 1 ? CLATTN_CASCADE_NEVER : CLATTN_CASCADE_AUTO;
        test.n_kv = n == 2 ? 40 : 1100, test.past = n == 2 ? 30 : 1000;
        struct case_data *data = case_make(&test);
        case_bind(data, harness_place(), &arrays);
        ck_assert_int_eq(clattn_attention_plan(harness()->context, &arrays.params, &plan), CLATTN_OK);
        case_unbind(&arrays);
        if (n == 1) ck_assert_ptr_null(strstr(plan.why, "shared"));
        if (n > 0) ck_assert_int_eq(plan.prefix_keys, 0);
        if (n == 2) ck_assert_msg(strstr(plan.why, "each item reads the shared past: "), "%s", plan.why);
        case_assert_data(data);
        case_free(data);
    }
}
END_TEST

// ------------------------------------------------------------------------------- three levels ---
// Four items: a prefix for all, one for each pair of items, and own keys. Two calls with a cascade,
// one for each pair, and merges.
enum { BATCH = 4, GROUPS = 2, HEADS = 4, KV_HEADS = 2, ROWS = 3, SIZE = 32, ALL = 50, PAIR = 21, OWN = 13 };

// Rows [from, from + count) of items [first, first + items) of k or v.
static struct guarded part_of(const double *x, int first, int items, int from, int count) {
    const int keys = ALL + PAIR + OWN;
    double *part = reference_alloc((int64_t)items * KV_HEADS * count * SIZE);
    for (int n = 0; n < items * KV_HEADS; n++)
        memcpy(part + (int64_t)n * count * SIZE, x + ((int64_t)(first * KV_HEADS + n) * keys + from) * SIZE,
               (size_t)(count * SIZE) * sizeof *part);
    const struct guarded_shape shape = {CLATTN_TYPE_F32, 4, {items, KV_HEADS, count, SIZE}, LAYOUT_DENSE};
    const struct guarded result = guarded_input(harness_place(), &shape, part);
    free(part);
    return result;
}

static clattn_tensor items_of(const clattn_tensor *t, int first, int items) {
    clattn_tensor part = *t;
    part.shape[0] = items, part.offset += first * t->stride[0];
    return part;
}

static void enqueue(const clattn_attention_params *p) {
    ck_assert_msg(clattn_attention_enqueue(harness()->context, harness()->queue, p, 0, NULL, NULL) ==
                      CLATTN_OK,
                  "%s", harness_log_text());
}

// Keys that items share are equal in each of them.
static void share(double *x, int from, int count, int items) {
    const int keys = ALL + PAIR + OWN;
    for (int b = 0; b < BATCH; b++)
        for (int h = 0; h < KV_HEADS; h++)
            memmove(x + ((int64_t)(b * KV_HEADS + h) * keys + from) * SIZE,
                    x + ((int64_t)(b / items * items * KV_HEADS + h) * keys + from) * SIZE,
                    (size_t)(count * SIZE) * sizeof *x);
}

START_TEST(three_levels) {
    struct test_case test;
    struct case_arrays arrays;
    char why[512] = "";
    ck_assert(case_read("attend-f32-b4-h4-hkv2-n3-nkv84-d32-causal-lse-sinks", &test, why));
    struct case_data *data = case_make(&test);
    double *const both[] = {data->k, data->v};
    struct guarded all[2], own[2], none[2], pair[GROUPS][2];
    for (int n = 0; n < 2; n++) {
        share(both[n], 0, ALL, BATCH), share(both[n], ALL, PAIR, BATCH / GROUPS);
        all[n] = part_of(both[n], 0, 1, 0, ALL), own[n] = part_of(both[n], 0, BATCH, ALL + PAIR, OWN);
        none[n] = part_of(both[n], 0, BATCH / GROUPS, 0, 0);
        for (int g = 0; g < GROUPS; g++) pair[g][n] = part_of(both[n], g * BATCH / GROUPS, 1, ALL, PAIR);
    }
    case_bind(data, harness_place(), &arrays);
    const struct guarded_shape shape = {CLATTN_TYPE_F32, 4, {BATCH, HEADS, ROWS, SIZE}, LAYOUT_DENSE},
                               lse_shape = {CLATTN_TYPE_F32, 3, {BATCH, HEADS, ROWS}, LAYOUT_DENSE};
    struct guarded out = guarded_output(harness_place(), &shape),
                   lse = guarded_output(harness_place(), &lse_shape);

    arrays.params.cascade = CLATTN_CASCADE_ALWAYS;
    clattn_attention_params p = arrays.params; // first and last level (causality, sinks)
    p.kv = (clattn_kv){.k = own[0].view, .v = own[1].view, .past_k = all[0].view, .past_v = all[1].view};
    enqueue(&p);
    for (int g = 0; g < GROUPS; g++) {
        const int first = g * BATCH / GROUPS, items = BATCH / GROUPS;
        p = arrays.params;
        p.score = (clattn_score){.scale = 0};
        p.q = items_of(&p.q, first, items);
        p.out = items_of(&out.view, first, items), p.lse = items_of(&lse.view, first, items);
        p.kv = (clattn_kv){
            .k = none[0].view, .v = none[1].view, .past_k = pair[g][0].view, .past_v = pair[g][1].view};
        enqueue(&p);
    }
    const clattn_merge_params merge = {arrays.out.view, arrays.lse.view, out.view, lse.view};
    ck_assert_int_eq(clattn_merge_enqueue(harness()->context, harness()->queue, &merge, 0, NULL, NULL),
                     CLATTN_OK);
    ck_assert_msg(case_holds(data, &arrays, harness()->queue, why, sizeof why), "%s", why);
    for (int n = 0; n < 2; n++) {
        guarded_release(&all[n]), guarded_release(&own[n]), guarded_release(&none[n]);
        for (int g = 0; g < GROUPS; g++) guarded_release(&pair[g][n]);
    }
    guarded_release(&out), guarded_release(&lse);
    case_unbind(&arrays);
    case_free(data);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {sizes,          options, types,        hostile, nan_of_one_item,
                                  no_shared_past, planned, three_levels, NULL};
    Suite *suite = suite_create("cascade");
    TCase *group = harness_add(suite, "cascade", tests);
    tcase_add_loop_test(group, reasons, 0, (int)(sizeof refused / sizeof refused[0]));
    return harness_run(suite);
}
