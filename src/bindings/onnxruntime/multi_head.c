// multi_head.c: MultiHeadAttention of com.microsoft. A row whose keys are all hidden by a padding
// mask becomes 0. ONNX Runtime's own kernel weights hidden keys by exp(mask_filter_value) instead.
#include <math.h>
#include <string.h>

#include "onnxruntime/past.h"

enum { QUERY, KEY, VALUE, BIAS, PADDING, ADDED, PAST, PAST_LENGTH = 8, INDIRECTION };

static const char *refuses(const struct kernel *kernel) {
    const struct attributes *a = &kernel->attributes;
    const bool f32 = kernel->op->types[0] == ORT_TYPE_F32;
    if (a->num_heads < 1) return "num_heads is at least 1";
    if (!isfinite(a->scale)) return "scale is a finite number";
    if (!(a->mask_filter_value <= -1000)) return "mask_filter_value is -1000 or less: keys are hidden";
    if (kernel->inputs & (1u << PAST_LENGTH | 1u << INDIRECTION))
        return "past_sequence_length and cache_indirection are not taken: past is [B, H, P, D]";
    if (kernel->inputs & 1u << BIAS && !f32) return "bias is taken of float32 alone";
    if (kernel->outputs & 1u << 3 && !f32) return "output_qk is made of float32 alone";
    return NULL;
}

// View one of the `parts` tensors packed in [B, N, H, parts, D].
static clattn_tensor packed(const struct array *array, int64_t parts, int64_t part, cl_mem buffer) {
    const int64_t *s = array->shape, row = s[2] * parts * s[4];
    return (clattn_tensor){.buffer = buffer,
                           .offset = part * s[4],
                           .type = array->type,
                           .rank = 4,
                           .shape = {s[0], s[2], s[1], s[4]},
                           .stride = {s[1] * row, parts * s[4], row, 1}};
}

// Copy [B, N, W], and add the bias to each row.
static void add_bias(struct call *call, struct array *rows, const struct array *bias, int64_t from) {
    const int64_t width = rows->shape[2], many = width ? rows->count / width : 0;
    const float *x = rows->data, *add = (const float *)bias->data + from;
    float *to = call_memory(call, rows->bytes);
    if (to == NULL) return;
    for (int64_t n = 0; n < many; n++)
        for (int64_t w = 0; w < width; w++) to[n * width + w] = x[n * width + w] + add[w];
    rows->data = to;
}

static void add_biases(struct call *call, struct array rows[3]) {
    const struct array bias = call_input(call, BIAS);
    int64_t wanted[1] = {0};
    if (bias.data == NULL) return;
    for (int n = 0; n < 3; n++) {
        if (rows[n].data == NULL || rows[n].rank != 3) {
            call_refuse(call, "bias goes with query, key and value of [B, N, H * D]");
            return;
        }
        wanted[0] += rows[n].shape[2];
    }
    call_axes(call, &bias, "bias", "[H * (D + D + Dv)]", 1, wanted);
    for (int n = 0, from = 0; n < 3 && call_good(call); from += (int)rows[n++].shape[2])
        add_bias(call, &rows[n], &bias, from);
}

// Check that query, key and value fit together: packed, [B, H, N, D], or [B, N, H * D].
static void check_rows(struct call *call, const struct array rows[3]) {
    const struct array *q = &rows[QUERY], *k = &rows[KEY], *v = &rows[VALUE];
    const int64_t *s = q->shape, heads = call->kernel->attributes.num_heads, width = s[2],
                  size = width / heads;
    const int64_t all[5] = {ANY_SIZE, ANY_SIZE, heads, 3, ANY_SIZE},
                  both[5] = {s[0], ANY_SIZE, heads, 2, size};
    const int64_t key[4] = {s[0], heads, ANY_SIZE, size}, value[4] = {s[0], heads, k->shape[2], size};
    const int64_t keys[3] = {s[0], ANY_SIZE, width}, values[3] = {s[0], k->shape[1], ANY_SIZE};
    if (k->data == NULL && v->data) call_refuse(call, "value goes with key, which is absent");
    if (k->data == NULL) {
        call_axes(call, q, "query", "[B, N, H, 3, D] without key", 5, all);
        return;
    }
    call_axes(call, q, "query", "[B, N, H * D]", 3, (int64_t[]){ANY_SIZE, ANY_SIZE, ANY_SIZE});
    call_heads(call, q, heads, "query");
    if (v->data == NULL) {
        call_axes(call, k, "key", "[B, L, H, 2, D] without value", 5, both);
        return;
    }
    if (k->rank == 4)
        call_axes(call, k, "key", "[B, H, L, D]", 4, key);
    else
        call_axes(call, k, "key", "[B, L, H * D] or [B, H, L, D]", 3, keys);
    call_axes(call, v, "value", k->rank == 4 ? "[B, H, L, D] as key" : "[B, L, H * Dv] as key",
              k->rank == 4 ? 4 : 3, k->rank == 4 ? value : values);
}

