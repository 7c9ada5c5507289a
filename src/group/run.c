// run.c: pieces on their devices: copies to them and back on queues of their own beside the kernels', everything enqueued before
// anything is waited for. A member that fails is drained, so that nothing writes to the caller's memory any more.
#include <stdlib.h>

#include "group/group.h"

clattn_status cla_run_open(group_member *m) {
    cl_command_queue *const queues[] = {&m->up, &m->compute, &m->down};
    for (int n = 0; n < 3; n++) {
        cl_int code = CL_SUCCESS;
        *queues[n] =
            clCreateCommandQueue(m->context->opencl, m->context->device, CL_QUEUE_PROFILING_ENABLE, &code);
        if (!*queues[n]) return cla_context_fail_opencl(m->context, code, "clCreateCommandQueue");
    }
    return CLATTN_OK;
}

static void release_arenas(group_member *m) {
    for (int n = 0; n < GROUP_SLOTS; n++) {
        if (m->arena[n]) clReleaseMemObject(m->arena[n]);
        m->arena[n] = NULL, m->arena_bytes[n] = 0;
    }
}

void cla_run_close(group_member *m) {
    cl_command_queue *const queues[] = {&m->up, &m->compute, &m->down};
    release_arenas(m);
    for (int n = 0; n < 3; n++) {
        if (*queues[n]) clReleaseCommandQueue(*queues[n]);
        *queues[n] = NULL;
    }
}

static void release_events(piece *p) {
    cl_event *const events[] = {&p->first, &p->up, &p->ran, &p->down};
    for (int n = 0; n < 4; n++) {
        if (*events[n]) clReleaseEvent(*events[n]);
        *events[n] = NULL;
    }
}

void cla_piece_forget(piece *p) {
    release_events(p);
    free(p->arrays);
    free(p->out);
    free(p->lse);
    free(p->staging);
    p->arrays = NULL, p->out = p->lse = NULL, p->staging = NULL;
}

void cla_piece_free(piece *p) {
    if (!p) return;
    cla_piece_forget(p);
    free(p);
}

static void stop(group_member *m, clattn_status status) {
    clFinish(m->up);
    clFinish(m->compute);
    clFinish(m->down);
    m->status = status;
    release_arenas(m);
}

// Host memory for the parts that do not lie as they go to the device.
static bool make_staging(piece *p) {
    uint64_t bytes = 0;
    for (int n = 0; n < p->part_count; n++)
        if (!p->parts[n].direct) bytes += (p->parts[n].bytes + 63) / 64 * 64;
    if (!bytes) return true;
    char *at = p->staging = bytes <= SIZE_MAX ? malloc((size_t)bytes) : NULL;
    for (int n = 0; at && n < p->part_count; n++) {
        if (p->parts[n].direct) continue;
        p->parts[n].staged = at;
        at += (p->parts[n].bytes + 63) / 64 * 64;
    }
    return at != NULL;
}

static bool is_waiting(const group_call *c, int n, int member) {
    return !c->pieces[n]->done && c->pieces[n]->member == member;
}

// Kernels are compiled before the first copy, so that a rate has no compiler in it.
static clattn_status prepare(group_call *c, int d) {
    group_member *m = &c->group->members[d];
    uint64_t arena = 0, workspace = 0;
    int pieces = 0;
    for (int n = 0; n < c->count; n++) {
        piece *p = c->pieces[n];
        if (!is_waiting(c, n, d)) continue;
        TRY(clattn_attention_prepare(m->context, &p->params));
        if (!make_staging(p))
            return cla_context_fail(m->context, CLATTN_OUT_OF_MEMORY,
                                    "group: no host memory to pack a piece");
        if (p->bytes > arena) arena = p->bytes;
        if (p->workspace_bytes > workspace) workspace = p->workspace_bytes;
        pieces++;
    }
    for (m->slots = 1; m->slots < GROUP_SLOTS && m->slots < pieces; m->slots++)
        if (workspace + arena * (uint64_t)(m->slots + 1) > m->max_bytes) break;
    const uint64_t held = workspace + arena * (uint64_t)m->slots;
    if (held > m->share.device_bytes) m->share.device_bytes = held;
    for (int n = 0; n < GROUP_SLOTS; n++) { // those that are kept must not stand in the way of what is needed
        if (m->arena[n] && (n >= m->slots || m->arena_bytes[n] < arena || m->arena_bytes[n] > 2 * arena)) {
            clReleaseMemObject(m->arena[n]);
            m->arena[n] = NULL;
        }
        cl_int code = CL_SUCCESS;
        if (n >= m->slots || m->arena[n]) continue;
        m->arena[n] = clCreateBuffer(m->context->opencl, CL_MEM_READ_WRITE, (size_t)arena, NULL, &code);
        if (!m->arena[n]) return cla_context_fail_opencl(m->context, code, "clCreateBuffer");
        m->arena_bytes[n] = arena;
    }
    return CLATTN_OK;
}

static clattn_status write_parts(group_member *m, piece *p, cl_mem arena, const piece *before) {
    for (int n = 0; n < p->part_count; n++) {
        const group_part *x = &p->parts[n];
        const bool waits = before && !p->up;
        cl_event event = NULL;
        if (!x->in || !x->bytes) continue;
        const cl_int code =
            clEnqueueWriteBuffer(m->up, arena, CL_FALSE, x->at, x->bytes, x->direct ? x->host : x->staged,
                                 waits, waits ? &before->down : NULL, &event);
        if (code != CL_SUCCESS) return cla_context_fail_opencl(m->context, code, "clEnqueueWriteBuffer");
        if (!p->first)
            p->first = event;
        else if (p->up)
            clReleaseEvent(p->up);
        p->up = event;
        if (p->first == event) clRetainEvent(event);
    }
    return CLATTN_OK;
}

