// guarded.c: buffers with guard zones; see guarded.h. Used by the case runner and the suites.
#include "verification/device/guarded.h"

#include "verification/reference/random.h"
#include "verification/reference/storage.h"
#include "verification/device/opencl.h"

#include <stdlib.h>
#include <string.h>
#include <stdio.h>

void place_broken(struct place *place, const char *what, cl_int code) {
    if (place->broken) place->broken(what, code);
    if (place->error[0] == '\0')
        snprintf(place->error, sizeof place->error, "%s: OpenCL error %d", what, (int)code);
}

const char *place_message(const struct place *place, clattn_status status, char text[256]) {
    text[0] = '\0';
    clattn_context_last_error(place->context, text, 256);
    if (text[0] == '\0') snprintf(text, 256, "%s", clattn_status_text(status));
    return text;
}

#define GUARD_BYTE 0xa5

int64_t guarded_count(const clattn_tensor *view) {
    int64_t count = 1;
    for (int axis = 0; axis < view->rank; axis++) count *= view->shape[axis];
    return count;
}

int64_t guarded_numbers(const clattn_tensor *view) {
    return guarded_count(view) * clattn_type_numbers(view->type);
}

int64_t guarded_shape_count(const struct guarded_shape *shape) {
    int64_t count = shape->rank > 0;
    for (int axis = 0; axis < shape->rank; axis++) count *= shape->shape[axis];
    return count;
}

int64_t guarded_shape_numbers(const struct guarded_shape *shape) {
    return guarded_shape_count(shape) * clattn_type_numbers(shape->type);
}

// The buffer's element with dense index n.
static int64_t element(const clattn_tensor *view, int64_t n) {
    int64_t at = view->offset;
    for (int axis = view->rank - 1; axis >= 0; axis--) {
        at += n % view->shape[axis] * view->stride[axis];
        n /= view->shape[axis];
    }
    return at;
}

// Draw strides at random. The last axis must be innermost, unless tensor.h allows any stride.
static void lay_scattered(clattn_tensor *view, bool loose, uint64_t *drawn) {
    struct random r = { *drawn += 77};
    const bool any = loose || view->type == CLATTN_TYPE_BOOL || view->type == CLATTN_TYPE_I32;
    const int free_axes = any ? view->rank : view->rank - 1;
    int order[CLATTN_MAX_RANK] = {0};
    int64_t step = 1;
    for (int n = 0; n < free_axes; n++) {
        const int at = (int)random_uniform(&r, 0, n + 1);
        order[n] = order[at], order[at] = n;
    }
    if (!any) order[free_axes] = view->rank - 1;
    for (int n = 0; n < view->rank; n++) { // if the last axis must be innermost, it is first
        const int axis = order[any ? n : (n + free_axes) % view->rank];
        const int64_t gap = (int64_t)random_uniform(&r, 0, 4), wide = gap == 3 ? 13 : gap;
        if (any && n == 0) step += gap;
        view->stride[axis] = step;
        step = step * (view->shape[axis] > 0 ? view->shape[axis] : 1) + wide;
    }
    view->offset = (int64_t)random_uniform(&r, 0, 20);
}

static void lay_out(clattn_tensor *view, enum layout layout) {
    int last = view->rank - 1;
    int64_t gap = layout == LAYOUT_PADDED ? 3 : layout == LAYOUT_SPACED ? 16 : 0, step = 1;
    view->offset = layout == LAYOUT_PADDED ? 7 : gap;
    for (int axis = last; axis >= 0; axis--) {
        view->stride[axis] = step;
        step = step * (view->shape[axis] > 0 ? view->shape[axis] : 1) + gap;
    }
    if (layout != LAYOUT_BSHD || view->rank != 4) return;
    view->stride[1] = view->shape[3];
    view->stride[2] = view->shape[1] * view->shape[3];
}

// Allocate host memory for a view: all elements that it reaches, and the guard behind them.
static struct guarded prepare_view(struct place *place, const clattn_tensor *view) {
    struct guarded tensor = {.view = *view, .place = place};
    int64_t last = 0;
    for (int axis = 0; axis < view->rank; axis++)
        if (view->shape[axis] > 0) last += (view->shape[axis] - 1) * view->stride[axis];
    tensor.bytes = (size_t)(view->offset + last + 1 + place->guard) * clattn_type_size(view->type);
    tensor.image = malloc(tensor.bytes);
    if (tensor.image == NULL) place_broken(place, "malloc", CL_OUT_OF_HOST_MEMORY);
    return tensor;
}

