// peer_shim.c: clattn for the Python benchmark peers.py: create attention calls, layers and
// projections from host arrays, run them and read the results. Python does timing, checking and the
// peers. The device's limits come from verification/limits.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "peer_shim.h"
#include "verification/device/choose_device.h"

enum { MAX_BUFFERS = 16, MAX_RESULTS = 6, MAX_DEVICES = 64, MAX_ENGINES = 64 };

struct peer_call {
    peer_device *device;
    enum { CALL_ATTENTION, CALL_LAYER, CALL_LINEAR, CALL_BACKWARD, CALL_TRAIN } op;
    clattn_layer_params layer;
    clattn_attention_params attention;
    clattn_linear_params linear;
    clattn_attention_backward_params backward;
    clattn_layer_backward_params layer_backward;
    clattn_plan plan;
    cl_mem out, weights, buffers[MAX_BUFFERS];
    size_t out_bytes, weights_bytes;
    clattn_tensor results[MAX_RESULTS]; // of calls with more results than `out` and `weights`
    int buffer_count, result_count;
};

// Store a message in device->error and return NULL.
__attribute__((format(printf, 2, 3))) static void *peer_fail(peer_device *device, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(device->error, sizeof device->error, format, list);
    va_end(list);
    return NULL;
}

static int fail_status(peer_device *device, clattn_status status) {
    if (status == CLATTN_OK) return 0;
    char why[900] = "";
    clattn_context_last_error(device->context, why, sizeof why);
    peer_fail(device, "%s: %s", clattn_status_name(status), why[0] ? why : clattn_status_text(status));
    return (int)status;
}

static cl_device_id find_device(const char *spec) {
    clattn_device devices[MAX_DEVICES];
    size_t count = 0;
    if (clattn_device_list(devices, MAX_DEVICES, &count, NULL) != CLATTN_OK) return NULL;
    const clattn_device *chosen =
        choose_device(devices, count < MAX_DEVICES ? count : MAX_DEVICES, spec ? spec : "cpu", NULL);
    return chosen ? chosen->device : NULL;
}

peer_device *peer_open(const char *spec, const char *cache_dir) {
    peer_device *d = calloc(1, sizeof *d);
    if (!d) return NULL;
    const clattn_context_params params = {
        .device = find_device(spec), .cache_dir = cache_dir, .engines = CLATTN_ENGINES_ALL};
    cl_int code = CL_SUCCESS;
    if (!params.device)
        peer_fail(d, "no OpenCL device matches \"%s\"", spec ? spec : "cpu");
    else if (clattn_context_create(&params, &d->context) != CLATTN_OK)
        peer_fail(d, "the device has no compiler or is not available");
    else
        d->queue = clCreateCommandQueue(clattn_context_opencl(d->context), params.device, 0, &code);
    d->place = (struct place){.context = d->context, .device = params.device, .queue = d->queue};
    if (d->context) d->place.opencl = clattn_context_opencl(d->context);
    if (code != CL_SUCCESS) peer_fail(d, "clCreateCommandQueue: OpenCL error %d", (int)code);
    return d;
}

void peer_close(peer_device *d) {
    if (!d) return;
    if (d->queue) clReleaseCommandQueue(d->queue);
    clattn_context_destroy(d->context);
    free(d);
}

const char *peer_error(const peer_device *device) {
    return device->error;
}

const clattn_capabilities *peer_capabilities(const peer_device *device) {
    return clattn_context_capabilities(device->context);
}

const char *peer_text(const peer_device *device, int which) {
    const clattn_capabilities *c = peer_capabilities(device);
    return which == 0 ? c->name : which == 1 ? c->driver : which == 2 ? c->platform : clattn_version();
}

const char *peer_engine(peer_device *device, int which, float *gflops) {
    static clattn_engine engines[MAX_ENGINES];
    size_t count = 0;
    *gflops = 0.0f;
    if (clattn_context_engines(device->context, engines, MAX_ENGINES, &count) != CLATTN_OK) return NULL;
    if (which < 0 || (size_t)which >= count || which >= MAX_ENGINES) return NULL;
    if (engines[which].works) *gflops = engines[which].gflops;
    return engines[which].name;
}

