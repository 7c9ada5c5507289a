// ggml_clattn.c: a backend for ggml, loaded at run time. It computes GGML_OP_FLASH_ATTN_EXT with
// clattn, and leaves other operations to other backends. Its tensors are in host memory, like those
// of ggml's CPU backend: docs/ggml.md.
//
// Sources: ggml's header (ggml_flash_attn_ext) for the axes, and ggml's CPU backend (ops.cpp) for
// the operation.
#include <clattn/clattn.h>
#include <ggml-backend-impl.h>
#include <ggml-impl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Indices of the operation's inputs and parameters.
enum { SRC_Q, SRC_K, SRC_V, SRC_MASK, SRC_SINKS };
enum { PARAM_SCALE, PARAM_MAX_BIAS, PARAM_SOFTCAP };

// The context belongs to the device, because plans are needed before a backend exists. It lives
// until the process ends.
typedef struct device_state {
    clattn_context *context; // NULL: no device was found
    const clattn_capabilities *capabilities;
} device_state;
static device_state the_device;

typedef struct backend_state {
    cl_command_queue queue;
    // True: tensors are copied to the device and back. False: only those in memory in which the
    // device cannot compute.
    bool copies;
} backend_state;

// OpenCL functions, from the library: this module does not link with OpenCL.
#define OPENCL(name) ((__typeof__(&name))clattn_opencl_function(#name))

// --------------------------------------------------------------------------------------- views ---

// False: clattn has no such type.
static bool type_of(enum ggml_type type, clattn_type *found) {
    switch (type) {
    case GGML_TYPE_F32:
        *found = CLATTN_TYPE_F32;
        return true;
    case GGML_TYPE_F16:
        *found = CLATTN_TYPE_F16;
        return true;
    case GGML_TYPE_BF16:
        *found = CLATTN_TYPE_BF16;
        return true;
    case GGML_TYPE_Q8_0:
        *found = CLATTN_TYPE_Q8_0;
        return true;
    case GGML_TYPE_Q4_0:
        *found = CLATTN_TYPE_Q4_0;
        return true;
    case GGML_TYPE_Q4_1:
        *found = CLATTN_TYPE_Q4_1;
        return true;
    default:
        return false;
    }
}

// View a tensor. clattn has ggml's axes in the opposite order, and counts strides in elements.
// False if a stride is no multiple of an element, the first axis is not contiguous, or the view
// begins inside an element.
static bool view_of(const struct ggml_tensor *t, clattn_tensor *view) {
    *view = (clattn_tensor){.rank = 4};
    const size_t size = ggml_type_size(t->type);
    if (!type_of(t->type, &view->type) || t->nb[0] != size || t->view_offs % size != 0) {
        return false;
    }
    for (int axis = 0; axis < 4; axis++) {
        if (t->nb[axis] % size != 0) {
            return false;
        }
        view->shape[3 - axis] = t->ne[axis];
        view->stride[3 - axis] = (int64_t)(t->nb[axis] / size);
    }
    view->shape[3] /= ggml_blck_size(t->type);
    return true;
}

static void swap_axes(clattn_tensor *view, int a, int b) {
    const int64_t shape = view->shape[a], stride = view->stride[a];
    view->shape[a] = view->shape[b], view->stride[a] = view->stride[b];
    view->shape[b] = shape, view->stride[b] = stride;
}

// View the part of the mask that has rows and keys. ggml also lets two heads of a mask repeat along
// four heads. No view can express that, and an expression's buffer would repeat only the last head.
static bool view_mask(const struct ggml_tensor *mask, const clattn_attention_params *params,
                      clattn_tensor *view) {
    const int64_t *q = params->q.shape, rows = q[2], keys = params->kv.k.shape[2];
    if (mask->type != GGML_TYPE_F16 || !view_of(mask, view) || view->shape[3] < keys ||
        view->shape[2] < rows || (view->shape[1] != 1 && view->shape[1] != q[1]) ||
        (view->shape[0] != 1 && view->shape[0] != q[0])) {
        return false;
    }
    view->shape[3] = keys;
    view->shape[2] = rows;
    return true;
}

// -------------------------------------------------------------------------------------- a call ---