static struct guarded prepare(struct place *place, const struct guarded_shape *shape) {
    clattn_tensor view = {.type = shape->type, .rank = shape->rank};
    memcpy(view.shape, shape->shape, sizeof view.shape);
    lay_out(&view, shape->layout);
    if (shape->layout == LAYOUT_SCATTERED || shape->layout == LAYOUT_LOOSE)
        lay_scattered(&view, shape->layout == LAYOUT_LOOSE, &place->drawn);
    return prepare_view(place, &view);
}

// Use the place's memory as the buffer's memory, or directly by address.
static struct guarded use_memory(struct guarded tensor) {
    cl_int code = CL_OUT_OF_HOST_MEMORY;
    tensor.memory = tensor.place->memory(tensor.bytes);
    if (tensor.memory != NULL && tensor.place->copy != NULL) {
        code = tensor.place->copy(tensor.memory, tensor.image, tensor.bytes);
        *(tensor.place->usm ? &tensor.view.usm : &tensor.view.svm) = tensor.memory;
    } else if (tensor.memory != NULL) {
        memcpy(tensor.memory, tensor.image, tensor.bytes);
        tensor.view.buffer = clCreateBuffer(tensor.place->opencl, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR,
                                            tensor.bytes, tensor.memory, &code);
    }
    if (code != CL_SUCCESS) place_broken(tensor.place, "clCreateBuffer", code);
    return tensor;
}

// Upload to a buffer. In a bare place a command writes the data, because CL_MEM_COPY_HOST_PTR may
// keep a second copy. In other places no command is used, because a suite may block the queue.
static struct guarded upload(struct guarded tensor) {
    struct place *place = tensor.place;
    cl_int code = CL_SUCCESS;
    if (tensor.image == NULL) return tensor;
    if (place->memory != NULL) return use_memory(tensor);
    tensor.view.buffer =
        clCreateBuffer(place->opencl, CL_MEM_READ_WRITE | (place->bare ? 0 : CL_MEM_COPY_HOST_PTR),
                       tensor.bytes, place->bare ? NULL : tensor.image, &code);
    if (code == CL_SUCCESS && place->bare)
        code = clEnqueueWriteBuffer(place->queue, tensor.view.buffer, CL_TRUE, 0, tensor.bytes, tensor.image,
                                    0, NULL, NULL);
    if (code != CL_SUCCESS) place_broken(place, "clCreateBuffer", code);
    if (place->bare) {
        free(tensor.image);
        tensor.image = NULL;
    }
    return tensor;
}

static bool is_dense(const clattn_tensor *view) {
    const clattn_tensor dense = clattn_tensor_dense(view->buffer, view->type, view->rank, view->shape);
    return view->offset == 0 && memcmp(dense.stride, view->stride, sizeof dense.stride) == 0;
}

// Store the values in the view. A dense tensor that repeats is filled with copies of its table.
static void scatter(struct guarded *tensor, const double *values) {
    const int64_t count = guarded_count(&tensor->view), numbers = clattn_type_numbers(tensor->view.type),
                  most = GUARDED_PERIOD_OF(tensor->view.type) / numbers, period = count < most ? count : most;
    const size_t size = clattn_type_size(tensor->view.type);
    const bool repeat = is_dense(&tensor->view);
    if (tensor->image == NULL) return;
    for (int64_t n = 0; n < (repeat ? period : count); n++)
        storage_store_numbers(tensor->view.type, tensor->image, element(&tensor->view, n),
                              values + n % period * numbers);
    for (int64_t n = period; repeat && n < count; n += period)
        memcpy(tensor->image + (size_t)n * size, tensor->image,
               (size_t)(count - n < period ? count - n : period) * size);
}

struct guarded guarded_input(struct place *place, const struct guarded_shape *shape, const double *values) {
    struct guarded tensor = prepare(place, shape);
    if (tensor.image != NULL)
        storage_poison(shape->type, tensor.image, (int64_t)(tensor.bytes / clattn_type_size(shape->type)));
    scatter(&tensor, values);
    return upload(tensor);
}

struct guarded guarded_in_out(struct place *place, const struct guarded_shape *shape, const double *values) {
    struct guarded tensor = prepare(place, shape);
    if (tensor.image != NULL) memset(tensor.image, GUARD_BYTE, tensor.bytes);
    scatter(&tensor, values);
    return upload(tensor);
}

