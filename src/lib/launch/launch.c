// launch.c: launches on a chain (chain.h): arguments, grids, and cutting large grids into slices.
#include <math.h>
#include <string.h>

#include "launch/chain.h"
#include "launch/recording.h"
#include "program/promises.h"
#include "device/pointer.h"
#include "program/unfit.h"

void cla_launch_argument(launch *l, launch_argument a) {
    l->args[l->count++] = a;
}

void cla_launch_buffer(launch *l, const cl_mem *buffer) {
    const bool address = cla_pointer_kind(*buffer);
    cla_launch_argument(l, (launch_argument){.bytes = sizeof *buffer,
                                             .value = *buffer ? buffer : NULL,
                                             .pointer = address ? *buffer : NULL,
                                             .buffer = address ? NULL : *buffer});
}

typedef struct grid_part {
    size_t offset[3], size[3];
} grid_part;

// On failure *call is the name of the function that failed, or NULL for clSetKernelArg.
static cl_int set_arguments(const chain *c, const launch *l, cl_kernel kernel, const char **call) {
    *call = NULL;
    for (int i = 0; i < l->count; i++) {
        const cl_mem pointer = l->args[i].pointer;
        const cl_int code = pointer ? cla_pointer_set(c->context, kernel, (cl_uint)i, pointer, call)
                                    : clSetKernelArg(kernel, (cl_uint)i, l->args[i].bytes, l->args[i].value);
        if (code != CL_SUCCESS) return code;
    }
    return CL_SUCCESS;
}

cl_int cla_launch_kernel(const chain *c, cl_kernel kernel, const size_t offset[3], const size_t size[3],
                         const size_t local[3], cl_event *event) {
    cl_uint wait_count;
    const cl_event *wait_list;
    cla_chain_waits(c, &wait_count, &wait_list);
    return clEnqueueNDRangeKernel(c->queue, kernel, 3, offset[0] || offset[1] || offset[2] ? offset : NULL,
                                  size, local, wait_count, wait_list, event);
}

// The global offset for the driver.
static const size_t *offset_of(const launch *l, const grid_part *part) {
    static const size_t none[3];
    return l->placed ? none : part->offset;
}

// A launch failed: plan the call again, unless a launch has changed the call's inputs.
static clattn_status refuse(const chain *c, const launch *l, unfit_step step, const char *call, cl_int code) {
    const unfit_failure failure = {.spec = &l->program->spec,
                                   .step = step,
                                   .call = call,
                                   .code = code,
                                   .work_group =
                                       step == UNFIT_LAUNCH ? l->local[0] * l->local[1] * l->local[2] : 0,
                                   .final = c->changed};
    return cla_unfit_failed(c->context, &failure);
}

// The recording owns the kernel object and replays it with its current arguments.
static clattn_status record_part(chain *c, const launch *l, const grid_part *part) {
    cl_kernel kernel;
    if (c->progress)
        return cla_context_fail(c->context, CLATTN_INVALID_ARGUMENT,
                                "progress: is not told of a call that is recorded: NULL is needed");
    const char *call;
    cl_int code = cla_program_object(l->program, &kernel);
    if (code != CL_SUCCESS) return refuse(c, l, UNFIT_OBJECT, NULL, code);
    code = set_arguments(c, l, kernel, &call);
    if (code == CL_SUCCESS) return cla_recording_keep(c, l, kernel, offset_of(l, part), part->size);
    clReleaseKernel(kernel);
    return refuse(c, l, UNFIT_ARGUMENT, call, code);
}

static clattn_status enqueue_part(chain *c, const launch *l, const grid_part *part, bool timed) {
    cl_event event = NULL, *wanted = cla_chain_event(c, &event);
    cl_kernel kernel;
    unfit_step step = UNFIT_ARGUMENT;
    if (c->recording) return record_part(c, l, part);
    const char *call;
    cl_int code = cla_program_object(l->program, &kernel);
    if (code != CL_SUCCESS) return refuse(c, l, UNFIT_OBJECT, NULL, code);
    code = set_arguments(c, l, kernel, &call);
    if (code == CL_SUCCESS) {
        step = UNFIT_LAUNCH;
        code =
            cla_launch_kernel(c, kernel, offset_of(l, part), part->size, l->local, timed ? &event : wanted);
    }
    cla_program_give_kernel(l->program, kernel);
    if (code != CL_SUCCESS) return refuse(c, l, step, call, code);
    cla_chain_set_last_event(c, event);
    if (c->again) cla_unfit_worked(c->context, &l->program->spec);
    c->changed |= l->changes;
    if (l->changes) cla_unfit_fix();
    if (l->flops == 0.0) c->waited_ns = 0;
    cla_context_mark_run(c->context);
    return CLATTN_OK;
}

