// test_group_promises.c: the promises of group.h besides results: identical bits for the same
// shares, memory limits, plans, reports, refusals without side effects, cancellation, and threads.
// Failures are in test_group_faults.c.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verification/reference/storage.h"
#include "group/group_fixture.h"

#define CASE "attend-f32-b2-h4-hkv2-n70-nkv300-d16-causal-lse"
#define GRADIENTS_CASE "backward-bf16-b2-h4-hkv2-n70-nkv300-d16-causal-dlse-biask-alibi-sinks"
static const double uneven[] = {1.0, 2.5, 0.5};
static const clattn_partition deals[] = {CLATTN_PARTITION_HEADS, CLATTN_PARTITION_ROWS, CLATTN_PARTITION_KEYS,
                                         CLATTN_PARTITION_WHOLE};

// A call returns the same bits with other groups of the same devices, and with any measured rates.
START_TEST(same_bits) {
    struct case_data *data = group_case(_i < 4 ? CASE : GRADIENTS_CASE);
    const clattn_group_member members[] = {{.context = harness()->context}, {.context = harness()->context}};
    clattn_group *other = group_make(members, 2), *first = group_make(members, 2);
    struct group_call calls[3];
    for (int n = 0; n < 3; n++) {
        calls[n] = (struct group_call){.partition = deals[_i % 4], .shares = uneven};
        group_do(n == 2 ? other : first, data, &calls[n]);
        ck_assert_msg(calls[n].status == CLATTN_OK && calls[n].right, "%s %s", calls[n].message,
                      calls[n].why);
        ck_assert(calls[n].bits == calls[0].bits);
    }
    clattn_group_destroy(other);
    clattn_group_destroy(first);
    case_free(data);
}
END_TEST

// Shares, pieces and bytes match the plan, and shares add up to 1. The member with the largest
// requested share has the largest share.
START_TEST(reports) {
    struct case_data *data = group_case(_i < 4 ? CASE : GRADIENTS_CASE);
    const clattn_partition partition = deals[_i % 4];
    struct case_arrays arrays;
    struct case_group host;
    struct group_call call = {.partition = partition, .shares = uneven};
    clattn_group_report planned;
    clattn_group_share shares[3];
    double all = 0.0;
    group_do(group_of(3), data, &call);
    ck_assert_msg(call.status == CLATTN_OK && call.right, "%s %s", call.message, call.why);
    case_bind(data, harness_place(), &arrays);
    case_group_open(&arrays, harness()->queue, &host);
    host.params.partition = host.backward.partition = call.partition,
    host.params.shares = host.backward.shares = uneven;
    host.params.attention.q.buffer = host.params.attention.kv.k.buffer = host.params.attention.out.buffer =
        NULL;
    host.backward.backward.forward.q.buffer = host.backward.backward.dq.buffer = NULL;
    host.backward.backward.dk.buffer = host.backward.backward.dv.buffer = NULL;
    ck_assert_int_eq(_i < 4 ? clattn_group_plan(group_of(3), &host.params, &planned, shares)
                            : clattn_group_backward_plan(group_of(3), &host.backward, &planned, shares),
                     CLATTN_OK);
    case_group_close(&host, harness()->queue, false);
    case_unbind(&arrays);
    for (int n = 0; n < 3; n++) {
        const clattn_group_share *s = &call.done[n];
        all += s->share;
        ck_assert_double_eq_tol(shares[n].share, s->share, 1e-12);
        ck_assert(shares[n].pieces == s->pieces && shares[n].bytes_in == s->bytes_in &&
                  shares[n].bytes_out == s->bytes_out);
        ck_assert(s->status == CLATTN_OK && s->share <= call.done[1].share &&
                  (s->share > 0.0) == (s->pieces > 0));
        ck_assert((s->gflops > 0.0) == (s->pieces > 0) && (s->time_ns > 0) == (s->pieces > 0));
    }
    ck_assert_double_eq_tol(all, 1.0, 1e-9);
    ck_assert(planned.partition == partition && call.report.partition == partition);
    ck_assert_int_eq(planned.pieces, call.report.pieces);
    // Gradients are merged unless the call is whole, because the bias and per-head numbers are
    // shared by all items.
    ck_assert((call.report.merged > 0) ==
              (_i < 4 ? partition == CLATTN_PARTITION_KEYS : partition != CLATTN_PARTITION_WHOLE));
    ck_assert(strstr(call.report.why, "devices") != NULL && call.report.busy > 0.0 &&
              call.report.busy <= 1.0);
    case_free(data);
}
END_TEST