// The node as a call of clattn, and the memory of its tensors: a buffer for each, in the order of
// the node's inputs.
enum { BUFFER_OUT = SRC_SINKS + 1, BUFFER_SLOPES, BUFFER_BLOCKS, BUFFERS };
typedef struct node_call {
    clattn_attention_params params;
    // views of tensors in `params`; NULL: the node has no such tensor
    clattn_tensor *views[BUFFERS];
    const struct ggml_tensor *tensors[BUFFERS];
    void *made[BUFFERS]; // data without a tensor: ALiBi's slopes, and the block mask
    cl_mem memory[BUFFERS];
} node_call;

static float number_of(const struct ggml_tensor *node, int place) {
    float number;
    memcpy(&number, (const char *)node->op_params + (size_t)place * sizeof number, sizeof number);
    return number;
}

// Compute ggml's ALiBi slopes [Press et al. 2022], which multiply the mask.
static void fill_slopes(float *slopes, int64_t heads, float max_bias) {
    const int64_t power = (int64_t)1 << (int)floor(log2((double)heads));
    const float first = powf(2.0f, -max_bias / (float)power),
                second = powf(2.0f, -max_bias / 2.0f / (float)power);
    for (int64_t h = 0; h < heads; h++) {
        slopes[h] = h < power ? powf(first, (float)(h + 1)) : powf(second, (float)(2 * (h - power) + 1));
    }
}

// With enough rows, skip blocks of the mask that hide all their keys, such as those above a
// prompt's diagonal. clattn allows a block mask only with an expression. So this call has one that
// hides no key.
static void take_blocks(const clattn_tensor *mask, node_call *call) {
    const int64_t rows = mask->shape[2], keys = mask->shape[3];
    if (rows >= CLATTN_BLOCK_ROWS) {
        const int64_t shape[] = {mask->shape[0], mask->shape[1],
                                 (rows + CLATTN_BLOCK_ROWS - 1) / CLATTN_BLOCK_ROWS,
                                 (keys + CLATTN_BLOCK_KEYS - 1) / CLATTN_BLOCK_KEYS};
        call->params.score.mask_mod = "true";
        call->params.score.block_mask = clattn_tensor_dense(NULL, CLATTN_TYPE_BOOL, 4, shape);
        call->views[BUFFER_BLOCKS] = &call->params.score.block_mask;
    }
}

// The mask is a bias. With a slope for each head it becomes an expression of two buffers, in which
// axes of size 1 repeat.
static bool take_mask(const struct ggml_tensor *node, node_call *call) {
    const struct ggml_tensor *mask = node->src[SRC_MASK];
    const float max_bias = number_of(node, PARAM_MAX_BIAS);
    if (!mask) {
        return !(max_bias > 0);
    }
    clattn_score *score = &call->params.score;
    const bool sloped = max_bias > 0;
    clattn_tensor *view = sloped ? &score->mod_buffers[0] : &score->bias;
    call->views[SRC_MASK] = view;
    if (sloped) {
        score->score_mod = "score + buffer1(h) * buffer0(b, h, row, j)";
        const int64_t heads = call->params.q.shape[1];
        score->mod_buffers[1] = clattn_tensor_dense(NULL, CLATTN_TYPE_F32, 1, &heads);
        call->views[BUFFER_SLOPES] = &score->mod_buffers[1];
    }
    if (!view_mask(mask, &call->params, view)) {
        return false;
    }
    take_blocks(view, call);
    return true;
}

static bool take_sinks(const struct ggml_tensor *sinks, node_call *call) {
    if (!sinks) {
        return true;
    }
    clattn_tensor *view = &call->params.score.sinks_device;
    call->views[SRC_SINKS] = view;
    if (sinks->type != GGML_TYPE_F32 || !view_of(sinks, view) || ggml_nelements(sinks) != sinks->ne[0]) {
        return false;
    }
    *view = clattn_tensor_dense(NULL, CLATTN_TYPE_F32, 1, &sinks->ne[0]);
    return true;
}