// Enqueue a large part and time it, unless another part is being timed. `before`: operations of the
// launch's parts so far.
static clattn_status enqueue_timed(chain *c, const launch *l, const grid_part *part, pace_rate *rate,
                                   double flops, double before, uint64_t start_ns) {
    if (!cla_pace_begin(c->context)) return enqueue_part(c, l, part, false);
    const clattn_status status = enqueue_part(c, l, part, true);
    const pace_timed timed = {.event = status == CLATTN_OK ? c->last : NULL,
                              .of = rate,
                              .flops = c->keeps_times ? flops : before + flops,
                              .start_ns = c->keeps_times ? 0 : start_ns};
    cla_pace_end(c->context, &timed);
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

// A device may allow only OpenCL's minimum. Drivers place arguments at multiples of eight bytes.
static clattn_status check_arguments(const chain *c, const launch *l) {
    const uint64_t most = c->context->capabilities.max_argument_bytes;
    uint64_t bytes = 0;
    for (int i = 0; i < l->count; i++) bytes += (l->args[i].bytes + 7) / 8 * 8;
    if (bytes <= most) return CLATTN_OK;
    return cla_context_fail(
        c->context, CLATTN_UNSUPPORTED, "kernel %s: its arguments have %llu bytes, the device takes %llu",
        clattn_kernel_sources[l->program->spec.id].name, (unsigned long long)bytes, (unsigned long long)most);
}

// True for the last full-size part. Only this part is timed: a causal mask hides the most keys from
// the first rows, so the last part does the most work.
static bool is_last_whole(const launch *l, const grid_part *part, const size_t step[3]) {
    for (int i = 0; i < 3; i++)
        if (part->size[i] != step[i] || l->global[i] - part->offset[i] >= 2 * step[i]) return false;
    return true;
}

// If the driver applies global offsets wrongly (PROMISE_OFFSETS), build the kernel that reads the
// offset from an argument. *l becomes `placed`, the launch with that argument.
static clattn_status pass_offsets(chain *c, const launch **l, launch *placed, const args_i64 at[3]) {
    program_spec spec = (*l)->program->spec;
    if (!(cla_promises_broken(c->context) & PROMISE_OFFSETS)) return CLATTN_OK;
    *placed = **l;
    spec.placed = placed->placed = true;
    TRY(cla_program_get_spec(c->context, &spec, &placed->program));
    cla_launch_argument(placed, (launch_argument){.bytes = 3 * sizeof *at, .value = at});
    *l = placed;
    return check_arguments(c, placed);
}

clattn_status cla_launch_enqueue(chain *c, const launch *l) {
    TRY(check_arguments(c, l));
    TRY(cla_chain_write_tables(c));
    const size_t *all = l->global;
    pace_rate *rate = &l->program->rate;
    launch placed;
    args_i64 at[3];
    const double most = cla_pace_most(c->context, rate, c->progress != NULL);
    // If no launch is too large, none is timed.
    const uint64_t start_ns = most < INFINITY ? cla_os_time_ns() : 0;
    double before = 0.0;
    size_t step[3];
    cla_pace_cut(all, l->local, l->cuts_first, l->flops, most, step);
    if (memcmp(step, all, sizeof step) != 0) TRY(pass_offsets(c, &l, &placed, at));
    for (size_t z = 0; z < all[2]; z += step[2])
        for (size_t y = 0; y < all[1]; y += step[1])
            for (size_t x = 0; x < all[0]; x += step[0]) {
                const grid_part part = {
                    {x, y, z},
                    {size_at(all[0], x, step[0]), size_at(all[1], y, step[1]), size_at(all[2], z, step[2])}};
                for (int i = 0; i < 3; i++) at[i] = (args_i64)part.offset[i];
                const double flops = flops_of(l, &part);
                const bool timed = !c->recording && !c->progress && !l->early && flops >= most / 4 &&
                                   is_last_whole(l, &part, step);
                TRY(timed ? enqueue_timed(c, l, &part, rate, flops, before, start_ns)
                          : enqueue_part(c, l, &part, false));
                before += flops;
                TRY(cla_chain_report_progress(c, rate, flops));
            }
    return CLATTN_OK;
}

void cla_launch_group(const size_t items[3], const size_t shape[3], size_t step, uint64_t most,
                      const uint64_t most_of[3], size_t group[3]) {
    uint64_t left = most ? most : 1;
    for (int i = 0; i < 3; i++) {
        const uint64_t limit = most_of[i] < left ? most_of[i] : left;
        size_t n = 1;
        while (n < shape[i] && n < items[i] && step * n <= limit) n *= step;
        group[i] = n;
        left /= n;
    }
}

void cla_launch_items(launch *l, const clattn_context *context, const size_t items[3],
                      const size_t shape[3]) {
    const clattn_capabilities *device = &context->capabilities;
    const uint64_t allowed = cla_program_group(context, l->program);
    l->apart = true;
    cla_launch_group(items, shape, device->is_cpu ? 4 : 2,
                     allowed < device->max_work_group ? allowed : device->max_work_group,
                     device->max_work_item, l->local);
    for (int i = 0; i < 3; i++) l->global[i] = (items[i] + l->local[i] - 1) / l->local[i] * l->local[i];
}