// Without shares, the first call measures rates, and the next call is partitioned by them.
START_TEST(by_rates) {
    struct case_data *data = group_case("attend-f32-b1-h8-n256-d16-full");
    const clattn_group_member members[] = {{.context = harness()->context}, {.context = harness()->context}};
    clattn_group *group = group_make(members, 2);
    struct group_call first = {.partition = CLATTN_PARTITION_ROWS}, second = first;
    group_do(group, data, &first);
    group_do(group, data, &second);
    ck_assert_msg(first.right && second.right, "%s %s", first.why, second.why);
    // The first call uses two pieces to measure rates. The second call measures nothing.
    ck_assert(first.report.pieces >= 3 && second.report.pieces <= 2);
    ck_assert_double_eq_tol(second.done[0].share + second.done[1].share, 1.0, 1e-9);
    clattn_group_destroy(group);
    case_free(data);
}
END_TEST

START_TEST(memory) {
    static const char *const names[] = {CASE, "attend-f32-b1-h2-n16-nkv4000-d16-full-lse",
                                        "attend-f32-b1-h6-n600-nkv64-d16-full", GRADIENTS_CASE};
    struct case_data *data = group_case(names[_i]);
    const clattn_group_member small[] = {{.context = harness()->context, .max_bytes = 60000},
                                         {.context = harness()->context, .max_bytes = 80000}};
    clattn_group *group = group_make(small, 2);
    struct group_call call = {.partition = CLATTN_PARTITION_AUTO};
    group_do(group, data, &call);
    ck_assert_msg(call.status == CLATTN_OK && call.right, "%s %s", call.message, call.why);
    ck_assert_int_eq(call.report.handed, 0);
    ck_assert(call.done[0].device_bytes <= 60000 && call.done[1].device_bytes <= 80000);
    ck_assert(call.report.pieces > 2 && call.done[0].device_bytes > 0);
    clattn_group_destroy(group);
    // If no piece fits a member's memory limit, the call fails, or the other member does the work.
    const clattn_group_member tiny[] = {{.context = harness()->context, .max_bytes = 500},
                                        {.context = harness()->context, .max_bytes = 0}};
    group = group_make(tiny, 1);
    struct group_call none = {.partition = CLATTN_PARTITION_AUTO}, handed = {.shares = uneven};
    group_do(group, data, &none);
    ck_assert_int_eq(none.status, CLATTN_OUT_OF_MEMORY);
    ck_assert(none.untouched && strstr(none.message, "cannot be cut") != NULL);
    ck_assert_int_eq(none.done[0].status, CLATTN_OUT_OF_MEMORY);
    clattn_group_destroy(group);
    group = group_make(tiny, 2);
    group_do(group, data, &handed);
    ck_assert_msg(handed.status == CLATTN_OK && handed.right, "%s %s", handed.message, handed.why);
    ck_assert(handed.report.handed > 0 && handed.done[0].status == CLATTN_OUT_OF_MEMORY);
    ck_assert(handed.done[0].pieces == 0 && handed.done[1].status == CLATTN_OK);
    clattn_group_destroy(group);
    case_free(data);
}
END_TEST

