// test_plan.c: the planner as the pure function it is: capabilities and problem in, kernel, tile and reason
// out. Made-up devices stand for those that are not here. Uses the library's internals, from the static
// library.
#include "harness.h"

#include "linear_args.h"
#include "core/kernels.h"
#include "plan/variant.h"

#include <stdio.h>
#include <string.h>

static tuned_rows shipped;

// The least that OpenCL 1.2 devices in use have, and a CPU with AVX-512.
static const clattn_capabilities small_gpu = {.name = "CPU", // a name decides nothing
                                              .is_gpu = true,
                                              .compute_units = 8,
                                              .float_vector_width = 1,
                                              .max_work_group = 256,
                                              .max_work_item = {256, 256, 64},
                                              .local_memory_bytes = 32768,
                                              .global_memory_bytes = 1u << 30,
                                              .max_allocation_bytes = 1u << 28};
static const clattn_capabilities wide_cpu = {.name = "GPU",
                                             .is_cpu = true,
                                             .compute_units = 2,
                                             .float_vector_width = 16,
                                             .max_work_group = 4096,
                                             .max_work_item = {4096, 4096, 4096},
                                             .local_memory_bytes = 1 << 20,
                                             .global_memory_bytes = 1u << 30,
                                             .max_allocation_bytes = 1u << 28};

static problem make_problem(int n, int d, int dv) {
    return (problem){
        .batch = 1, .heads = 8, .kv_heads = 8, .n_q = n, .n_kv = n, .head_dim = d, .head_dim_v = dv};
}
static variant choose(const clattn_capabilities *device, const problem *p, clattn_status want) {
    const plan_input in = {.device = device, .shipped = &shipped};
    variant v;
    ck_assert_int_eq(cla_variant_choose(&in, p, &v), want);
    char why[256] = "";
    if (want == CLATTN_OK)
        cla_variant_explain(&in, p, &v, why);
    else
        snprintf(why, sizeof why, "%s", v.refusal);
    ck_assert_msg(why[0] != '\0', "no reason");
    return v;
}

START_TEST(fits_small_devices) {
    static const int heads[] = {1, 5, 32, 40, 64, 80, 96, 128, 192, 256};
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++)
        for (size_t j = 0; j < sizeof heads / sizeof heads[0]; j++) {
            const problem p = make_problem(100, heads[i], heads[j]);
            const variant v = choose(&small_gpu, &p, CLATTN_OK);
            ck_assert_int_eq(v.id, KERNEL_FLASH);
            ck_assert_uint_le(v.local_bytes, 32768);
            ck_assert_int_le(v.work_group, 256);
            ck_assert_int_eq(v.work_group, v.knobs.tile_q * v.knobs.row_items);
            ck_assert_uint_eq(v.local_bytes,
                              sizeof(float) * (size_t)FLASH_LOCAL_FLOATS(v.knobs.tile_q, v.knobs.tile_kv,
                                                                         heads[i], heads[j]));
        }
    const problem huge = make_problem(100, 1000, 64); // no tile holds such a head: the unfused path does
    ck_assert_int_eq(choose(&small_gpu, &huge, CLATTN_OK).kernel, CLATTN_KERNEL_UNFUSED);
}
END_TEST

START_TEST(capabilities_decide) {
    problem p = make_problem(1024, 64, 64);
    ck_assert_int_eq(choose(&wide_cpu, &p, CLATTN_OK).id, KERNEL_FLASH_LANES);
    for (uint32_t width = 1; width <= 16; width *= 2) {
        clattn_capabilities cpu = wide_cpu;
        cpu.float_vector_width = width;
        const variant v = choose(&cpu, &p, CLATTN_OK);
        ck_assert_int_eq(v.id, width < 4 ? KERNEL_FLASH : KERNEL_FLASH_LANES);
        if (width >= 4) ck_assert_int_eq(v.knobs.lanes, (int)width);
    }
    p.n_q = 1;
    ck_assert_int_eq(choose(&wide_cpu, &p, CLATTN_OK).id, KERNEL_DECODE_LANES);
    ck_assert_int_eq(choose(&small_gpu, &p, CLATTN_OK).kernel, CLATTN_KERNEL_DECODE);
    // The dot product needs proof, and bfloat16 in all three.
    p = make_problem(1024, 64, 64);
    p.type_q = p.type_kv = p.type_out = CLATTN_TYPE_BF16;
    const plan_input proven = {.device = &wide_cpu, .shipped = &shipped, .dot_bf16 = true};
    variant v;
    ck_assert_int_eq(cla_variant_choose(&proven, &p, &v), CLATTN_OK);
    ck_assert_int_eq(v.knobs.dot_bf16, 1);
    ck_assert_int_eq(choose(&wide_cpu, &p, CLATTN_OK).knobs.dot_bf16, 0);
    p.type_kv = CLATTN_TYPE_F32;
    cla_variant_choose(&proven, &p, &v);
    ck_assert_int_eq(v.knobs.dot_bf16, 0);
}
END_TEST

