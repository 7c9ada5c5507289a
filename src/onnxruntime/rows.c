// rows.c: ONNX's RotaryEmbedding, opset 23, and TensorScatter, opset 24.
#include <string.h>

#include "onnxruntime/call.h"

static const char *refuses_rotation(const struct kernel *kernel) {
    const struct attributes *a = &kernel->attributes;
    if (a->rotary_embedding_dim < 0 || a->rotary_embedding_dim % 2 || a->rotary_embedding_dim > 1 << 20)
        return "rotary_embedding_dim is even and at least 0";
    return NULL;
}

static void rotate(struct call *call) {
    const struct attributes *a = &call->kernel->attributes;
    const struct array x = call_input(call, 0), cos = call_input(call, 1), sin = call_input(call, 2),
                       ids = call_input(call, 3), y = call_output(call, 0, x.rank, x.shape);
    clattn_rope_params p = {0};
    p.x = call_rows(call, &x, a->num_heads, "X");
    p.cos = call_view(call, &cos);
    p.sin = call_view(call, &sin);
    if (ids.data) p.rope.positions = call_positions(call, &ids, cos.shape[0]);
    if (cos.rank != (ids.data ? 2 : 3))
        call_refuse(call, "cos_cache has %d axes: with position_ids it is [P, R / 2], else [B, N, R / 2]",
                    cos.rank);
    if (y.data == NULL || !call_good(call)) return;
    p.y = p.x;
    p.y.buffer = call_writes(call, y.data, y.bytes, false);
    p.rope.layout = a->interleaved ? CLATTN_ROPE_INTERLEAVED : CLATTN_ROPE_HALF;
    p.rope.rotary_dim = (int)a->rotary_embedding_dim;
    if (!call_good(call)) return;
    call_check(call, clattn_rope_enqueue(call->device->context, call->queue, &p, 0, NULL, NULL));
}

// As the first input.
static void infer(const struct attributes *a, const struct shape *in, struct shape *y) {
    (void)a;
    *y = in[0];
}

const struct operation operator_rotary_embedding = {
    .domain = "",
    .name = "RotaryEmbedding",
    .opsets = {23, 23},
    .inputs = "111l",
    .outputs = "1",
    .required = 7,
    .refuses = refuses_rotation,
    .infer = infer,
    .compute = rotate,
};

static const char *refuses_scatter(const struct kernel *kernel) {
    const char *mode = kernel->attributes.mode;
    if (mode[0] && strcmp(mode, "linear") != 0 && strcmp(mode, "circular") != 0)
        return "mode is linear or circular";
    return NULL;
}

// Axes of a dense tensor around one of them: [B, those between, the axis, those behind].
static clattn_tensor around(const struct array *array, int axis, cl_mem buffer) {
    int64_t shape[4] = {array->shape[0], 1, array->shape[axis], 1};
    for (int n = 1; n < axis; n++) shape[1] *= array->shape[n];
    for (int n = axis + 1; n < array->rank; n++) shape[3] *= array->shape[n];
    return clattn_tensor_dense(buffer, array->type, 4, shape);
}

static void scatter(struct call *call) {
    const struct attributes *a = &call->kernel->attributes;
    const struct array past = call_input(call, 0), update = call_input(call, 1), starts = call_input(call, 2),
                       out = call_output(call, 0, past.rank, past.shape);
    const int64_t axis = a->axis < 0 ? a->axis + past.rank : a->axis;
    clattn_append_params p = {.circular = strcmp(a->mode, "circular") == 0};
    if (!call_good(call)) return;
    if (axis < 1 || axis >= past.rank) {
        call_refuse(call, "axis %lld is none behind the first, of %d", (long long)a->axis, past.rank);
        return;
    }
    for (int n = 0; n < past.rank; n++)
        if (update.rank != past.rank || (n != axis && update.shape[n] != past.shape[n])) {
            call_refuse(call, "update has the axes of past_cache, but along axis %lld", (long long)axis);
            return;
        }
    if (starts.data) p.starts = call_integers(call, &starts, past.shape[0], "write_indices");
    if (out.data == NULL || !call_good(call)) return;
    if (out.data != past.data) memcpy(out.data, past.data, past.bytes);
    p.k_new = around(&update, (int)axis, call_reads(call, update.data, update.bytes));
    p.k = around(&out, (int)axis, call_writes(call, out.data, out.bytes, true));
    if (!call_good(call)) return;
    call_check(call, clattn_append_enqueue(call->device->context, call->queue, &p, 0, NULL, NULL));
}

const struct operation operator_tensor_scatter = {
    .domain = "",
    .name = "TensorScatter",
    .opsets = {24, 24},
    .inputs = "11l",
    .outputs = "1",
    .required = 3,
    .refuses = refuses_scatter,
    .infer = infer,
    .compute = scatter,
};
