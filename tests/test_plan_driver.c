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
static void compare(enum kernel_id id, const knobs *k, size_t planned) {
    const struct kernel_source *source = &clattn_kernel_sources[id];
    const char *text = (const char *)source->text;
    char options[512];
    cl_int code;
    cl_ulong bytes = 0;
    ck_assert(cla_knobs_print(k, options, sizeof options));
    cl_program program = clCreateProgramWithSource(harness()->opencl, 1, &text, &source->bytes, &code);
    harness_expect(code, "clCreateProgramWithSource");
    harness_expect(clBuildProgram(program, 1, &harness()->device, options, NULL, NULL), "clBuildProgram");
    cl_kernel kernel = clCreateKernel(program, source->name, &code);
    harness_expect(code, "clCreateKernel");
    harness_expect(clGetKernelWorkGroupInfo(kernel, harness()->device, CL_KERNEL_LOCAL_MEM_SIZE, sizeof bytes,
                                            &bytes, NULL),
                   "local size");
    ck_assert_msg(bytes >= planned && bytes <= planned + 3 * 256,
                  "%s %s: %zu bytes of local memory, %zu planned", source->name, options, (size_t)bytes,
                  planned);
    clReleaseKernel(kernel);
    clReleaseProgram(program);
}

START_TEST(local_memory_as_the_driver_says) {
    static const int heads[][2] = {{64, 64}, {40, 24}, {128, 128}};
    for (int i = 0; i < 3; i++) {
        const variant v = choose(heads[i][0], heads[i][1]);
        compare(KERNEL_FLASH, &v.knobs, v.local_bytes);
    }
}
END_TEST

START_TEST(local_memory_of_projections) {
    static const uint64_t local[] = {4096, 16384, 32768, 65536};
    for (int i = 0; i < 8; i++) {
        const clattn_capabilities gpu = {.max_work_group = 256,
                                         .max_work_item = {256, 256, 64},
                                         .compute_units = 4,
                                         .local_memory_bytes = local[i / 2]};
        const plan_input in = {.device = &gpu, .shipped = &none};
        const linear_problem p = {
            .rows = i % 2 ? 5000 : 5, .columns = 5000, .reduction = 500, .rope_head = i % 4 < 2 ? 64 : 0};
        linear_choice choice;
        ck_assert(cla_variant_choose_linear(&in, &p, true, &choice));
        compare(choice.id, &choice.knobs, choice.local_bytes);
    }
}
END_TEST

int main(void) {
    const TTest *const tests[] = {local_memory_as_the_driver_says, local_memory_of_projections, NULL};
    Suite *suite = suite_create("plan_driver");
    harness_add(suite, "driver", tests);
    return harness_run(suite);
}
