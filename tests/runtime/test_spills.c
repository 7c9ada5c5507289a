// test_spills.c: a driver that reports the private memory of a compiled kernel. On some drivers
// this is spilled registers, on others all registers. The library uses a smaller tile if that
// helps, and does not query forever. The program's own OpenCL functions replace the loader's:
// PoCL's CPU acts as a GPU. POSIX only.
#define _GNU_SOURCE
#include "support/case_assert.h"
#include "support/harness.h"
#include "support/next_function.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    bool is_gpu;
    int spilling; // the next compiled flash_tiles report 4000 bytes of private memory
    int compiled; // number of kernels that were queried
} driver;

CL_API_ENTRY cl_int CL_API_CALL clGetKernelWorkGroupInfo(cl_kernel kernel, cl_device_id device,
                                                         cl_kernel_work_group_info what, size_t size,
                                                         void *value, size_t *size_ret) {
    cl_int (*real)(cl_kernel, cl_device_id, cl_kernel_work_group_info, size_t, void *, size_t *);
    char name[128] = "";
    *(void **)&real = next("clGetKernelWorkGroupInfo");
    const cl_int code = real(kernel, device, what, size, value, size_ret);
    clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, sizeof name, name, NULL);
    if (code == CL_SUCCESS && what == CL_KERNEL_PRIVATE_MEM_SIZE && value && !strcmp(name, "flash_tiles"))
        *(cl_ulong *)value = driver.compiled++ < driver.spilling ? 4000 : 0;
    return code;
}

CL_API_ENTRY cl_int CL_API_CALL clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t size,
                                                void *value, size_t *size_ret) {
    cl_int (*real)(cl_device_id, cl_device_info, size_t, void *, size_t *);
    *(void **)&real = next("clGetDeviceInfo");
    const cl_int code = real(device, what, size, value, size_ret);
    if (code == CL_SUCCESS && what == CL_DEVICE_TYPE && driver.is_gpu && value)
        *(cl_device_type *)value = CL_DEVICE_TYPE_GPU;
    return code;
}

static clattn_plan plan_of(clattn_context *c, int d) {
    clattn_attention_params p = {.kernel = CLATTN_KERNEL_FLASH};
    clattn_plan plan;
    p.q = p.out = p.kv.k = p.kv.v = clattn_tensor_bhsd(NULL, CLATTN_TYPE_F32, 1, 2, 100, d);
    ck_assert_int_eq(clattn_attention_plan(c, &p, &plan), CLATTN_OK);
    return plan;
}

// Run the case on the context and compare.
static void assert_case(clattn_context *c, int d) {
    char name[96], why[512] = "";
    struct test_case test;
    struct place place = *harness_place();
    snprintf(name, sizeof name, "attend-f32-b1-h2-n100-d%d-causal-flash", d);
    ck_assert_msg(case_parse(name, &test, why), "%s: %s", name, why);
    struct case_data *data = case_make(&test);
    place.context = c;
    struct case_result got = case_execute(data, &place);
    const bool good = !harness_compiles_right(c, "flash_tiles") || case_agrees(data, &got, why, sizeof why);
    case_result_free(&got);
    case_free(data);
    ck_assert_msg(good, "%s: %s", name, why);
}

// The first plan, the plan after calls, and the number of compiled kernels.
static const struct {
    const char *rows;
    bool is_gpu;
    int d, spilling, compiled;
    const char *first, *then;
} wants[] = {
    {NULL, true, 64, 0, 1, "8 x 4", "8 x 4"},
    {NULL, true, 64, 1, 2, "8 x 4", "4 x 4"}, // spilled: a smaller tile
    // spilled, but the tile has few sums
    {NULL, true, 64, 99, 2, "8 x 4", "8 x 4"},
    {NULL, true, 256, 99, 1, "4 x 4", "4 x 4"},                        // no smaller tile
    {"flash_tiles :", false, 64, 99, 1, "8 x 4", "8 x 4"},             // a CPU
    {"flash_tiles : MICRO_ROWS=8", true, 64, 99, 1, "8 x 4", "8 x 4"}, // the caller's request
};

START_TEST(a_smaller_tile) {
    driver.is_gpu = wants[_i].is_gpu, driver.spilling = wants[_i].spilling, driver.compiled = 0;
    clattn_context *c =
        harness_open((clattn_context_params){.context = harness()->opencl, .tuned_rows = wants[_i].rows});
    const clattn_plan first = plan_of(c, wants[_i].d);
    assert_case(c, wants[_i].d);
    assert_case(c, wants[_i].d);
    const clattn_plan then = plan_of(c, wants[_i].d);
    driver.is_gpu = false;
    clattn_context_destroy(c);
    ck_assert_str_eq(first.kernel_name, "flash_tiles");
    ck_assert_msg(strstr(first.why, wants[_i].first) && strstr(then.why, wants[_i].then), "first %s, then %s",
                  first.why, then.why);
    ck_assert_int_eq(driver.compiled, wants[_i].compiled);
}
END_TEST

// A limit found with wide heads applies only to wide heads: narrow heads have fewer sums.
START_TEST(only_as_many_sums) {
    driver.is_gpu = true, driver.spilling = 1, driver.compiled = 0;
    clattn_context *c = harness_open((clattn_context_params){.context = harness()->opencl});
    assert_case(c, 128);
    const clattn_plan wide = plan_of(c, 128), narrow = plan_of(c, 64);
    driver.is_gpu = false;
    clattn_context_destroy(c);
    ck_assert_msg(strstr(wide.why, "4 x 4") && strstr(narrow.why, "8 x 4"), "%s and %s", wide.why,
                  narrow.why);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {only_as_many_sums, NULL};
    Suite *suite = suite_create("spills");
    TCase *group = harness_add(suite, "spills", tests);
    tcase_add_loop_test(group, a_smaller_tile, 0, (int)(sizeof wants / sizeof wants[0]));
    return harness_run(suite);
}
