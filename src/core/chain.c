// chain.c: see chain.h.
#include "core/chain.h"

static clattn_status check_queue(clattn_context *c, cl_command_queue queue) {
    cl_context context = NULL;
    cl_device_id device = NULL;
    if (!queue)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "queue: is NULL, a command queue of the context is needed");
    cl_int code = clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof context, &context, NULL);
    if (code == CL_SUCCESS)
        code = clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof device, &device, NULL);
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

// PoCL never starts a command that waits for an event which had failed before.
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

clattn_status cla_chain_check(clattn_context *context, cl_command_queue queue, cl_uint wait_count,
                              const cl_event *wait_list) {
    const clattn_status status = check_queue(context, queue);
    if (status != CLATTN_OK) return status;
    if ((wait_count == 0) != (wait_list == NULL))
        return cla_context_fail(context, CLATTN_INVALID_ARGUMENT,
                                "wait_list: is %s with wait_count %u: give both or neither",
                                wait_list ? "set" : "NULL", (unsigned)wait_count);
    for (cl_uint i = 0; i < wait_count; i++) TRY(check_event(context, i, wait_list[i]));
    return CLATTN_OK;
}

void cla_chain_begin(chain *c, clattn_context *context, cl_command_queue queue, cl_uint wait_count,
                     const cl_event *wait_list) {
    cl_command_queue_properties properties = CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE;
    clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES, sizeof properties, &properties, NULL);
    *c = (chain){context,   queue, wait_count,
                 wait_list, NULL,  (properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) == 0};
}

void cla_chain_waits(const chain *c, cl_uint *count, const cl_event **list) {
    *count = c->last ? !c->in_order : c->wait_count;
    *list = !c->last ? c->wait_list : c->in_order ? NULL : &c->last;
}

void cla_chain_took(chain *c, cl_event event) {
    if (c->last) clReleaseEvent(c->last);
    c->last = event;
}

clattn_status cla_chain_end(chain *c, clattn_status status, cl_event *event) {
    if (event) *event = NULL;
    if (status == CLATTN_OK && event && !c->last) {
        const cl_int code = clEnqueueMarkerWithWaitList(c->queue, c->wait_count, c->wait_list, &c->last);
        if (code != CL_SUCCESS)
            status = cla_context_fail_opencl(c->context, code, "clEnqueueMarkerWithWaitList");
    }
    if (status == CLATTN_OK && event)
        *event = c->last;
    else if (c->last)
        clReleaseEvent(c->last);
    c->last = NULL;
    return status;
}

void cla_launch_value(launch *l, const void *value, size_t bytes) {
    l->args[l->count].bytes = bytes;
    l->args[l->count++].value = value;
}

void cla_launch_buffer(launch *l, const cl_mem *buffer) {
    l->args[l->count].bytes = sizeof *buffer;
    l->args[l->count++].value = *buffer ? buffer : NULL;
}

// GPUs take at most 65,535 groups in the second and third dimension, where the kernels have local size 1 and
// find their place by get_global_id: larger grids are enqueued in parts, by a global offset.
#define MAX_GRID_PART ((size_t)32768)

typedef struct grid_part {
    size_t offset[3], size[3];
} grid_part;

static cl_int set_and_enqueue(chain *c, const launch *l, cl_kernel kernel, const grid_part *part,
                              cl_event *event, const char **call) {
    cl_uint wait_count;
    const cl_event *wait_list;
    cla_chain_waits(c, &wait_count, &wait_list);
    *call = "clSetKernelArg";
    for (int i = 0; i < l->count; i++) {
        const cl_int code = clSetKernelArg(kernel, (cl_uint)i, l->args[i].bytes, l->args[i].value);
        if (code != CL_SUCCESS) return code;
    }
    *call = "clEnqueueNDRangeKernel";
    return clEnqueueNDRangeKernel(c->queue, kernel, 3,
                                  part->offset[1] || part->offset[2] ? part->offset : NULL, part->size,
                                  l->local[0] ? l->local : NULL, wait_count, wait_list, event);
}

static clattn_status enqueue_part(chain *c, const launch *l, const grid_part *part) {
    const char *call = "";
    cl_event event = NULL;
    cl_kernel kernel;
    TRY(cla_program_take_kernel(c->context, l->program, &kernel));
    const cl_int code = set_and_enqueue(c, l, kernel, part, &event, &call);
    cla_program_give_kernel(l->program, kernel);
    if (code != CL_SUCCESS) return cla_context_fail_opencl(c->context, code, call);
    cla_chain_took(c, event);
    cla_context_mark_run(c->context);
    return CLATTN_OK;
}

static size_t part_of(size_t all, size_t at) {
    return all - at < MAX_GRID_PART ? all - at : MAX_GRID_PART;
}

clattn_status cla_launch_enqueue(chain *c, const launch *l) {
    clattn_status status = CLATTN_OK;
    for (size_t z = 0; status == CLATTN_OK && z < l->global[2]; z += MAX_GRID_PART)
        for (size_t y = 0; status == CLATTN_OK && y < l->global[1]; y += MAX_GRID_PART) {
            const grid_part part = {{0, y, z},
                                    {l->global[0], part_of(l->global[1], y), part_of(l->global[2], z)}};
            status = enqueue_part(c, l, &part);
        }
    return status;
}
