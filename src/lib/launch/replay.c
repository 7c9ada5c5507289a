// replay.c: begin, end, replay and destroy a recording.
#include "launch/recording.h"

#include "base/host.h"
#include "program/unfit.h"

static clattn_status make(clattn_context *context, cl_command_queue queue, clattn_recording **recording) {
    clattn_recording *r = cla_host_take_zeroed(&context->host, 1, sizeof *r);
    if (!r) return cla_context_fail(context, CLATTN_OUT_OF_MEMORY, "recording: no host memory");
    *r = (clattn_recording){.context = context, .queue = queue};
    const bool locks = cla_os_mutex_init(&r->replay_lock);
    const cl_int code = locks ? clRetainCommandQueue(queue) : CL_OUT_OF_HOST_MEMORY;
    if (code == CL_SUCCESS) {
        *recording = r;
        return CLATTN_OK;
    }
    if (locks) cla_os_mutex_destroy(&r->replay_lock);
    cla_host_release(&context->host, r);
    return cla_context_fail_opencl(context, code, "clRetainCommandQueue");
}

clattn_status clattn_recording_begin(clattn_context *context, cl_command_queue queue,
                                     clattn_recording **recording) {
    if (recording) *recording = NULL;
    if (!context) return CLATTN_INVALID_ARGUMENT;
    if (!recording) return cla_context_fail(context, CLATTN_INVALID_ARGUMENT, "recording: is NULL");
    chain c;
    clattn_recording *none = NULL, *r;
    TRY(cla_context_check(context));
    TRY(cla_chain_begin(&c, context, queue, 0, NULL));
    TRY(make(context, queue, &r));
    if (!atomic_compare_exchange_strong(&context->recording, &none, r)) {
        clReleaseCommandQueue(queue);
        cla_recording_free(r);
        return cla_context_fail(
            context, CLATTN_INVALID_ARGUMENT,
            "recording: the context has another one, which clattn_recording_end ends first");
    }
    atomic_store(&context->recorded_queue, queue);
    *recording = r;
    return CLATTN_OK;
}

