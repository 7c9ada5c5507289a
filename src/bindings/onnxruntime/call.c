// call.c: see call.h.
#include "onnxruntime/call.h"

#include <stdarg.h>
#include <stdio.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

bool call_good(const struct call *call) {
    return call->status == NULL;
}

static void fail(struct call *call, int code, const char *text) {
    char line[LINE];
    snprintf(line, sizeof line, "clattn %s: %s", call->kernel->op->is->name, text);
    if (call->status == NULL) call->status = call->kernel->api->CreateStatus(code, line);
}

void call_refuse(struct call *call, const char *format, ...) {
    char text[LINE - 64];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fail(call, ORT_INVALID_ARGUMENT, text);
}

void call_check(struct call *call, clattn_status status) {
    const char *line = device_line();
    if (status == CLATTN_OK || !call_good(call)) return;
    fail(call, status == CLATTN_INVALID_ARGUMENT ? ORT_INVALID_ARGUMENT : ORT_FAIL,
         line[0] ? line : clattn_status_text(status));
}

// Append sizes of axes to a text, such as "[2, 1 or 4, any]".
static void append_sizes(char *text, size_t size, int rank, const int64_t *sizes) {
    size_t used = strlen(text);
    for (int n = 0; n < rank && used < size; n++) {
        const char *before = n ? ", " : "[";
        const long long number = sizes[n] < ANY_SIZE ? -(sizes[n] + 2) : sizes[n];
        if (sizes[n] == ANY_SIZE)
            snprintf(text + used, size - used, "%sany", before);
        else
            snprintf(text + used, size - used, "%s%s%lld", before, sizes[n] < 0 ? "1 or " : "", number);
        used += strlen(text + used);
    }
    if (used < size) snprintf(text + used, size - used, rank ? "]" : "[]");
}

void call_refuse_shape(struct call *call, const struct array *array, const char *format, ...) {
    char text[LINE - 64];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    strncat(text, ": its shape is ", sizeof text - strlen(text) - 1);
    append_sizes(text, sizeof text, array->rank, array->shape);
    fail(call, ORT_INVALID_ARGUMENT, text);
}

bool call_axes(struct call *call, const struct array *array, const char *name, const char *axes, int rank,
               const int64_t *sizes) {
    char wanted[160] = "";
    bool fits = array->rank == rank;
    if (array->data == NULL || !call_good(call)) return call_good(call);
    for (int n = 0; fits && n < rank; n++)
        fits = sizes[n] == ANY_SIZE || array->shape[n] == (sizes[n] < 0 ? -(sizes[n] + 2) : sizes[n]) ||
               (sizes[n] < ANY_SIZE && array->shape[n] == 1);
    if (fits) return true;
    append_sizes(wanted, sizeof wanted, rank, sizes);
    call_refuse_shape(call, array, "%s is %s, here %s", name, axes, wanted);
    return false;
}

bool call_heads(struct call *call, const struct array *array, int64_t heads, const char *name) {
    const int64_t numbers = array->rank == 3 ? array->shape[2] : 0;
    if (call_good(call) && (heads < 1 || numbers % heads))
        call_refuse_shape(call, array, "%s of %lld numbers a row is no whole number of %lld heads", name,
                          (long long)numbers, (long long)heads);
    return call_good(call);
}

// Record an error of ONNX Runtime as the call's status. Returns true if there is none.
static bool passed(struct call *call, OrtStatus *status) {
    if (status && call->status) call->kernel->api->ReleaseStatus(status);
    if (status && !call->status) call->status = status;
    return status == NULL;
}

static max_align_t nothing; // an address for empty tensors; never read

static clattn_type type_of(int element) {
    switch (element) {
    case ORT_TYPE_F32:
        return CLATTN_TYPE_F32;
    case ORT_TYPE_F16:
        return CLATTN_TYPE_F16;
    case ORT_TYPE_BF16:
        return CLATTN_TYPE_BF16;
    case ORT_TYPE_BOOL:
        return CLATTN_TYPE_BOOL;
    case ORT_TYPE_I32:
        return CLATTN_TYPE_I32;
    default:
        return CLATTN_TYPE_COUNT;
    }
}

static void measure(struct array *array) {
    array->type = type_of(array->element);
    array->count = 1;
    for (int n = 0; n < array->rank; n++) array->count *= array->shape[n];
    array->bytes = (size_t)array->count *
                   (array->element == ORT_TYPE_I64 ? sizeof(int64_t) : clattn_type_size(array->type));
}

