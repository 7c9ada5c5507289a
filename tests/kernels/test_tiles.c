// test_tiles.c: the kernels with AMX's instructions, on any CPU: tile_trap.h emulates the
// instructions. The probe proves the engine, the planner uses it, and results are right. Uses the
// library's internals.
#include "args/args.h"
#include "support/case_assert.h"
#include "probe/probe.h"
#include "kernels/tile_trap.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Whole tiles, tails of every kind, grouped heads, options, ranges of keys, hidden and visible NaN.
static const char *const cases[] = {
    "attend-bf16-b1-h1-n32-nkv64-d64-full-flash-lse",
    "attend-bf16-b2-h4-hkv2-n40-nkv70-d41-dv23-causal-flash-lse-alibi",
    "attend-bf16-b1-h2-n33-nkv97-d96-dv48-full-flash-lse-softcap5-window40:3-maskqk-biasqk-sinks-kvlen77",
    "attend-bf16-b1-h2-n16-nkv90-d64-causal-flash-offset20-lse-kvlen30-hiddennan",
    "attend-bf16-b1-h1-n40-d64-causal-flash-lse-seennan",
    "attend-bf16-b1-h1-n12-nkv100-d256-full-flash-lse-dominant",
    "attend-bf16-b1-h1-n9-nkv1100-d32-full-flash-lse",
    "attend-bf16-b1-h1-n20-nkv40-d64-full-flash-lse-weights",
};
#define CASES ((int)(sizeof cases / sizeof cases[0]))

// The same with int8 keys. Also every type of queries, scales that are NaN, rows in pages, rows
// behind a past, and packed sequences.
static const char *const integers[] = {
    "attend-bf16-b1-h1-n32-nkv64-d64-full-flash-kvi8-lse",
    "attend-bf16-b2-h4-hkv2-n40-nkv70-d41-dv23-causal-flash-kvi8-lse-alibi",
    "attend-f16-b1-h2-n33-nkv97-d128-dv48-full-flash-kvi8-lse-softcap5-window40:3-maskqk-biasqk-sinks-"
    "kvlen77",
    "attend-bf16-b1-h2-n16-nkv90-d64-causal-flash-offset20-kvi8-lse-kvlen30-hiddennan",
    "attend-f32-b1-h1-n40-d64-causal-flash-kvi8-lse-seennan",
    "attend-bf16-b1-h1-n12-nkv100-d256-full-flash-kvi8-lse-dominant",
    "attend-f32-b1-h1-n9-nkv1100-d32-full-flash-kvi8-lse",
    "attend-f16-b1-h1-n20-nkv40-d64-full-flash-kvi8-lse-weights",
    "attend-bf16-b2-h4-hkv2-n20-nkv96-d64-full-flash-kvi8-lse-pages16",
    "attend-bf16-b2-h4-hkv2-n20-nkv70-d64-causal-flash-kvi8-lse-past41",
    "attend-f16-b2-h2-hkv1-n35-nkv70-d64-causal-flash-kvi8-lse-qlen35:11-kvlen70:41-raggedhost",
};
#define INTEGERS ((int)(sizeof integers / sizeof integers[0]))

// Gradients: tails of every kind in tiles of rows and keys, hidden NaN, ranges of keys.
static const char *const gradients[] = {
    "backward-bf16-b1-h2-hkv1-n40-nkv70-d41-dv23-causal-dlse-alibi",
    "backward-bf16-b1-h1-n70-nkv33-d32-full-softcap5-maskqk-kvlen20-hiddennan",
    "backward-bf16-b1-h1-n9-nkv300-d64-full-dropout0.3:7",
};
#define GRADIENT_CASES ((int)(sizeof gradients / sizeof gradients[0]))

// Projections with one, three and six products, with tails of rows, columns and reduction, and with
// RoPE on several heads.
static const char *const projections[] = {
    "linear-bf16-b2-h1-n18-d45-m70-full-biases",
    "linear-bf16-b1-h1-n33-d64-m64-full-packed",
    "linear-f32-b1-h1-n33-d35-m70-full-split-biases",
    "linear-f32-b1-h1-n20-d32-m260-full-split-packed",
    "linear-f32-b1-h1-n33-d40-m96-full-split-packed-matrixbf16",
    "linear-bf16-b1-h1-n33-d40-m65-full-split-matrixf32",
    "layer-bf16-b1-h2-n20-d16-m64-causal-packed-biases-ropehalf",
    "layer-f32-b1-h2-n20-d16-m64-causal-split-biases-ropeinterleaved",
};
#define PROJECTIONS ((int)(sizeof projections / sizeof projections[0]))