static clattn_status read_parts(group_member *m, piece *p, cl_mem arena) {
    for (int n = 0; n < p->part_count; n++) {
        const group_part *x = &p->parts[n];
        const bool waits = !p->down;
        cl_event event = NULL;
        if (!x->out || !x->bytes) continue;
        const cl_int code =
            clEnqueueReadBuffer(m->down, arena, CL_FALSE, x->at, x->bytes, x->direct ? x->host : x->staged,
                                waits, waits ? &p->ran : NULL, &event);
        if (code != CL_SUCCESS) return cla_context_fail_opencl(m->context, code, "clEnqueueReadBuffer");
        if (p->down) clReleaseEvent(p->down);
        p->down = event;
    }
    return CLATTN_OK;
}

static clattn_status flush(group_member *m) {
    const cl_command_queue queues[] = {m->up, m->compute, m->down};
    for (int n = 0; n < 3; n++) {
        const cl_int code = clFlush(queues[n]);
        if (code != CL_SUCCESS) return cla_context_fail_opencl(m->context, code, "clFlush");
    }
    return CLATTN_OK;
}

// before: the piece that has the slot until it is read.
static clattn_status enqueue(group_member *m, piece *p, int slot, const piece *before) {
    cla_slice_pack(p);
    cla_slice_bind(p, m->arena[slot]);
    TRY(write_parts(m, p, m->arena[slot], before));
    TRY(clattn_attention_enqueue(m->context, m->compute, &p->params, 1, &p->up, &p->ran));
    TRY(read_parts(m, p, m->arena[slot]));
    m->share.pieces++;
    return flush(m);
}

// The nth piece of a member that waits, from `first` on; -1: there is none.
static int nth_of(const group_call *c, int d, int nth) {
    for (int n = 0; n < c->count; n++)
        if (is_waiting(c, n, d) && nth-- == 0) return n;
    return -1;
}

static cl_ulong time_of(cl_event event, cl_profiling_info what) {
    cl_ulong time = 0;
    return clGetEventProfilingInfo(event, what, sizeof time, &time, NULL) == CL_SUCCESS ? time : 0;
}

static void keep_times(group_member *m, const piece *p) {
    const uint64_t start = time_of(p->first, CL_PROFILING_COMMAND_START),
                   end = time_of(p->down, CL_PROFILING_COMMAND_END);
    if (!start || end <= start) return;
    if (!m->first_ns || start < m->first_ns) m->first_ns = start;
    if (end > m->last_ns) m->last_ns = end;
    m->timed_work += p->work;
}

// A driver may run what waits for a command that failed: each is asked.
static clattn_status wait_for(group_member *m, piece *p) {
    const cl_event events[] = {p->first, p->up, p->ran, p->down};
    cl_int code = clWaitForEvents(1, &p->down);
    for (int n = 0; n < 4; n++) {
        cl_int done = CL_COMPLETE;
        const cl_int asked =
            clGetEventInfo(events[n], CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof done, &done, NULL);
        if (code == CL_SUCCESS) code = asked != CL_SUCCESS ? asked : done < 0 ? done : CL_SUCCESS;
    }
    return code == CL_SUCCESS ? CLATTN_OK : cla_context_fail_opencl(m->context, code, "clWaitForEvents");
}

static bool tell(group_call *c, const piece *p) {
    const clattn_progress *progress = c->params->attention.progress;
    c->done += p->work;
    return !progress || !progress->fn || c->done >= c->work * (1.0 - 1e-9) ||
           progress->fn(progress->user, c->done / c->work);
}

static clattn_status collect(group_call *c, group_member *m, piece *p) {
    TRY(wait_for(m, p));
    keep_times(m, p);
    release_events(p);
    p->done = true;
    m->share.share += p->work / c->work;
    m->share.bytes_in += p->bytes_in, m->share.bytes_out += p->bytes_out;
    return CLATTN_OK;
}

// All pieces, the first ones of all members first.
static void enqueue_all(group_call *c) {
    group_member *members = c->group->members;
    for (int nth = 0, left = 1; left; nth++) {
        left = 0;
        for (int d = 0; d < c->group->count; d++) {
            const int n = members[d].status == CLATTN_OK ? nth_of(c, d, nth) : -1;
            if (n < 0) continue;
            const int slots = members[d].slots;
            const piece *before = nth >= slots ? c->pieces[nth_of(c, d, nth - slots)] : NULL;
            const clattn_status status = enqueue(&members[d], c->pieces[n], nth % slots, before);
            if (status != CLATTN_OK) stop(&members[d], status);
            left++;
        }
    }
}

clattn_status cla_run_pieces(group_call *c) {
    group_member *members = c->group->members;
    bool goes_on = true;
    for (int d = 0; d < c->group->count; d++) {
        if (members[d].status != CLATTN_OK || nth_of(c, d, 0) < 0) continue;
        const clattn_status status = prepare(c, d);
        if (status != CLATTN_OK) stop(&members[d], status);
    }
    enqueue_all(c);
    for (int n = 0; n < c->count; n++) {
        group_member *m = &members[c->pieces[n]->member];
        if (c->pieces[n]->done || m->status != CLATTN_OK) continue;
        const clattn_status status = collect(c, m, c->pieces[n]);
        if (status != CLATTN_OK)
            stop(m, status);
        else if (goes_on)
            goes_on = tell(c, c->pieces[n]);
    }
    for (int n = 0; n < c->count; n++)
        if (!c->pieces[n]->done) release_events(c->pieces[n]);
    return goes_on ? CLATTN_OK
                   : cla_group_fail(c->group, CLATTN_CANCELLED, "group: cancelled by the caller's progress");
}
