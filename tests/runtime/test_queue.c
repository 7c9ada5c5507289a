// test_queue.c: calls and their queues: wait lists, events, in-order and out-of-order queues,
// workspace, plan, prepare, sizes of zero. Elsewhere: numbers of options (test_masks.c) and
// refusals (test_errors.c).
#include "support/case_assert.h"
#include "support/harness.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct test_case ordinary = {
    .name = "ordinary", .batch = 2, .heads = 4, .kv_heads = 2, .n_q = 20, .n_kv = 33, .head_dim = 32};

static void check(const struct case_data *data, const struct case_arrays *arrays, cl_command_queue queue) {
    char why[512] = "";
    struct case_result got = case_collect(arrays, queue, NULL);
    ck_assert_msg(case_agrees(data, &got, why, sizeof why), "%s (%s): %s", data->test.name,
                  names_kernels[data->test.kernel], why);
    case_result_free(&got);
}

// The call must not run before the user event is set. Its event must complete after the outputs are
// written.
static void wait_for_user_event(cl_command_queue queue, clattn_kernel kernel) {
    struct case_arrays arrays;
    struct case_data *data = case_make(&ordinary);
    cl_event gate = harness_gate(), done = NULL;
    data->test.kernel = kernel;
    case_bind(data, harness_place(), &arrays);
    clattn_status result =
        clattn_attention_enqueue(harness()->context, queue, &arrays.params, 1, &gate, &done);
    ck_assert_msg(result == CLATTN_OK, "%s", harness_log_text());
    harness_open_gate(gate, done, queue);
    check(data, &arrays, queue);
    case_unbind(&arrays);
    case_free(data);
}

START_TEST(waits_in_order) {
    for (int n = 0; n < 3; n++) wait_for_user_event(harness()->queue, case_kernel(n));
}
END_TEST

START_TEST(waits_out_of_order) {
    if (harness()->out_of_order == NULL) return;
    for (int n = 0; n < 3; n++) wait_for_user_event(harness()->out_of_order, case_kernel(n));
}
END_TEST

// On an out-of-order queue only events order the commands: attention of two parts, then their
// merge.
START_TEST(chain_out_of_order) {
    cl_command_queue queue = harness()->out_of_order;
    for (int n = 0; queue != NULL && n < 10; n++) {
        struct case_data *data = case_make(&ordinary);
        struct case_arrays a, b;
        cl_event parts[2], done;
        case_bind(data, harness_place(), &a);
        case_bind(data, harness_place(), &b);
        a.params.kv.k.shape[2] = a.params.kv.v.shape[2] = 13;
        b.params.kv.k.shape[2] = b.params.kv.v.shape[2] = 20;
        b.params.kv.k.offset += 13 * 32;
        b.params.kv.v.offset += 13 * 32;
        ck_assert(clattn_attention_enqueue(harness()->context, queue, &a.params, 0, NULL, &parts[0]) ==
                  CLATTN_OK);
        ck_assert(clattn_attention_enqueue(harness()->context, queue, &b.params, 0, NULL, &parts[1]) ==
                  CLATTN_OK);
        clattn_merge_params merge = {a.params.out, a.params.lse, b.params.out, b.params.lse};
        ck_assert(clattn_merge_enqueue(harness()->context, queue, &merge, 2, parts, &done) == CLATTN_OK);
        harness_expect(clWaitForEvents(1, &done), "clWaitForEvents");
        check(data, &a, queue);
        for (int e = 0; e < 2; e++) clReleaseEvent(parts[e]);
        clReleaseEvent(done);
        case_unbind(&a);
        case_unbind(&b);
        case_free(data);
    }
}
END_TEST

// Two calls in flight at once on an out-of-order queue do not share scratch memory.
START_TEST(two_calls_in_flight) {
    cl_command_queue queue = harness()->out_of_order;
    for (int n = 0; queue != NULL && n < 3; n++) {
        struct test_case tests[] = {ordinary, ordinary};
        struct case_data *data[2];
        struct case_arrays arrays[2];
        for (int c = 0; c < 2; c++) {
            tests[c].seed = (uint64_t)c + 5;
            tests[c].kernel = case_kernel(n);
            tests[c].rope.layout = CLATTN_ROPE_HALF;
            data[c] = case_make(&tests[c]);
            case_bind(data[c], harness_place(), &arrays[c]);
        }
        for (int c = 0; c < 2; c++)
            ck_assert(clattn_attention_enqueue(harness()->context, queue, &arrays[c].params, 0, NULL, NULL) ==
                      CLATTN_OK);
        for (int c = 0; c < 2; c++) {
            check(data[c], &arrays[c], queue);
            case_unbind(&arrays[c]);
            case_free(data[c]);
        }
    }
}
END_TEST