// Find a tensor's type, shape and data. `data` is never NULL, even for an empty tensor.
static bool describe(struct call *call, OrtValue *value, size_t index, struct array *array) {
    const OrtApi *api = call->kernel->api;
    OrtTensorTypeAndShapeInfo *info = NULL;
    size_t rank = 0;
    if (!passed(call, api->GetTensorTypeAndShape(value, &info))) return false;
    if (passed(call, api->GetTensorElementType(info, &array->element)) &&
        passed(call, api->GetDimensionsCount(info, &rank))) {
        array->rank = (int)rank;
        if (rank <= MOST_AXES)
            passed(call, api->GetDimensions(info, array->shape, rank));
        else
            call_refuse(call, "tensor %zu has %zu axes: at most %d are taken", index, rank, MOST_AXES);
    }
    api->ReleaseTensorTypeAndShapeInfo(info);
    if (!call_good(call) || !passed(call, api->GetTensorMutableData(value, &array->data))) return false;
    if (array->data == NULL) array->data = &nothing;
    measure(array);
    return true;
}

struct array call_input(struct call *call, size_t index) {
    const OrtApi *api = call->kernel->api;
    const OrtValue *value = NULL;
    struct array array = {0};
    if (!call_good(call) || index >= call->inputs) return array;
    if (!passed(call, api->KernelContext_GetInput(call->context, index, &value)) || value == NULL)
        return array;
    return describe(call, (OrtValue *)value, index, &array) ? array : (struct array){0};
}

struct array call_output(struct call *call, size_t index, int rank, const int64_t *shape) {
    const struct op *op = call->kernel->op;
    const OrtApi *api = call->kernel->api;
    OrtValue *value = NULL;
    struct array array = {0};
    if (!call_good(call) || index >= call->outputs) return array;
    if (!passed(call, api->KernelContext_GetOutput(call->context, index, shape, (size_t)rank, &value)) ||
        value == NULL || !describe(call, value, index, &array))
        return (struct array){0};
    if (array.element != op->types[op->is->outputs[index] == '2']) {
        call_refuse(call, "output %zu has another type than the inputs", index);
        return (struct array){0};
    }
    if (array.count == 0) array.data = NULL;
    return array;
}

// A slot for memory of the call; NULL: the call fails.
static struct held *hold(struct call *call) {
    if (call->count == MOST_HELD) call_refuse(call, "it takes more than %d pieces of memory", MOST_HELD);
    return call_good(call) ? &call->held[call->count] : NULL;
}

static cl_mem wrap(struct call *call, void *data, size_t bytes, cl_mem_flags access, bool filled, void *to) {
    const struct device *device = call->device;
    struct held *held = bytes && call_good(call) ? hold(call) : NULL;
    cl_int code = CL_SUCCESS;
    if (held == NULL) return NULL;
    if (data && device->shares_memory)
        access |= CL_MEM_USE_HOST_PTR;
    else if (data && filled)
        access |= CL_MEM_COPY_HOST_PTR;
    held->buffer =
        device->clCreateBuffer(clattn_context_opencl(device->context), access, bytes,
                               access & (CL_MEM_USE_HOST_PTR | CL_MEM_COPY_HOST_PTR) ? data : NULL, &code);
    if (held->buffer == NULL) {
        call_refuse(call, "clCreateBuffer of %zu bytes failed (%d)", bytes, (int)code);
        return NULL;
    }
    held->to = to;
    held->bytes = bytes;
    call->count++;
    return held->buffer;
}

cl_mem call_reads(struct call *call, const void *data, size_t bytes) {
    return wrap(call, (void *)data, bytes, CL_MEM_READ_ONLY, true, NULL);
}

cl_mem call_writes(struct call *call, void *data, size_t bytes, bool filled) {
    return wrap(call, data, bytes, CL_MEM_READ_WRITE, filled, data);
}

cl_mem call_scratch(struct call *call, size_t bytes) {
    return wrap(call, NULL, bytes, CL_MEM_READ_WRITE, false, NULL);
}

void *call_memory(struct call *call, size_t bytes) {
    struct held *held = call_good(call) ? hold(call) : NULL;
    if (held == NULL) return NULL;
    *held = (struct held){.memory = malloc(bytes ? bytes : 1)};
    if (held->memory == NULL)
        call_refuse(call, "there are no %zu bytes of host memory", bytes);
    else
        call->count++;
    return held->memory;
}

int32_t *call_integers(struct call *call, const struct array *array, int64_t count, const char *name) {
    int32_t *to = call_memory(call, (size_t)count * sizeof *to);
    if (call_good(call) && array->element != ORT_TYPE_I32 && array->element != ORT_TYPE_I64)
        call_refuse(call, "%s is of int32 or int64", name);
    if (call_good(call) && array->count != count)
        call_refuse(call, "%s has %lld numbers, %lld are wanted", name, (long long)array->count,
                    (long long)count);
    for (int64_t n = 0; call_good(call) && n < count; n++) {
        const bool wide = array->element == ORT_TYPE_I64;
        const int64_t number = wide ? ((const int64_t *)array->data)[n] : ((const int32_t *)array->data)[n];
        if (number < INT32_MIN || number > INT32_MAX)
            call_refuse(call, "%s: %lld does not fit into 32 bits", name, (long long)number);
        else
            to[n] = (int32_t)number;
    }
    return to;
}

