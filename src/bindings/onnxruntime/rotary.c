// rotary.c: ONNX's RotaryEmbedding, opset 23, and TensorScatter, opset 24.
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
    const int64_t *s = p.x.shape, pairs = (a->rotary_embedding_dim ? a->rotary_embedding_dim : s[3]) / 2;
    const int64_t by_row[3] = {s[0], s[2], pairs}, by_position[2] = {ids.data ? cos.shape[0] : 0, pairs};
    for (int n = 0; n < 2; n++)
        call_axes(call, n ? &sin : &cos, n ? "sin_cache" : "cos_cache",
                  ids.data ? "[P, R / 2] with position_ids" : "[B, N, R / 2] without position_ids",
                  ids.data ? 2 : 3, ids.data ? by_position : by_row);
    if (call_good(call) && a->rotary_embedding_dim == 0 && s[3] % 2)
        call_refuse_shape(call, &x, "X has heads of %lld numbers, which must be even", (long long)s[3]);
    if (call_good(call) && 2 * pairs > s[3])
        call_refuse_shape(call, &x, "X has heads of at least rotary_embedding_dim, %lld numbers",
                          (long long)a->rotary_embedding_dim);
    p.cos = call_view(call, &cos);
    p.sin = call_view(call, &sin);
    if (ids.data) p.rope.positions = call_positions(call, &ids, s[0], s[2], cos.shape[0]);
    if (y.data == NULL || !call_good(call)) return;
    p.y = p.x;
    p.y.buffer = call_writes(call, y.data, y.bytes, false);
    p.rope.layout = a->interleaved ? CLATTN_ROPE_INTERLEAVED : CLATTN_ROPE_HALF;
    p.rope.rotary_dim = (int)a->rotary_embedding_dim;
    if (!call_good(call)) return;
    call_check(call, clattn_rope_enqueue(call->device->context, call->queue, &p, 0, NULL, NULL));
}

// Infer the output's shape: it is the first input's.
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

// View a dense tensor as [B, axes before, the axis, axes after].
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
        call_refuse_shape(call, &past, "past_cache has no axis %lld behind the first", (long long)a->axis);
        return;
    }
    int64_t wanted[MOST_AXES];
    for (int n = 0; n < past.rank; n++) wanted[n] = n == axis ? ANY_SIZE : past.shape[n];
    call_axes(call, &update, "update", "as past_cache, except along the axis", past.rank, wanted);
    call_axes(call, &starts, "write_indices", "[B]", 1, past.shape);
    if (call_good(call) && update.shape[axis] > past.shape[axis])
        call_refuse_shape(call, &update, "update has at most %lld rows, as past_cache",
                          (long long)past.shape[axis]);
    if (starts.data) p.starts = call_integers(call, &starts, past.shape[0], "write_indices");
    for (int64_t b = 0; call_good(call) && p.starts && b < past.shape[0]; b++)
        if (p.starts[b] < 0 || (!p.circular && p.starts[b] > past.shape[axis] - update.shape[axis]))
            call_refuse_shape(call, &update,
                              "write_indices: row %d and those of update leave past_cache of %lld",
                              (int)p.starts[b], (long long)past.shape[axis]);
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
