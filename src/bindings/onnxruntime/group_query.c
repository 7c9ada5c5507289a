// group_query.c: GroupQueryAttention of com.microsoft: attention of a decoder. Its cache is the
// node's past, with each item's new rows after its own keys. Padding rows after a prompt become 0.
#include <math.h>
#include <string.h>

#include "onnxruntime/call.h"

enum {
    QUERY,
    KEY,
    VALUE,
    PAST_KEY,
    PAST_VALUE,
    LENGTHS,
    TOTAL,
    COS,
    SIN,
    POSITIONS,
    ADDED,
    SINK,
    KEY_SCALE,
    VALUE_SCALE
};

static bool quantized(const char *type) {
    return type[0] && strcmp(type, "NONE") != 0;
}

static const char *refuses(const struct kernel *kernel) {
    const struct attributes *a = &kernel->attributes;
    if (a->num_heads < 1 || a->kv_num_heads < 1 || a->num_heads % a->kv_num_heads)
        return "num_heads is a multiple of kv_num_heads, which is at least 1";
    if (quantized(a->k_quant_type) || quantized(a->v_quant_type))
        return "k_quant_type and v_quant_type are NONE: the cache has the type of query";
    if (kernel->inputs & (1u << KEY_SCALE | 1u << VALUE_SCALE))
        return "k_scale and v_scale are not taken: the cache has the type of query";
    if (a->qk_output) return "qk_output is 0: scores are not returned";
    if (!isfinite(a->scale) || !(a->softcap >= 0 && isfinite(a->softcap)))
        return "scale is finite, softcap finite and at least 0";
    if (kernel->inputs >> SINK & 1u && a->smooth_softmax > 0)
        return "head_sink and smooth_softmax exclude one another";
    if (a->local_window_size == 0 || a->local_window_size > INT32_MAX)
        return "local_window_size is -1, which is none, or at least 1";
    return NULL;
}

// Lengths of the items of a call.
struct items {
    int64_t total; // keys of the longest item
    // for each item: number of new rows, of all keys, and of keys before the new rows
    int32_t *rows, *keys, *past;
};

static void read_items(struct call *call, int64_t batch, int64_t rows, struct items *items) {
    const struct array lengths = call_input(call, LENGTHS), total = call_input(call, TOTAL);
    // [B, 1] is what a sum over a mask's keys returns.
    const bool column = lengths.rank == 2 && lengths.shape[1] == 1;
    call_axes(call, &lengths, "seqlens_k", "[B], [B, 1] or [1, B]", lengths.rank == 2 ? 2 : 1,
              lengths.rank == 2 && !column ? (int64_t[]){1, batch} : (int64_t[]){batch, 1});
    call_axes(call, &total, "total_sequence_length", "[] or [1]", total.rank ? 1 : 0, (int64_t[]){1});
    const int32_t *last = call_integers(call, &lengths, batch, "seqlens_k"),
                  *longest = call_integers(call, &total, 1, "total_sequence_length");
    items->rows = call_memory(call, (size_t)batch * sizeof(int32_t));
    items->keys = call_memory(call, (size_t)batch * sizeof(int32_t));
    items->past = call_memory(call, (size_t)batch * sizeof(int32_t));
    if (!call_good(call)) return;
    items->total = longest[0];
    const bool prompt = rows == items->total; // a prompt may have padding after it
    for (int64_t b = 0; b < batch; b++) {
        const int64_t keys = (int64_t)last[b] + 1, own = prompt ? keys : rows;
        if (keys < 1 || keys > items->total || keys < own) {
            call_refuse(call, "seqlens_k: %d is not %lld to %lld, the last key of an item", (int)last[b],
                        (long long)(prompt ? 0 : rows - 1), (long long)items->total - 1);
            return;
        }
        items->keys[b] = (int32_t)keys;
        items->rows[b] = (int32_t)own;
        items->past[b] = (int32_t)(keys - own);
    }
}

// View `count` heads from `first` on, in rows [B, N, all * D]. If key and value are absent, query
// has all heads: all = H + 2 Hkv.
static clattn_tensor heads_of(const struct array *rows, cl_mem buffer, int64_t all, int64_t first,
                              int64_t count) {
    const int64_t size = rows->shape[2] / all;
    clattn_tensor view = clattn_tensor_bshd(buffer, rows->type, rows->shape[0], all, rows->shape[1], size);
    view.offset = first * size;
    view.shape[1] = count;
    return view;
}

