// array.c: buffers with guard zones. Leaves out what the values mean. Called by the case runner and the
// suites.
#include "array.h"

#include "evidence/reference.h"
#include "evidence/storage.h"

#include <stdlib.h>
#include <string.h>

#define GUARD_BYTE 0xa5

// Behind every view; wide enough that a whole tile of rows too many lands in it and not in somebody else's
// memory.
static int64_t guard_elements = 4096;

void array_set_guard(int64_t elements) {
    guard_elements = elements;
}

int64_t array_count(const clattn_tensor *view) {
    int64_t count = 1;
    for (int axis = 0; axis < view->rank; axis++) count *= view->shape[axis];
    return count;
}

// The element of dense index n.
static int64_t element(const clattn_tensor *view, int64_t n) {
    int64_t at = view->offset;
    for (int axis = view->rank - 1; axis >= 0; axis--) {
        at += n % view->shape[axis] * view->stride[axis];
        n /= view->shape[axis];
    }
    return at;
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

static struct array prepare(const struct array_shape *shape) {
    struct array array = {.view = {.type = shape->type, .rank = shape->rank}};
    int64_t last = 0;
    memcpy(array.view.shape, shape->shape, sizeof array.view.shape);
    lay_out(&array.view, shape->layout);
    for (int axis = 0; axis < shape->rank; axis++)
        if (shape->shape[axis] > 0) last += (shape->shape[axis] - 1) * array.view.stride[axis];
    array.bytes = (size_t)(array.view.offset + last + 1 + guard_elements) * clattn_type_size(shape->type);
    array.image = malloc(array.bytes);
    harness_expect(array.image != NULL ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY, "malloc");
    return array;
}

static void upload(struct array *array) {
    cl_int status;
    array->view.buffer = clCreateBuffer(harness()->opencl, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                        array->bytes, array->image, &status);
    harness_expect(status, "clCreateBuffer");
}

static void scatter(struct array *array, const double *values) {
    for (int64_t n = 0; n < array_count(&array->view); n++)
        storage_store(array->view.type, array->image, element(&array->view, n), values[n]);
}

struct array array_input(const struct array_shape *shape, const double *values) {
    struct array array = prepare(shape);
    storage_poison(shape->type, array.image, (int64_t)(array.bytes / clattn_type_size(shape->type)));
    scatter(&array, values);
    upload(&array);
    return array;
}

struct array array_in_out(const struct array_shape *shape, const double *values) {
    struct array array = prepare(shape);
    memset(array.image, GUARD_BYTE, array.bytes);
    scatter(&array, values);
    upload(&array);
    return array;
}

struct array array_output(const struct array_shape *shape) {
    struct array array = prepare(shape);
    size_t size = clattn_type_size(shape->type);
    memset(array.image, GUARD_BYTE, array.bytes);
    for (int64_t n = 0; n < array_count(&array.view); n++)
        storage_poison(shape->type, array.image + (size_t)element(&array.view, n) * size, 1);
    upload(&array);
    return array;
}

uint8_t *array_bytes(const struct array *array, cl_command_queue queue) {
    uint8_t *bytes = malloc(array->bytes);
    harness_expect(bytes != NULL ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY, "malloc");
    harness_finish(queue);
    harness_expect(
        clEnqueueReadBuffer(queue, array->view.buffer, CL_TRUE, 0, array->bytes, bytes, 0, NULL, NULL),
        "clEnqueueReadBuffer");
    return bytes;
}

bool array_read(const struct array *array, cl_command_queue queue, double *values) {
    uint8_t *bytes = array_bytes(array, queue);
    size_t size = clattn_type_size(array->view.type);
    for (int64_t n = 0; n < array_count(&array->view); n++) {
        int64_t at = element(&array->view, n);
        values[n] = storage_load(array->view.type, bytes, at);
        memcpy(bytes + (size_t)at * size, array->image + (size_t)at * size, size);
    }
    bool intact = memcmp(bytes, array->image, array->bytes) == 0;
    free(bytes);
    return intact;
}

bool array_intact(const struct array *array, cl_command_queue queue) {
    uint8_t *bytes = array_bytes(array, queue);
    bool intact = memcmp(bytes, array->image, array->bytes) == 0;
    free(bytes);
    return intact;
}

void array_release(struct array *array) {
    if (array->view.buffer != NULL) clReleaseMemObject(array->view.buffer);
    free(array->image);
    *array = (struct array){0};
}

double *array_random(struct random *random, int64_t count, clattn_type type, double size) {
    double *values = reference_alloc(count);
    for (int64_t n = 0; n < count; n++) values[n] = storage_round(type, random_uniform(random, -size, size));
    return values;
}