static clattn_context *context;

static void open_context(void) {
    context = harness_open((clattn_context_params){.context = harness()->opencl,
                                                   .tuned_rows = "flash_matrix : MATRIX_ENGINE=2\n"
                                                                 "backward_matrix : MATRIX_ENGINE=2\n"
                                                                 "linear_matrix : MATRIX_ENGINE=2\n"});
    // Intel's compiler sets a handler of its own with the first kernel.
    cla_probe_results(context, 1u << PROBE_FMA);
    ck_assert(tile_trap_set());
    context->engines |= CLATTN_ENGINE_AMX; // as if the operating system had granted the tiles
}
static void close_context(void) {
    clattn_context_destroy(context);
}

START_TEST(probed) {
    const probe_results found = cla_probe_results(context, 1u << PROBE_AMX);
    ck_assert(found.proven >> PROBE_AMX & 1u);
    ck_assert(found.rate[PROBE_AMX] > 0.0f);
    probe wrong = cla_probes[PROBE_AMX];
    bool answered = false;
    wrong.expect = cla_probes[PROBE_FMA].expect;
    ck_assert(cla_probe_run(context, &wrong, &answered) == 0.0f && answered);
}
END_TEST

// A CPU without tiles of bytes reports that, and this probe does not apply. The trap's results are
// right; speed is not tested.
static void prove_bytes(clattn_context *of) {
    probe_rate rates[PROBE_COUNT] = {{0}};
    bool answered = false;
    rates[PROBE_AMX_I8] =
        (probe_rate){.gflops = cla_probe_run(of, &cla_probes[PROBE_AMX_I8], &answered), .sure = false};
    ck_assert(answered && rates[PROBE_AMX_I8].gflops > 0.0f);
    cla_probe_keep(of, 1u << PROBE_AMX_I8, rates);
    ck_assert(cla_probe_results(of, 0).proven >> PROBE_AMX_I8 & 1u);
}

// Check the probe of byte products: it succeeds, and fails if the expected result differs or if the
// product is unsigned.
static void expect_unlike(const knobs *k, uint32_t out[PROBE_WORDS]) {
    cla_probes[PROBE_AMX_I8].expect(k, out);
    out[37] += 256;
}
START_TEST(bytes_probed) {
    probe wrong = cla_probes[PROBE_AMX_I8];
    bool answered = false;
    prove_bytes(context);
    wrong.expect = expect_unlike;
    ck_assert(cla_probe_run(context, &wrong, &answered) == 0.0f && answered);
}
END_TEST

static struct case_data *bind(const char *name, struct case_arrays *arrays) {
    struct test_case test;
    struct place place = *harness_place();
    char why[512] = "";
    place.context = context;
    ck_assert_msg(case_parse(name, &test, why), "%s: %s", name, why);
    struct case_data *data = case_make(&test);
    case_bind(data, &place, arrays);
    return data;
}

// The result is right, and the engine's products were used if the test emulates them. Unbinds and
// frees the case.
static void assert_right(const char *name, struct case_data *data, struct case_arrays *arrays) {
    char why[512] = "";
    const long before = tile_trap_products();
    const clattn_status status = case_enqueue(context, harness()->queue, arrays, NULL);
    ck_assert_msg(status == CLATTN_OK, "%s: %s", name, clattn_status_name(status));
    struct case_result got = case_collect(arrays, harness()->queue, NULL);
    const bool good = case_agrees(data, &got, why, sizeof why);
    case_result_free(&got);
    case_unbind(arrays);
    case_free(data);
    ck_assert_msg(good, "%s: %s", name, why);
    ck_assert(before == 0 || tile_trap_products() > before);
}

START_TEST(right) {
    struct case_arrays arrays;
    clattn_plan plan;
    struct case_data *data = bind(cases[_i], &arrays);
    ck_assert_int_eq(clattn_attention_plan(context, &arrays.params, &plan), CLATTN_OK);
    ck_assert_msg(!strcmp(plan.kernel_name, "flash_matrix") && plan.matrix_instructions &&
                      strstr(plan.why, "AMX"),
                  "%s: %s: %s", cases[_i], plan.kernel_name, plan.why);
    assert_right(cases[_i], data, &arrays);
}
END_TEST