// Fill a call without buffers. False if the node's options, types or strides are unsupported.
static bool describe(const struct ggml_tensor *node, node_call *call) {
    *call = (node_call){.views = {[SRC_Q] = &call->params.q,
                                  [SRC_K] = &call->params.kv.k,
                                  [SRC_V] = &call->params.kv.v,
                                  [BUFFER_OUT] = &call->params.out}};
    const struct ggml_tensor *q = node->src[SRC_Q], *k = node->src[SRC_K], *v = node->src[SRC_V];
    clattn_attention_params *params = &call->params;
    const int32_t precision = node->op_params[3];
    for (int at = SRC_SINKS + 1; at < GGML_MAX_SRC; at++) {
        if (node->src[at]) { // an input of a newer ggml
            return false;
        }
    }
    if (q->type != GGML_TYPE_F32 || node->type != GGML_TYPE_F32 || !view_of(q, &params->q) ||
        !view_of(k, &params->kv.k) || !view_of(v, &params->kv.v) || !view_of(node, &params->out) ||
        (precision != GGML_PREC_DEFAULT && precision != GGML_PREC_F32)) {
        return false;
    }
    swap_axes(&params->out, 1, 2);
    params->score.scale = number_of(node, PARAM_SCALE);
    params->score.softcap = number_of(node, PARAM_SOFTCAP);
    // In clattn, a scale of 0 means the default.
    if (params->score.scale == 0 || !take_mask(node, call) || !take_sinks(node->src[SRC_SINKS], call)) {
        return false;
    }
    for (int at = 0; at < GGML_MAX_SRC && at <= SRC_SINKS; at++) {
        call->tensors[at] = node->src[at];
    }
    call->tensors[BUFFER_OUT] = node;
    return true;
}

// ----------------------------------------------------------------------------------- computing ---

// True if the device computes in this host memory, so that no copy is needed.
static bool is_shared(const backend_state *backend, const void *data, size_t bytes) {
    bool shared = false;
    return !backend->copies &&
           clattn_context_in_place(the_device.context, data, bytes, &shared) == CLATTN_OK && shared;
}

// Create a buffer for one tensor and one call: the tensor may have other data in the next call.
// NULL: the driver failed.
static cl_mem make_buffer(const backend_state *backend, void *data, size_t bytes, bool written) {
    const bool shared = is_shared(backend, data, bytes);
    cl_mem_flags flags = written ? CL_MEM_READ_WRITE : CL_MEM_READ_ONLY;
    if (shared) {
        flags |= CL_MEM_USE_HOST_PTR;
    } else if (!written) {
        flags |= CL_MEM_COPY_HOST_PTR;
    }
    cl_int code;
    void *host = !shared && written ? NULL : data;
    return OPENCL(clCreateBuffer)(clattn_context_opencl(the_device.context), flags, bytes, host, &code);
}

// True if each value is the start of its key, as in MLA. Keys and values then share a buffer, so
// that clattn can use kernels for such caches.
static bool is_view_of_key(const node_call *call) {
    return call->tensors[SRC_K]->data == call->tensors[SRC_V]->data &&
           ggml_nbytes(call->tensors[SRC_K]) >= ggml_nbytes(call->tensors[SRC_V]);
}

static void *make_slopes(const struct ggml_tensor *node, const node_call *call, size_t *bytes) {
    const int64_t heads = call->params.q.shape[1];
    float *slopes = malloc(*bytes = (size_t)heads * sizeof *slopes);
    if (slopes) {
        fill_slopes(slopes, heads, number_of(node, PARAM_MAX_BIAS));
    }
    return slopes;
}

// True if a row of the mask hides all these keys: they are -infinity.
static bool hides(const ggml_fp16_t *keys, int64_t count) {
    for (int64_t key = 0; key < count; key++) {
        if (keys[key] != 0xfc00) {
            return false;
        }
    }
    return true;
}