// Bind q, k and v. rows[1] and rows[2] become the arrays that contain k and v.
static void bind_rows(struct call *call, struct array rows[3], clattn_attention_params *p) {
    const int64_t heads = call->kernel->attributes.num_heads;
    for (size_t n = 0; n < 3; n++) rows[n] = call_input(call, QUERY + n);
    check_rows(call, rows);
    add_biases(call, rows);
    if (!call_good(call)) return;
    if (rows[KEY].data == NULL) {
        cl_mem all = call_reads(call, rows[QUERY].data, rows[QUERY].bytes);
        p->q = packed(&rows[QUERY], 3, 0, all);
        p->kv.k = packed(&rows[QUERY], 3, 1, all);
        p->kv.v = packed(&rows[QUERY], 3, 2, all);
        rows[KEY] = rows[VALUE] = rows[QUERY];
        return;
    }
    p->q = call_rows(call, &rows[QUERY], heads, "query");
    if (rows[VALUE].data == NULL) {
        cl_mem both = call_reads(call, rows[KEY].data, rows[KEY].bytes);
        p->kv.k = packed(&rows[KEY], 2, 0, both);
        p->kv.v = packed(&rows[KEY], 2, 1, both);
        rows[VALUE] = rows[KEY];
        return;
    }
    p->kv.k = call_rows(call, &rows[KEY], heads, "key");
    p->kv.v = call_rows(call, &rows[VALUE], heads, "value");
}

// Bind key_padding_mask: the number of each item's keys [B], or the visible keys of each item [B,
// T] or row [B, N, T].
static void bind_padding(struct call *call, clattn_attention_params *p, int64_t keys) {
    const struct array mask = call_input(call, PADDING);
    const int64_t batch = p->q.shape[0], rows = mask.rank == 3 ? p->q.shape[2] : 1;
    const int64_t wanted[3] = {batch, mask.rank == 3 ? rows : keys, keys};
    const int axes = mask.rank == 2 || mask.rank == 3 ? mask.rank : 1;
    if (mask.data == NULL ||
        !call_axes(call, &mask, "key_padding_mask", "[B], [B, T] or [B, N, T]", axes, wanted))
        return;
    if (mask.rank == 1) {
        p->score.kv_lengths = call_lengths(call, &mask, batch, keys, "key_padding_mask");
        return;
    }
    const int32_t *numbers = call_integers(call, &mask, mask.count, "key_padding_mask");
    unsigned char *seen = call_memory(call, (size_t)mask.count);
    for (int64_t n = 0; call_good(call) && n < mask.count; n++) seen[n] = numbers[n] != 0;
    p->score.mask = clattn_tensor_bhsd(call_reads(call, seen, (size_t)mask.count), CLATTN_TYPE_BOOL, batch, 1,
                                       rows, keys);
}

static void bind_tap(struct call *call, clattn_attention_params *p, int64_t keys) {
    const int64_t shape[4] = {p->q.shape[0], p->q.shape[1], p->q.shape[2], keys};
    const struct array tap = call_output(call, 3, 4, shape);
    if (tap.data == NULL) return;
    p->scores = clattn_tensor_dense(call_writes(call, tap.data, tap.bytes, false), tap.type, 4, shape);
    p->scores_at = CLATTN_TAP_MASKED;
}

static void compute(struct call *call) {
    const struct attributes *a = &call->kernel->attributes;
    clattn_attention_params p = {0};
    struct array rows[3], past[2];
    bind_rows(call, rows, &p);
    if (!call_good(call)) return;
    const int64_t before = past_bind(call, PAST, past, &p.kv), keys = before + p.kv.k.shape[2];
    const int64_t *s = p.q.shape, dv = p.kv.v.shape[3], shape[3] = {s[0], s[2], s[1] * dv};
    const struct array out = call_output(call, 0, 3, shape), added = call_input(call, ADDED);
    bind_tap(call, &p, keys);
    p.score.scale = a->scale;
    p.score.causal = a->unidirectional != 0;
    p.score.alignment = CLATTN_ALIGN_OFFSET;
    // Row 0 comes after the past. ONNX Runtime's own kernel lets the last row see all keys, even if
    // there are more keys than rows.
    p.score.offset = (int32_t)before;
    bind_padding(call, &p, keys);
    call_axes(call, &added, "attention_bias", "[B, H, N, T]", 4,
              (int64_t[]){ONE_OR(s[0]), ONE_OR(s[1]), s[2], keys});
    if (added.data) p.score.bias = call_view(call, &added);
    past_join(call, 1, &past[0], &p.kv.k, rows[KEY].data);
    past_join(call, 2, &past[1], &p.kv.v, rows[VALUE].data);
    if (out.data == NULL || !call_good(call)) return;
    p.out = clattn_tensor_bshd(call_writes(call, out.data, out.bytes, false), out.type, s[0], s[1], s[2], dv);
    if (!call_good(call)) return;
    call_check(call, clattn_attention_enqueue(call->device->context, call->queue, &p, 0, NULL, NULL));
}

// Infer the output's shape. If value is absent, it is packed into key, or with key into query: [B,
// N, H, parts, D].
static void infer(const struct attributes *a, const struct shape *in, struct shape *y) {
    const struct shape *q = &in[QUERY], *k = &in[KEY], *v = &in[VALUE];
    const struct shape *last = v->element ? v : k->element ? k : q;
    if ((q->rank != 3 && q->rank != 5) || last->rank < 3 || last->rank > 5) return;
    shape_add(y, q, 0);
    shape_add(y, q, 1);
    shape_add_part(y, last, last->rank - 1, last->rank == 3 ? 1 : a->num_heads, 1);
}

const struct operation operator_multi_head_attention = {
    .domain = "com.microsoft",
    .name = "MultiHeadAttention",
    .opsets = {1, 1},
    .inputs = "1111i111ii",
    .outputs = "1111",
    .required = 1,
    .refuses = refuses,
    .infer = infer,
    .compute = compute,
};