int peer_units(const peer_device *device) {
    return (int)peer_capabilities(device)->compute_units;
}

static cl_mem peer_buffer(peer_device *device, const void *data, size_t bytes) {
    cl_int code = CL_SUCCESS;
    cl_mem buffer =
        clCreateBuffer(clattn_context_opencl(device->context), CL_MEM_READ_WRITE, bytes, NULL, &code);
    if (buffer && data)
        code = clEnqueueWriteBuffer(device->queue, buffer, CL_TRUE, 0, bytes, data, 0, NULL, NULL);
    if (code == CL_SUCCESS) return buffer;
    if (buffer) clReleaseMemObject(buffer);
    return peer_fail(device, "a buffer of %zu bytes: OpenCL error %d", bytes, (int)code);
}

static cl_mem add_buffer(peer_call *call, const void *data, size_t bytes) {
    cl_mem buffer = peer_buffer(call->device, data, bytes);
    if (buffer) call->buffers[call->buffer_count++] = buffer;
    return buffer;
}

static clattn_tensor add(peer_call *call, const void *data, clattn_type type, int rank,
                         const int64_t *shape) {
    size_t bytes = clattn_type_size(type);
    for (int i = 0; i < rank; i++) bytes *= (size_t)shape[i];
    return clattn_tensor_dense(add_buffer(call, data, bytes), type, rank, shape);
}

// View `count` rows of a matrix or vector from row `first` on.
static clattn_tensor take_rows(clattn_tensor t, int64_t first, int64_t count) {
    t.offset += first * t.stride[0];
    t.shape[0] = count;
    return t;
}

static void set_causal(clattn_score *score, int32_t causal) {
    score->causal = causal != PEER_FULL;
    score->alignment = causal == PEER_CAUSAL_BOTTOM_RIGHT ? CLATTN_ALIGN_BOTTOM_RIGHT : CLATTN_ALIGN_TOP_LEFT;
}

static clattn_status prepare_linear(peer_call *call, size_t *bytes) {
    clattn_context *c = call->device->context;
    const clattn_linear_params *l = &call->linear;
    clattn_linear_choice choice;
    clattn_status status = clattn_linear_prepare(c, l);
    if (status == CLATTN_OK) status = clattn_linear_plan(c, l, &choice);
    if (status != CLATTN_OK) return status;
    snprintf(call->plan.kernel_name, sizeof call->plan.kernel_name, "%s", choice.kernel_name);
    return clattn_linear_workspace(c, l, bytes);
}

static clattn_status prepare_backward(peer_call *call, size_t *bytes) {
    clattn_context *c = call->device->context;
    const clattn_attention_backward_params *b = &call->backward;
    clattn_status status = clattn_attention_backward_prepare(c, b);
    if (status == CLATTN_OK) status = clattn_attention_backward_plan(c, b, &call->plan);
    return status == CLATTN_OK ? clattn_attention_backward_workspace(c, b, bytes) : status;
}

// Forward and backward run one after the other and share one workspace.
static clattn_status prepare_train(peer_call *call, size_t *bytes) {
    clattn_context *c = call->device->context;
    int64_t kept = 0;
    clattn_status status = clattn_layer_kept(c, &call->layer_backward, &kept);
    if (status == CLATTN_OK)
        call->layer_backward.kept = add(call, NULL, CLATTN_TYPE_F32, 1, (const int64_t[]){kept});
    if (status == CLATTN_OK) status = clattn_layer_plan(c, &call->layer, &call->plan);
    if (status == CLATTN_OK) status = clattn_layer_backward_prepare(c, &call->layer_backward);
    if (status == CLATTN_OK) status = clattn_layer_backward_workspace(c, &call->layer_backward, bytes);
    return status;
}