// Make the block mask: 0 if no row of a block sees any of its keys, else 2 (attention.h).
static void *make_blocks(const struct ggml_tensor *node, const node_call *call, size_t *bytes) {
    const struct ggml_tensor *mask = node->src[SRC_MASK];
    const int64_t *shape = call->params.score.block_mask.shape;
    const int64_t rows = call->params.q.shape[2], keys = call->params.kv.k.shape[2];
    unsigned char *blocks = calloc(*bytes = (size_t)(shape[0] * shape[1] * shape[2] * shape[3]), 1);
    for (int64_t line = 0; blocks && line < shape[0] * shape[1] * rows; line++) {
        const int64_t row = line % rows, head = line / rows % shape[1], item = line / rows / shape[1];
        const ggml_fp16_t *from = (const void *)((const char *)mask->data + row * (int64_t)mask->nb[1] +
                                                 head * (int64_t)mask->nb[2] + item * (int64_t)mask->nb[3]);
        unsigned char *to = blocks + (line / rows * shape[2] + row / CLATTN_BLOCK_ROWS) * shape[3];
        for (int64_t at = 0; at < shape[3]; at++) {
            const int64_t first = at * CLATTN_BLOCK_KEYS;
            if (!to[at] &&
                !hides(from + first, keys - first < CLATTN_BLOCK_KEYS ? keys - first : CLATTN_BLOCK_KEYS)) {
                to[at] = 2;
            }
        }
    }
    return blocks;
}

static bool make_buffers(const backend_state *backend, const struct ggml_tensor *node, node_call *call) {
    for (int at = 0; at < BUFFERS; at++) {
        const struct ggml_tensor *t = call->tensors[at];
        if (!call->views[at]) {
            continue;
        }
        if (at == SRC_V && is_view_of_key(call)) {
            call->views[at]->buffer = call->memory[SRC_K];
            continue;
        }
        void *data = t ? t->data : NULL;
        size_t bytes = t ? ggml_nbytes(t) : 0;
        if (!t) {
            data = call->made[at] =
                at == BUFFER_SLOPES ? make_slopes(node, call, &bytes) : make_blocks(node, call, &bytes);
            if (!data) {
                return false;
            }
        }
        call->memory[at] = make_buffer(backend, data, bytes, at == BUFFER_OUT);
        call->views[at]->buffer = call->memory[at];
        if (!call->memory[at]) {
            return false;
        }
    }
    return true;
}

// Wait for the call and make the result visible in the node's tensor: by a read, or by mapping the
// memory that the device used.
static bool fetch(const backend_state *backend, struct ggml_tensor *node, cl_mem memory) {
    const size_t bytes = ggml_nbytes(node);
    cl_int code = CL_SUCCESS;
    if (!is_shared(backend, node->data, bytes)) {
        code =
            OPENCL(clEnqueueReadBuffer)(backend->queue, memory, CL_TRUE, 0, bytes, node->data, 0, NULL, NULL);
    } else {
        void *mapped = OPENCL(clEnqueueMapBuffer)(backend->queue, memory, CL_TRUE, CL_MAP_READ, 0, bytes, 0,
                                                  NULL, NULL, &code);
        if (code == CL_SUCCESS) {
            code = OPENCL(clEnqueueUnmapMemObject)(backend->queue, memory, mapped, 0, NULL, NULL);
        }
    }
    const cl_int finished = OPENCL(clFinish)(backend->queue);
    if (code != CL_SUCCESS || finished != CL_SUCCESS) {
        GGML_LOG_ERROR("clattn: the result cannot be read: OpenCL's error %d\n",
                       code != CL_SUCCESS ? code : finished);
        return false;
    }
    return true;
}

static enum ggml_status compute(const backend_state *backend, struct ggml_tensor *node) {
    node_call call;
    if (!describe(node, &call)) {
        GGML_LOG_ERROR("clattn: %s: not an operation that was said to be supported\n", node->name);
        return GGML_STATUS_FAILED;
    }
    clattn_status status = CLATTN_OUT_OF_MEMORY;
    char line[512] = "a buffer of one of its tensors cannot be made";
    bool done = make_buffers(backend, node, &call);
    if (done) {
        status = clattn_attention_enqueue(the_device.context, backend->queue, &call.params, 0, NULL, NULL);
        done = status == CLATTN_OK;
        if (!done) {
            clattn_context_last_error(the_device.context, line, sizeof line);
        }
    }
    if (done) {
        done = fetch(backend, node, call.memory[BUFFER_OUT]);
    } else {
        OPENCL(clFinish)(backend->queue);
        GGML_LOG_ERROR("clattn: %s: %s: %s\n", node->name, clattn_status_name(status), line);
    }
    for (int at = 0; at < BUFFERS; at++) {
        if (call.memory[at]) {
            OPENCL(clReleaseMemObject)(call.memory[at]);
        }
        free(call.made[at]);
    }
    return done                             ? GGML_STATUS_SUCCESS
           : status == CLATTN_OUT_OF_MEMORY ? GGML_STATUS_ALLOC_FAILED
                                            : GGML_STATUS_FAILED;
}

