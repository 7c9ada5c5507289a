// ggml_clattn.c: a backend of ggml's that is loaded at run time. It takes GGML_OP_FLASH_ATTN_EXT and has clattn compute it; all
// else is left to other backends. Its tensors lie in host memory, as those of ggml's CPU backend do: docs/ggml.md.
//
// Sources: ggml's header (ggml_flash_attn_ext) tells the axes, and ggml's CPU backend (ops.cpp) what is computed.
#include <clattn/clattn.h>
#include <ggml-backend-impl.h>
#include <ggml-impl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// The places of the operation's inputs and numbers.
enum { SRC_Q, SRC_K, SRC_V, SRC_MASK, SRC_SINKS };
enum { PARAM_SCALE, PARAM_MAX_BIAS, PARAM_SOFTCAP };

// The context belongs to the device, because plans are asked for before there is a backend. It lives as long as the process.
typedef struct device_state {
    clattn_context *context; // NULL: there is no device
    const clattn_capabilities *capabilities;
} device_state;
static device_state the_device;

typedef struct backend_state {
    cl_command_queue queue;
    bool
        copies; // tensors are copied to the device and back, always; else where it does not work where they lie
} backend_state;

// OpenCL, as the library found it: this library is linked with none.
#define OPENCL(name) ((__typeof__(&name))clattn_opencl_function(#name))

// ------------------------------------------------------------------------------------------- views ---

// False where clattn has no such type.
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

// clattn's axes are ggml's in the opposite order, and its strides count elements. False where a stride counts no whole elements, the
// first axis is not dense, or a view begins between two elements.
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

// The mask as clattn reads it: of its rows and keys those that there are. ggml also repeats two heads of a mask along four. clattn has no
// such view, and as a buffer of an expression the mask would be read by its last head instead.
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

// ------------------------------------------------------------------------------------------ a call ---

// What a node asks for, as clattn takes it, and the memory of its tensors: a buffer for each, in the order of the node's inputs.
enum { BUFFER_OUT = SRC_SINKS + 1, BUFFER_SLOPES, BUFFER_BLOCKS, BUFFERS };
typedef struct node_call {
    clattn_attention_params params;
    clattn_tensor *views[BUFFERS]; // of params; NULL: the node has none
    const struct ggml_tensor *tensors[BUFFERS];
    void *made[BUFFERS]; // what is no tensor's: slopes, and what the mask hides block by block
    cl_mem memory[BUFFERS];
} node_call;

static float number_of(const struct ggml_tensor *node, int place) {
    float number;
    memcpy(&number, (const char *)node->op_params + (size_t)place * sizeof number, sizeof number);
    return number;
}

// ggml's slopes of ALiBi [Press et al. 2022], which the mask's numbers are multiplied by.
static void fill_slopes(float *slopes, int64_t heads, float max_bias) {
    const int64_t power = (int64_t)1 << (int)floor(log2((double)heads));
    const float first = powf(2.0f, -max_bias / (float)power),
                second = powf(2.0f, -max_bias / 2.0f / (float)power);
    for (int64_t h = 0; h < heads; h++) {
        slopes[h] = h < power ? powf(first, (float)(h + 1)) : powf(second, (float)(2 * (h - power) + 1));
    }
}

// Of enough rows, blocks of the mask that hide all their keys are passed over, as those above the diagonal of a prompt.
// (Such blocks belong to an expression, which here hides nothing.)
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

// The mask is a bias; times a slope of each head, it is an expression of two buffers, in which axes of one element repeat.
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

// Fill a call without buffers. False where the node is none that clattn takes, or its strides or types are not.
static bool describe(const struct ggml_tensor *node, node_call *call) {
    *call = (node_call){.views = {[SRC_Q] = &call->params.q,
                                  [SRC_K] = &call->params.kv.k,
                                  [SRC_V] = &call->params.kv.v,
                                  [BUFFER_OUT] = &call->params.out}};
    const struct ggml_tensor *q = node->src[SRC_Q], *k = node->src[SRC_K], *v = node->src[SRC_V];
    clattn_attention_params *params = &call->params;
    const int32_t precision = node->op_params[3];
    for (int at = SRC_SINKS + 1; at < GGML_MAX_SRC; at++) {
        if (node->src[at]) { // of a newer ggml
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
    // clattn takes a scale of 0 as that of the head size.
    if (params->score.scale == 0 || !take_mask(node, call) || !take_sinks(node->src[SRC_SINKS], call)) {
        return false;
    }
    for (int at = 0; at < GGML_MAX_SRC && at <= SRC_SINKS; at++) {
        call->tensors[at] = node->src[at];
    }
    call->tensors[BUFFER_OUT] = node;
    return true;
}

// ---------------------------------------------------------------------------------------- computing ---

static bool is_shared(const backend_state *backend, const void *data, size_t bytes) {
    bool shared = false;
    return !backend->copies &&
           clattn_context_in_place(the_device.context, data, bytes, &shared) == CLATTN_OK && shared;
}

// The memory of one tensor, for one call: what it holds may have moved by the next. NULL: the driver has none.
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

// A value that is the first numbers of its key lies in the key's buffer, so that a kernel for such caches sees it.
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

// Whether a row of the mask hides these keys: all are -infinity.
static bool hides(const ggml_fp16_t *keys, int64_t count) {
    for (int64_t key = 0; key < count; key++) {
        if (keys[key] != 0xfc00) {
            return false;
        }
    }
    return true;
}

// 0 where no row of a block sees a key of it, else 2, as attention.h tells of block masks.
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

// Wait for the call, and have the result where the node's tensor lies: read, or by mapping the memory that the device worked in.
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

// ------------------------------------------------------------------------------------------ backend ---

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

// What has no work of its own: it only says how memory is looked at.
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

// params "copy": tensors are copied also where the device works in the host's memory.
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

// ------------------------------------------------------------------------------------------- device ---

static const char *device_name(ggml_backend_dev_t device) {
    (void)device;
    return "clattn";
}

static const char *device_description(ggml_backend_dev_t device) {
    (void)device;
    return the_device.capabilities->name;
}

// Its memory is the host's, of which others tell.
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

// A buffer of each tensor can be made.
static bool has_room(const node_call *call) {
    for (int at = 0; at < BUFFERS; at++) {
        if (call->tensors[at] &&
            ggml_nbytes(call->tensors[at]) > the_device.capabilities->max_allocation_bytes) {
            return false;
        }
    }
    return true;
}

// clattn's planner answers for all that it takes views of.
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

// ----------------------------------------------------------------------------------------- registry ---

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

// The first CPU device, which works where tensors lie; without one, the first device.
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