// Once with the requested bytes, once with more.
static void use_workspace(struct case_data *data, size_t extra) {
    struct case_arrays arrays;
    size_t bytes = 12345;
    cl_int status;
    case_bind(data, harness_place(), &arrays);
    ck_assert(clattn_attention_workspace(harness()->context, &arrays.params, &bytes) == CLATTN_OK);
    ck_assert_uint_ne(bytes, 12345);
    arrays.params.workspace =
        clCreateBuffer(harness()->opencl, CL_MEM_READ_WRITE, bytes + extra, NULL, &status);
    harness_expect(status, "clCreateBuffer");
    clattn_status result =
        clattn_attention_enqueue(harness()->context, harness()->queue, &arrays.params, 0, NULL, NULL);
    ck_assert_msg(result == CLATTN_OK, "%s: %s", names_kernels[data->test.kernel], harness_log_text());
    check(data, &arrays, harness()->queue);
    clReleaseMemObject(arrays.params.workspace);
    case_unbind(&arrays);
}

START_TEST(workspace) {
    for (int n = 0; n < 3; n++) {
        struct test_case test = ordinary;
        test.kernel = case_kernel(n);
        test.rope.layout = CLATTN_ROPE_HALF;
        struct case_data *data = case_make(&test);
        use_workspace(data, 0);
        use_workspace(data, 1000);
        case_free(data);
    }
}
END_TEST

START_TEST(plan_tells_why) {
    for (int n = 0; n < 3; n++) {
        struct case_arrays arrays;
        struct case_data *data = case_make(&ordinary);
        clattn_plan plan = {0};
        case_bind(data, harness_place(), &arrays);
        arrays.params.kernel = case_kernel(n);
        arrays.params.q.buffer = arrays.params.kv.k.buffer = arrays.params.kv.v.buffer = NULL;
        arrays.params.out.buffer = arrays.params.lse.buffer = NULL;
        size_t bytes = 0;
        clattn_status status = clattn_attention_plan(harness()->context, &arrays.params, &plan);
        ck_assert_msg(status == CLATTN_OK, "%s", harness_log_text());
        ck_assert(clattn_attention_workspace(harness()->context, &arrays.params, &bytes) == CLATTN_OK);
        ck_assert_uint_eq(bytes, plan.workspace_bytes);
        ck_assert_int_ne(plan.kernel, CLATTN_KERNEL_AUTO);
        if (case_kernel(n) != CLATTN_KERNEL_AUTO) ck_assert_int_eq(plan.kernel, case_kernel(n));
        ck_assert_msg(plan.kernel_name[0] != '\0' && plan.why[0] != '\0', "a plan without name or reason");
        ck_assert_msg(strchr(plan.why, '\n') == NULL, "more than one line: %s", plan.why);
        ck_assert_int_gt(plan.work_group, 0);
        ck_assert_int_ge(plan.splits, 1);
        ck_assert_uint_le(plan.local_bytes,
                          clattn_context_capabilities(harness()->context)->local_memory_bytes);
        case_unbind(&arrays);
        case_free(data);
    }
}
END_TEST

