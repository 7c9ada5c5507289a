// run.c: runs pieces on their devices. Each piece goes through one of its member's in-order queues:
// copies, kernels, copies. So one piece is copied while another computes. Everything is enqueued
// before anything is waited for.
//
// No command waits for another's event, because some drivers never start a command that waits for a
// failed one. The queues of a member that fails are finished, so that nothing writes to host memory
// afterwards.

#include "base/host.h"
#include "group/piece.h"

clattn_status cla_run_open(group_member *m) {
    for (int n = 0; n < GROUP_SLOTS; n++) {
        cl_int code = CL_SUCCESS;
        m->queue[n] =
            clCreateCommandQueue(m->context->opencl, m->context->device, CL_QUEUE_PROFILING_ENABLE, &code);
        if (!m->queue[n]) return cla_context_fail_opencl(m->context, code, "clCreateCommandQueue");
    }
    return CLATTN_OK;
}

static void release(cl_mem *buffer, uint64_t *bytes) {
    if (*buffer) clReleaseMemObject(*buffer);
    *buffer = NULL, *bytes = 0;
}

static void release_arenas(group_member *m) {
    for (int n = 0; n < GROUP_SLOTS; n++) {
        release(&m->arena[n], &m->arena_bytes[n]);
        release(&m->beside[n], &m->beside_bytes[n]);
    }
}

// Keep a buffer of `size` to 2 * size bytes, or none if `size` is 0.
static clattn_status keep_buffer(const group_member *m, cl_mem *buffer, uint64_t *bytes, uint64_t size) {
    cl_int code = CL_SUCCESS;
    if (*bytes < size || *bytes > 2 * size) release(buffer, bytes);
    if (*buffer || !size) return CLATTN_OK;
    *buffer = clCreateBuffer(m->context->opencl, CL_MEM_READ_WRITE, (size_t)size, NULL, &code);
    if (!*buffer) return cla_context_fail_opencl(m->context, code, "clCreateBuffer");
    *bytes = size;
    return CLATTN_OK;
}

void cla_run_close(group_member *m) {
    release_arenas(m);
    for (int n = 0; n < GROUP_SLOTS; n++) {
        if (m->queue[n]) clReleaseCommandQueue(m->queue[n]);
        m->queue[n] = NULL;
    }
}

static void stop(group_member *m, clattn_status status) {
    for (int n = 0; n < GROUP_SLOTS; n++) clFinish(m->queue[n]);
    m->status = status;
    release_arenas(m);
}

