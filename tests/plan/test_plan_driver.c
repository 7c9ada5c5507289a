// test_plan_driver.c: the planner's local memory per kernel, compared with the driver's value for
// the compiled kernel. The planner alone is in test_plan.c.
#include "support/harness.h"

#include "args/args.h"
#include "program/program.h"
#include "plan/families/family.h"

#include <stdio.h>
#include <string.h>

static tuned_rows none;

// The kernel that a row names, on a device with 32 KiB of local memory.
static variant choose(const char *row, int head_dim, int head_dim_v, bool dropout) {
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
                       .head_dim_v = head_dim_v,
                       .dropout = dropout};
    variant v;
    ck_assert_int_eq(cla_variant_choose(&in, &p, &v), CLATTN_OK);
    ck_assert_int_eq(v.family->id, own.rows[0].id);
    cla_tuned_free(&own);
    return v;
}

// Returns false for drivers that report 0 bytes for every kernel, such as PoCL 4 to 6.
static bool driver_tells(void) {
    static const char *const text = "__kernel void fill(__global int *to) {"
                                    "    __local int x[64];"
                                    "    x[get_local_id(0) % 64] = to[0];"
                                    "    barrier(CLK_LOCAL_MEM_FENCE);"
                                    "    to[1] = x[to[0] % 64];"
                                    "}";
    cl_int code;
    cl_ulong bytes = 0;
    cl_program built = clCreateProgramWithSource(harness()->opencl, 1, (const char **)&text, NULL, &code);
    harness_expect(code, "clCreateProgramWithSource");
    harness_expect(clBuildProgram(built, 1, &harness()->device, NULL, NULL, NULL), "clBuildProgram");
    cl_kernel kernel = clCreateKernel(built, "fill", &code);
    harness_expect(code, "clCreateKernel");
    harness_expect(clGetKernelWorkGroupInfo(kernel, harness()->device, CL_KERNEL_LOCAL_MEM_SIZE, sizeof bytes,
                                            &bytes, NULL),
                   "local size");
    clReleaseKernel(kernel);
    clReleaseProgram(built);
    return bytes != 0;
}

// The formula that planner and kernel share must equal the driver's value, up to the driver's
// rounding.
static void compare(enum kernel_id id, const knobs *k, size_t planned) {
    const struct kernel_source *source = &clattn_kernel_sources[id];
    const char *text = (const char *)source->text;
    char options[512];
    cl_int code;
    cl_ulong bytes = 0;
    ck_assert(cla_knobs_print(k, options, sizeof options));
    cl_program built = clCreateProgramWithSource(harness()->opencl, 1, &text, &source->bytes, &code);
    harness_expect(code, "clCreateProgramWithSource");
    harness_expect(clBuildProgram(built, 1, &harness()->device, options, NULL, NULL), "clBuildProgram");
    cl_kernel kernel = clCreateKernel(built, source->name, &code);
    harness_expect(code, "clCreateKernel");
    harness_expect(clGetKernelWorkGroupInfo(kernel, harness()->device, CL_KERNEL_LOCAL_MEM_SIZE, sizeof bytes,
                                            &bytes, NULL),
                   "local size");
    ck_assert_msg(bytes >= planned && bytes <= planned + 3 * 256,
                  "%s %s: %zu bytes of local memory, %zu planned", source->name, options, (size_t)bytes,
                  planned);
    clReleaseKernel(kernel);
    clReleaseProgram(built);
}

START_TEST(local_memory_as_the_driver_says) {
    static const char *const rows[] = {"flash :", "flash_tiles :"};
    static const int heads[][2] = {{64, 64}, {40, 24}, {128, 128}};
    for (int i = 0; i < 6; i++) {
        const variant v = choose(rows[i / 3], heads[i % 3][0], heads[i % 3][1], i % 3 == 2);
        compare(v.family->id, &v.knobs, v.local_bytes);
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

// Returns the local memory of the only program that the call builds.
static cl_ulong compiled_bytes(clattn_context *c, const clattn_attention_params *p) {
    cl_ulong bytes = 0;
    ck_assert_int_eq(clattn_attention_prepare(c, p), CLATTN_OK);
    const program *built = c->programs;
    ck_assert(built && built->idle_count > 0);
    harness_expect(clGetKernelWorkGroupInfo(built->idle[0], harness()->device, CL_KERNEL_LOCAL_MEM_SIZE,
                                            sizeof bytes, &bytes, NULL),
                   "local size");
    return bytes;
}

// The same for decode_groups: without sub-groups, and with each sub-group size that the device has.
// The plan's reason names the size.
START_TEST(decode_groups_as_the_driver_says) {
    static const int heads[][2] = {{64, 64}, {40, 24}, {128, 128}, {256, 16}};
    const clattn_capabilities *device = clattn_context_capabilities(harness()->context);
    for (int size = 1; size <= 64; size *= size == 1 ? 8 : 2) {
        char row[64], word[32];
        snprintf(row, sizeof row, "decode_groups : SUBGROUP=%d", size);
        snprintf(word, sizeof word, "sub-groups of %d", size);
        clattn_context *c = harness_open((clattn_context_params){.tuned_rows = row});
        for (int i = 0; i < 4; i++) {
            clattn_attention_params p = {.kernel = CLATTN_KERNEL_DECODE};
            clattn_plan plan;
            p.q = clattn_tensor_dense(NULL, CLATTN_TYPE_F32, 4, (const int64_t[]){1, 8, 1, heads[i][0]});
            p.kv.k = clattn_tensor_dense(NULL, CLATTN_TYPE_F32, 4, (const int64_t[]){1, 2, 99, heads[i][0]});
            p.kv.v = clattn_tensor_dense(NULL, CLATTN_TYPE_F32, 4, (const int64_t[]){1, 2, 99, heads[i][1]});
            p.out = clattn_tensor_dense(NULL, CLATTN_TYPE_F32, 4, (const int64_t[]){1, 8, 1, heads[i][1]});
            ck_assert_int_eq(clattn_attention_plan(c, &p, &plan), CLATTN_OK);
            ck_assert_str_eq(plan.kernel_name, "decode_groups");
            ck_assert_msg((strstr(plan.why, word) != NULL) ==
                              (size > 1 && device->subgroup_sizes & (unsigned)size),
                          "%s", plan.why);
            const cl_ulong bytes = compiled_bytes(c, &p);
            // sub-groups need no local memory for these sums
            const size_t unused = size > 1 ? 16 * 4 * sizeof(float) : 0;
            ck_assert_msg(bytes + unused >= plan.local_bytes && bytes <= plan.local_bytes + 5 * 256,
                          "%s: the driver counts %llu, the planner %zu", plan.why, (unsigned long long)bytes,
                          plan.local_bytes);
        }
        clattn_context_destroy(c);
    }
}
END_TEST

int main(void) {
    const TTest *const tests[] = {local_memory_as_the_driver_says, local_memory_of_projections,
                                  decode_groups_as_the_driver_says, NULL};
    harness_start();
    const bool tells = driver_tells();
    harness_stop();
    if (!tells) {
        printf("skipped: the driver says that no kernel has local memory\n");
        return HARNESS_SKIP;
    }
    Suite *suite = suite_create("plan_driver");
    harness_add(suite, "driver", tests);
    return harness_run(suite);
}