START_TEST(what_is_asked_for) {
    problem p = make_problem(64, 64, 64);
    p.wants_scores = true;
    ck_assert_int_eq(choose(&wide_cpu, &p, CLATTN_OK).kernel, CLATTN_KERNEL_UNFUSED);
    p.kernel = CLATTN_KERNEL_FLASH;
    choose(&wide_cpu, &p, CLATTN_UNSUPPORTED);
    p = make_problem(64, 64, 64);
    p.wants_weights = true;
    ck_assert_int_eq(choose(&small_gpu, &p, CLATTN_OK).kernel, CLATTN_KERNEL_UNFUSED);
    const variant v = choose(&wide_cpu, &p, CLATTN_OK);
    ck_assert_int_eq(v.knobs.weights, 1);
    ck_assert_int_eq(v.splits, 1);
    p = make_problem(17, 64, 64);
    p.kernel = CLATTN_KERNEL_DECODE;
    choose(&wide_cpu, &p, CLATTN_UNSUPPORTED);
    p.n_q = 16, p.splits = 3;
    ck_assert_int_eq(choose(&wide_cpu, &p, CLATTN_OK).splits, 3);
    p.kernel = CLATTN_KERNEL_AUTO;
    choose(&wide_cpu, &p, CLATTN_UNSUPPORTED);
}
END_TEST

START_TEST(scratch_is_bounded) {
    for (int n = 1; n <= 1 << 20; n *= 2) {
        problem p = make_problem(n, 64, 64);
        p.heads = p.kv_heads = 1;
        const variant flash = choose(&wide_cpu, &p, CLATTN_OK);
        ck_assert_uint_le(flash.workspace_bytes, 64u << 20);
        ck_assert_int_ge((int64_t)flash.splits * flash.split_keys, p.n_kv); // every key is in a range
        ck_assert_int_lt((int64_t)(flash.splits - 1) * flash.split_keys, p.n_kv);
        p.kernel = CLATTN_KERNEL_UNFUSED;
        const variant unfused = choose(&wide_cpu, &p, CLATTN_OK);
        ck_assert_uint_le(unfused.workspace_bytes, 64u << 20);
        ck_assert_int_ge(unfused.chunk_rows, 1);
    }
}
END_TEST

