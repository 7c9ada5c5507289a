// test_events.c: ownership of events. A returned event belongs to the caller, events of a wait list
// stay the caller's, and all are waited for, also by calls that fail or do nothing. The calls are
// attention with all layouts of keys, layer, linear, merge, and small_calls.h. Leaked objects are
// found by the layer that counts objects (cl_layer.h).
#include "support/case_assert.h"
#include "support/harness.h"
#include "support/small_calls.h"

#include <stdio.h>
#include <string.h>

// The calls. Each has small tensors of its own.
enum {
    ATTENTION,
    UNFUSED,
    LAYER,
    LAYER_CLBLAST,
    LINEAR,
    LINEAR_CLBLAST,
    MERGE,
    PAST,
    PAGES,
    APPEND,
    RAGGED,
    RAGGED_DEVICE,
    MODS,
    GATES,
    SMALL,
    CALLS = SMALL + SMALL_CALLS
};
static const char *const names[SMALL] = {
    "attend-f32-b1-h2-n9-nkv33-d32-full-flash-lse-ropehalf",
    "attend-f32-b1-h2-n9-nkv33-d32-full-unfused-lse",
    "layer-f32-b1-h2-n9-d32-m64-full-native",
    "layer-f32-b1-h2-n9-d32-m64-full-clblast",
    "linear-f32-b1-h2-n9-d32-m64-full-native",
    "linear-f32-b1-h2-n9-d32-m64-full-clblast",
    "attend-f32-b1-h2-n9-nkv33-d32-full-lse",
    "attend-f32-b2-h2-n9-nkv33-d32-full-flash-lse-past20:20:7-ropehalf-positions",
    "attend-f32-b2-h2-n9-nkv32-d32-full-flash-lse-pages4-kvlen32:9",
    "attend-f32-b2-h2-n9-nkv33-d32-full-flash-kvi8-lse-kvlen33:20-append4",
    "attend-f32-b2-h2-n9-nkv33-d32-full-flash-lse-qlen9:2-kvlen20:33-dropout0.3:7-raggedhost",
    "attend-f32-b2-h2-n9-nkv33-d32-full-flash-lse-qlen9:2-kvlen20:33-dropout0.3:7-raggeddevice",
    "attend-f32-b1-h2-n9-nkv33-d32-causal-flash-lse-mods-blocks",
    "layer-f32-b1-h2-n9-d32-m64-full-native-normheads-gateall-ropehalf-positions"};

static const char *name_of(int call) {
    return call < SMALL ? names[call] : small_names[call - SMALL];
}

struct ready {
    struct case_data *data;
    struct case_arrays arrays, other; // other: the second part of a merge
    clattn_merge_params merge;
    struct small_call small; // for a call of small_calls.h; the fields above are then unused
};

static bool ready_open(struct ready *r, int call) {
    struct test_case test;
    char why[256] = "";
    *r = (struct ready){.data = NULL};
    if (call >= SMALL) {
        small_open(&r->small, call - SMALL, harness_place());
        return true;
    }
    ck_assert_msg(case_parse(names[call], &test, why), "%s: %s", names[call], why);
    if (test.projection == CLATTN_PROJECTION_CLBLAST && !harness_has_clblast()) return false;
    r->data = case_make(&test);
    case_bind(r->data, harness_place(), &r->arrays);
    case_bind(r->data, harness_place(), &r->other);
    r->merge = (clattn_merge_params){r->arrays.params.out, r->arrays.params.lse, r->other.params.out,
                                     r->other.params.lse};
    return true;
}

static void ready_close(struct ready *r) {
    if (r->data == NULL) {
        small_close(&r->small);
        return;
    }
    case_unbind(&r->arrays);
    case_unbind(&r->other);
    case_free(r->data);
}

static clattn_status enqueue(struct ready *r, int call, cl_command_queue queue, cl_uint count,
                             const cl_event *list, cl_event *event) {
    clattn_context *c = harness()->context;
    if (call >= SMALL) return small_enqueue(&r->small, c, queue, count, list, event);
    if (call == MERGE) return clattn_merge_enqueue(c, queue, &r->merge, count, list, event);
    if (r->arrays.op == CASE_LAYER)
        return clattn_layer_enqueue(c, queue, &r->arrays.layer, count, list, event);
    if (r->arrays.op == CASE_LINEAR)
        return clattn_linear_enqueue(c, queue, &r->arrays.linear, count, list, event);
    return clattn_attention_enqueue(c, queue, &r->arrays.params, count, list, event);
}

// No rows in any of its tensors.
static void empty(struct ready *r, int call) {
    clattn_attention_params *p = &r->arrays.params;
    small_empty(&r->small);
    if (p->sequences > 0) {
        p->sequences = 0;
        p->cu_seqlens_q_device.shape[0] = p->kv.cu_seqlens_kv_device.shape[0] = 1;
        if (p->cu_seqlens_q)
            // arrays in host memory need no sequences without rows
            p->q.shape[2] = p->out.shape[2] = p->lse.shape[2] = 0;
        return;
    }
    p->rope.positions.shape[1] = r->arrays.layer.rope.positions.shape[0] = 0;
    if (p->score.block_mask.rank) p->score.block_mask.shape[2] = 0;
    if (call == MERGE)
        r->merge.out_a.shape[2] = r->merge.out_b.shape[2] = r->merge.lse_a.shape[2] =
            r->merge.lse_b.shape[2] = 0;
    p->q.shape[2] = p->out.shape[2] = p->lse.shape[2] = 0;
    r->arrays.layer.x.shape[0] = r->arrays.layer.out.shape[0] = 0;
    r->arrays.linear.x.shape[1] = r->arrays.linear.out.shape[1] = 0;
}