struct guarded guarded_output(struct place *place, const struct guarded_shape *shape) {
    struct guarded tensor = prepare(place, shape);
    const size_t size = clattn_type_size(shape->type);
    const int64_t count = guarded_count(&tensor.view);
    if (tensor.image == NULL) return tensor;
    memset(tensor.image, GUARD_BYTE, tensor.bytes);
    if (is_dense(&tensor.view)) storage_poison(shape->type, tensor.image, count);
    for (int64_t n = 0; n < count && !is_dense(&tensor.view); n++)
        storage_poison(shape->type, tensor.image + (size_t)element(&tensor.view, n) * size, 1);
    return upload(tensor);
}

struct guarded guarded_view(struct place *place, const clattn_tensor *view, const double *values,
                            bool written) {
    struct guarded tensor = prepare_view(place, view);
    const size_t size = clattn_type_size(view->type);
    if (tensor.image != NULL && written) memset(tensor.image, GUARD_BYTE, tensor.bytes);
    if (tensor.image != NULL && !written)
        storage_poison(view->type, tensor.image, (int64_t)(tensor.bytes / size));
    if (values != NULL) scatter(&tensor, values);
    for (int64_t n = 0; tensor.image != NULL && values == NULL && n < guarded_count(view); n++)
        storage_poison(view->type, tensor.image + (size_t)element(view, n) * size, 1);
    return upload(tensor);
}

// Read bytes to the host after all enqueued commands.
static cl_int read_bytes(const struct guarded *tensor, cl_command_queue queue, size_t first, size_t bytes,
                         void *to) {
    if (tensor->view.buffer != NULL)
        return clEnqueueReadBuffer(queue, tensor->view.buffer, CL_TRUE, first, bytes, to, 0, NULL, NULL);
    const cl_int code = tensor->place->copy ? clFinish(queue) : CL_INVALID_MEM_OBJECT;
    return code == CL_SUCCESS ? tensor->place->copy(to, (const char *)tensor->memory + first, bytes) : code;
}

uint8_t *guarded_bytes(const struct guarded *tensor, cl_command_queue queue) {
    uint8_t *bytes = malloc(tensor->bytes);
    cl_int code = bytes != NULL ? clFinish(queue) : CL_OUT_OF_HOST_MEMORY;
    if (code == CL_SUCCESS) code = read_bytes(tensor, queue, 0, tensor->bytes, bytes);
    if (code == CL_SUCCESS) return bytes;
    place_broken(tensor->place, "reading a buffer", code);
    free(bytes);
    return NULL;
}

bool guarded_read(const struct guarded *tensor, cl_command_queue queue, double *values) {
    uint8_t *bytes = guarded_bytes(tensor, queue);
    const size_t size = clattn_type_size(tensor->view.type);
    for (int64_t n = 0; bytes != NULL && n < guarded_count(&tensor->view); n++) {
        const int64_t at = element(&tensor->view, n);
        storage_load_numbers(tensor->view.type, bytes, at,
                             values + n * clattn_type_numbers(tensor->view.type));
        if (tensor->image != NULL) memcpy(bytes + (size_t)at * size, tensor->image + (size_t)at * size, size);
    }
    const bool intact =
        bytes != NULL && (tensor->image == NULL || memcmp(bytes, tensor->image, tensor->bytes) == 0);
    free(bytes);
    return intact;
}

void guarded_read_row(const struct guarded *tensor, cl_command_queue queue, int64_t first, int64_t count,
                      double *values) {
    const size_t size = clattn_type_size(tensor->view.type);
    void *stored = malloc((size_t)count * size);
    cl_int code = CL_OUT_OF_HOST_MEMORY;
    if (stored != NULL)
        code = read_bytes(tensor, queue, (size_t)element(&tensor->view, first) * size, (size_t)count * size,
                          stored);
    if (code != CL_SUCCESS) place_broken(tensor->place, "reading a buffer", code);
    for (int64_t n = 0; code == CL_SUCCESS && n < count; n++)
        values[n] = storage_load(tensor->view.type, stored, n);
    free(stored);
}

bool guarded_intact(const struct guarded *tensor, cl_command_queue queue) {
    if (tensor->image == NULL) return true;
    uint8_t *bytes = guarded_bytes(tensor, queue);
    const bool intact = bytes != NULL && memcmp(bytes, tensor->image, tensor->bytes) == 0;
    free(bytes);
    return intact;
}

void guarded_release(struct guarded *tensor) {
    if (tensor->view.buffer != NULL) clReleaseMemObject(tensor->view.buffer);
    if (tensor->memory != NULL) tensor->place->release_memory(tensor->memory);
    free(tensor->image);
    *tensor = (struct guarded){0};
}