static void expect_refused(const clattn_group_attention_params *params, clattn_status want,
                           const char *word) {
    clattn_group *group = group_of(2);
    char text[1024] = "";
    harness_log_clear();
    const clattn_status got = clattn_group_attention(group, params, NULL, NULL);
    const size_t length = clattn_group_last_error(group, text, sizeof text);
    ck_assert_msg(got == want && strstr(text, word) != NULL, "%s: %s: %s", word, clattn_status_name(got),
                  text);
    ck_assert(length == strlen(text) && strchr(text, '\n') == NULL);
    // The context that refused the call logs the message as well.
    ck_assert(harness_log_count() >= 1 && strcmp(harness_log_text(), text) == 0);
}

START_TEST(refusals) {
    struct case_data *data = group_case(CASE);
    struct case_arrays arrays;
    struct case_group host;
    static const double bad[][3] = {{-1.0, 2.0}, {0.0, 0.0}, {1.0 / 0.0, 1.0}, {0.0 / 0.0, 1.0}};
    case_bind(data, harness_place(), &arrays);
    case_group_open(&arrays, harness()->queue, &host);
    clattn_group_attention_params p = host.params;
    p.partition = CLATTN_PARTITION_COUNT;
    expect_refused(&p, CLATTN_INVALID_ARGUMENT, "partition: 5");
    p = host.params, p.attention.workspace = arrays.params.q.buffer;
    expect_refused(&p, CLATTN_INVALID_ARGUMENT, "workspace");
    for (size_t n = 0; n < sizeof bad / sizeof bad[0]; n++) {
        p = host.params, p.shares = bad[n];
        expect_refused(&p, CLATTN_INVALID_ARGUMENT, "shares");
    }
    p = host.params, p.attention.q.shape[0] = 1, p.attention.cu_seqlens_q = (const int32_t[]){0, 5};
    expect_refused(&p, CLATTN_INVALID_ARGUMENT, "sequences: is 0");
    p = host.params, p.attention.kv.v.buffer = NULL;
    expect_refused(&p, CLATTN_INVALID_ARGUMENT, "v: its memory is NULL");
    p = host.params, p.attention.out.buffer = p.attention.q.buffer,
    p.attention.out.offset = p.attention.q.offset;
    expect_refused(&p, CLATTN_INVALID_ARGUMENT, "overlaps");
    p = host.params, p.attention.kv.k.stride[3] = 2;
    expect_refused(&p, CLATTN_INVALID_ARGUMENT, "k: last stride 2: the last axis must be contiguous (1)");
    p = host.params, p.attention.q.shape[1] = 3;
    expect_refused(&p, CLATTN_INVALID_ARGUMENT, "q");
    p = host.params, p.attention.score.dropout = 0.5f, p.partition = CLATTN_PARTITION_ROWS;
    expect_refused(&p, CLATTN_UNSUPPORTED, "dealt by rows");
    expect_refused(NULL, CLATTN_INVALID_ARGUMENT, "params");
    case_group_close(&host, harness()->queue, true);
    struct case_result got = case_collect(&arrays, harness()->queue, NULL);
    ck_assert(got.intact); // and the outputs are unchanged
    ck_assert_double_eq(got.out[0], STORAGE_UNTOUCHED);
    case_result_free(&got);
    case_unbind(&arrays);
    case_free(data);
    ck_assert_int_eq(clattn_group_attention(NULL, NULL, NULL, NULL), CLATTN_INVALID_ARGUMENT);
    ck_assert_int_eq(clattn_group_plan(NULL, NULL, NULL, NULL), CLATTN_INVALID_ARGUMENT);
    ck_assert_uint_eq(clattn_group_last_error(NULL, NULL, 0), 0);
}
END_TEST

static void expect_gradients_refused(const clattn_group_attention_backward_params *params, clattn_status want,
                                     const char *word) {
    char text[1024] = "";
    harness_log_clear();
    const clattn_status got = clattn_group_attention_backward(group_of(2), params, NULL, NULL);
    clattn_group_last_error(group_of(2), text, sizeof text);
    ck_assert_msg(got == want && strstr(text, word) != NULL, "%s: %s: %s", word, clattn_status_name(got),
                  text);
}