// Allocate host memory for parts whose layout differs from the device's.
static bool make_staging(piece *p) {
    uint64_t bytes = 0;
    for (int n = 0; n < p->part_count; n++)
        if (!p->parts[n].direct) bytes += (p->parts[n].bytes + 63) / 64 * 64;
    if (!bytes) return true;
    char *at = p->staging = bytes <= SIZE_MAX ? cla_host_take(p->host, (size_t)bytes) : NULL;
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

// Compile kernels before the first copy, so that measured rates do not include the compiler.
static clattn_status prepare(group_call *c, int d) {
    group_member *m = &c->group->members[d];
    uint64_t arena = 0, beside = 0, workspace = 0;
    int pieces = 0;
    for (int n = 0; n < c->count; n++) {
        piece *p = c->pieces[n];
        if (!is_waiting(c, n, d)) continue;
        TRY(c->op->prepare(m->context, &p->params));
        if (!make_staging(p))
            return cla_context_fail(m->context, CLATTN_OUT_OF_MEMORY,
                                    "group: no host memory to pack a piece");
        if (p->bytes > arena) arena = p->bytes;
        if (p->beside_bytes > beside) beside = p->beside_bytes;
        if (p->workspace_bytes > workspace) workspace = p->workspace_bytes;
        pieces++;
    }
    if (arena == 0) arena = 1; // a buffer cannot have 0 bytes
    // A CPU copies with the cores that compute, so a second queue gains nothing. With two queues
    // PoCL 3.1 may also abort in an assertion of pocl_release_dlhandle_cache.
    const int most = m->context->capabilities.is_cpu ? 1 : GROUP_SLOTS;
    for (m->slots = 1; m->slots < most && m->slots < pieces; m->slots++)
        if ((workspace + arena + beside) * (uint64_t)(m->slots + 1) > m->max_bytes) break;
    const uint64_t held = (workspace + arena + beside) * (uint64_t)m->slots;
    if (held > m->share.device_bytes) m->share.device_bytes = held;
    // Buffers of unused slots are released, because they could use up the memory.
    for (int n = 0; n < GROUP_SLOTS; n++) {
        TRY(keep_buffer(m, &m->arena[n], &m->arena_bytes[n], n < m->slots ? arena : 0));
        TRY(keep_buffer(m, &m->beside[n], &m->beside_bytes[n], n < m->slots ? beside : 0));
    }
    return CLATTN_OK;
}

static clattn_status copy_parts(group_member *m, piece *p, int slot, bool to_host) {
    for (int n = 0; n < p->part_count; n++) {
        const group_part *x = &p->parts[n];
        char *const host = x->direct ? x->host : x->staged;
        cl_mem const buffer = x->beside ? m->beside[slot] : m->arena[slot];
        cl_event *const event = &p->events[p->event_count];
        if (!(to_host ? x->out : x->in) || !x->bytes) continue;
        const size_t at = (size_t)x->at, bytes = (size_t)x->bytes;
        const cl_int code =
            to_host ? clEnqueueReadBuffer(m->queue[slot], buffer, CL_FALSE, at, bytes, host, 0, NULL, event)
                    : clEnqueueWriteBuffer(m->queue[slot], buffer, CL_FALSE, at, bytes, host, 0, NULL, event);
        if (code != CL_SUCCESS)
            return cla_context_fail_opencl(m->context, code,
                                           to_host ? "clEnqueueReadBuffer" : "clEnqueueWriteBuffer");
        p->event_count++;
    }
    return CLATTN_OK;
}

static clattn_status enqueue(const group_op *op, group_member *m, piece *p, int slot) {
    cla_slice_pack(p);
    cla_slice_bind(op, p, m->arena[slot], m->beside[slot]);
    TRY(copy_parts(m, p, slot, false));
    TRY(op->enqueue(m->context, m->queue[slot], &p->params, &p->events[p->event_count]));
    p->event_count++;
    TRY(copy_parts(m, p, slot, true));
    m->share.pieces++;
    const cl_int code = clFlush(m->queue[slot]);
    return code == CL_SUCCESS ? CLATTN_OK : cla_context_fail_opencl(m->context, code, "clFlush");
}

// Index of the member's nth unfinished piece; -1: there is none.
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
    const uint64_t start = time_of(p->events[0], CL_PROFILING_COMMAND_START),
                   end = time_of(p->events[p->event_count - 1], CL_PROFILING_COMMAND_END);
    if (!start || end <= start) return;
    if (!m->first_ns || start < m->first_ns) m->first_ns = start;
    if (end > m->last_ns) m->last_ns = end;
    m->timed_work += p->work;
}

// Check every event: a driver may run commands that wait for a failed one, and then report success.
static clattn_status wait_for(group_member *m, piece *p) {
    cl_int code = clWaitForEvents((cl_uint)p->event_count, p->events);
    for (int n = 0; n < p->event_count; n++) {
        cl_int done = CL_COMPLETE;
        const cl_int asked =
            clGetEventInfo(p->events[n], CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof done, &done, NULL);
        if (code == CL_SUCCESS) code = asked != CL_SUCCESS ? asked : done < 0 ? done : CL_SUCCESS;
    }
    return code == CL_SUCCESS ? CLATTN_OK : cla_context_fail_opencl(m->context, code, "clWaitForEvents");
}

static bool tell(group_call *c, const piece *p) {
    const clattn_progress *progress = c->progress;
    c->done += p->work;
    return !progress || !progress->fn || c->done >= c->work * (1.0 - 1e-9) ||
           progress->fn(progress->user, c->done / c->work);
}

static clattn_status collect(group_call *c, group_member *m, piece *p) {
    TRY(wait_for(m, p));
    keep_times(m, p);
    cla_piece_release_events(p);
    p->done = true;
    m->share.share += p->work / c->work;
    m->share.bytes_in += p->bytes_in, m->share.bytes_out += p->bytes_out;
    return CLATTN_OK;
}

// Enqueue all pieces, starting with the first piece of each member.
static void enqueue_all(group_call *c) {
    group_member *members = c->group->members;
    for (int nth = 0, left = 1; left; nth++) {
        left = 0;
        for (int d = 0; d < c->group->count; d++) {
            const int n = members[d].status == CLATTN_OK ? nth_of(c, d, nth) : -1;
            if (n < 0) continue;
            const clattn_status status = enqueue(c->op, &members[d], c->pieces[n], nth % members[d].slots);
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
        if (!c->pieces[n]->done) cla_piece_release_events(c->pieces[n]);
    return goes_on ? CLATTN_OK
                   : cla_group_fail(c->group, CLATTN_CANCELLED, "group: cancelled by the caller's progress");
}
