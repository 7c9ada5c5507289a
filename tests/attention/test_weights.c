// test_weights.c: the number of launches. Devices without vector lanes read 16-bit weights
// directly, without a converted copy, and project q, k and v of few rows in one launch. On CPUs a
// whole small layer is one launch. The program's own clEnqueueNDRangeKernel replaces the loader's
// and counts launches by kernel. The numbers are in test_linear.c and test_layer.c. POSIX only.
#define _GNU_SOURCE
#include "support/case_assert.h"
#include "support/harness.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static struct { int all, convert, rows, tiles, lanes, small; } launched;

CL_API_ENTRY cl_int CL_API_CALL clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dims,
                                                       const size_t *offset, const size_t *global,
                                                       const size_t *local, cl_uint count,
                                                       const cl_event *list, cl_event *event) {
    static cl_int (*real)(cl_command_queue, cl_kernel, cl_uint, const size_t *, const size_t *,
                          const size_t *, cl_uint, const cl_event *, cl_event *);
    char name[64] = "";
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "clEnqueueNDRangeKernel");
    clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, sizeof name, name, NULL);
    launched.all += strncmp(name, "probe", 5) != 0;
    launched.small += !strcmp(name, "layer_few_lanes");
    launched.convert += !strcmp(name, "convert");
    launched.rows += !strcmp(name, "linear_rows");
    launched.tiles += !strcmp(name, "linear_tiles");
    launched.lanes += strstr(name, "_lanes") != NULL && strstr(name, "linear") != NULL;
    return real(queue, kernel, dims, offset, global, local, count, list, event);
}

// Run a layer or a projection `times` times on a context with these rows. Counts its launches, and
// keeps the text of its plan.
static char plan_why[256];
static void run_often(const char *rows, const char *name, int times) {
    struct test_case test;
    struct place place = *harness_place();
    struct case_arrays arrays;
    char why[512] = "";
    ck_assert_msg(case_parse(name, &test, why), "%s: %s", name, why);
    place.context = harness_open((clattn_context_params){.context = harness()->opencl, .tuned_rows = rows});
    struct case_data *data = case_make(&test);
    memset(&launched, 0, sizeof launched);
    for (int n = 0; n < times; n++) { // each launch writes to memory of its own
        clattn_plan plan = {0};
        case_bind(data, &place, &arrays);
        const clattn_status status = case_enqueue(place.context, place.queue, &arrays, NULL);
        ck_assert_msg(status == CLATTN_OK, "%s: %s", name, harness_log_text());
        ck_assert_msg(case_holds(data, &arrays, place.queue, why, sizeof why), "%s: %s", name, why);
        if (test.op == CASE_LAYER)
            ck_assert_int_eq(clattn_layer_plan(place.context, &arrays.layer, &plan), CLATTN_OK);
        memcpy(plan_why, plan.why, sizeof plan_why);
        case_unbind(&arrays);
    }
    case_free(data);
    clattn_context_destroy(place.context);
}

static void run(const char *rows, const char *name) {
    run_often(rows, name, 1);
}

static const char *const few[] = {"layer-f16-b1-h4-hkv2-n5-d16-m64-full-biases",
                                  "layer-bf16-b2-h4-n3-d16-m64-full-ropehalf",
                                  "layer-f32-b1-h4-n1-d16-m64-full-matrixbf16-ropeinterleaved"};
static const char *const many[] = {"layer-f16-b1-h4-hkv2-n70-d16-m64-full-biases",
                                   "layer-bf16-b2-h4-n40-d16-m64-full-ropehalf",
                                   "layer-f32-b1-h4-n33-d16-m64-full-matrixbf16-ropeinterleaved"};

// Four projections: q, k and v share a launch.
START_TEST(few_rows) {
    run("linear_rows :\n", few[_i]);
    ck_assert_int_eq(launched.convert + launched.tiles + launched.lanes, 0);
    ck_assert_int_eq(launched.rows, 2);
}
END_TEST

START_TEST(many_rows) {
    run("linear_rows nq=..16 :\nlinear_tiles :\n", many[_i]);
    ck_assert_int_eq(launched.convert + launched.rows + launched.lanes, 0);
    ck_assert_int_eq(launched.tiles, 4);
}
END_TEST

// CLBlast supports only float32: with it the same layer converts its four matrices, and the suite
// must see that.
START_TEST(conversions_are_seen) {
    if (!harness_has_clblast()) return;
    run("clblast :\n", many[_i]);
    ck_assert_int_ge(launched.convert, 4);
    ck_assert_int_eq(launched.rows + launched.tiles + launched.lanes, 0);
}
END_TEST

// Check kernels for lanes. Each runs three times, because a launch must reset its counters for the
// next launch.
static const char *const small[] = {
    "layer-f32-b2-h4-n10-d16-m64-full-biases",
    "layer-f32-b1-h4-hkv2-n37-d16-m50-causal-weights-softcap2-maskqk-biasqk-sinks-ropehalf",
    "layer-bf16-b2-h4-n9-d20-m64-full-kvlen9:4-ropeinterleaved-dropout0.25:7",
    "layer-f16-b3-h4-n9-d16-m31-full-window2:1",
};
START_TEST(one_launch) {
    const clattn_capabilities *device = clattn_context_capabilities(harness()->context);
    if (!device->is_cpu || device->float_vector_width < 4) return;
    run_often(NULL, small[_i], 3);
    ck_assert_int_eq(launched.all, 3);
    ck_assert_int_eq(launched.small, 3);
    ck_assert_ptr_nonnull(strstr(plan_why, "; the whole layer in one launch"));
}
END_TEST

// A layer with a step between, with rows that are not written, or with different types, has one
// launch a step.
static const char *const large[] = {
    "layer-f32-b2-h4-n10-d16-m64-full-gateheads", "layer-f32-b2-h4-n9-d16-m64-full-qlen9:5",
    "layer-f32-b2-h4-n9-d16-m64-full-matrixbf16", "layer-f32-b1-h4-n70-d16-m64-full",
    "layer-f32-b2-h4-n9-d16-m64-full-normheads"};
START_TEST(several_launches) {
    run(NULL, large[_i]);
    ck_assert_int_eq(launched.small, 0);
    ck_assert_int_gt(launched.all, 1);
    ck_assert_ptr_null(strstr(plan_why, "one launch"));
}
END_TEST

int main(void) {
    const TTest *const none[] = {NULL};
    Suite *suite = suite_create("weights");
    TCase *group = harness_add(suite, "launches", none);
    tcase_add_loop_test(group, few_rows, 0, 3);
    tcase_add_loop_test(group, many_rows, 0, 3);
    tcase_add_loop_test(group, conversions_are_seen, 0, 3);
    tcase_add_loop_test(group, one_launch, 0, 4);
    tcase_add_loop_test(group, several_launches, 0, 5);
    return harness_run(suite);
}