static void refuse_forward(const clattn_group_attention_backward_params *of) {
    clattn_group_attention_backward_params p = *of;
    clattn_attention_params *f = &p.backward.forward;
    f->kv.v.buffer = NULL;
    expect_gradients_refused(&p, CLATTN_INVALID_ARGUMENT, "v: its memory is NULL");
    p = *of, f->lse.buffer = NULL;
    expect_gradients_refused(&p, CLATTN_INVALID_ARGUMENT, "lse: is absent");
    p = *of, f->kernel = CLATTN_KERNEL_FLASH;
    expect_gradients_refused(&p, CLATTN_UNSUPPORTED, "kernel: has no gradient");
    p = *of, f->score.dropout = 0.5f, p.partition = CLATTN_PARTITION_ROWS;
    expect_gradients_refused(&p, CLATTN_UNSUPPORTED, "dealt by rows");
}

static void refuse_gradients(const clattn_group_attention_backward_params *of, cl_mem any) {
    static const double bad[] = {-1.0, 2.0};
    clattn_group_attention_backward_params p = *of;
    clattn_attention_backward_params *b = &p.backward;
    p.partition = CLATTN_PARTITION_COUNT;
    expect_gradients_refused(&p, CLATTN_INVALID_ARGUMENT, "partition: 5");
    p = *of, p.shares = bad;
    expect_gradients_refused(&p, CLATTN_INVALID_ARGUMENT, "shares");
    p = *of, b->workspace = any;
    expect_gradients_refused(&p, CLATTN_INVALID_ARGUMENT, "workspace");
    p = *of, b->dout.buffer = NULL;
    expect_gradients_refused(&p, CLATTN_INVALID_ARGUMENT, "dout: is absent");
    p = *of, b->dhead_scales = b->dsinks;
    expect_gradients_refused(&p, CLATTN_INVALID_ARGUMENT, "dhead_scales: is asked for without head_scales");
    p = *of, b->dq = b->forward.q;
    expect_gradients_refused(&p, CLATTN_INVALID_ARGUMENT, "dq: overlaps q");
    p = *of, p.partition = CLATTN_PARTITION_KEYS;
    b->dq.buffer = b->dk.buffer = b->dv.buffer = b->dbias.buffer = b->dalibi_slopes.buffer = NULL;
    expect_gradients_refused(&p, CLATTN_UNSUPPORTED, "a sink's gradient is of rows");
    b->dsinks.buffer = NULL;
    expect_gradients_refused(&p, CLATTN_INVALID_ARGUMENT, "no gradient is asked for");
    expect_gradients_refused(NULL, CLATTN_INVALID_ARGUMENT, "params");
}

START_TEST(gradients_refused) {
    struct case_data *data = group_case(GRADIENTS_CASE);
    struct case_arrays arrays;
    struct case_group host;
    case_bind(data, harness_place(), &arrays);
    case_group_open(&arrays, harness()->queue, &host);
    refuse_forward(&host.backward);
    refuse_gradients(&host.backward, arrays.out.view.buffer);
    case_group_close(&host, harness()->queue, true);
    struct case_result got = case_collect(&arrays, harness()->queue, NULL);
    ck_assert(got.intact);
    for (int g = 0; g < GRADIENTS; g++)
        if (got.gradient[g] != NULL) ck_assert_double_eq(got.gradient[g][0], STORAGE_UNTOUCHED);
    case_result_free(&got);
    case_unbind(&arrays);
    case_free(data);
    ck_assert_int_eq(clattn_group_attention_backward(NULL, NULL, NULL, NULL), CLATTN_INVALID_ARGUMENT);
    ck_assert_int_eq(clattn_group_backward_plan(NULL, NULL, NULL, NULL), CLATTN_INVALID_ARGUMENT);
}
END_TEST

