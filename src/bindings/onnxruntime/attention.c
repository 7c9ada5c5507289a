// attention.c: ONNX's Attention, opsets 23 to 25, as ONNX 1.22 and later define it. Softcap comes
// before masks. Modes 1 and 2 return the scores after softcap and after masks. softmax_precision
// has no effect, since the softmax is always float32.
#include <math.h>
#include <string.h>

#include "onnxruntime/past.h"

static const char *refuses(const struct kernel *kernel) {
    const struct attributes *a = &kernel->attributes;
    if (a->qk_matmul_output_mode < 0 || a->qk_matmul_output_mode > 3)
        return "qk_matmul_output_mode is 0 to 3";
    if (a->scale_given && (!isfinite(a->scale) || a->scale == 0))
        return "scale is a finite number but 0, or absent";
    if (!(a->softcap >= 0 && isfinite(a->softcap))) return "softcap is 0, which is none, or above it";
    if (a->left_window_size < -1 || a->right_window_size < -1)
        return "left_window_size and right_window_size are -1, which is none, or at least 0";
    if (a->q_num_heads < 0 || a->kv_num_heads < 0) return "q_num_heads and kv_num_heads are at least 1";
    if (kernel->outputs >> 3 & 1u && a->qk_matmul_output_mode != CLATTN_TAP_SOFTMAX &&
        kernel->op->types[0] != ORT_TYPE_F32)
        return "before the softmax (modes 0 to 2) there is qk_matmul_output of float32 alone";
    return NULL;
}

// The bytes of a mask element that hides a key, for a mask of this type.
static uint32_t hidden_of(clattn_type type) {
    switch (type) {
    case CLATTN_TYPE_F32:
        return 0xff800000u;
    case CLATTN_TYPE_F16:
        return 0xfc00u;
    case CLATTN_TYPE_BF16:
        return 0xff80u;
    default:
        return 0;
    }
}

// Extend a mask that ends before the last key: the remaining keys are hidden.
static void pad(struct call *call, struct array *mask, int64_t keys) {
    const size_t element = clattn_type_size(mask->type);
    const int64_t had = mask->shape[mask->rank - 1], rows = had ? mask->count / had : 0;
    const uint32_t hidden = hidden_of(mask->type);
    unsigned char *to = call_memory(call, (size_t)(rows * keys) * element);
    if (to == NULL) return;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < keys; j++) {
            const unsigned char *from = (const unsigned char *)mask->data + (size_t)(r * had + j) * element;
            memcpy(to + (size_t)(r * keys + j) * element, j < had ? from : (const unsigned char *)&hidden,
                   element);
        }
    mask->data = to;
    mask->shape[mask->rank - 1] = keys;
    mask->count = rows * keys;
    mask->bytes = (size_t)mask->count * element;
}

static void bind_mask(struct call *call, clattn_score *score, const int64_t *q, int64_t keys) {
    struct array mask = call_input(call, 3);
    const int64_t all[4] = {ONE_OR(q[0]), ONE_OR(q[1]), ONE_OR(q[2]), ANY_SIZE};
    if (mask.data == NULL) return;
    if (mask.type > CLATTN_TYPE_BOOL) {
        call_refuse(call, "attn_mask is bool, float32, float16 or bfloat16");
    } else if (mask.rank < 1 || mask.rank > 4 || mask.shape[mask.rank - 1] < 1 ||
               mask.shape[mask.rank - 1] > keys) {
        call_refuse_shape(call, &mask, "attn_mask has 1 to 4 axes, the last of 1 to %lld keys",
                          (long long)keys);
    } else if (call_axes(call, &mask, "attn_mask", "the last axes of [B, H, N, T]", mask.rank,
                         all + 4 - mask.rank)) {
        if (mask.shape[mask.rank - 1] < keys) pad(call, &mask, keys);
        *(mask.type == CLATTN_TYPE_BOOL ? &score->mask : &score->bias) = call_view(call, &mask);
    }
}

// Set the score's options. Row 0 comes after the past, if there is one. With nonpad_kv_seqlen, the
// last row is at the last key of the external cache. Otherwise row 0 is at key 0.
static void bind_score(struct call *call, clattn_attention_params *p, int64_t past, bool has_past) {
    const struct attributes *a = &call->kernel->attributes;
    const struct array nonpad = call_input(call, 6);
    clattn_score *score = &p->score;
    score->scale = a->scale;
    score->softcap = a->softcap;
    score->causal = a->is_causal != 0;
    score->window = a->left_window_size >= 0 || a->right_window_size >= 0;
    if (score->window) {
        score->window_left = a->left_window_size < INT32_MAX ? (int32_t)a->left_window_size : -1;
        score->window_right = a->right_window_size < INT32_MAX ? (int32_t)a->right_window_size : -1;
    }
    if (nonpad.data && has_past) call_refuse(call, "nonpad_kv_seqlen and past keys exclude one another");
    if (nonpad.data)
        score->kv_lengths = call_lengths(call, &nonpad, p->q.shape[0], p->kv.k.shape[2], "nonpad_kv_seqlen");
    if (nonpad.data) score->alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
    if (has_past) score->alignment = CLATTN_ALIGN_OFFSET;
    if (has_past) score->offset = (int32_t)past;
    bind_mask(call, score, p->q.shape, past + p->kv.k.shape[2]);
}