static clattn_status prepare(peer_call *call, size_t *bytes) {
    clattn_context *c = call->device->context;
    const clattn_layer_params *l = &call->layer;
    const clattn_attention_params *a = &call->attention;
    const bool is_layer = call->op == CALL_LAYER;
    if (call->op == CALL_LINEAR) return prepare_linear(call, bytes);
    if (call->op == CALL_BACKWARD) return prepare_backward(call, bytes);
    if (call->op == CALL_TRAIN) return prepare_train(call, bytes);
    clattn_status status = is_layer ? clattn_layer_prepare(c, l) : clattn_attention_prepare(c, a);
    if (status == CLATTN_OK)
        status = is_layer ? clattn_layer_plan(c, l, &call->plan) : clattn_attention_plan(c, a, &call->plan);
    if (status != CLATTN_OK) return status;
    return is_layer ? clattn_layer_workspace(c, l, bytes) : clattn_attention_workspace(c, a, bytes);
}

// Compile and allocate everything that the first run would otherwise do. `inputs` is the expected
// number of buffers so far.
static peer_call *complete(peer_call *call, int inputs) {
    size_t bytes = 0;
    bool ok = call->buffer_count == inputs && fail_status(call->device, prepare(call, &bytes)) == 0;
    if (ok && bytes)
        ok = (call->layer.workspace = call->attention.workspace = call->linear.workspace =
                  call->backward.workspace = call->layer_backward.workspace =
                      add_buffer(call, NULL, bytes)) != NULL;
    if (ok) return call;
    peer_destroy(call);
    return NULL;
}

static peer_call *create(peer_device *device, int op) {
    peer_call *call = calloc(1, sizeof *call);
    if (!call) return peer_fail(device, "no memory");
    *call = (peer_call){.device = device, .op = op};
    return call;
}

peer_call *peer_attention_create(peer_device *device, const peer_attention *a) {
    peer_call *call = create(device, CALL_ATTENTION);
    if (!call) return NULL;
    clattn_attention_params *p = &call->attention;
    const clattn_type type = (clattn_type)a->type;
    p->q = add(call, a->q, type, 4, (const int64_t[]){a->b, a->h, a->nq, a->d});
    p->kv.k = add(call, a->k, type, 4, (const int64_t[]){a->b, a->hkv, a->nkv, a->d});
    p->kv.v = add(call, a->v, type, 4, (const int64_t[]){a->b, a->hkv, a->nkv, a->dv});
    p->out = add(call, NULL, type, 4, (const int64_t[]){a->b, a->h, a->nq, a->dv});
    call->out = p->out.buffer;
    call->out_bytes = (size_t)(a->b * a->h * a->nq * a->dv) * clattn_type_size(type);
    set_causal(&p->score, a->causal);
    return complete(call, 4);
}

peer_call *peer_backward_create(peer_device *device, const peer_attention *a) {
    peer_call *call = create(device, CALL_BACKWARD);
    if (!call) return NULL;
    clattn_attention_backward_params *b = &call->backward;
    clattn_attention_params *p = &b->forward;
    const clattn_type type = (clattn_type)a->type;
    const int64_t q[] = {a->b, a->h, a->nq, a->d}, k[] = {a->b, a->hkv, a->nkv, a->d},
                  v[] = {a->b, a->hkv, a->nkv, a->dv}, out[] = {a->b, a->h, a->nq, a->dv};
    p->q = add(call, a->q, type, 4, q), p->kv.k = add(call, a->k, type, 4, k);
    p->kv.v = add(call, a->v, type, 4, v), p->out = add(call, NULL, type, 4, out);
    p->lse = add(call, NULL, CLATTN_TYPE_F32, 3, out), b->dout = add(call, a->dout, type, 4, out);
    b->dq = add(call, NULL, type, 4, q), b->dk = add(call, NULL, type, 4, k);
    b->dv = add(call, NULL, type, 4, v);
    call->results[0] = b->dq, call->results[1] = b->dk, call->results[2] = b->dv, call->result_count = 3;
    set_causal(&p->score, a->causal);
    if (call->buffer_count == 9 &&
        fail_status(device, clattn_attention_enqueue(device->context, device->queue, p, 0, NULL, NULL)) == 0)
        return complete(call, 9);
    peer_destroy(call);
    return NULL;
}