// Gradients of calls without rows, without keys, without both, and without batch items. Sums are
// then 0, except sink gradients of rows without keys.
START_TEST(gradients_of_nothing) {
    for (int n = 0; n < 4; n++) {
        const int64_t b = n == 3 ? 0 : 1, rows = n == 0 || n == 2 ? 0 : 3, keys = n == 1 || n == 2 ? 0 : 5;
        float numbers[64], lse[8], dk[64], dq[64], dsinks[2], sinks[] = {1.0f, 1.0f};
        for (int i = 0; i < 64; i++) numbers[i] = 0.5f, dk[i] = dq[i] = 77.0f;
        for (int i = 0; i < 8; i++) lse[i] = 1.0f;
        dsinks[0] = dsinks[1] = 77.0f;
        const clattn_tensor q = clattn_tensor_bhsd(CLATTN_HOST(numbers), CLATTN_TYPE_F32, b, 2, rows, 4),
                            k = clattn_tensor_bhsd(CLATTN_HOST(numbers), CLATTN_TYPE_F32, b, 2, keys, 4);
        const int64_t heads = 2;
        clattn_group_attention_backward_params p = {
            .backward = {.forward = {.q = q, .kv = {.k = k, .v = k}, .out = q}, .dout = q, .dq = q, .dk = k}};
        p.backward.forward.score.sinks = sinks;
        p.backward.forward.lse = clattn_tensor_dense(CLATTN_HOST(lse), CLATTN_TYPE_F32, 3, q.shape);
        p.backward.dq.buffer = CLATTN_HOST(dq), p.backward.dk.buffer = CLATTN_HOST(dk);
        p.backward.dsinks = clattn_tensor_dense(CLATTN_HOST(dsinks), CLATTN_TYPE_F32, 1, &heads);
        const clattn_status status = clattn_group_attention_backward(group_of(2), &p, NULL, NULL);
        ck_assert_msg(status == CLATTN_OK, "%d: %s", n, harness_log_text());
        for (int i = 0; i < 64; i++) {
            ck_assert_msg(dq[i] == (i < b * 8 * rows ? 0.0f : 77.0f), "%d: dq %d is %g", n, i, (double)dq[i]);
            ck_assert_msg(dk[i] == (i < b * 8 * keys ? 0.0f : 77.0f) || (rows && keys), "%d: dk %d is %g", n,
                          i, (double)dk[i]);
        }
        const float delta = 4 * 0.5f * 0.5f, wanted = n == 1 ? -3 * delta : n == 3 ? 77.0f : 0.0f;
        ck_assert_msg(dsinks[0] == wanted && dsinks[1] == wanted, "%d: dsinks %g", n, (double)dsinks[0]);
    }
}
END_TEST

// A group of one device returns the bits of that device without a group.
START_TEST(bits_of_one) {
    struct case_data *data = group_case(GRADIENTS_CASE);
    struct case_arrays arrays;
    struct case_group host;
    struct case_result results[2];
    const clattn_group_member member = {.context = harness()->context};
    clattn_group *group = group_make(&member, 1);
    for (int n = 0; n < 2; n++) {
        case_bind(data, harness_place(), &arrays);
        if (n == 0)
            ck_assert_int_eq(case_enqueue(harness()->context, harness()->queue, &arrays, NULL), CLATTN_OK);
        case_group_open(&arrays, harness()->queue, &host);
        if (n == 1) {
            clattn_group_report report;
            ck_assert_int_eq(case_group_run(group, &host, CLATTN_PARTITION_HEADS, NULL, &report, NULL),
                             CLATTN_OK);
            ck_assert(report.merged == 0 && report.partition == CLATTN_PARTITION_HEADS);
        }
        case_group_close(&host, harness()->queue, true);
        results[n] = case_collect(&arrays, harness()->queue, NULL);
        case_unbind(&arrays);
    }
    for (int g = 0; g < GRADIENTS; g++) {
        const struct guarded_shape shape = case_shape(&data->test, CASE_GRADIENT + g);
        if (results[0].gradient[g] != NULL)
            ck_assert_mem_eq(results[0].gradient[g], results[1].gradient[g],
                             (size_t)guarded_shape_count(&shape) * sizeof(double));
    }
    case_result_free(&results[0]);
    case_result_free(&results[1]);
    clattn_group_destroy(group);
    case_free(data);
}
END_TEST