// ------------------------------------------------------------------------------------- backend ---

static const char *backend_name(ggml_backend_t backend) {
    (void)backend;
    return "clattn";
}

static void backend_free(ggml_backend_t backend) {
    backend_state *state = backend->context;
    OPENCL(clReleaseCommandQueue)(state->queue);
    free(state);
    free(backend);
}

// True for operations that only change the view of a tensor.
static bool is_view(enum ggml_op op) {
    return op == GGML_OP_NONE || op == GGML_OP_RESHAPE || op == GGML_OP_VIEW || op == GGML_OP_PERMUTE ||
           op == GGML_OP_TRANSPOSE;
}

static enum ggml_status backend_compute(ggml_backend_t backend, struct ggml_cgraph *graph) {
    for (int at = 0; at < ggml_graph_n_nodes(graph); at++) {
        struct ggml_tensor *node = ggml_graph_node(graph, at);
        if (is_view(node->op) || ggml_is_empty(node) || !(node->flags & GGML_TENSOR_FLAG_COMPUTE)) {
            continue;
        }
        if (node->op != GGML_OP_FLASH_ATTN_EXT) {
            GGML_LOG_ERROR("clattn: %s is not supported\n", ggml_op_desc(node));
            return GGML_STATUS_FAILED;
        }
        const enum ggml_status status = compute(backend->context, node);
        if (status != GGML_STATUS_SUCCESS) {
            return status;
        }
    }
    return GGML_STATUS_SUCCESS;
}

// `params` may be "copy": tensors are copied even if the device computes in host memory.
static ggml_backend_t device_start(ggml_backend_dev_t device, const char *params) {
    static ggml_guid guid = {0x63, 0x6c, 0x61, 0x74, 0x74, 0x6e, 0x4d, 0x0b,
                             0x9a, 0x51, 0x2e, 0x77, 0xd8, 0x03, 0xc6, 0x1f};
    ggml_backend_t backend = calloc(1, sizeof *backend);
    backend_state *state = calloc(1, sizeof *state);
    cl_int code = CL_OUT_OF_HOST_MEMORY;
    if (backend && state) {
        state->copies = params && strcmp(params, "copy") == 0;
        state->queue = OPENCL(clCreateCommandQueue)(clattn_context_opencl(the_device.context),
                                                    clattn_context_device(the_device.context), 0, &code);
    }
    if (code != CL_SUCCESS) {
        GGML_LOG_ERROR("clattn: no command queue: OpenCL's error %d\n", code);
        free(state);
        free(backend);
        return NULL;
    }
    *backend = (struct ggml_backend){
        .guid = &guid,
        .iface = {.get_name = backend_name, .free = backend_free, .graph_compute = backend_compute},
        .device = device,
        .context = state};
    return backend;
}

// -------------------------------------------------------------------------------------- device ---

static const char *device_name(ggml_backend_dev_t device) {
    (void)device;
    return "clattn";
}

static const char *device_description(ggml_backend_dev_t device) {
    (void)device;
    return the_device.capabilities->name;
}

// The device uses host memory, whose size other backends report.
static void device_memory(ggml_backend_dev_t device, size_t *unused, size_t *total) {
    (void)device;
    *unused = *total = 0;
}

static enum ggml_backend_dev_type device_type(ggml_backend_dev_t device) {
    (void)device;
    return GGML_BACKEND_DEVICE_TYPE_ACCEL;
}

static void device_props(ggml_backend_dev_t device, struct ggml_backend_dev_props *props) {
    *props = (struct ggml_backend_dev_props){.name = device_name(device),
                                             .description = device_description(device),
                                             .type = GGML_BACKEND_DEVICE_TYPE_ACCEL,
                                             .caps = {.buffer_from_host_ptr = true, .mmap_support = true}};
}

