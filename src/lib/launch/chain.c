// chain.c: see chain.h.
#include "launch/chain.h"
#include "launch/recording.h"

static clattn_status check_queue(clattn_context *c, cl_command_queue queue,
                                 cl_command_queue_properties *properties) {
    cl_context context = NULL;
    cl_device_id device = NULL;
    *properties = 0;
    if (!queue)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "queue: is NULL, a command queue of the context is needed");
    cl_int code = clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof context, &context, NULL);
    if (code == CL_SUCCESS)
        code = clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof device, &device, NULL);
    if (code == CL_SUCCESS)
        code = clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES, sizeof *properties, properties, NULL);
    if (code == CL_INVALID_COMMAND_QUEUE)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "queue: the driver does not know it");
    if (code != CL_SUCCESS) return cla_context_fail_opencl(c, code, "clGetCommandQueueInfo");
    if (context != c->opencl || device != c->device)
        return cla_context_fail(
            c, CLATTN_INVALID_ARGUMENT,
            "queue: belongs to another context or device than clattn's context: create it with "
            "clattn_context_opencl() and clattn_context_device()");
    return CLATTN_OK;
}

// PoCL never starts a command that waits for an event which has already failed.
static clattn_status check_event(clattn_context *c, cl_uint i, cl_event event) {
    cl_context of = NULL;
    cl_int status = CL_COMPLETE, code = CL_INVALID_EVENT;
    if (event) code = clGetEventInfo(event, CL_EVENT_CONTEXT, sizeof of, &of, NULL);
    if (code == CL_SUCCESS && of != c->opencl) code = CL_INVALID_EVENT;
    if (code == CL_SUCCESS)
        code = clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL);
    if (code == CL_INVALID_EVENT)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "wait_list: entry %u is not an event of the context's cl_context",
                                (unsigned)i);
    if (code != CL_SUCCESS) return cla_context_fail_opencl(c, code, "clGetEventInfo");
    if (status < 0)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "wait_list: entry %u ended with error %d: what it stands for never happened",
                                (unsigned)i, (int)status);
    return CLATTN_OK;
}

clattn_status cla_chain_begin(chain *c, clattn_context *context, cl_command_queue queue, cl_uint wait_count,
                              const cl_event *wait_list) {
    *c = (chain){.context = context, .queue = queue, .wait_count = wait_count, .wait_list = wait_list};
    cl_command_queue_properties properties;
    TRY(check_queue(context, queue, &properties));
    c->in_order = (properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) == 0;
    c->keeps_times = (properties & CL_QUEUE_PROFILING_ENABLE) != 0;
    if ((wait_count == 0) != (wait_list == NULL))
        return cla_context_fail(context, CLATTN_INVALID_ARGUMENT,
                                "wait_list: is %s with wait_count %u: give both or neither",
                                wait_list ? "set" : "NULL", (unsigned)wait_count);
    for (cl_uint i = 0; i < wait_count; i++) TRY(check_event(context, i, wait_list[i]));
    c->recording = cla_recording_of(context, queue);
    c->in_order = c->in_order || c->recording;
    return CLATTN_OK;
}

void cla_chain_waits(const chain *c, cl_uint *count, const cl_event **list) {
    *count = !c->started ? c->wait_count : !c->in_order;
    *list = !c->started ? c->wait_list : c->in_order ? NULL : &c->last;
}

cl_event *cla_chain_event(const chain *c, cl_event *event) {
    *event = NULL;
    return c->wants_event || !c->in_order || c->progress ? event : NULL;
}

void cla_chain_set_last_event(chain *c, cl_event event) {
    if (c->last) clReleaseEvent(c->last);
    c->last = event;
    c->started = true;
}

static pool_user user_of(const chain *c) {
    return (pool_user){c->context, c->queue, c->in_order};
}

static void borrow(chain *c, pool_slot *slot, cl_mem *buffer) {
    slot->next = c->loans;
    c->loans = slot;
    *buffer = slot->buffer;
}

