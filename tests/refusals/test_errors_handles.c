// test_errors_handles.c: refusals that concern handles and calls, not shapes: NULL, foreign
// contexts and queues, wait lists, workspace, forced kernels without a feature, merges, and the
// context itself. Options of attention are in test_errors.c, and the layer is in
// test_errors_layer.c.
#define REFUSED_PARAMS clattn_merge_params
#include "refusals/refused.h"

#include <string.h>

static const struct test_case good = {
    .name = "good", .batch = 2, .heads = 4, .kv_heads = 2, .n_q = 5, .n_kv = 7, .head_dim = 8};

static clattn_status enqueue(struct refused_case *call, cl_command_queue queue) {
    return clattn_attention_enqueue(harness()->context, queue, &call->arrays.params, 0, NULL, NULL);
}

static cl_context another_context(void) {
    cl_int status;
    cl_context context = clCreateContext(NULL, 1, &harness()->device, NULL, NULL, &status);
    harness_expect(status, "clCreateContext");
    return context;
}

START_TEST(wait_lists) {
    struct refused_case call = refused_case_begin(&good);
    clattn_context *context = harness()->context;
    cl_command_queue queue = harness()->queue;
    const clattn_attention_params *p = &call.arrays.params;
    cl_event none = NULL;
    ASSERT_INVALID("a count without a list", clattn_attention_enqueue(context, queue, p, 1, NULL, NULL),
                   "wait");
    ASSERT_INVALID("a NULL event", clattn_attention_enqueue(context, queue, p, 1, &none, NULL), "wait");
    refused_case_end(&call, "wait lists", NULL);
}
END_TEST

START_TEST(foreign_queue) {
    struct refused_case call = refused_case_begin(&good);
    cl_int status;
    cl_context other = another_context();
    cl_command_queue queue = clCreateCommandQueue(other, harness()->device, 0, &status);
    harness_expect(status, "clCreateCommandQueue");
    ASSERT_INVALID("foreign queue", enqueue(&call, queue), "queue");
    clReleaseCommandQueue(queue);
    clReleaseContext(other);
    refused_case_end(&call, "foreign queue", NULL);
}
END_TEST

START_TEST(foreign_buffers) {
    cl_int status;
    cl_context other = another_context();
    cl_mem foreign = clCreateBuffer(other, CL_MEM_READ_WRITE, 1 << 20, NULL, &status);
    harness_expect(status, "clCreateBuffer");
    static const char *const names[] = {"q", "k", "v", "out", "lse", "workspace"};
    for (int n = 0; n < 6; n++) {
        struct refused_case call = refused_case_begin(&good);
        clattn_attention_params *p = &call.arrays.params;
        cl_mem *places[] = {&p->q.buffer,   &p->kv.k.buffer, &p->kv.v.buffer,
                            &p->out.buffer, &p->lse.buffer,  &p->workspace};
        *places[n] = foreign;
        ASSERT_INVALID(names[n], enqueue(&call, harness()->queue), names[n]);
        refused_case_end(&call, names[n], NULL);
    }
    clReleaseMemObject(foreign);
    clReleaseContext(other);
}
END_TEST

START_TEST(workspace_too_small) {
    for (int n = 0; n < 3; n++) {
        struct refused_case call = refused_case_begin(&good);
        size_t bytes = 0;
        cl_int status;
        call.arrays.params.kernel = case_kernel(n);
        call.arrays.params.rope.layout = CLATTN_ROPE_HALF;
        ck_assert(clattn_attention_workspace(harness()->context, &call.arrays.params, &bytes) == CLATTN_OK);
        ck_assert_uint_gt(bytes, 1);
        cl_mem small = clCreateBuffer(harness()->opencl, CL_MEM_READ_WRITE, bytes - 1, NULL, &status);
        harness_expect(status, "clCreateBuffer");
        call.arrays.params.workspace = small;
        harness_assert_refused("small workspace", enqueue(&call, harness()->queue), CLATTN_INVALID_ARGUMENT,
                               "workspace");
        clReleaseMemObject(small);
        refused_case_end(&call, "small workspace", NULL);
    }
}
END_TEST

// Only the unfused kernel returns score taps. If another kernel is forced, the call is refused.
START_TEST(kernel_cannot) {
    struct refused_case call = refused_case_begin(&good);
    struct guarded_shape shape = {CLATTN_TYPE_F32, 4, {2, 4, 5, 7}, LAYOUT_DENSE};
    struct guarded scores = guarded_output(harness_place(), &shape);
    call.arrays.params.scores = scores.view;
    call.arrays.params.kernel = CLATTN_KERNEL_FLASH;
    ASSERT_REFUSED("flash with a tap", enqueue(&call, harness()->queue), CLATTN_UNSUPPORTED, "score");
    ck_assert(guarded_intact(&scores, harness()->queue));
    call.arrays.params.scores.type = CLATTN_TYPE_F16;
    call.arrays.params.kernel = CLATTN_KERNEL_UNFUSED;
    ASSERT_INVALID("f16 tap", enqueue(&call, harness()->queue), "scores");
    guarded_release(&scores);
    refused_case_end(&call, "f16 tap", NULL);
}
END_TEST

