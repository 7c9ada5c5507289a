// entry.c: see entry.h.
#include "launch/entry.h"

#include "program/unfit.h"

static clattn_status check(const entry *e, clattn_context *context, const void *params, entry_purpose purpose,
                           void *job) {
    if (!params) return cla_context_fail(context, CLATTN_INVALID_ARGUMENT, "params: is NULL");
    TRY(cla_context_check(context));
    return e->check(context, params, purpose, job);
}

clattn_status cla_entry_plan(const entry *e, clattn_context *context, const void *params, const void *result,
                             const char *name, void *job) {
    if (!context) return CLATTN_INVALID_ARGUMENT;
    if (!result) return cla_context_fail(context, CLATTN_INVALID_ARGUMENT, "%s: is NULL", name);
    return check(e, context, params, ENTRY_PLAN, job);
}

static clattn_status prepare(const entry *e, clattn_context *context, const void *params, void *job) {
    TRY(check(e, context, params, ENTRY_PREPARE, job));
    return e->prepare(job);
}

clattn_status cla_entry_prepare(const entry *e, clattn_context *context, const void *params, void *job) {
    clattn_status status;
    if (!context) return CLATTN_INVALID_ARGUMENT;
    const unsigned begun = cla_mods_begin(context);
    bool again = false;
    cla_unfit_end_first(context, true);
    cla_unfit_begin();
    while ((status = prepare(e, context, params, job)) == ENTRY_PLAN_AGAIN) again = true;
    cla_unfit_end();
    cla_mods_end(context, begun);
    if (again) cla_unfit_settle(context, status == CLATTN_OK);
    return status;
}

static clattn_status run(const entry *e, const void *params, const entry_queue *at, chain *steps, void *job) {
    clattn_status status = e->check(steps->context, params, ENTRY_ENQUEUE, job);
    if (status == CLATTN_OK) status = cla_chain_end(steps, e->run(job, steps), at->event);
    if (e->release) e->release(job);
    return status;
}

clattn_status cla_entry_enqueue(const entry *e, clattn_context *context, const void *params,
                                const entry_queue *at, void *job) {
    if (at->event) *at->event = NULL;
    if (!context) return CLATTN_INVALID_ARGUMENT;
    chain steps;
    clattn_status status;
    TRY(cla_context_check(context));
    TRY(cla_chain_begin(&steps, context, at->queue, at->wait_count, at->wait_list));
    steps.wants_event = at->event != NULL;
    if (!params) return cla_context_fail(context, CLATTN_INVALID_ARGUMENT, "params: is NULL");
    if (steps.recording && (at->event || at->wait_count > 0))
        return cla_context_fail(
            context, CLATTN_INVALID_ARGUMENT,
            "%s: the queue's calls are recorded: NULL is needed, and clattn_recording_enqueue takes one",
            at->event ? "event" : "wait_list");
    if (steps.recording) cla_unfit_end_first(context, true);
    const unsigned begun = cla_mods_begin(context);
    cla_unfit_begin();
    while ((status = run(e, params, at, &steps, job)) == ENTRY_PLAN_AGAIN) steps.again = true;
    cla_unfit_end();
    cla_mods_end(context, begun);
    cla_chain_drop(&steps);
    if (steps.again) cla_unfit_settle(context, status == CLATTN_OK);
    if (status == CLATTN_OK) cla_unfit_end_first(context, false);
    return status;
}
