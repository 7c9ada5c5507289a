// launch.c: launches onto a chain (chain.h): arguments, the shape of a grid, and the slices that a large one is cut into.
//
// Who times a slice (pace.h): where the caller hears of progress, the chain waits. Else its event, if the caller's queue keeps
// times (CL_QUEUE_PROFILING_ENABLE). Else the slice goes to a queue of the context's own that does, between a marker and a
// barrier on the caller's.
#include "core/chain.h"

void cla_launch_value(launch *l, const void *value, size_t bytes) {
    l->args[l->count].bytes = bytes;
    l->args[l->count++].value = value;
}

void cla_launch_buffer(launch *l, const cl_mem *buffer) {
    l->args[l->count].bytes = sizeof *buffer;
    l->args[l->count++].value = *buffer ? buffer : NULL;
}

typedef struct grid_part {
    size_t offset[3], size[3];
} grid_part;

// Where a part goes, and what it waits for.
typedef struct part_queue {
    cl_command_queue queue;
    cl_uint wait_count;
    const cl_event *wait_list;
    cl_event *event; // NULL: none is needed
} part_queue;

static cl_int set_and_enqueue(const part_queue *at, const launch *l, cl_kernel kernel, const grid_part *part,
                              const char **call) {
    *call = "clSetKernelArg";
    for (int i = 0; i < l->count; i++) {
        const cl_int code = clSetKernelArg(kernel, (cl_uint)i, l->args[i].bytes, l->args[i].value);
        if (code != CL_SUCCESS) return code;
    }
    *call = "clEnqueueNDRangeKernel";
    return clEnqueueNDRangeKernel(at->queue, kernel, 3,
                                  part->offset[0] || part->offset[1] || part->offset[2] ? part->offset : NULL,
                                  part->size, l->local, at->wait_count, at->wait_list, at->event);
}

static clattn_status enqueue_at(chain *c, const part_queue *at, const launch *l, const grid_part *part) {
    const char *call = "";
    cl_kernel kernel;
    TRY(cla_program_take_kernel(c->context, l->program, &kernel));
    const cl_int code = set_and_enqueue(at, l, kernel, part, &call);
    cla_program_give_kernel(l->program, kernel);
    if (code != CL_SUCCESS) return cla_context_fail_opencl(c->context, code, call);
    cla_context_mark_run(c->context);
    return CLATTN_OK;
}

static clattn_status enqueue_part(chain *c, const launch *l, const grid_part *part, bool event_wanted) {
    cl_event event = NULL;
    part_queue at = {.queue = c->queue, .event = cla_chain_event(c, &event)};
    if (event_wanted) at.event = &event;
    cla_chain_waits(c, &at.wait_count, &at.wait_list);
    TRY(enqueue_at(c, &at, l, part));
    cla_chain_took(c, event);
    if (l->flops == 0.0) c->waited_ns = 0;
    return CLATTN_OK;
}

// On a queue that keeps times, as a command among the others: `event` waits for what is before it in the chain, and what comes
// after in the chain waits for the event. An in-order queue orders by itself only what is its own.
static clattn_status enqueue_elsewhere(chain *c, const launch *l, const grid_part *part,
                                       cl_command_queue other, cl_event *event) {
    part_queue at = {.queue = other, .event = event};
    cl_event before = NULL, after = NULL;
    const char *call = "clFlush";
    cla_chain_waits(c, &at.wait_count, &at.wait_list);
    if (c->in_order) {
        const cl_int code = clEnqueueMarkerWithWaitList(c->queue, at.wait_count, at.wait_list, &before);
        if (code != CL_SUCCESS)
            return cla_context_fail_opencl(c->context, code, "clEnqueueMarkerWithWaitList");
        at.wait_count = 1, at.wait_list = &before;
    }
    cl_int code = clFlush(c->queue);
    clattn_status status = code == CL_SUCCESS ? enqueue_at(c, &at, l, part) : CLATTN_OK;
    if (before) clReleaseEvent(before);
    if (code != CL_SUCCESS) return cla_context_fail_opencl(c->context, code, call);
    TRY(status);
    c->started = true;
    code = clFlush(other);
    if (code == CL_SUCCESS && c->in_order) {
        call = "clEnqueueBarrierWithWaitList";
        code = clEnqueueBarrierWithWaitList(c->queue, 1, event, cla_chain_event(c, &after));
        cla_chain_took(c, after);
    }
    if (code == CL_SUCCESS) return CLATTN_OK;
    c->in_order = false; // what the call has borrowed is free when the event is there, and not before
    return cla_context_fail_opencl(c->context, code, call);
}

