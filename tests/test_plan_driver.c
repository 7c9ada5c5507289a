// test_plan_driver.c: what the planner computes of a kernel, against what the driver says of the compiled one. The planner
// alone is test_plan.c's.
#include "harness.h"

#include "args.h"
#include "plan/family.h"

#include <stdio.h>

static tuned_rows none;

// The portable kernel on a device with 32 KiB of local memory.
static variant choose(int head_dim, int head_dim_v) {
    const clattn_capabilities small = {
        .max_work_group = 256, .max_work_item = {256, 256, 64}, .local_memory_bytes = 32768};
    const plan_input in = {.device = &small, .shipped = &none};
    const problem p = {.batch = 1,
                       .heads = 8,
                       .kv_heads = 8,
                       .n_q = 100,
                       .n_kv = 100,
                       .head_dim = head_dim,
                       .head_dim_v = head_dim_v};
    variant v;
    ck_assert_int_eq(cla_variant_choose(&in, &p, &v), CLATTN_OK);
    ck_assert_int_eq(v.family->id, KERNEL_FLASH);
    return v;
}

// The formula that planner and kernel share is what the driver counts, up to its rounding.
START_TEST(local_memory_as_the_driver_says) {
    const struct kernel_source *source = &clattn_kernel_sources[KERNEL_FLASH];
    const char *text = (const char *)source->text;
    static const int heads[][2] = {{64, 64}, {40, 24}, {128, 128}};
    for (int i = 0; i < 3; i++) {
        char options[256];
        cl_int code;
        cl_ulong bytes = 0;
        const variant v = choose(heads[i][0], heads[i][1]);
        ck_assert(cla_knobs_print(&v.knobs, options, sizeof options));
        cl_program program = clCreateProgramWithSource(harness()->opencl, 1, &text, &source->bytes, &code);
        harness_expect(code, "clCreateProgramWithSource");
        harness_expect(clBuildProgram(program, 1, &harness()->device, options, NULL, NULL), "clBuildProgram");
        cl_kernel kernel = clCreateKernel(program, "flash", &code);
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