// One element too many; for a projection one axis too many.
static void spoil(struct ready *r, int call) {
    small_spoil(&r->small);
    if (call == MERGE) r->merge.lse_b.offset = 1 << 28;
    r->arrays.params.out.offset = 1 << 28;
    r->arrays.layer.out.rank = r->arrays.linear.out.rank = 4;
}

static cl_uint references(cl_event event) {
    cl_uint count = 0;
    harness_expect(clGetEventInfo(event, CL_EVENT_REFERENCE_COUNT, sizeof count, &count, NULL), "events");
    return count;
}

static cl_int state(cl_event event) {
    cl_int status = CL_QUEUED;
    harness_expect(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL),
                   "events");
    return status;
}

// Both queues, two gates, twice: full calls and calls without rows. The event completes after both
// gates.
static void held_back(int call, cl_command_queue queue, bool nothing) {
    struct ready r;
    if (!ready_open(&r, call)) return;
    if (nothing) empty(&r, call);
    cl_event gates[2] = {harness_gate(), harness_gate()}, done = NULL;
    const clattn_status status = enqueue(&r, call, queue, 2, gates, &done);
    ck_assert_msg(status == CLATTN_OK, "%s: %s", name_of(call), harness_log_text());
    ck_assert_msg(done && done != gates[0] && done != gates[1], "%s: no event of its own", name_of(call));
    harness_expect(clFlush(queue), "clFlush");
    harness_expect(clSetUserEventStatus(gates[0], CL_COMPLETE), "clSetUserEventStatus");
    for (int n = 0; n < 200; n++)
        ck_assert_msg(state(done) > CL_COMPLETE, "%s: done before its wait list", name_of(call));
    harness_expect(clSetUserEventStatus(gates[1], CL_COMPLETE), "clSetUserEventStatus");
    harness_expect(clWaitForEvents(1, &done), "clWaitForEvents");
    harness_finish(queue);
    clReleaseEvent(done);
    for (int n = 0; n < 2; n++) clReleaseEvent(gates[n]);
    ready_close(&r);
}

START_TEST(waits_and_is_the_callers) {
    held_back(_i % CALLS, harness()->queue, _i >= CALLS);
    if (harness()->out_of_order) held_back(_i % CALLS, harness()->out_of_order, _i >= CALLS);
}
END_TEST

// NULL in place of an event is valid, and so is a wait list of completed events.
START_TEST(no_event_is_asked_for) {
    struct ready r;
    if (!ready_open(&r, _i % CALLS)) return;
    if (_i >= CALLS) empty(&r, _i % CALLS);
    cl_event first = NULL;
    ck_assert_int_eq(enqueue(&r, _i % CALLS, harness()->queue, 0, NULL, &first), CLATTN_OK);
    harness_expect(clWaitForEvents(1, &first), "clWaitForEvents");
    ck_assert_int_eq(enqueue(&r, _i % CALLS, harness()->queue, 1, &first, NULL), CLATTN_OK);
    harness_finish(harness()->queue);
    clReleaseEvent(first);
    ready_close(&r);
}
END_TEST

// A refused call sets the caller's event to NULL and keeps nothing of the wait list.
START_TEST(refused) {
    struct ready r;
    if (!ready_open(&r, _i)) return;
    cl_event gate = harness_gate(), done = gate;
    spoil(&r, _i);
    ck_assert_int_eq(enqueue(&r, _i, harness()->queue, 1, &gate, &done), CLATTN_INVALID_ARGUMENT);
    ck_assert_ptr_null(done);
    ck_assert_uint_eq(references(gate), 1);
    clReleaseEvent(gate);
    ready_close(&r);
}
END_TEST

// An event of another cl_context cannot be waited for.
START_TEST(foreign_event) {
    struct ready r;
    cl_int code;
    if (!ready_open(&r, _i)) return;
    cl_context other = clCreateContext(NULL, 1, &harness()->device, NULL, NULL, &code);
    harness_expect(code, "clCreateContext");
    cl_event gates[2] = {harness_gate(), clCreateUserEvent(other, &code)};
    harness_expect(code, "clCreateUserEvent");
    harness_log_clear();
    harness_assert_refused(name_of(_i), enqueue(&r, _i, harness()->queue, 2, gates, NULL),
                           CLATTN_INVALID_ARGUMENT, "wait_list: entry 1");
    for (int n = 0; n < 2; n++) clReleaseEvent(gates[n]);
    clReleaseContext(other);
    ready_close(&r);
}
END_TEST

int main(void) {
    const TTest *const none[] = {NULL};
    Suite *suite = suite_create("events");
    TCase *group = harness_add(suite, "events", none);
    tcase_add_loop_test(group, waits_and_is_the_callers, 0, 2 * CALLS);
    tcase_add_loop_test(group, no_event_is_asked_for, 0, 2 * CALLS);
    tcase_add_loop_test(group, refused, 0, CALLS);
    tcase_add_loop_test(group, foreign_event, 0, CALLS);
    return harness_run(suite);
}
