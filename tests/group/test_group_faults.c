// test_group_faults.c: every OpenCL call under a group's call fails once (through the layer,
// cl_layer.h). The other device does the work instead, once, and the report says so. If all members
// fail, the call returns an error, and the caller's memory is unchanged.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "group/group_fixture.h"

#define CASE "attend-f32-b1-h2-n40-nkv300-d16-causal-lse"
#define GRADIENTS_CASE "backward-f32-b1-h2-n40-nkv300-d16-causal"
static const clattn_partition deals[] = {CLATTN_PARTITION_ROWS, CLATTN_PARTITION_KEYS, CLATTN_PARTITION_HEADS,
                                         CLATTN_PARTITION_ROWS};
#define OF_ATTENTION 3 // attention uses this many of `deals`, gradients the rest
// None of these codes is blamed on a kernel. After such a failure a member would run its share with
// another kernel (clattn_context_unfit).
static const int codes[] = {CL_MEM_OBJECT_ALLOCATION_FAILURE, CL_INVALID_MEM_OBJECT,
                            CL_INVALID_EVENT_WAIT_LIST, LAYER_FAILED_EVENT};
#define CODES ((int)(sizeof codes / sizeof codes[0]))
static const double even[] = {1.0, 1.0};

static int told; // log lines about a failed member
static long injected, handed_over, lost, refused;

static void on_log(void *user, clattn_log_level level, const char *message) {
    (void)user;
    (void)level;
    told += strstr(message, "its work goes to others") != NULL;
}

static clattn_group *loud_group(clattn_context *a, clattn_context *b, uint64_t first_bytes) {
    const clattn_group_member members[] = {{.context = a, .max_bytes = first_bytes}, {.context = b}};
    const clattn_group_params params = {
        .members = members, .count = b != NULL ? 2 : 1, .log = {.fn = on_log, .level = CLATTN_LOG_INFO}};
    clattn_group *group = NULL;
    ck_assert_int_eq(clattn_group_create(&params, &group), CLATTN_OK);
    return group;
}

// Calls whose failure only affects timing or cached objects.
static bool is_spared(const char *name) {
    return strncmp(name, "clRelease", 9) == 0 || strcmp(name, "clGetEventProfilingInfo") == 0;
}

#define ASSERT(condition, call, what)                                                                        \
    ck_assert_msg(condition, "%s; call %d, %s, code %d, dealt by %s: %s, %d handed: %s %s", what,            \
                  (call)->nth, (call)->armed.hit != NULL ? (call)->armed.hit : "none", (call)->code,         \
                  clattn_partition_name((call)->partition), clattn_status_name((call)->status),              \
                  (call)->report.handed, (call)->message, (call)->why)

static struct group_call attempt(clattn_group *group, struct case_data *data, clattn_partition partition,
                                 int nth, int code) {
    struct group_call call = {.partition = partition, .shares = even, .nth = nth, .code = code};
    told = 0;
    group_do(group, data, &call);
    injected += call.armed.hit != NULL;
    ASSERT(call.right, &call, call.status == CLATTN_OK ? "wrong" : "written to");
    return call;
}

// Exactly one member failed, once.
static void judge_taken_over(const struct group_call *call) {
    const int failed = (call->done[0].status != CLATTN_OK) + (call->done[1].status != CLATTN_OK);
    ASSERT(call->status == CLATTN_OK, call, "not taken over");
    if (failed == 0 && is_spared(call->armed.hit)) return;
    ASSERT(failed == 1 && call->report.handed >= 1 && told == 1, call, "not reported");
    handed_over++;
}

static struct case_data *begin(const char *name) {
    const struct layer_control *layer = layer_client();
    if (layer == NULL) return NULL;
    return group_case(name);
}

START_TEST(share_is_taken_over) {
    struct case_data *data = begin(_i < OF_ATTENTION ? CASE : GRADIENTS_CASE);
    if (data == NULL) return;
    const clattn_partition partition = deals[_i];
    clattn_context *second = group_context();
    clattn_group *group = loud_group(harness()->context, second, 0);
    attempt(group, data, partition, 0, 0); // compiles the kernels
    const int calls = attempt(group, data, partition, 0, CL_INVALID_VALUE).armed.calls;
    ck_assert_int_gt(calls, 20);
    for (int nth = 1; nth <= calls; nth += _i == 0 ? 1 : 3)
        for (int n = 0; n < (_i == 0 ? CODES : 1); n++) {
            const struct group_call call = attempt(group, data, partition, nth, codes[n]);
            if (call.armed.hit != NULL) judge_taken_over(&call);
            if (nth % CODES != n) continue;
            const struct group_call again = attempt(group, data, partition, 0, 0);
            ASSERT(again.status == CLATTN_OK && again.report.handed == 0 && again.done[0].pieces > 0 &&
                       again.done[1].pieces > 0,
                   &again, "afterwards");
        }
    clattn_group_destroy(group);
    clattn_context_destroy(second);
    case_free(data);
}
END_TEST