START_TEST(right_over_integers) {
    struct case_arrays arrays;
    clattn_plan plan;
    prove_bytes(context);
    struct case_data *data = bind(integers[_i], &arrays);
    const long before = tile_trap_byte_products();
    ck_assert_int_eq(clattn_attention_plan(context, &arrays.params, &plan), CLATTN_OK);
    ck_assert_msg(!strcmp(plan.kernel_name, "flash_matrix") && plan.matrix_instructions &&
                      strstr(plan.why, "AMX, keys in integers"),
                  "%s: %s: %s", integers[_i], plan.kernel_name, plan.why);
    assert_right(integers[_i], data, &arrays);
    ck_assert(before == 0 || tile_trap_byte_products() > before);
}
END_TEST

START_TEST(derived) {
    struct case_arrays arrays;
    clattn_plan plan;
    struct case_data *data = bind(gradients[_i], &arrays);
    ck_assert_int_eq(clattn_attention_backward_plan(context, &arrays.backward, &plan), CLATTN_OK);
    ck_assert_msg(!strcmp(plan.kernel_name, "backward_matrix") && plan.matrix_instructions &&
                      strstr(plan.why, "AMX"),
                  "%s: %s: %s", gradients[_i], plan.kernel_name, plan.why);
    assert_right(gradients[_i], data, &arrays);
}
END_TEST

START_TEST(projected) {
    struct case_arrays arrays;
    clattn_linear_choice choice;
    struct case_data *data = bind(projections[_i], &arrays);
    if (data->test.op == CASE_LINEAR) {
        ck_assert_int_eq(clattn_linear_plan(context, &arrays.linear, &choice), CLATTN_OK);
        ck_assert_msg(!strcmp(choice.kernel_name, "linear_matrix"), "%s: %s", projections[_i], choice.why);
    }
    assert_right(projections[_i], data, &arrays);
}
END_TEST

// Products of terms that the engine flushes to 0: they use multiply-adds, which hold them.
START_TEST(small_products) {
    struct test_case test;
    struct place place = *harness_place();
    char why[512];
    place.context = context;
    ck_assert(case_parse("linear-f32-b1-h1-n33-d40-m70-full-split", &test, why));
    struct case_data *data = case_make(&test);
    for (int i = 0; i < 33 * 70; i++) data->x[i] = ldexp(data->x[i], -55);
    for (int i = 0; i < 40 * 70; i++) data->matrix[LAYER_Q][i] = ldexp(data->matrix[LAYER_Q][i], -55);
    struct case_result got = case_execute(data, &place);
    const bool good = case_agrees(data, &got, why, sizeof why);
    case_result_free(&got);
    case_free(data);
    ck_assert_msg(good, "%s", why);
}
END_TEST

// Without a row, a proven but slow engine, such as a trapped one, is not used.
START_TEST(slow) {
    clattn_context *other = harness_open((clattn_context_params){.context = harness()->opencl});
    const int64_t x[] = {1, 512, 768}, w[] = {768, 768};
    const clattn_linear_params p = {.x = clattn_tensor_dense(NULL, CLATTN_TYPE_BF16, 3, x),
                                    .out = clattn_tensor_dense(NULL, CLATTN_TYPE_BF16, 3, x),
                                    .w = clattn_tensor_dense(NULL, CLATTN_TYPE_BF16, 2, w)};
    clattn_linear_choice choice;
    other->engines |= CLATTN_ENGINE_AMX;
    ck_assert_int_eq(clattn_linear_plan(other, &p, &choice), CLATTN_OK);
    ck_assert(cla_probe_results(other, 0).proven >> PROBE_AMX & 1u);
    if (tile_trap_products()) ck_assert_str_ne(choice.kernel_name, "linear_matrix");
    clattn_context_destroy(other);
}
END_TEST

// Only one thread computes. PoCL's compiler also catches illegal instructions, and restores the
// previous handler on the first one. Until then another thread's would end the process.
int main(void) {
    const TTest *const first[] = {probed, bytes_probed, slow, small_products, NULL};
    Suite *suite = suite_create("tiles");
    setenv("POCL_MAX_PTHREAD_COUNT", "1", 1);
    if (!tile_trap_set()) {
        printf("skipped: no tile instructions can be trapped here\n");
        return HARNESS_SKIP;
    }
    TCase *group = harness_add(suite, "AMX", first);
    tcase_add_checked_fixture(group, open_context, close_context);
    harness_add_loop(group, right, CASES);
    harness_add_loop(group, right_over_integers, INTEGERS);
    harness_add_loop(group, derived, GRADIENT_CASES);
    harness_add_loop(group, projected, PROJECTIONS);
    const int status = harness_run(suite);
    printf("%ld products of tiles were trapped, and %ld of bytes\n", tile_trap_products(),
           tile_trap_byte_products());
    return status;
}