static ggml_backend_buffer_type_t device_buffer_type(ggml_backend_dev_t device) {
    (void)device;
    return ggml_backend_cpu_buffer_type();
}

static ggml_backend_buffer_t device_buffer_over(ggml_backend_dev_t device, void *data, size_t size,
                                                size_t largest) {
    (void)device, (void)largest;
    return ggml_backend_cpu_buffer_from_ptr(data, size);
}

static bool device_supports_memory(ggml_backend_dev_t device, ggml_backend_buffer_type_t type) {
    (void)device;
    return ggml_backend_buft_is_host(type);
}

// True if each tensor fits into a buffer of the device.
static bool has_room(const node_call *call) {
    for (int at = 0; at < BUFFERS; at++) {
        if (call->tensors[at] &&
            ggml_nbytes(call->tensors[at]) > the_device.capabilities->max_allocation_bytes) {
            return false;
        }
    }
    return true;
}

// True if describe() accepts the node and clattn's planner can plan it.
static bool device_supports(ggml_backend_dev_t device, const struct ggml_tensor *node) {
    (void)device;
    if (node->op != GGML_OP_FLASH_ATTN_EXT) {
        return is_view(node->op);
    }
    node_call call;
    clattn_plan plan;
    return describe(node, &call) && has_room(&call) &&
           clattn_attention_plan(the_device.context, &call.params, &plan) == CLATTN_OK;
}

// ------------------------------------------------------------------------------------ registry ---

static const char *registry_name(ggml_backend_reg_t registry) {
    (void)registry;
    return "clattn";
}

static size_t registry_count(ggml_backend_reg_t registry) {
    (void)registry;
    return the_device.context ? 1 : 0;
}

static ggml_backend_dev_t registry_device(ggml_backend_reg_t registry, size_t at) {
    static struct ggml_backend_device device = {.iface = {.get_name = device_name,
                                                          .get_description = device_description,
                                                          .get_memory = device_memory,
                                                          .get_type = device_type,
                                                          .get_props = device_props,
                                                          .init_backend = device_start,
                                                          .get_buffer_type = device_buffer_type,
                                                          .buffer_from_host_ptr = device_buffer_over,
                                                          .supports_op = device_supports,
                                                          .supports_buft = device_supports_memory}};
    device.reg = registry;
    return at < registry_count(registry) ? &device : NULL;
}

static void log_line(void *user, clattn_log_level level, const char *message) {
    (void)user, (void)level;
    GGML_LOG_ERROR("clattn: %s\n", message);
}

// Use the first CPU device, which computes in host memory. Without a CPU, use the first device.
static clattn_context *start_context(void) {
    clattn_device devices[32];
    const clattn_log log = {.fn = log_line};
    size_t count = 0;
    if (clattn_device_list(devices, sizeof devices / sizeof *devices, &count, &log) != CLATTN_OK) {
        return NULL;
    }
    clattn_context *context = NULL;
    for (int cpus = 1; cpus >= 0 && !context; cpus--) {
        for (size_t at = 0; at < count && at < sizeof devices / sizeof *devices && !context; at++) {
            clattn_capabilities found;
            if (clattn_device_describe(devices[at].device, &found) == CLATTN_OK && found.available &&
                found.is_cpu == (cpus == 1)) {
                const clattn_context_params params = {.device = devices[at].device};
                clattn_context_create(&params, &context);
            }
        }
    }
    if (!context) {
        GGML_LOG_ERROR("clattn: no device of OpenCL can be used\n");
    }
    return context;
}

static ggml_backend_reg_t registry_of(void) {
    static struct ggml_backend_reg registry = {.api_version = GGML_BACKEND_API_VERSION,
                                               .iface = {.get_name = registry_name,
                                                         .get_device_count = registry_count,
                                                         .get_device = registry_device}};
    if (!the_device.context) {
        the_device.context = start_context();
        the_device.capabilities = clattn_context_capabilities(the_device.context);
    }
    return &registry;
}

GGML_BACKEND_DL_IMPL(registry_of)