// In a context without kernels: after prepare, enqueueing builds nothing more.
START_TEST(prepare_builds_everything) {
    clattn_context_params params = {.device = harness()->device, .context = harness()->opencl};
    params.log = harness_log();
    for (int n = 0; n < 3; n++) {
        clattn_context *context = NULL;
        clattn_context_stats before, after;
        struct case_arrays arrays;
        struct test_case test = ordinary;
        test.kernel = case_kernel(n);
        test.rope.layout = CLATTN_ROPE_INTERLEAVED;
        struct case_data *data = case_make(&test);
        ck_assert(clattn_context_create(&params, &context) == CLATTN_OK);
        ck_assert(clattn_context_opencl(context) == harness()->opencl);
        case_bind(data, harness_place(), &arrays);
        ck_assert(clattn_attention_prepare(context, &arrays.params) == CLATTN_OK);
        clattn_context_get_stats(context, &before);
        ck_assert_uint_gt(before.programs_built + before.programs_cached, 0);
        ck_assert(clattn_attention_enqueue(context, harness()->queue, &arrays.params, 0, NULL, NULL) ==
                  CLATTN_OK);
        clattn_context_get_stats(context, &after);
        ck_assert_mem_eq(&before, &after, sizeof before);
        check(data, &arrays, harness()->queue);
        clattn_context_destroy(context);
        case_unbind(&arrays);
        case_free(data);
    }
}
END_TEST

// With B, H or Nq of 0 the call does nothing, succeeds, and its event completes.
START_TEST(no_rows) {
    for (int n = 0; n < 3 * 3; n++) {
        struct case_arrays arrays;
        struct case_data *data = case_make(&ordinary);
        cl_event done = NULL;
        case_bind(data, harness_place(), &arrays);
        int axis = n % 3;
        clattn_tensor *all[] = {&arrays.params.q, &arrays.params.out, &arrays.params.lse, &arrays.params.kv.k,
                                &arrays.params.kv.v};
        for (int t = 0; t < (axis == 2 ? 3 : 5); t++) all[t]->shape[axis] = 0;
        arrays.params.kernel = case_kernel(n / 3);
        clattn_status status =
            clattn_attention_enqueue(harness()->context, harness()->queue, &arrays.params, 0, NULL, &done);
        ck_assert_msg(status == CLATTN_OK, "axis %d: %s", axis, harness_log_text());
        ck_assert_msg(done != NULL, "axis %d: no event", axis);
        harness_expect(clWaitForEvents(1, &done), "clWaitForEvents");
        clReleaseEvent(done);
        ck_assert(guarded_intact(&arrays.out, harness()->queue));
        ck_assert(guarded_intact(&arrays.lse, harness()->queue));
        case_unbind(&arrays);
        case_free(data);
    }
}
END_TEST

// With Nkv of 0 every row is empty: out is 0, and lse is -inf or the sink.
START_TEST(no_keys) {
    for (int n = 0; n < 3 * 2; n++) {
        struct test_case test = ordinary;
        test.hosts = n / 3 ? CASE_HOST_BIT(CASE_SINKS) : 0;
        struct case_arrays arrays;
        struct case_data *data = case_make(&test);
        case_bind(data, harness_place(), &arrays);
        arrays.params.kernel = case_kernel(n % 3);
        arrays.params.kv.k.shape[2] = arrays.params.kv.v.shape[2] = 0;
        clattn_status status =
            clattn_attention_enqueue(harness()->context, harness()->queue, &arrays.params, 0, NULL, NULL);
        ck_assert_msg(status == CLATTN_OK, "%s: %s", names_kernels[case_kernel(n % 3)], harness_log_text());
        struct case_result got = case_collect(&arrays, harness()->queue, NULL);
        for (int c = 0; c < 2 * 4 * 20 * 32; c++) ck_assert_double_eq(got.out[c], 0);
        for (int c = 0; c < 2 * 4 * 20; c++) {
            double sink = test.hosts ? (double)data->floats[CASE_SINKS][c / 20 % 4] : -(double)INFINITY;
            ck_assert_msg(got.lse[c] == sink || fabs(got.lse[c] - sink) < 1e-6, "lse %g, sink %g", got.lse[c],
                          sink);
        }
        case_result_free(&got);
        case_unbind(&arrays);
        case_free(data);
    }
}
END_TEST

int main(void) {
    const TTest *const events[] = {waits_in_order, waits_out_of_order, chain_out_of_order,
                                   two_calls_in_flight, NULL};
    const TTest *const ahead[] = {workspace, plan_tells_why, prepare_builds_everything, NULL};
    const TTest *const zero[] = {no_rows, no_keys, NULL};
    Suite *suite = suite_create("queue");
    harness_add(suite, "events", events);
    harness_add(suite, "plan and prepare", ahead);
    harness_add(suite, "sizes of zero", zero);
    return harness_run(suite);
}