// Set up the layer call with its six buffers.
static void add_layer(peer_call *call, const peer_layer *l) {
    clattn_layer_params *p = &call->layer;
    const clattn_type type = (clattn_type)l->type;
    const int64_t rows[] = {l->b, l->n, l->m}, matrix[] = {3 * l->m, l->m};
    const clattn_tensor in = add(call, l->in_weight, type, 2, matrix),
                        bias = add(call, l->in_bias, type, 1, matrix);
    p->x = add(call, l->x, type, 3, rows);
    p->out = add(call, NULL, type, 3, rows);
    p->wq = take_rows(in, 0, l->m);
    p->wk = take_rows(in, l->m, l->m);
    p->wv = take_rows(in, 2 * l->m, l->m);
    p->bq = take_rows(bias, 0, l->m);
    p->bk = take_rows(bias, l->m, l->m);
    p->bv = take_rows(bias, 2 * l->m, l->m);
    p->wo = add(call, l->out_weight, type, 2, (const int64_t[]){l->m, l->m});
    p->bo = add(call, l->out_bias, type, 1, &l->m);
    p->heads = l->heads;
    set_causal(&p->score, l->causal);
    call->out = p->out.buffer;
    call->out_bytes = (size_t)(l->b * l->n * l->m) * clattn_type_size(type);
}

peer_call *peer_train_create(peer_device *device, const peer_layer *l) {
    peer_call *call = create(device, CALL_TRAIN);
    if (!call) return NULL;
    clattn_layer_backward_params *b = &call->layer_backward;
    const clattn_type type = (clattn_type)l->type;
    const int64_t rows[] = {l->b, l->n, l->m}, matrix[] = {3 * l->m, l->m}, square[] = {l->m, l->m};
    add_layer(call, l);
    b->dout = add(call, l->dout, type, 3, rows), b->dx = add(call, NULL, type, 3, rows);
    const clattn_tensor in = add(call, NULL, type, 2, matrix), bias = add(call, NULL, type, 1, matrix);
    b->dwo = add(call, NULL, type, 2, square), b->dbo = add(call, NULL, type, 1, square);
    b->dwq = take_rows(in, 0, l->m), b->dbq = take_rows(bias, 0, l->m);
    b->dwk = take_rows(in, l->m, l->m), b->dbk = take_rows(bias, l->m, l->m);
    b->dwv = take_rows(in, 2 * l->m, l->m), b->dbv = take_rows(bias, 2 * l->m, l->m);
    b->forward = call->layer;
    const clattn_tensor results[] = {call->layer.out, b->dx, in, bias, b->dwo, b->dbo};
    memcpy(call->results, results, sizeof results);
    call->result_count = 6;
    return complete(call, 12);
}

peer_call *peer_layer_create(peer_device *device, const peer_layer *l) {
    peer_call *call = create(device, CALL_LAYER);
    if (!call) return NULL;
    clattn_layer_params *p = &call->layer;
    add_layer(call, l);
    if (!l->weights) return complete(call, 6);
    p->weights = add(call, NULL, CLATTN_TYPE_F32, 4, (const int64_t[]){l->b, l->heads, l->n, l->n});
    call->weights = p->weights.buffer;
    call->weights_bytes = (size_t)(l->b * l->heads * l->n * l->n) * sizeof(float);
    return complete(call, 7);
}

peer_call *peer_linear_create(peer_device *device, const peer_linear *l) {
    peer_call *call = create(device, CALL_LINEAR);
    if (!call) return NULL;
    clattn_linear_params *p = &call->linear;
    const clattn_type type = (clattn_type)l->type;
    p->x = add(call, l->x, type, 3, (const int64_t[]){l->b, l->n, l->m});
    p->w = add(call, l->weight, type, 2, (const int64_t[]){l->columns, l->m});
    p->b = add(call, l->bias, type, 1, &l->columns);
    p->out = add(call, NULL, type, 3, (const int64_t[]){l->b, l->n, l->columns});
    call->out = p->out.buffer;
    call->out_bytes = (size_t)(l->b * l->n * l->columns) * clattn_type_size(type);
    return complete(call, 4);
}

void peer_destroy(peer_call *call) {
    if (!call) return;
    for (int i = 0; i < call->buffer_count; i++) clReleaseMemObject(call->buffers[i]);
    free(call);
}