static void bind_rows(struct call *call, clattn_attention_params *p) {
    const struct attributes *a = &call->kernel->attributes;
    const struct array q = call_input(call, QUERY), k = call_input(call, KEY), v = call_input(call, VALUE);
    const int64_t heads = a->num_heads, kv = a->kv_num_heads, all = heads + 2 * kv;
    const int64_t wanted[3] = {q.shape[0], q.shape[1], q.shape[2] / heads * kv};
    if ((k.data == NULL) != (v.data == NULL)) call_refuse(call, "key and value go together");
    call_axes(call, &q, "query", "[B, N, H * D]", 3, (int64_t[]){ANY_SIZE, ANY_SIZE, ANY_SIZE});
    if (k.data) call_heads(call, &q, heads, "query");
    call_axes(call, &k, "key", "[B, N, Hkv * D]", 3, wanted);
    call_axes(call, &v, "value", "[B, N, Hkv * D]", 3, wanted);
    if (!call_good(call)) return;
    if (k.data) {
        p->q = call_rows(call, &q, heads, "query");
        p->kv.k_new = call_rows(call, &k, kv, "key");
        p->kv.v_new = call_rows(call, &v, kv, "value");
    } else if (call_heads(call, &q, all, "query")) {
        cl_mem buffer = call_reads(call, q.data, q.bytes);
        p->q = heads_of(&q, buffer, all, 0, heads);
        p->kv.k_new = heads_of(&q, buffer, all, heads, kv);
        p->kv.v_new = heads_of(&q, buffer, all, heads + kv, kv);
    }
}

static void check_past(struct call *call, const clattn_tensor *rows) {
    const struct array k = call_input(call, PAST_KEY), v = call_input(call, PAST_VALUE);
    const int64_t wanted[4] = {rows->shape[0], rows->shape[1], k.rank == 4 ? k.shape[2] : ANY_SIZE,
                               rows->shape[3]};
    if ((k.data == NULL) != (v.data == NULL)) call_refuse(call, "past_key and past_value go together");
    call_axes(call, &k, "past_key", "[B, Hkv, P, D]", 4, wanted);
    call_axes(call, &v, "past_value", "[B, Hkv, P, D] as past_key", 4, wanted);
}

// Make the output `index`, "present", with each item's past rows. The attention call appends the
// new rows.
static clattn_tensor bind_cache(struct call *call, size_t index, const clattn_tensor *rows,
                                const struct items *items) {
    const struct array past = call_input(call, PAST_KEY + index - 1);
    const int64_t batch = rows->shape[0], heads = rows->shape[1], size = rows->shape[3];
    const int64_t had = past.data ? past.shape[2] : 0;
    const int64_t capacity = had > items->total ? had : items->total;
    const int64_t shape[4] = {batch, heads, capacity, size};
    const size_t row = (size_t)size * clattn_type_size(rows->type);
    const size_t bytes = (size_t)(batch * heads * capacity) * row;
    struct array present = call_output(call, index, 4, shape);
    if (present.data == NULL) present.data = call_memory(call, bytes);
    for (int64_t b = 0; call_good(call) && b < batch && present.data != past.data; b++)
        for (int64_t h = 0; h < heads; h++) {
            unsigned char *to = (unsigned char *)present.data + (size_t)((b * heads + h) * capacity) * row;
            const size_t kept = (size_t)(items->past[b] < had ? items->past[b] : had) * row;
            if (kept) memcpy(to, (unsigned char *)past.data + (size_t)((b * heads + h) * had) * row, kept);
            memset(to + kept, 0, (size_t)capacity * row - kept);
        }
    for (int64_t b = 0; call_good(call) && b < batch; b++)
        if (items->past[b] > had)
            call_refuse(call, "item %lld has %d keys before its new ones, past has %lld", (long long)b,
                        (int)items->past[b], (long long)had);
    clattn_tensor view =
        clattn_tensor_dense(call_writes(call, present.data, bytes, true), rows->type, 4, shape);
    view.shape[2] = items->total;
    return view;
}