// The queue is retained until here, so that no new queue gets the same handle while handles are
// compared.
static bool end(clattn_recording *r) {
    clattn_recording *open = r;
    if (atomic_load(&r->context->recording) == r) atomic_store(&r->context->recorded_queue, NULL);
    if (!atomic_compare_exchange_strong(&r->context->recording, &open, NULL)) return false;
    clReleaseCommandQueue(r->queue);
    return true;
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

// The replay fails, because some of its launches may run already. Later recordings avoid the
// kernel.
static clattn_status refuse(const chain *c, const recorded *x, cl_int code) {
    const program *p = x->l.program; // NULL: a fused launch
    if (!p || x->of_text) return cla_context_fail_opencl(c->context, code, "clEnqueueNDRangeKernel");
    const unfit_failure failure = {.spec = &p->spec,
                                   .step = UNFIT_LAUNCH,
                                   .code = code,
                                   .work_group = x->l.local[0] * x->l.local[1] * x->l.local[2],
                                   .final = true};
    return cla_unfit_failed(c->context, &failure);
}

static clattn_status replay(chain *c, const recorded *x) {
    cl_event event = NULL;
    const cl_int code =
        cla_launch_kernel(c, x->kernel, x->offset, x->size, x->l.local, cla_chain_event(c, &event));
    if (code != CL_SUCCESS) return refuse(c, x, code);
    if (!c->started) cla_context_mark_run(c->context);
    cla_chain_set_last_event(c, event);
    return CLATTN_OK;
}

static clattn_status replay_all(const clattn_recording *r, chain *c, bool each_event, bool last_event) {
    clattn_status status = CLATTN_OK;
    for (const recorded *x = r->first; x && status == CLATTN_OK; x = x->next) {
        c->wants_event = each_event || (last_event && !x->next);
        status = replay(c, x);
    }
    return status;
}

// Sets *waits if the previous replay is still running on another queue, or on an out-of-order one.
// A failed replay is not waited for.
static clattn_status find_replayed(clattn_recording *r, const chain *c, bool *waits) {
    cl_int status = CL_COMPLETE;
    *waits = false;
    if (!r->replayed || (c->in_order && c->queue == r->replay_queue)) return CLATTN_OK;
    cl_int code =
        clGetEventInfo(r->replayed, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL);
    if (code != CL_SUCCESS) return cla_context_fail_opencl(c->context, code, "clGetEventInfo");
    *waits = status > CL_COMPLETE;
    if (!*waits || c->queue == r->replay_queue) return CLATTN_OK;
    code = clFlush(r->replay_queue); // unflushed commands of another queue may never start
    return code == CL_SUCCESS ? CLATTN_OK : cla_context_fail_opencl(c->context, code, "clFlush");
}

static clattn_status keep_queue(clattn_recording *r, const chain *c) {
    if (c->queue == r->replay_queue) return CLATTN_OK;
    const cl_int code = clRetainCommandQueue(c->queue);
    if (code != CL_SUCCESS) return cla_context_fail_opencl(c->context, code, "clRetainCommandQueue");
    if (r->replay_queue) clReleaseCommandQueue(r->replay_queue);
    r->replay_queue = c->queue;
    return CLATTN_OK;
}

// Keep the newest command for the next replay to wait for, also if a later launch failed.
static clattn_status keep_event(clattn_recording *r, chain *c, clattn_status status) {
    if (!c->last) return status;
    if (r->replayed) clReleaseEvent(r->replayed);
    r->replayed = c->last;
    const cl_int code = clRetainEvent(c->last);
    if (code == CL_SUCCESS) return status;
    c->last = NULL;
    return cla_context_fail_opencl(c->context, code, "clRetainEvent");
}

// The launches of a fused recording share counters. So each replay waits for the previous one, on
// whichever queue that runs.
static clattn_status replay_behind(clattn_recording *r, chain *c) {
    clattn_host_memory *host = &c->context->host;
    cl_event *list = NULL;
    bool waits;
    TRY(find_replayed(r, c, &waits));
    TRY(keep_queue(r, c));
    if (waits) {
        list = cla_host_take(host, ((size_t)c->wait_count + 1) * sizeof *list);
        if (!list) return cla_context_fail(c->context, CLATTN_OUT_OF_MEMORY, "recording: no host memory");
        for (cl_uint i = 0; i < c->wait_count; i++) list[i] = c->wait_list[i];
        list[c->wait_count++] = r->replayed;
        c->wait_list = list;
    }
    const clattn_status status = keep_event(r, c, replay_all(r, c, true, true));
    cla_host_release(host, list);
    return status;
}

clattn_status clattn_recording_enqueue(clattn_recording *r, cl_command_queue queue, cl_uint wait_count,
                                       const cl_event *wait_list, cl_event *event) {
    if (event) *event = NULL;
    if (!r) return CLATTN_INVALID_ARGUMENT;
    clattn_context *context = r->context;
    chain c;
    TRY(cla_context_check(context));
    if (atomic_load(&context->recording) == r)
        return cla_context_fail(context, CLATTN_INVALID_ARGUMENT,
                                "recording: is not ended: clattn_recording_end comes before");
    TRY(cla_chain_begin(&c, context, queue, wait_count, wait_list));
    if (c.recording)
        return cla_context_fail(context, CLATTN_INVALID_ARGUMENT,
                                "queue: its calls are recorded, and no recording becomes part of another");
    if (!r->fused) return cla_chain_end(&c, replay_all(r, &c, false, event != NULL), event);
    cla_os_mutex_lock(&r->replay_lock);
    const clattn_status status = replay_behind(r, &c);
    cla_os_mutex_unlock(&r->replay_lock);
    return cla_chain_end(&c, status, event);
}