#define INVALID_MERGES(X)                                                                                    \
    X(rows, "out", p->out_a.shape[2] = 4)                                                                    \
    X(type_of_one, "out_b", p->out_b.type = CLATTN_TYPE_F16)                                                 \
    X(lse_type, "lse_a", p->lse_a.type = CLATTN_TYPE_F16)                                                    \
    X(lse_heads, "lse_b", p->lse_b.shape[1] = 3)                                                             \
    X(out_absent, "out_b", p->out_b.buffer = NULL)                                                           \
    X(out_repeats, "out_a", p->out_a.stride[0] = 0)                                                          \
    X(rank, "out_a", p->out_a.rank = 3)                                                                      \
    X(lse_leaves, "lse_b", p->lse_b.offset = 1 << 30)                                                        \
    X(type_of_both, "out_a", p->out_a.type = p->out_b.type = CLATTN_TYPE_BOOL)                               \
    X(lse_absent, "lse_a", p->lse_a.buffer = NULL)
REFUSED_TABLE(invalid_merges, INVALID_MERGES)

START_TEST(merges) {
    const struct refusal *refusal = &invalid_merges[_i];
    struct refused_case a = refused_case_begin(&good), b = refused_case_begin(&good);
    cl_event event = NULL;
    clattn_merge_params params = {a.arrays.params.out, a.arrays.params.lse, b.arrays.params.out,
                                  b.arrays.params.lse};
    refusal->spoil(&params);
    ASSERT_INVALID(refusal->name,
                   clattn_merge_enqueue(harness()->context, harness()->queue, &params, 0, NULL, &event),
                   refusal->word);
    refused_case_end(&a, refusal->name, event);
    refused_case_end(&b, refusal->name, event);
}
END_TEST

START_TEST(contexts) {
    clattn_context_params params = {
        .device = harness()->device, .log = harness_log(), .engines = CLATTN_ENGINES_ALL + 1};
    clattn_context *context = NULL;
    ck_assert_int_eq(clattn_context_create(&params, &context), CLATTN_INVALID_ARGUMENT);
    ck_assert(context == NULL && strstr(harness_log_text(), "engines") && !strchr(harness_log_text(), '\n'));
}
END_TEST

// A cache folder that cannot be created only costs rebuilding. A new context has no last error.
START_TEST(fresh_context) {
    clattn_context_params params = {.device = harness()->device, .cache_dir = "/nonexistent/folder/cache"};
    clattn_context *context = NULL;
    clattn_context_stats stats;
    char text[16] = "something";
    ck_assert_int_eq(clattn_context_create(&params, &context), CLATTN_OK);
    ck_assert_uint_eq(clattn_context_last_error(context, text, sizeof text), 0);
    ck_assert_str_eq(text, "");
    clattn_context_get_stats(context, &stats);
    ck_assert_uint_eq(stats.programs_built + stats.programs_cached, 0);
    ck_assert(clattn_context_device(context) == harness()->device);
    ck_assert_int_ne(clattn_attention_enqueue(context, harness()->queue, NULL, 0, NULL, NULL), CLATTN_OK);
    size_t length = clattn_context_last_error(context, NULL, 0);
    ck_assert_uint_gt(length, 0);
    ck_assert_uint_eq(clattn_context_last_error(context, text, 5), length);
    ck_assert_uint_eq(strlen(text), 4);
    clattn_context_destroy(context);
}
END_TEST

START_TEST(names_of_statuses) {
    ck_assert_str_eq(clattn_status_name(CLATTN_OK), "OK");
    ck_assert_str_eq(clattn_status_name(CLATTN_DEVICE_LOST), "DEVICE_LOST");
    ck_assert_str_eq(clattn_status_name((clattn_status)99), "UNKNOWN");
    ck_assert_str_eq(clattn_status_name((clattn_status)(-1)), "UNKNOWN");
    ck_assert_str_eq(clattn_version(), CLATTN_VERSION_STRING);
    ck_assert_int_eq(clattn_version_number(), CLATTN_VERSION_NUMBER);
    ck_assert_int_ge(CLATTN_VERSION_NUMBER, 2000);
    for (int n = 0; n <= CLATTN_STATUS_COUNT; n++) ck_assert(clattn_status_text((clattn_status)n)[0] != '\0');
}
END_TEST

START_TEST(device_lists) {
    clattn_device devices[1];
    size_t all = 0, count = 0;
    ck_assert_int_eq(clattn_device_list(NULL, 0, &all, NULL), CLATTN_OK);
    ck_assert_uint_gt(all, 0);
    ck_assert_int_eq(clattn_device_list(devices, 1, &count, NULL), CLATTN_OK);
    ck_assert_uint_eq(count, all);
    ck_assert(devices[0].device != NULL && devices[0].platform != NULL);
}
END_TEST

int main(void) {
    const TTest *const handles[] = {wait_lists,    foreign_queue,       foreign_buffers,
                                    kernel_cannot, workspace_too_small, NULL};
    const TTest *const context[] = {contexts, fresh_context, names_of_statuses, device_lists, NULL};
    Suite *suite = suite_create("errors of handles");
    TCase *group = harness_add(suite, "handles", handles);
    REFUSED_LOOP(group, merges, invalid_merges);
    harness_add(suite, "context", context);
    return harness_run(suite);
}
