// test_copies.c: an enqueue keeps no pointer to the caller's host memory. A user event holds the
// queue while the parameters and every host array are overwritten and freed; the result must still
// be right. The library also must not read them again after the check, whatever another thread
// writes. Buffers must live until the commands end.
#include "support/case_assert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The caller's memory: copies that are filled with ones after the call has returned.
struct lent {
    void *memory[CASE_HOSTS + 1];
    size_t bytes[CASE_HOSTS + 1];
    int count;
};

static void *lend(struct lent *lent, const void *from, size_t bytes) {
    void *copy = malloc(bytes);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, from, bytes);
    lent->memory[lent->count] = copy;
    lent->bytes[lent->count++] = bytes;
    return copy;
}

static void take_back(struct lent *lent) {
    for (int i = 0; i < lent->count; i++) {
        memset(lent->memory[i], 0xff, lent->bytes[i]);
        free(lent->memory[i]);
    }
    *lent = (struct lent){0};
}

// Memory to overwrite after the library has checked it, while it builds its first kernel; NULL:
// none.
static struct lent *watched;

static void on_log(void *user, clattn_log_level level, const char *message) {
    (void)user, (void)level;
    if (!watched || strncmp(message, "kernel ", 7) != 0) return;
    for (int i = 0; i < watched->count; i++) memset(watched->memory[i], 0, watched->bytes[i]);
    watched = NULL;
}

static int lend_arrays(struct lent *lent, const struct test_case *test, clattn_score *score) {
    int given = 0;
    for (int i = 0; i < CASE_HOSTS; i++) {
        const int64_t count = case_hosts[i].of_heads ? test->heads : test->batch;
        void *from;
        char *at = (char *)score + case_hosts[i].field;
        memcpy(&from, at, sizeof from);
        if (!from) continue;
        from = lend(lent, from, (size_t)count * 4);
        memcpy(at, &from, sizeof from);
        given++;
    }
    return given;
}

// With a fresh context, which has built no kernel, the memory is also overwritten during the call.
static clattn_status enqueue_lent(clattn_context *fresh, const struct case_arrays *a,
                                  const struct test_case *test, cl_command_queue queue, cl_event *gate,
                                  cl_event *done) {
    struct lent lent = {0};
    clattn_context *context = fresh ? fresh : harness()->context;
    clattn_attention_params attention = a->params;
    clattn_layer_params layer = a->layer;
    const bool is_layer = test->op == CASE_LAYER;
    ck_assert_int_ge(lend_arrays(&lent, test, is_layer ? &layer.score : &attention.score), 5);
    void *params = is_layer ? lend(&lent, &layer, sizeof layer) : lend(&lent, &attention, sizeof attention);
    watched = fresh ? &lent : NULL;
    const clattn_status status = is_layer ? clattn_layer_enqueue(context, queue, params, 1, gate, done)
                                          : clattn_attention_enqueue(context, queue, params, 1, gate, done);
    ck_assert_msg(watched == NULL, "%s: nothing was built", test->name);
    take_back(&lent);
    return status;
}

static void overwrite(clattn_context *fresh, const struct test_case *test, cl_command_queue queue) {
    struct case_arrays arrays;
    struct case_data *data = case_make(test);
    char why[512] = "";
    cl_event gate = harness_gate(), done = NULL;
    case_bind(data, harness_place(), &arrays);
    const clattn_status status = enqueue_lent(fresh, &arrays, &data->test, queue, &gate, &done);
    ck_assert_msg(status == CLATTN_OK, "%s: %s", test->name, harness_log_text());
    harness_open_gate(gate, done, queue);
    ck_assert_msg(case_holds(data, &arrays, queue, why, sizeof why), "%s, kernel %s: %s", test->name,
                  names_kernels[test->kernel], why);
    case_unbind(&arrays);
    case_free(data);
}

static void on_both_queues(const struct test_case *test) {
    overwrite(NULL, test, harness()->queue);
    if (harness()->out_of_order) overwrite(NULL, test, harness()->out_of_order);
}

static struct test_case base(case_op op) {
    return (struct test_case){.op = op,
                              .name = op == CASE_LAYER ? "layer" : "attention",
                              .batch = 2,
                              .heads = 4,
                              .n_q = 9,
                              .n_kv = op == CASE_LAYER ? 9 : 33,
                              .head_dim = 16,
                              .width = op == CASE_LAYER ? 48 : 0,
                              .hosts = CASE_HOST_BIT(CASE_HOSTS) - 1,
                              .score = {.causal = true, .alignment = CLATTN_ALIGN_OFFSET}};
}

START_TEST(attention) {
    for (int n = 0; n < CLATTN_KERNEL_COUNT; n++) {
        struct test_case test = base(CASE_ATTEND);
        test.kernel = (clattn_kernel)n;
        if (n == CLATTN_KERNEL_DECODE) test.splits = 3;
        on_both_queues(&test);
        test.rope.layout = CLATTN_ROPE_HALF;
        on_both_queues(&test);
    }
}
END_TEST

START_TEST(layer) {
    for (int n = 0; n < 2 * CLATTN_PROJECTION_COUNT; n++) {
        struct test_case test = base(CASE_LAYER);
        test.projection = (clattn_projection)(n / 2);
        test.rope.layout = n % 2 ? CLATTN_ROPE_INTERLEAVED : CLATTN_ROPE_NONE;
        if (test.projection != CLATTN_PROJECTION_CLBLAST || harness_has_clblast()) on_both_queues(&test);
    }
}
END_TEST

START_TEST(while_it_builds) {
    const clattn_context_params params = {.device = harness()->device,
                                          .context = harness()->opencl,
                                          .log = {.fn = on_log, .level = CLATTN_LOG_INFO}};
    for (int n = 0; n < 2; n++) {
        struct test_case test = base(n ? CASE_LAYER : CASE_ATTEND);
        clattn_context *fresh = NULL;
        test.projection = CLATTN_PROJECTION_NATIVE;
        ck_assert_int_eq(clattn_context_create(&params, &fresh), CLATTN_OK);
        overwrite(fresh, &test, harness()->queue);
        clattn_context_destroy(fresh);
    }
}
END_TEST

int main(void) {
    const TTest *const tests[] = {attention, layer, while_it_builds, NULL};
    Suite *suite = suite_create("copies");
    harness_add(suite, "overwritten", tests);
    return harness_run(suite);
}