// Bind the optional output qk_matmul_output.
static void bind_tap(struct call *call, clattn_attention_params *p, int64_t keys) {
    const int mode = (int)call->kernel->attributes.qk_matmul_output_mode;
    const int64_t shape[4] = {p->q.shape[0], p->q.shape[1], p->q.shape[2], keys};
    const struct array tap = call_output(call, 3, 4, shape);
    if (tap.data == NULL) return;
    *(mode == CLATTN_TAP_SOFTMAX ? &p->weights : &p->scores) =
        clattn_tensor_dense(call_writes(call, tap.data, tap.bytes, false), tap.type, 4, shape);
    p->scores_at = (clattn_tap)mode;
}

// Bind Q, K and V: all [B, H, N, D], or all [B, N, H * D].
static void bind_rows(struct call *call, const struct array rows[3], clattn_attention_params *p) {
    const struct attributes *a = &call->kernel->attributes;
    const struct array *q = &rows[0], *k = &rows[1], *v = &rows[2];
    const bool by_head = q->rank == 4;
    p->q = call_rows(call, q, a->q_num_heads, "Q");
    if (!by_head && a->kv_num_heads < 1) call_refuse(call, "kv_num_heads is at least 1 where K has 3 axes");
    const int64_t *s = p->q.shape, heads = a->kv_num_heads ? a->kv_num_heads : k->shape[1];
    const int64_t keys[4] = {s[0], !by_head || !a->kv_num_heads ? ANY_SIZE : heads,
                             by_head ? ANY_SIZE : heads * s[3], s[3]};
    const int64_t values[4] = {s[0], k->shape[1], by_head ? k->shape[2] : ANY_SIZE, ANY_SIZE};
    call_axes(call, k, "K", by_head ? "[B, Hkv, L, D] as Q" : "[B, L, Hkv * D] as Q", q->rank, keys);
    call_axes(call, v, "V", by_head ? "[B, Hkv, L, Dv] as Q" : "[B, L, Hkv * Dv] as Q", q->rank, values);
    p->kv.k = call_rows(call, k, heads, "K");
    p->kv.v = call_rows(call, v, heads, "V");
    if (call_good(call) && (heads < 1 || s[1] % heads))
        call_refuse_shape(call, k, "K has %lld heads, which do not divide Q's %lld", (long long)heads,
                          (long long)s[1]);
}

static void compute(struct call *call) {
    const struct array rows[3] = {call_input(call, 0), call_input(call, 1), call_input(call, 2)}, q = rows[0],
                       k = rows[1], v = rows[2];
    clattn_attention_params p = {0};
    struct array past[2];
    bind_rows(call, rows, &p);
    const int64_t before = past_bind(call, 4, past, &p.kv), keys = before + p.kv.k.shape[2];
    const int64_t *s = p.q.shape, dv = p.kv.v.shape[3];
    const int64_t by_head[4] = {s[0], s[1], s[2], dv}, by_row[3] = {s[0], s[2], s[1] * dv};
    const struct array out = call_output(call, 0, q.rank, q.rank == 4 ? by_head : by_row);
    if (!call_good(call)) return;
    bind_score(call, &p, before, past[0].data != NULL);
    bind_tap(call, &p, keys);
    past_join(call, 1, &past[0], &p.kv.k, k.data);
    past_join(call, 2, &past[1], &p.kv.v, v.data);
    if (out.data == NULL || !call_good(call)) return;
    cl_mem to = call_writes(call, out.data, out.bytes, false);
    p.out = q.rank == 4 ? clattn_tensor_bhsd(to, out.type, s[0], s[1], s[2], dv)
                        : clattn_tensor_bshd(to, out.type, s[0], s[1], s[2], dv);
    if (!call_good(call)) return;
    call_check(call, clattn_attention_enqueue(call->device->context, call->queue, &p, 0, NULL, NULL));
}

// Infer the output's shape: Q and V are both [B, H, N, D], or both [B, N, H * D].
static void infer(const struct attributes *a, const struct shape *in, struct shape *y) {
    const struct shape *q = &in[0], *v = &in[2];
    if ((q->rank != 3 && q->rank != 4) || v->rank != q->rank) return;
    for (int axis = 0; axis < q->rank - 1; axis++) shape_add(y, q, axis);
    if (q->rank == 4)
        shape_add(y, v, 3);
    else
        shape_add_part(y, v, 2, a->q_num_heads, a->kv_num_heads);
}

const struct operation operator_attention = {
    .domain = "",
    .name = "Attention",
    .opsets = {23, 25},
    .inputs = "122*22l",
    .outputs = "1221",
    .required = 7,
    .refuses = refuses,
    .infer = infer,
    .compute = compute,
};