const char *peer_kernel(const peer_call *call) {
    return call->plan.kernel_name;
}

static clattn_status enqueue(peer_call *call) {
    clattn_context *c = call->device->context;
    cl_command_queue queue = call->device->queue;
    switch (call->op) {
    case CALL_LAYER:
        return clattn_layer_enqueue(c, queue, &call->layer, 0, NULL, NULL);
    case CALL_LINEAR:
        return clattn_linear_enqueue(c, queue, &call->linear, 0, NULL, NULL);
    case CALL_BACKWARD:
        return clattn_attention_backward_enqueue(c, queue, &call->backward, 0, NULL, NULL);
    case CALL_TRAIN: {
        const clattn_status status =
            clattn_layer_forward_enqueue(c, queue, &call->layer_backward, 0, NULL, NULL);
        return status ? status
                      : clattn_layer_backward_enqueue(c, queue, &call->layer_backward, 0, NULL, NULL);
    }
    default:
        return clattn_attention_enqueue(c, queue, &call->attention, 0, NULL, NULL);
    }
}

int peer_run(peer_call *call) {
    peer_device *d = call->device;
    const clattn_status status = enqueue(call);
    if (status != CLATTN_OK) return fail_status(d, status);
    const cl_int code = clFinish(d->queue);
    if (code == CL_SUCCESS) return 0;
    peer_fail(d, "clFinish: OpenCL error %d", (int)code);
    return CLATTN_DRIVER;
}

int peer_read(peer_call *call, void *out, void *weights) {
    cl_command_queue queue = call->device->queue;
    cl_int code = clEnqueueReadBuffer(queue, call->out, CL_TRUE, 0, call->out_bytes, out, 0, NULL, NULL);
    if (code == CL_SUCCESS && weights && call->weights)
        code = clEnqueueReadBuffer(queue, call->weights, CL_TRUE, 0, call->weights_bytes, weights, 0, NULL,
                                   NULL);
    if (code == CL_SUCCESS) return 0;
    peer_fail(call->device, "clEnqueueReadBuffer: OpenCL error %d", (int)code);
    return CLATTN_DRIVER;
}

int peer_read_gradients(peer_call *call, void *const *to) {
    cl_int code = CL_SUCCESS;
    for (int n = 0; n < call->result_count && code == CL_SUCCESS; n++) {
        const clattn_tensor *t = &call->results[n];
        size_t bytes = clattn_type_size(t->type);
        for (int axis = 0; axis < t->rank; axis++) bytes *= (size_t)t->shape[axis];
        code = clEnqueueReadBuffer(call->device->queue, t->buffer, CL_TRUE, 0, bytes, to[n], 0, NULL, NULL);
    }
    if (code == CL_SUCCESS) return 0;
    peer_fail(call->device, "clEnqueueReadBuffer: OpenCL error %d", (int)code);
    return CLATTN_DRIVER;
}

static peer_limit *make_limit(peer_device *device, limit_kind kind, size_t bytes) {
    peer_limit *made = limit_create(&device->place, kind, bytes);
    return made ? made : peer_fail(device, "a limit's kernel does not run: %s", device->place.error);
}

peer_limit *peer_fma_create(peer_device *device) {
    return make_limit(device, LIMIT_FMA, 0);
}

peer_limit *peer_fma_loads_create(peer_device *device) {
    return make_limit(device, LIMIT_FMA_LOADS, 0);
}

peer_limit *peer_bf16_create(peer_device *device) {
    return make_limit(device, LIMIT_BF16, 0);
}

peer_limit *peer_read_create(peer_device *device, size_t bytes) {
    return make_limit(device, LIMIT_READ, bytes);
}

void peer_limit_destroy(peer_limit *limit) {
    limit_destroy(limit);
}

int peer_limit_run(peer_device *device, peer_limit *limit) {
    if (limit_enqueue(limit, NULL) && clFinish(device->queue) == CL_SUCCESS) return 0;
    peer_fail(device, "a limit's kernel: %s", device->place.error);
    return CLATTN_DRIVER;
}

double peer_limit_work(const peer_limit *limit) {
    return limit_work(limit);
}