// A lost context stays lost, and the other member does all later work.
START_TEST(device_is_lost) {
    struct case_data *data = begin(CASE);
    const char *names[64];
    int known = 0;
    if (data == NULL) return;
    for (int nth = 1, calls = 1; nth <= calls; nth++) {
        clattn_context *pair[] = {group_context(), group_context()};
        clattn_group *group = loud_group(pair[0], pair[1], 0);
        attempt(group, data, CLATTN_PARTITION_ROWS, 0, 0);
        if (nth == 1) {
            calls = attempt(group, data, CLATTN_PARTITION_ROWS, 0, CL_INVALID_VALUE).armed.calls;
        }
        const struct group_call call =
            attempt(group, data, CLATTN_PARTITION_ROWS, nth, CL_DEVICE_NOT_AVAILABLE);
        judge_taken_over(&call);
        names[known++] = call.armed.hit;
        if (!is_spared(call.armed.hit)) {
            const struct group_call again = attempt(group, data, CLATTN_PARTITION_ROWS, 0, 0);
            const int gone = again.done[0].status == CLATTN_DEVICE_LOST ? 0 : 1;
            ASSERT(again.status == CLATTN_OK && again.report.handed == 0 &&
                       again.done[gone].status == CLATTN_DEVICE_LOST && again.done[gone].pieces == 0,
                   &again, "after a loss");
            lost++;
        }
        clattn_group_destroy(group);
        clattn_context_destroy(pair[0]);
        clattn_context_destroy(pair[1]);
        // Continue with a call whose name was not tried yet.
        for (bool seen = true; seen && nth < calls; nth += seen) {
            seen = false;
            for (int n = 0; n < known; n++)
                seen = seen || strcmp(names[n], layer_client()->call(nth + 1)) == 0;
        }
    }
    case_free(data);
}
END_TEST

// A single member, or a second member after the first lacks memory for any piece.
START_TEST(all_fail) {
    struct case_data *data = begin(CASE);
    if (data == NULL) return;
    clattn_context *second = group_context();
    clattn_group *group = _i == 0 ? loud_group(second, NULL, 0) : loud_group(harness()->context, second, 100);
    const struct group_call clean = attempt(group, data, CLATTN_PARTITION_ROWS, 0, CL_INVALID_VALUE);
    ASSERT(clean.status == CLATTN_OK && (clean.report.handed > 0) == (_i > 0), &clean, "without a fault");
    const int calls = attempt(group, data, CLATTN_PARTITION_ROWS, 0, CL_INVALID_VALUE).armed.calls;
    for (int nth = 1; nth <= calls; nth++) {
        const struct group_call call =
            attempt(group, data, CLATTN_PARTITION_ROWS, nth, CL_MEM_OBJECT_ALLOCATION_FAILURE);
        if (call.status == CLATTN_OK && is_spared(call.armed.hit)) continue;
        ASSERT(call.status == CLATTN_OUT_OF_MEMORY && call.untouched && strstr(call.message, "-4") != NULL,
               &call, "all failed");
        refused++;
    }
    clattn_group_destroy(group);
    clattn_context_destroy(second);
    case_free(data);
}
END_TEST

START_TEST(creation_fails) {
    const struct layer_control *layer = layer_client();
    struct layer_counts before, after;
    if (layer == NULL) return;
    clattn_context *second = group_context();
    const clattn_group_member members[] = {{.context = harness()->context}, {.context = second}};
    const clattn_group_params params = {.members = members, .count = 2, .log = harness_log()};
    for (int nth = 1; nth <= 6; nth++) {
        clattn_group *group = (clattn_group *)&before;
        layer->count(&before);
        harness_log_clear();
        layer->arm(nth, CL_OUT_OF_HOST_MEMORY);
        const clattn_status status = clattn_group_create(&params, &group);
        const struct layer_armed armed = layer->disarm();
        layer->count(&after);
        ck_assert_str_eq(armed.hit, "clCreateCommandQueue");
        ck_assert_int_eq(status, CLATTN_OUT_OF_MEMORY);
        ck_assert(group == NULL && strstr(harness_log_text(), "clCreateCommandQueue") != NULL);
        ck_assert_int_eq(after.live[LAYER_QUEUE], before.live[LAYER_QUEUE]);
    }
    clattn_context_destroy(second);
}
END_TEST

START_TEST(nothing_misused) {
    struct layer_counts counts;
    if (layer_client() == NULL) return;
    layer_client()->count(&counts);
    ck_assert_msg(counts.misused == 0, "%s", counts.first_misuse);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("group_faults");
    const TTest *const none[] = {NULL}, *const last[] = {device_is_lost, creation_fails, nothing_misused,
                                                         NULL};
    tcase_add_loop_test(harness_add(suite, "taken over", none), share_is_taken_over, 0,
                        sizeof deals / sizeof deals[0]);
    tcase_add_loop_test(harness_add(suite, "all", none), all_fail, 0, 2);
    harness_add(suite, "lost", last);
    const int status = group_run(suite);
    printf("%ld faults: %ld handed over, %ld devices lost, %ld calls refused\n", injected, handed_over, lost,
           refused);
    return status;
}