START_TEST(creation) {
    clattn_group_member members[65];
    clattn_group *group = (clattn_group *)&members;
    for (int n = 0; n < 65; n++) members[n] = (clattn_group_member){.context = harness()->context};
    const clattn_group_params params = {.members = members, .count = 65, .log = harness_log()};
    clattn_group_params other = params;
    ck_assert_int_eq(clattn_group_create(&params, &group), CLATTN_INVALID_ARGUMENT);
    ck_assert_ptr_null(group);
    other.count = 0;
    ck_assert_int_eq(clattn_group_create(&other, &group), CLATTN_INVALID_ARGUMENT);
    other.count = 2, members[1].context = NULL;
    ck_assert_int_eq(clattn_group_create(&other, &group), CLATTN_INVALID_ARGUMENT);
    ck_assert(strstr(harness_log_text(), "context is NULL") != NULL);
    other.members = NULL;
    ck_assert_int_eq(clattn_group_create(&other, &group), CLATTN_INVALID_ARGUMENT);
    ck_assert_int_eq(clattn_group_create(NULL, &group), CLATTN_INVALID_ARGUMENT);
    ck_assert_int_eq(clattn_group_create(&params, NULL), CLATTN_INVALID_ARGUMENT);
    clattn_group_destroy(NULL);
}
END_TEST

struct heard {
    int calls, stop_at;
    double last;
};
static bool hear(void *user, double done) {
    struct heard *h = user;
    ck_assert(done >= h->last && done <= 1.0);
    h->last = done;
    return ++h->calls != h->stop_at;
}

START_TEST(progress_and_cancel) {
    struct case_data *data = group_case(_i ? GRADIENTS_CASE : CASE);
    struct heard all = {.calls = 0}, some = {.stop_at = 1};
    const clattn_progress hears = {.fn = hear, .user = &all}, stops = {.fn = hear, .user = &some};
    struct group_call call = {.partition = CLATTN_PARTITION_HEADS, .shares = uneven, .progress = &hears},
                      stopped = call;
    stopped.progress = &stops;
    group_do(group_of(2), data, &call);
    ck_assert_msg(call.right && all.last == 1.0 && all.calls >= 2, "%s: %d calls", call.why, all.calls);
    group_do(group_of(2), data, &stopped);
    ck_assert_int_eq(stopped.status, CLATTN_CANCELLED);
    ck_assert(stopped.untouched && some.calls == 1 && stopped.message[0] != '\0');
    case_free(data);
}
END_TEST

// Calls on one group, and on one of its contexts, from several threads.
#define THREADS 4
#define ROUNDS 6
struct worker {
    pthread_t thread;
    struct case_arrays arrays;
    struct case_group host;
    cl_command_queue queue;
    int number, failed;
};

static void *work(void *user) {
    struct worker *w = user;
    for (int n = 0; n < ROUNDS; n++) {
        w->host.params.partition = deals[(n + w->number) % 4];
        const clattn_status status = w->number == 0
                                         ? case_enqueue(harness()->context, w->queue, &w->arrays, NULL)
                                         : clattn_group_attention(group_of(2), &w->host.params, NULL, NULL);
        w->failed += status != CLATTN_OK;
    }
    return NULL;
}

START_TEST(threads) {
    struct case_data *data = group_case(CASE);
    static struct worker workers[THREADS];
    char why[512] = "";
    cl_int code = CL_SUCCESS;
    group_of(2);
    for (int n = 0; n < THREADS; n++) {
        struct worker *w = &workers[n];
        *w = (struct worker){.number = n};
        w->queue = clCreateCommandQueue(harness()->opencl, harness()->device, 0, &code);
        harness_expect(code, "clCreateCommandQueue");
        case_bind(data, harness_place(), &w->arrays);
        case_group_open(&w->arrays, harness()->queue, &w->host);
    }
    for (int n = 0; n < THREADS; n++)
        ck_assert_int_eq(pthread_create(&workers[n].thread, NULL, work, &workers[n]), 0);
    for (int n = 0; n < THREADS; n++) {
        struct worker *w = &workers[n];
        pthread_join(w->thread, NULL);
        harness_finish(w->queue);
        clReleaseCommandQueue(w->queue);
        case_group_close(&w->host, harness()->queue, n > 0);
        ck_assert_int_eq(w->failed, 0);
        ck_assert_msg(case_holds(data, &w->arrays, harness()->queue, why, sizeof why), "thread %d: %s", n,
                      why);
        case_unbind(&w->arrays);
    }
    case_free(data);
}
END_TEST

