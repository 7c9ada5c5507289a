// test_plan_driver.c: what the planner computes of a kernel, against what the driver says of the compiled one. The planner
// alone is test_plan.c's.
#include "harness.h"

#include "args.h"
#include "plan/family.h"

#include <stdio.h>

static tuned_rows none;

// The kernel that a row names, on a device with 32 KiB of local memory.
static variant choose(const char *row, int head_dim, int head_dim_v) {
    const clattn_capabilities small = {
        .max_work_group = 256, .max_work_item = {256, 256, 64}, .local_memory_bytes = 32768};
    tuned_rows own;
    char why[256];
    ck_assert(cla_tuned_parse(row, &own, why, sizeof why));
    const plan_input in = {.device = &small, .own = &own, .shipped = &none};
    const problem p = {.batch = 1,
                       .heads = 8,
                       .kv_heads = 8,
                       .n_q = 100,
                       .n_kv = 100,
                       .head_dim = head_dim,
                       .head_dim_v = head_dim_v};
    variant v;
    ck_assert_int_eq(cla_variant_choose(&in, &p, &v), CLATTN_OK);
    ck_assert_int_eq(v.family->id, own.rows[0].id);
    cla_tuned_free(&own);
    return v;
}

// The formula that planner and kernel share is what the driver counts, up to its rounding.
START_TEST(local_memory_as_the_driver_says) {
    static const char *const rows[] = {"flash :", "flash_tiles :"};
    static const int heads[][2] = {{64, 64}, {40, 24}, {128, 128}};
    for (int i = 0; i < 6; i++) {
        char options[256];
        cl_int code;
        cl_ulong bytes = 0;
        const variant v = choose(rows[i / 3], heads[i % 3][0], heads[i % 3][1]);
        const struct kernel_source *source = &clattn_kernel_sources[v.family->id];
        const char *text = (const char *)source->text;
        ck_assert(cla_knobs_print(&v.knobs, options, sizeof options));
        cl_program program = clCreateProgramWithSource(harness()->opencl, 1, &text, &source->bytes, &code);
        harness_expect(code, "clCreateProgramWithSource");
        harness_expect(clBuildProgram(program, 1, &harness()->device, options, NULL, NULL), "clBuildProgram");
        cl_kernel kernel = clCreateKernel(program, source->name, &code);
        harness_expect(code, "clCreateKernel");
        harness_expect(clGetKernelWorkGroupInfo(kernel, harness()->device, CL_KERNEL_LOCAL_MEM_SIZE,
                                                sizeof bytes, &bytes, NULL),
                       "local size");
        ck_assert_uint_ge(bytes, v.local_bytes);
        ck_assert_uint_le(bytes, v.local_bytes + 3 * 256);
        clReleaseKernel(kernel);
        clReleaseProgram(program);
    }
}
END_TEST

int main(void) {
    const TTest *const tests[] = {local_memory_as_the_driver_says, NULL};
    Suite *suite = suite_create("plan_driver");
    harness_add(suite, "driver", tests);
    return harness_run(suite);
}