int32_t *call_lengths(struct call *call, const struct array *array, int64_t batch, int64_t most,
                      const char *name) {
    call_axes(call, array, name, "[B]", 1, &batch);
    int32_t *numbers = call_integers(call, array, batch, name);
    for (int64_t b = 0; call_good(call) && b < batch; b++)
        if (numbers[b] < 0 || numbers[b] > most)
            call_refuse(call, "%s: %d of item %lld is not 0 to %lld", name, (int)numbers[b], (long long)b,
                        (long long)most);
    return numbers;
}

clattn_tensor call_positions(struct call *call, const struct array *ids, int64_t batch, int64_t count,
                             int64_t rows) {
    const int64_t shape[2] = {batch, count};
    call_axes(call, ids, "position_ids", "[B, N]", 2, shape);
    const int32_t *numbers = call_integers(call, ids, ids->count, "position_ids");
    for (int64_t n = 0; call_good(call) && n < ids->count; n++)
        if (numbers[n] < 0 || numbers[n] >= rows)
            call_refuse(call, "position_ids: %d is not one of the %lld rows of cos_cache", (int)numbers[n],
                        (long long)rows);
    return clattn_tensor_dense(call_reads(call, numbers, (size_t)ids->count * sizeof *numbers),
                               CLATTN_TYPE_I32, 2, shape);
}

clattn_tensor call_rows(struct call *call, const struct array *array, int64_t heads, const char *name) {
    const int64_t *shape = array->shape;
    cl_mem buffer = call_reads(call, array->data, array->bytes);
    if (array->rank == 4 && call_axes(call, array, name, "[B, H, N, D]", 4,
                                      (int64_t[]){ANY_SIZE, heads ? heads : ANY_SIZE, ANY_SIZE, ANY_SIZE}))
        return clattn_tensor_bhsd(buffer, array->type, shape[0], shape[1], shape[2], shape[3]);
    if (array->rank == 3 && call_heads(call, array, heads, name))
        return clattn_tensor_bshd(buffer, array->type, shape[0], heads, shape[1], shape[2] / heads);
    if (call_good(call)) call_refuse_shape(call, array, "%s is [B, H, N, D] or [B, N, H * D]", name);
    return (clattn_tensor){0};
}

clattn_tensor call_view(struct call *call, const struct array *array) {
    if (array->rank < 1 || array->rank > CLATTN_MAX_RANK)
        call_refuse(call, "a tensor has %d axes: 1 to %d are taken", array->rank, CLATTN_MAX_RANK);
    if (!call_good(call)) return (clattn_tensor){0};
    return clattn_tensor_dense(call_reads(call, array->data, array->bytes), array->type, array->rank,
                               array->shape);
}

// Bring the results that the device wrote into host memory.
static void bring_back(struct call *call, const struct held *held) {
    const struct device *device = call->device;
    cl_int code = CL_SUCCESS;
    if (device->shares_memory) {
        void *at = device->clEnqueueMapBuffer(call->queue, held->buffer, CL_TRUE, CL_MAP_READ, 0, held->bytes,
                                              0, NULL, NULL, &code);
        if (at) code = device->clEnqueueUnmapMemObject(call->queue, held->buffer, at, 0, NULL, NULL);
    } else {
        code = device->clEnqueueReadBuffer(call->queue, held->buffer, CL_TRUE, 0, held->bytes, held->to, 0,
                                           NULL, NULL);
    }
    if (code != CL_SUCCESS) call_refuse(call, "the result could not be read (%d)", (int)code);
}

// Wait for the device, and release all that the call holds.
static OrtStatus *end(struct call *call) {
    const struct device *device = call->device;
    for (int n = 0; n < call->count && call_good(call); n++)
        if (call->held[n].to) bring_back(call, &call->held[n]);
    if (call->queue) {
        const cl_int code = device->clFinish(call->queue);
        if (code != CL_SUCCESS && call_good(call)) call_refuse(call, "clFinish failed (%d)", (int)code);
        device_give_queue(call->device, call->queue);
    }
    for (int n = 0; n < call->count; n++) {
        if (call->held[n].buffer) device->clReleaseMemObject(call->held[n].buffer);
        free(call->held[n].memory);
    }
    return call->status;
}

OrtStatus *call_node(const struct kernel *kernel, OrtKernelContext *context) {
    const OrtApi *api = kernel->api;
    struct call call = {.kernel = kernel, .device = kernel->op->device, .context = context};
    call.status = api->KernelContext_GetInputCount(context, &call.inputs);
    if (call_good(&call)) call.status = api->KernelContext_GetOutputCount(context, &call.outputs);
    if (call_good(&call)) call.queue = device_take_queue(call.device);
    if (call_good(&call) && call.queue == NULL) call_refuse(&call, "clCreateCommandQueue failed");
    if (call_good(&call)) kernel->op->is->compute(&call);
    return end(&call);
}
