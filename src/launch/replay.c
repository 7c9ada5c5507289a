// replay.c: the public functions of a recording: begin, end, replay, destroy.
#include "launch/recording.h"

#include "base/host.h"

clattn_status clattn_recording_begin(clattn_context *context, cl_command_queue queue,
                                     clattn_recording **recording) {
    if (recording) *recording = NULL;
    if (!context) return CLATTN_INVALID_ARGUMENT;
    if (!recording) return cla_context_fail(context, CLATTN_INVALID_ARGUMENT, "recording: is NULL");
    chain c;
    clattn_recording *none = NULL;
    TRY(cla_context_check(context));
    TRY(cla_chain_begin(&c, context, queue, 0, NULL));
    clattn_recording *r = cla_host_take_zeroed(&context->host, 1, sizeof *r);
    if (!r) return cla_context_fail(context, CLATTN_OUT_OF_MEMORY, "recording: no host memory");
    *r = (clattn_recording){.context = context};
    if (!atomic_compare_exchange_strong(&context->recording, &none, r)) {
        cla_host_release(&context->host, r);
        return cla_context_fail(
            context, CLATTN_INVALID_ARGUMENT,
            "recording: the context has another one, which clattn_recording_end ends first");
    }
    atomic_store(&context->recorded_queue, queue);
    *recording = r;
    return CLATTN_OK;
}

static bool end(clattn_recording *r) {
    clattn_recording *open = r;
    if (atomic_load(&r->context->recording) == r) atomic_store(&r->context->recorded_queue, NULL);
    return atomic_compare_exchange_strong(&r->context->recording, &open, NULL);
}

clattn_status clattn_recording_end(clattn_recording *r) {
    if (!r) return CLATTN_INVALID_ARGUMENT;
    if (end(r)) return CLATTN_OK;
    return cla_context_fail(r->context, CLATTN_INVALID_ARGUMENT, "recording: was ended before");
}

size_t clattn_recording_launches(const clattn_recording *r) {
    return r ? r->launches : 0;
}

void clattn_recording_destroy(clattn_recording *r) {
    if (!r) return;
    (void)end(r);
    cla_recording_free(r);
}

static clattn_status replay(chain *c, const recorded *x) {
    cl_event event = NULL;
    const cl_int code =
        cla_launch_kernel(c, x->kernel, x->offset, x->size, x->l.local, cla_chain_event(c, &event));
    if (code != CL_SUCCESS) return cla_context_fail_opencl(c->context, code, "clEnqueueNDRangeKernel");
    if (!c->started) cla_context_mark_run(c->context);
    cla_chain_took(c, event);
    return CLATTN_OK;
}

clattn_status clattn_recording_enqueue(clattn_recording *r, cl_command_queue queue, cl_uint wait_count,
                                       const cl_event *wait_list, cl_event *event) {
    if (event) *event = NULL;
    if (!r) return CLATTN_INVALID_ARGUMENT;
    clattn_context *context = r->context;
    clattn_status status = CLATTN_OK;
    chain c;
    TRY(cla_context_check(context));
    if (atomic_load(&context->recording) == r)
        return cla_context_fail(context, CLATTN_INVALID_ARGUMENT,
                                "recording: is not ended: clattn_recording_end comes before");
    TRY(cla_chain_begin(&c, context, queue, wait_count, wait_list));
    if (c.recording)
        return cla_context_fail(context, CLATTN_INVALID_ARGUMENT,
                                "queue: its calls are recorded, and no recording becomes part of another");
    for (const recorded *x = r->first; x && status == CLATTN_OK; x = x->next) {
        c.wants_event = event && !x->next;
        status = replay(&c, x);
    }
    return cla_chain_end(&c, status, event);
}