// Apply RoPE to the rows, with the tables of cosines and sines.
static void turn(struct call *call, clattn_tensor *rows, const struct items *items) {
    const struct array cos = call_input(call, COS), sin = call_input(call, SIN),
                       positions = call_input(call, POSITIONS);
    const int64_t *s = rows->shape;
    clattn_rope_params p = {.x = *rows, .offsets = items->past};
    if (cos.data == NULL || sin.data == NULL)
        call_refuse(call, "do_rotary needs cos_cache and sin_cache, [P, R / 2]");
    call_axes(call, &cos, "cos_cache", "[P, R / 2]", 2, (int64_t[]){ANY_SIZE, ANY_SIZE});
    call_axes(call, &sin, "sin_cache", "[P, R / 2] as cos_cache", 2, cos.shape);
    if (call_good(call) && (cos.shape[0] < items->total || 2 * cos.shape[1] > s[3]))
        call_refuse_shape(call, &cos, "cos_cache is [P, R / 2], P at least %lld and R at most %lld",
                          (long long)items->total, (long long)s[3]);
    if (!call_good(call)) return;
    p.cos = call_view(call, &cos);
    p.sin = call_view(call, &sin);
    p.rope.layout = call->kernel->attributes.rotary_interleaved ? CLATTN_ROPE_INTERLEAVED : CLATTN_ROPE_HALF;
    p.rope.rotary_dim = (int)(2 * cos.shape[1]);
    if (positions.data) {
        p.rope.positions = call_positions(call, &positions, s[0], s[2], cos.shape[0]);
        p.offsets = NULL;
    }
    const size_t bytes = (size_t)(s[0] * s[1] * s[2] * s[3]) * clattn_type_size(rows->type);
    p.y = clattn_tensor_bhsd(call_scratch(call, bytes), rows->type, s[0], s[1], s[2], s[3]);
    if (!call_good(call)) return;
    call_check(call, clattn_rope_enqueue(call->device->context, call->queue, &p, 0, NULL, NULL));
    *rows = p.y;
}

static void bind_score(struct call *call, clattn_attention_params *p, const struct items *items) {
    const struct attributes *a = &call->kernel->attributes;
    const struct array added = call_input(call, ADDED), sink = call_input(call, SINK);
    clattn_score *score = &p->score;
    score->scale = a->scale;
    score->softcap = a->softcap;
    score->causal = true;
    score->alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
    score->q_lengths = items->rows;
    score->kv_lengths = items->keys;
    call_axes(call, &added, "attention_bias", "[B, H, N, T]", 4,
              (int64_t[]){ONE_OR(p->q.shape[0]), ONE_OR(p->q.shape[1]), p->q.shape[2], items->total});
    call_axes(call, &sink, "head_sink", "[H]", 1, &p->q.shape[1]);
    score->window = a->local_window_size > 0;
    if (score->window) score->window_left = (int32_t)a->local_window_size - 1, score->window_right = -1;
    if (added.data) score->bias = call_view(call, &added);
    if (sink.data) {
        score->sinks_device = call_view(call, &sink);
    } else if (a->smooth_softmax > 0) {
        float *sinks = call_memory(call, (size_t)a->num_heads * sizeof *sinks);
        for (int64_t h = 0; sinks && h < a->num_heads; h++) sinks[h] = 0;
        score->sinks = sinks;
    }
}

static void compute(struct call *call) {
    clattn_attention_params p = {0};
    struct items items = {0};
    bind_rows(call, &p);
    if (!call_good(call)) return;
    const int64_t *s = p.q.shape, shape[3] = {s[0], s[2], s[1] * s[3]};
    const struct array out = call_output(call, 0, 3, shape);
    read_items(call, s[0], s[2], &items);
    check_past(call, &p.kv.k_new);
    if (!call_good(call)) return;
    p.kv.k = bind_cache(call, 1, &p.kv.k_new, &items);
    p.kv.v = bind_cache(call, 2, &p.kv.v_new, &items);
    bind_score(call, &p, &items);
    if (out.data == NULL || !call_good(call)) return;
    if (call->kernel->attributes.do_rotary) {
        turn(call, &p.q, &items);
        turn(call, &p.kv.k_new, &items);
    }
    memset(out.data, 0, out.bytes);
    p.out =
        clattn_tensor_bshd(call_writes(call, out.data, out.bytes, true), out.type, s[0], s[1], s[2], s[3]);
    if (!call_good(call)) return;
    call_check(call, clattn_attention_enqueue(call->device->context, call->queue, &p, 0, NULL, NULL));
}

// Infer the output's shape. If key is absent, the heads of key and value follow those of query.
static void infer(const struct attributes *a, const struct shape *in, struct shape *y) {
    const struct shape *q = &in[QUERY];
    if (q->rank != 3) return;
    shape_add(y, q, 0);
    shape_add(y, q, 1);
    if (in[KEY].element)
        shape_add(y, q, 2);
    else
        shape_add_part(y, q, 2, a->num_heads, a->num_heads + 2 * a->kv_num_heads);
}

const struct operation operator_group_query_attention = {
    .domain = "com.microsoft",
    .name = "GroupQueryAttention",
    .opsets = {1, 1},
    .inputs = "11111ii11l11ff",
    .outputs = "1111",
    .required = 1u | 1u << LENGTHS | 1u << TOTAL,
    .refuses = refuses,
    .infer = infer,
    .compute = compute,
};
