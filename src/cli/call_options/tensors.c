// tensors.c: see tensors.h.
#include "cli/call_options/tensors.h"

#include "cli/files/formats.h"
#include "verification/device/opencl.h"

void tensors_release(tensors *t) {
    for (int i = 0; i < t->count; i++)
        if (t->host)
            free((void *)t->buffers[i]);
        else
            clReleaseMemObject(t->buffers[i]);
    t->count = 0;
}

static bool store_as(array *a, array_type type, char why[256]) {
    if (a->type == ARRAY_U16 && type == ARRAY_BF16) a->type = ARRAY_BF16;
    if (a->type == type) return true;
    if (a->type != ARRAY_F32 && a->type != ARRAY_F16 && a->type != ARRAY_BF16) {
        snprintf(why, 256, "holds %s: f32, f16, or bf16 (as u2 with --dtype bf16) is needed",
                 array_type_name(a->type));
        return false;
    }
    float *values = NULL;
    array stored;
    const bool ok = array_to_f32(a, &values) && array_from_f32(a, values, type, &stored);
    free(values);
    if (!ok) {
        snprintf(why, 256, "no memory to convert it to %s", array_type_name(type));
        return false;
    }
    array_free(a);
    *a = stored;
    return true;
}

int tensors_store(const char *option, array *a, int dtype) {
    static const array_type dtypes[] = {ARRAY_F32, ARRAY_F16, ARRAY_BF16};
    char why[256];
    const array_type type = dtype >= 0 ? dtypes[dtype] : a->type == ARRAY_U16 ? ARRAY_F32 : a->type;
    return store_as(a, type, why) ? -1 : tool_wrong("--%s: %s", option, why);
}

int tensors_rank(const char *option, const char *spec, const array *a, int rank) {
    char shape[128], axes[128];
    if (rank < 0 || a->rank == rank) return -1;
    array_shape_text(a, shape);
    options_axes(option, rank, axes);
    return tool_wrong("--%s: %s has shape %s: rank %d is needed%s%s%s", option, spec, shape, rank,
                      axes[0] ? ", " : "", axes,
                      a->rank < rank ? " (numpy: x[None] adds an axis of 1 in front)" : "");
}

int tensors_load(const char *option, const char *spec, int rank, array *a) {
    reason error;
    if (!load_array(spec, a, error)) return tool_wrong("--%s: %s", option, error);
    const int status = tensors_rank(option, spec, a, rank);
    if (status >= 0) array_free(a);
    return status;
}

int tensors_narrow(const char *option, array *a, bool integers) {
    array narrow;
    int status = -1;
    if (integers && a->type != ARRAY_I32 && a->type != ARRAY_I64)
        return tool_wrong("--%s: holds %s: i32 or i64 is needed", option, array_type_name(a->type));
    if (a->type != ARRAY_I64) return -1;
    if (!array_create(&narrow, ARRAY_I32, a->rank, a->shape)) return tool_failed("no memory");
    const int64_t count = array_count(a), *from = a->data;
    int32_t *to = narrow.data;
    for (int64_t i = 0; i < count && status < 0; i++) {
        to[i] = (int32_t)from[i];
        if (to[i] != from[i])
            status = tool_wrong("--%s: item %lld is %lld: must fit 32 bits", option, (long long)i,
                                (long long)from[i]);
    }
    array_free(a);
    *a = narrow;
    return status;
}

static int make_buffer(tensors *t, const array *a, cl_mem *buffer) {
    if (!t->host) return session_buffer(t->session, a->data, a->bytes, buffer);
    void *memory = malloc(a->bytes ? a->bytes : 1);
    if (!memory) return tool_failed("no memory for a tensor of %zu bytes", a->bytes);
    memcpy(memory, a->data, a->bytes);
    *buffer = CLATTN_HOST(memory);
    return -1;
}

int tensors_upload(tensors *t, const array *a, clattn_tensor *view) {
    // CLATTN_TYPE_... plus 1. 0: the type is unsupported on a device.
    static const int types[ARRAY_TYPE_COUNT] = {[ARRAY_F32] = 1 + CLATTN_TYPE_F32,
                                                [ARRAY_F16] = 1 + CLATTN_TYPE_F16,
                                                [ARRAY_BF16] = 1 + CLATTN_TYPE_BF16,
                                                [ARRAY_BOOL] = 1 + CLATTN_TYPE_BOOL,
                                                [ARRAY_I32] = 1 + CLATTN_TYPE_I32};
    const clattn_type type = (clattn_type)(types[a->type] - 1);
    cl_mem buffer = NULL;
    if (!types[a->type])
        return tool_wrong("a tensor of type %s is unsupported here: f32, f16, bf16, bool or i32 is needed",
                          array_type_name(a->type));
    if (a->rank > CLATTN_MAX_RANK)
        return tool_wrong("a tensor has rank %d: at most %d is possible", a->rank, CLATTN_MAX_RANK);
    if (t->count == TENSORS_MAX) return tool_failed("too many tensors");
    const int status = make_buffer(t, a, &buffer);
    if (buffer) t->buffers[t->count++] = buffer;
    *view = clattn_tensor_dense(buffer, type, a->rank, a->shape);
    return status;
}

int tensors_output(tensors *t, array_type type, int rank, const int64_t *shape, array *a,
                   clattn_tensor *view) {
    if (!array_create(a, type, rank, shape)) return tool_failed("no memory for a result");
    return tensors_upload(t, a, view);
}

int tensors_save(tensors *t, const clattn_tensor *view, array *a, const char *path) {
    reason error;
    if (!path) return -1;
    if (t->host) memcpy(a->data, (const void *)view->buffer, a->bytes);
    const int status = t->host ? -1 : session_read(t->session, view->buffer, a->data, a->bytes);
    if (status >= 0) return status;
    return npy_write(path, a, error) ? -1 : tool_failed("%s", error);
}

clattn_tensor tensors_swap_heads(clattn_tensor t) {
    const int64_t n = t.shape[1], stride = t.stride[1];
    t.shape[1] = t.shape[2], t.stride[1] = t.stride[2];
    t.shape[2] = n, t.stride[2] = stride;
    return t;
}