// The formula that planner and kernel share is what the driver counts, up to its rounding.
START_TEST(local_memory_as_the_driver_says) {
    const struct kernel_source *source = &clattn_kernel_sources[KERNEL_FLASH];
    const char *text = (const char *)source->text;
    static const int heads[][2] = {{64, 64}, {40, 24}, {128, 128}};
    for (int i = 0; i < 3; i++) {
        char options[256];
        cl_int code;
        cl_ulong bytes = 0;
        const problem p = make_problem(100, heads[i][0], heads[i][1]);
        const variant v = choose(&small_gpu, &p, CLATTN_OK);
        snprintf(options, sizeof options,
                 "-cl-std=CL1.2 -w -DHEAD_DIM=%d -DHEAD_DIM_V=%d -DTILE_Q=%d -DTILE_KV=%d -DROW_ITEMS=%d",
                 heads[i][0], heads[i][1], v.knobs.tile_q, v.knobs.tile_kv, v.knobs.row_items);
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

// The caller's rows, then what was measured, then the library's rows; and what is forced anyway.
START_TEST(who_projects) {
    const linear_problem many = {.rows = 512, .columns = 768, .reduction = 768};
    const linear_problem few = {.rows = 4, .columns = 768, .reduction = 768};
    plan_input in = {.device = &wide_cpu, .shipped = &shipped};
    tuned_rows own;
    linear_choice c;
    char why[256];
    ck_assert(cla_variant_choose_linear(&in, &many, false, &c) && c.id == KERNEL_LINEAR_LANES);
    ck_assert(cla_variant_choose_linear(&in, &few, false, &c) && c.id == KERNEL_LINEAR_FEW_LANES);
    ck_assert(cla_variant_linear_is_open(&in, &many));
    in.measured[PLAN_MANY_ROWS] = PLAN_CLBLAST_FASTER;
    in.measured[PLAN_FEW_ROWS] = PLAN_NATIVE_FASTER;
    ck_assert(!cla_variant_choose_linear(&in, &many, false, &c));
    ck_assert(cla_variant_choose_linear(&in, &few, false, &c));
    ck_assert(cla_variant_choose_linear(&in, &many, true, &c) && c.id == KERNEL_LINEAR_LANES);
    ck_assert(cla_tuned_parse("linear_lanes nq=33.. :\nclblast :\n", &own, why, sizeof why));
    in.own = &own;
    ck_assert(cla_variant_choose_linear(&in, &many, false, &c));
    ck_assert(!cla_variant_choose_linear(&in, &few, false, &c));
    ck_assert(!cla_variant_linear_is_open(&in, &many) && !cla_variant_linear_is_open(&in, &few));
    cla_tuned_free(&own);
    const plan_input gpu = {.device = &small_gpu, .shipped = &shipped};
    ck_assert(!cla_variant_choose_linear(&gpu, &many, false, &c) && !cla_variant_linear_is_open(&gpu, &many));
}
END_TEST

// Heads that RoPE turns in a projection are whole in its tile.
START_TEST(whole_heads) {
    const plan_input in = {.device = &wide_cpu, .shipped = &shipped};
    for (int head = 1; head <= 512; head++) {
        linear_problem p = {.rows = 512, .columns = 8 * head, .reduction = 512, .rope_head = head};
        linear_choice c;
        ck_assert(cla_variant_choose_linear(&in, &p, false, &c));
        if (c.knobs.rope) ck_assert_int_eq(c.column_tile % head, 0);
        ck_assert_int_eq(c.column_tile % c.knobs.lanes + c.column_tile % c.knobs.column_block, 0);
        ck_assert(c.column_tile > 0 && c.column_tile <= LINEAR_TILE_COLUMNS);
        if (head % 2) ck_assert_int_eq(c.knobs.rope, 0);
        if (head % 16 == 0) ck_assert_int_eq(c.knobs.rope, 1);
        p.rope_interleaved = true;
        p.rows = 3;
        ck_assert(cla_variant_choose_linear(&in, &p, false, &c));
        ck_assert_int_eq(c.knobs.rope, head % 2 ? 0 : 2);
    }
    // A head that no tile holds, at the end of what an int counts; and no rows at all.
    linear_problem huge = {.rows = 512, .columns = 89478490, .reduction = 512, .rope_head = 89478490},
                   none = huge;
    linear_choice c;
    none.rows = 0, none.rope_head = 64;
    ck_assert(cla_variant_choose_linear(&in, &huge, false, &c) && c.knobs.rope == 0 && c.column_tile > 0);
    ck_assert(cla_variant_choose_linear(&in, &none, false, &c) && c.knobs.row_block > 0 && c.column_tile > 0);
}
END_TEST

int main(void) {
    char why[256];
    const TTest *const pure[] = {fits_small_devices,
                                 capabilities_decide,
                                 what_is_asked_for,
                                 scratch_is_bounded,
                                 who_projects,
                                 whole_heads,
                                 NULL};
    const TTest *const driver[] = {local_memory_as_the_driver_says, NULL};
    if (!cla_tuned_parse(clattn_tuned_rows_text, &shipped, why, sizeof why)) {
        fprintf(stderr, "the shipped rows: %s\n", why);
        return 1;
    }
    Suite *suite = suite_create("plan");
    harness_add(suite, "pure", pure);
    harness_add(suite, "driver", driver);
    const int status = harness_run(suite);
    cla_tuned_free(&shipped);
    return status;
}