// A part that is large: its times are kept, unless another's are.
static clattn_status enqueue_timed(chain *c, const launch *l, const grid_part *part, double flops) {
    cl_event event = NULL;
    clattn_status status;
    if (!cla_pace_begin(c->context)) return enqueue_part(c, l, part, false);
    cl_command_queue other = c->keeps_times ? NULL : cla_pace_queue(c->context);
    if (other) {
        status = enqueue_elsewhere(c, l, part, other, &event);
        cla_pace_end(c->context, &l->program->rate, flops, event);
        if (event && !c->in_order)
            cla_chain_took(c, event);
        else if (event)
            clReleaseEvent(event);
        return status;
    }
    status = enqueue_part(c, l, part, c->keeps_times);
    cla_pace_end(c->context, &l->program->rate, flops, c->keeps_times ? c->last : NULL);
    return status;
}

static double flops_of(const launch *l, const grid_part *part) {
    double flops = l->flops;
    for (int i = 0; i < 3; i++) flops *= (double)part->size[i] / (double)l->global[i];
    return flops;
}

static size_t size_at(size_t all, size_t at, size_t step) {
    return all - at < step ? all - at : step;
}

// A device may take no more than what every device must.
static clattn_status check_arguments(const chain *c, const launch *l) {
    const uint64_t most = c->context->capabilities.max_argument_bytes;
    uint64_t bytes = 0;
    for (int i = 0; i < l->count; i++) bytes += l->args[i].bytes;
    if (bytes <= most) return CLATTN_OK;
    return cla_context_fail(
        c->context, CLATTN_UNSUPPORTED, "kernel %s: its arguments have %llu bytes, the device takes %llu",
        clattn_kernel_sources[l->program->spec.id].name, (unsigned long long)bytes, (unsigned long long)most);
}

// The last part that is whole, where the grid is cut so: of a mask that hides more from the first rows it does the most.
static bool is_last_whole(const launch *l, const grid_part *part, const size_t step[3]) {
    for (int i = 0; i < 3; i++)
        if (part->size[i] != step[i] || l->global[i] - part->offset[i] >= 2 * step[i]) return false;
    return true;
}

clattn_status cla_launch_enqueue(chain *c, const launch *l) {
    TRY(check_arguments(c, l));
    TRY(cla_chain_write_tables(c));
    const size_t *all = l->global;
    const double most = cla_pace_most(c->context, &l->program->rate, c->progress != NULL);
    size_t step[3];
    cla_pace_cut(all, l->local, l->cuts_first, l->flops, most, step);
    for (size_t z = 0; z < all[2]; z += step[2])
        for (size_t y = 0; y < all[1]; y += step[1])
            for (size_t x = 0; x < all[0]; x += step[0]) {
                const grid_part part = {
                    {x, y, z},
                    {size_at(all[0], x, step[0]), size_at(all[1], y, step[1]), size_at(all[2], z, step[2])}};
                const double flops = flops_of(l, &part);
                const bool timed =
                    !c->progress && !l->early && flops >= most / 4 && is_last_whole(l, &part, step);
                TRY(timed ? enqueue_timed(c, l, &part, flops) : enqueue_part(c, l, &part, false));
                TRY(cla_chain_tell(c, &l->program->rate, flops));
            }
    return CLATTN_OK;
}

void cla_launch_group(const size_t items[3], const size_t shape[3], uint64_t most, const uint64_t most_of[3],
                      size_t group[3]) {
    uint64_t left = most ? most : 1;
    for (int i = 0; i < 3; i++) {
        const uint64_t limit = most_of[i] < left ? most_of[i] : left;
        size_t n = 1;
        while (n < shape[i] && n < items[i] && 2 * n <= limit) n *= 2;
        group[i] = n;
        left /= n;
    }
}

void cla_launch_items(launch *l, const clattn_context *context, const size_t items[3],
                      const size_t shape[3]) {
    const clattn_capabilities *device = &context->capabilities;
    const uint64_t allowed = l->program->group_limit;
    cla_launch_group(items, shape, allowed < device->max_work_group ? allowed : device->max_work_group,
                     device->max_work_item, l->local);
    for (int i = 0; i < 3; i++) l->global[i] = (items[i] + l->local[i] - 1) / l->local[i] * l->local[i];
}