// The contents of a case's caches after one device's call, or after a group's call with or without
// query rows. The caller frees them.
static double *fill_caches(struct case_data *data, clattn_partition partition, bool rows, size_t *count) {
    struct case_arrays arrays;
    struct case_group host;
    clattn_group_share shares[2];
    case_bind(data, harness_place(), &arrays);
    harness_log_clear();
    if (rows) ck_assert_int_eq(case_enqueue(harness()->context, harness()->queue, &arrays, NULL), CLATTN_OK);
    case_group_open(&arrays, harness()->queue, &host);
    clattn_attention_params *p = &host.params.attention;
    host.params.partition = partition;
    p->q.shape[2] = p->out.shape[2] = p->lse.shape[2] = 0;
    if (!rows)
        ck_assert_msg(clattn_group_attention(group_of(2), &host.params, NULL, shares) == CLATTN_OK, "%s",
                      harness_log_text());
    if (!rows) ck_assert(shares[0].share + shares[1].share == 1.0);
    case_group_close(&host, harness()->queue, !rows);
    const int64_t of_k = guarded_count(&arrays.caches[0].view);
    *count = (size_t)(of_k + guarded_count(&arrays.caches[1].view));
    double *all = calloc(*count, sizeof *all);
    ck_assert(guarded_read(&arrays.caches[0], harness()->queue, all));
    ck_assert(guarded_read(&arrays.caches[1], harness()->queue, all + of_k));
    if (!rows) ck_assert(guarded_intact(&arrays.out, harness()->queue));
    case_unbind(&arrays);
    return all;
}

// New rows are appended even if the call has no query rows, for every way of partitioning.
START_TEST(new_rows_alone) {
    static const char *const names[] = {"attend-f32-b2-h4-hkv2-n3-nkv37-d16-causal-append3",
                                        "attend-f16-b2-h4-hkv2-n3-nkv37-d16-causal-kvi8-kvlen37:9-append3",
                                        "attend-f32-b2-h4-hkv2-n3-nkv35-d16-causal-pages7-kvlen35:9-append3",
                                        "attend-bf16-b2-h4-hkv2-n3-nkv37-d16-causal-past30-ropehalf-append3"};
    struct case_data *data = group_case(names[_i]);
    size_t count;
    double *with = fill_caches(data, CLATTN_PARTITION_AUTO, true, &count);
    for (int partition = 0; partition < CLATTN_PARTITION_COUNT; partition++) {
        double *without = fill_caches(data, (clattn_partition)partition, false, &count);
        ck_assert_msg(memcmp(with, without, count * sizeof *with) == 0, "%s, dealt by %s", names[_i],
                      clattn_partition_name((clattn_partition)partition));
        free(without);
    }
    free(with);
    case_free(data);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("group_promises");
    const TTest *const once[] = {by_rates,    refusals, creation, gradients_refused, gradients_of_nothing,
                                 bits_of_one, threads,  NULL};
    TCase *promises = harness_add(suite, "promises", once);
    tcase_add_loop_test(promises, same_bits, 0, 8);
    tcase_add_loop_test(promises, reports, 0, 8);
    tcase_add_loop_test(promises, memory, 0, 4);
    tcase_add_loop_test(promises, progress_and_cancel, 0, 2);
    tcase_add_loop_test(promises, new_rows_alone, 0, 4);
    return group_run(suite);
}