// The slot keeps the words until its event shows that the device has read them.
static clattn_status write_table(chain *c, pool_slot *slot) {
    cl_uint count;
    const cl_event *list;
    cl_event unused;
    cla_chain_waits(c, &count, &list);
    cl_int code = clEnqueueWriteBuffer(c->queue, slot->buffer, CL_FALSE, 0, slot->word_bytes, slot->words,
                                       count, list, &slot->written);
    if (code != CL_SUCCESS) {
        slot->written = NULL;
        return cla_context_fail_opencl(c->context, code, "clEnqueueWriteBuffer (table)");
    }
    slot->stale = false;
    c->started = true;
    if (!cla_chain_event(c, &unused)) return CLATTN_OK;
    code = clRetainEvent(slot->written);
    if (code == CL_SUCCESS || !c->in_order) cla_chain_set_last_event(c, slot->written);
    if (code == CL_SUCCESS) return CLATTN_OK;
    // The chain owns the event now, and passes it to the pool when it ends.
    if (!c->in_order) slot->written = NULL, slot->word_bytes = 0;
    return cla_context_fail_opencl(c->context, code, "clRetainEvent");
}

clattn_status cla_chain_write_tables(chain *c) {
    for (pool_slot *slot = c->loans; slot; slot = slot->next)
        if (slot->stale) TRY(write_table(c, slot));
    return CLATTN_OK;
}

clattn_status cla_chain_table(chain *c, const void *words, size_t bytes, cl_mem *table) {
    if (c->recording) return cla_recording_table(c, words, bytes, table);
    const pool_user user = user_of(c);
    pool_slot *slot;
    TRY(cla_pool_table(&user, words, bytes, &slot));
    borrow(c, slot, table);
    return CLATTN_OK;
}

clattn_status cla_chain_scratch(chain *c, uint64_t bytes, cl_mem *scratch) {
    if (c->recording) return cla_recording_scratch(c, bytes, scratch);
    const pool_user user = user_of(c);
    pool_slot *slot;
    TRY(cla_pool_scratch(&user, bytes, &slot));
    borrow(c, slot, scratch);
    return CLATTN_OK;
}

void cla_chain_set_progress(chain *c, const clattn_progress *progress, double total) {
    if (!progress || !progress->fn) return;
    const double told = c->progress && c->done < c->total ? c->done / c->total : 0.0;
    c->progress = progress;
    c->total = total / (1.0 - told);
    c->done = c->total * told;
}

// Learn a rate only from a slice that follows one the host waited for: otherwise the queue may have
// been busy.
clattn_status cla_chain_report_progress(chain *c, pace_rate *of, double flops) {
    if (!c->progress || flops == 0.0) return CLATTN_OK;
    const uint64_t start = c->waited_ns;
    const cl_int code = clWaitForEvents(1, &c->last);
    if (code != CL_SUCCESS) return cla_context_fail_opencl(c->context, code, "clWaitForEvents");
    c->waited_ns = cla_os_time_ns();
    if (start) cla_pace_learn(c->context, of, flops, (double)(c->waited_ns - start) * 1e-9, false);
    c->done += flops;
    const double done = c->done / c->total;
    if (!(done < 1.0) || c->progress->fn(c->progress->user, done)) return CLATTN_OK;
    return cla_context_fail(c->context, CLATTN_CANCELLED,
                            "progress: the caller cancelled after %.0f %% of the work", 100.0 * done);
}

// At the end of a call with progress, also wait for the commands after its last slice.
static clattn_status hear_end(chain *c) {
    if (!c->progress || !c->last) return CLATTN_OK;
    const cl_int code = clWaitForEvents(1, &c->last);
    if (code != CL_SUCCESS) return cla_context_fail_opencl(c->context, code, "clWaitForEvents");
    c->progress->fn(c->progress->user, 1.0);
    return CLATTN_OK;
}

static void return_loans(chain *c) {
    const pool_user user = user_of(c);
    for (pool_slot *slot = c->loans, *next; slot; slot = next) {
        next = slot->next;
        cla_pool_return(&user, slot, c->started, c->last);
    }
    c->loans = NULL;
}

clattn_status cla_chain_end(chain *c, clattn_status status, cl_event *event) {
    if (event) *event = NULL;
    if (status == CLATTN_OK) status = hear_end(c);
    if (c->recording) cla_recording_took(c, status == CLATTN_OK);
    return_loans(c);
    if (status == ENTRY_PLAN_AGAIN) return status;
    if (status == CLATTN_OK && event && !c->last) {
        cl_uint count;
        const cl_event *list;
        cla_chain_waits(c, &count, &list);
        const cl_int code = clEnqueueMarkerWithWaitList(c->queue, count, list, &c->last);
        if (code != CL_SUCCESS)
            status = cla_context_fail_opencl(c->context, code, "clEnqueueMarkerWithWaitList");
    }
    if (status == CLATTN_OK && event) *event = c->last, c->last = NULL;
    cla_chain_drop(c);
    return status;
}

void cla_chain_drop(chain *c) {
    if (c->last) clReleaseEvent(c->last);
    c->last = NULL;
}
