// ggml_host.c: the same ggml_flash_attn_ext on ggml's CPU backend and on clattn's, both loaded at
// run time, compared with a double-precision reference.
//
//   ggml_host LIBGGML_CPU LIBGGML_CLATTN          one line per case; exit status 1 if one is wrong,
//                                                 or is accepted or refused unexpectedly
//   ggml_host LIBGGML_CPU LIBGGML_CLATTN times    milliseconds of both, for decode and prefill
#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PROGRAM "ggml_host"
#include "ggml_support.h"

#define THREADS 2

typedef enum mask_kind { MASK_NONE, MASK_CAUSAL, MASK_BIAS, MASK_PATCHES } mask_kind;
typedef struct test_case {
    const char *name;
    enum ggml_type type; // of k
    int d, dv, heads, kv_heads, rows, keys, items;
    mask_kind mask;
    int mask_heads, mask_items;
    float max_bias, softcap;
    bool sinks;
    bool permuted;         // q, k and v are stored as [items, rows, heads, d], as in llama.cpp
    bool shared;           // v is the first numbers of each row of k
    enum ggml_type v_type; // type of v; 0 (f32): the type of k
    enum ggml_type q_type; // f32, or a type that is refused
    int v_heads;           // heads of v; 0: kv_heads
    bool unscaled;         // the scale is 0
    bool refused;
} test_case;

#define F32 GGML_TYPE_F32
#define F16 GGML_TYPE_F16
#define BF16 GGML_TYPE_BF16
#define Q8_0 GGML_TYPE_Q8_0
#define Q4_0 GGML_TYPE_Q4_0
#define Q4_1 GGML_TYPE_Q4_1
#define MASK(kind, h, b) .mask = MASK_##kind, .mask_heads = h, .mask_items = b

static const test_case cases[] = {
    {"f32, no mask", F32, 64, 64, 4, 4, 5, 70, 1},
    {"f16, decode, permuted", F16, 128, 128, 8, 2, 1, 256, 1, MASK(CAUSAL, 1, 1), .permuted = true},
    {"f16, decode, 600 keys", F16, 128, 128, 8, 2, 1, 600, 1, MASK(CAUSAL, 1, 1), .permuted = true},
    {"f16, prefill, permuted", F16, 64, 64, 8, 2, 96, 256, 1, MASK(CAUSAL, 1, 1), .permuted = true},
    {"f32, prefill, GQA 3", F32, 40, 40, 6, 2, 70, 130, 1, MASK(CAUSAL, 1, 1)},
    {"bf16, prefill", BF16, 64, 64, 4, 2, 40, 128, 1, MASK(CAUSAL, 1, 1), .permuted = true},
    {"bf16, decode", BF16, 64, 64, 4, 2, 1, 256, 1, MASK(CAUSAL, 1, 1), .permuted = true},
    {"q8_0, decode", Q8_0, 128, 128, 8, 2, 1, 512, 1, MASK(CAUSAL, 1, 1), .permuted = true},
    {"q8_0, prefill", Q8_0, 64, 64, 4, 2, 33, 256, 1, MASK(CAUSAL, 1, 1), .permuted = true},
    {"q4_0, decode", Q4_0, 128, 128, 8, 2, 1, 256, 1, MASK(CAUSAL, 1, 1), .permuted = true},
    {"q4_0, prefill", Q4_0, 64, 64, 4, 2, 33, 256, 1, MASK(CAUSAL, 1, 1), .permuted = true},
    {"q4_1, decode", Q4_1, 64, 64, 4, 2, 1, 256, 1, MASK(CAUSAL, 1, 1), .permuted = true},
    {"q4_1, prefill", Q4_1, 64, 64, 4, 2, 33, 256, 1, MASK(CAUSAL, 1, 1), .permuted = true},
    {"mask of each head and item", F16, 64, 64, 4, 2, 20, 96, 2, MASK(BIAS, 4, 2), .permuted = true},
    {"mask of each item", F16, 64, 64, 4, 2, 1, 96, 3, MASK(BIAS, 1, 3), .permuted = true},
    {"mask of each head", F32, 64, 64, 4, 2, 7, 96, 2, MASK(BIAS, 4, 1)},
    {"patches of each head and item", F16, 64, 64, 4, 2, 200, 470, 2, MASK(PATCHES, 4, 2), .permuted = true},
    {"patches, max_bias, q8_0", Q8_0, 64, 64, 3, 1, 130, 470, 2, MASK(PATCHES, 1, 2), .max_bias = 8.0f,
     .permuted = true},
    {"softcap", F16, 64, 64, 4, 4, 20, 96, 1, MASK(CAUSAL, 1, 1), .softcap = 5.0f, .permuted = true},
    {"sinks, decode", F16, 64, 64, 8, 2, 1, 128, 1, MASK(CAUSAL, 1, 1), .sinks = true, .permuted = true},
    {"sinks, prefill", F16, 64, 64, 8, 2, 40, 128, 1, MASK(CAUSAL, 1, 1), .sinks = true, .permuted = true},
    {"softcap, sinks and a mask, q8_0", Q8_0, 64, 64, 8, 2, 3, 128, 2, MASK(BIAS, 1, 2), .softcap = 8.0f,
     .sinks = true, .permuted = true},
    {"max_bias, 6 heads, decode", F16, 64, 64, 6, 2, 1, 128, 1, MASK(BIAS, 1, 1), .max_bias = 8.0f,
     .permuted = true},
    {"max_bias, 6 heads, prefill", F16, 64, 64, 6, 6, 24, 64, 2, MASK(BIAS, 1, 2), .max_bias = 8.0f,
     .permuted = true},
    {"max_bias, q8_0", Q8_0, 64, 64, 4, 2, 9, 64, 1, MASK(CAUSAL, 1, 1), .max_bias = 4.0f, .permuted = true},
    {"D above Dv", F16, 192, 128, 4, 4, 12, 128, 1, MASK(CAUSAL, 1, 1), .permuted = true},
    {"D below Dv", F32, 48, 80, 4, 2, 1, 70, 2, MASK(CAUSAL, 1, 1)},
    {"v within k", F16, 96, 64, 8, 1, 2, 128, 1, MASK(CAUSAL, 1, 1), .permuted = true, .shared = true},
    {"v within k, q8_0", Q8_0, 576, 512, 16, 1, 1, 96, 1, MASK(CAUSAL, 1, 1), .permuted = true,
     .shared = true},
    {"an odd head size", F16, 72, 72, 3, 1, 5, 37, 2, MASK(BIAS, 1, 1), .permuted = true},
    {"k of q8_0, v of f16", Q8_0, 64, 64, 4, 2, 4, 64, 1, .v_type = F16},
    {"k of q8_0, v of q4_0, decode", Q8_0, 128, 128, 8, 2, 1, 256, 1, MASK(CAUSAL, 1, 1), .permuted = true,
     .v_type = Q4_0},
    {"heads of k and v that differ", F16, 64, 64, 4, 2, 4, 64, 1, .v_heads = 4, .refused = true},
    {"q of f16", F16, 64, 64, 4, 2, 4, 64, 1, .q_type = F16, .refused = true},
    {"a scale of 0", F16, 64, 64, 4, 2, 4, 64, 1, .unscaled = true, .refused = true},
    {"a softcap below 0", F16, 64, 64, 4, 2, 4, 64, 1, .softcap = -5.0f, .refused = true},
    {"q5_0", GGML_TYPE_Q5_0, 64, 64, 4, 2, 4, 64, 1, .refused = true},
    {"a mask of every second head", F16, 64, 64, 4, 2, 4, 64, 1, MASK(BIAS, 2, 1), .refused = true},
    {"the same with max_bias", F16, 64, 64, 4, 2, 4, 64, 1, MASK(BIAS, 2, 1), .max_bias = 8.0f,
     .refused = true},
    {"a mask of every second item", F16, 64, 64, 4, 2, 4, 64, 4, MASK(BIAS, 1, 2), .max_bias = 8.0f,
     .refused = true},
    {"an infinite softcap", F16, 64, 64, 4, 2, 4, 64, 1, .softcap = INFINITY, .refused = true},
};

// The tensors of a case. `place` holds their memory.
typedef struct node_of_case {
    struct ggml_context *context;
    ggml_backend_buffer_t place;
    struct ggml_tensor *q, *k, *v, *mask, *sinks, *result;
    struct ggml_cgraph *graph;
} node_of_case;

// A tensor [n, rows, heads, items] in ggml's order: dense, or as a view into memory with all heads
// of a row together, as in llama.cpp. The view starts at the second row, so its address is aligned
// to an element only.
static struct ggml_tensor *make(struct ggml_context *c, enum ggml_type type, int n, int rows, int heads,
                                int items, bool permuted) {
    if (!permuted) {
        return ggml_new_tensor_4d(c, type, n, rows, heads, items);
    }
    struct ggml_tensor *whole = ggml_new_tensor_4d(c, type, n, heads, rows + 1, items);
    return ggml_permute(
        c,
        ggml_view_4d(c, whole, n, heads, rows, items, whole->nb[1], whole->nb[2], whole->nb[3], whole->nb[2]),
        0, 2, 1, 3);
}

static void fill(struct ggml_tensor *t, float least_scale) {
    struct ggml_tensor *whole = t->view_src ? t->view_src : t;
    const int64_t count = ggml_nelements(whole);
    float *numbers = must(malloc((size_t)count * sizeof *numbers), "malloc");
    for (int64_t at = 0; at < count; at++) {
        numbers[at] = least_scale * noise();
    }
    ggml_quantize_chunk(whole->type, numbers, whole->data, 0, count / whole->ne[0], whole->ne[0], NULL);
    free(numbers);
}

// Returns true if the mask hides a key from a row. Causal: row i sees the keys up to keys - rows +
// i, without the last few, as in a cache with free room. Patches: regions are hidden, and some rows
// see nothing.
static bool hides(const test_case *c, int64_t row, int64_t key, float bias) {
    const uint32_t patch = (uint32_t)(row / 90 * 37 + key / 150) * 2654435761u;
    return c->mask == MASK_BIAS      ? bias > 1.5f
           : c->mask == MASK_PATCHES ? patch >> 31 || row % 41 == 7
                                     : key > c->keys - c->rows + row % c->rows - 3;
}

static void fill_mask(const test_case *c, struct ggml_tensor *mask) {
    ggml_fp16_t *at = mask->data;
    for (int64_t row = 0; row < ggml_nrows(mask); row++) {
        for (int64_t key = 0; key < mask->ne[0]; key++) {
            const float bias = c->mask == MASK_CAUSAL ? 0 : noise();
            *at++ = ggml_fp32_to_fp16(hides(c, row, key, bias) ? -INFINITY : bias);
        }
    }
}

static node_of_case build(const test_case *c, ggml_backend_buffer_type_t memory) {
    node_of_case n = {
        .context =
            must(ggml_init((struct ggml_init_params){.mem_size = 1 << 20, .no_alloc = true}), "ggml_init")};
    n.q = make(n.context, c->q_type, c->d, c->rows, c->heads, c->items, c->permuted);
    n.k = make(n.context, c->type, c->d, c->keys, c->kv_heads, c->items, c->permuted);
    n.v = c->shared ? ggml_view_4d(n.context, n.k, c->dv, c->keys, c->kv_heads, c->items, n.k->nb[1],
                                   n.k->nb[2], n.k->nb[3], 0)
                    : make(n.context, c->v_type ? c->v_type : c->type, c->dv, c->keys,
                           c->v_heads ? c->v_heads : c->kv_heads, c->items, c->permuted);
    n.mask =
        c->mask ? ggml_new_tensor_4d(n.context, GGML_TYPE_F16, c->keys, c->rows, c->mask_heads, c->mask_items)
                : NULL;
    n.sinks = c->sinks ? ggml_new_tensor_1d(n.context, GGML_TYPE_F32, c->heads) : NULL;
    n.result = ggml_flash_attn_ext(n.context, n.q, n.k, n.v, n.mask,
                                   c->unscaled ? 0 : 1.0f / sqrtf((float)c->d), c->max_bias, c->softcap);
    ggml_flash_attn_ext_add_sinks(n.result, n.sinks);
    n.graph = ggml_new_graph(n.context);
    ggml_build_forward_expand(n.graph, n.result);
    n.place = must(ggml_backend_alloc_ctx_tensors_from_buft(n.context, memory), "memory for tensors");
    fill(n.q, 1.5f);
    fill(n.k, 1);
    if (!c->shared) {
        fill(n.v, 1);
    }
    if (n.mask) {
        fill_mask(c, n.mask);
    }
    if (n.sinks) {
        fill(n.sinks, 2);
    }
    return n;
}

static void release(node_of_case *n) {
    ggml_backend_buffer_free(n->place);
    ggml_free(n->context);
}

// ----------------------------------------------------------------------------------------
// reference ---

static const char *row_at(const struct ggml_tensor *t, int64_t row, int64_t head, int64_t item) {
    return (const char *)t->data + row * (int64_t)t->nb[1] + head * (int64_t)t->nb[2] +
           item * (int64_t)t->nb[3];
}

static void numbers_at(const struct ggml_tensor *t, int64_t row, int64_t head, int64_t item, float *numbers) {
    const void *from = row_at(t, row, head, item);
    if (t->type == GGML_TYPE_F32) {
        memcpy(numbers, from, (size_t)t->ne[0] * sizeof *numbers);
    } else {
        ggml_get_type_traits(t->type)->to_float(from, numbers, t->ne[0]);
    }
}

static double slope_of(const test_case *c, int head) {
    int power = 1;
    while (2 * power <= c->heads) {
        power *= 2;
    }
    return !(c->max_bias > 0) ? 1
           : head < power     ? pow(2, -c->max_bias / power * (head + 1))
                              : pow(2, -c->max_bias / 2 / power * (2 * (head - power) + 1));
}

// The score of a row and a key. -infinity if the key is hidden.
static double score_of(const test_case *c, const node_of_case *n, const float *q, const float *k, int head,
                       int item, int row, int key) {
    double s = 0;
    for (int at = 0; at < c->d; at++) {
        s += (double)q[at] * k[at];
    }
    s /= sqrt(c->d);
    s = c->softcap > 0 ? c->softcap * tanh(s / c->softcap) : s;
    if (n->mask) {
        const ggml_fp16_t *bias =
            (const void *)row_at(n->mask, row, head % n->mask->ne[2], item % n->mask->ne[3]);
        s += slope_of(c, head) * ggml_fp16_to_fp32(bias[key]);
    }
    return s;
}

// Compute one row of the result into out[dv].
static void refer_row(const test_case *c, const node_of_case *n, int head, int item, int row, double *out) {
    float q[1024], k[1024], v[1024];
    double *scores = must(malloc((size_t)c->keys * sizeof *scores), "malloc");
    const int kv_head = head / (c->heads / c->kv_heads);
    double most = n->sinks ? ((const float *)n->sinks->data)[head] : -INFINITY;
    numbers_at(n->q, row, head, item, q);
    for (int key = 0; key < c->keys; key++) {
        numbers_at(n->k, key, kv_head, item, k);
        scores[key] = score_of(c, n, q, k, head, item, row, key);
        most = fmax(most, scores[key]);
    }
    double sum = n->sinks ? exp(((const float *)n->sinks->data)[head] - most) : 0;
    memset(out, 0, (size_t)c->dv * sizeof *out);
    for (int key = 0; key < c->keys && most > -INFINITY; key++) {
        const double weight = exp(scores[key] - most);
        sum += weight;
        numbers_at(n->v, key, kv_head, item, v);
        for (int at = 0; at < c->dv; at++) {
            out[at] += weight * v[at];
        }
    }
    for (int at = 0; at < c->dv && sum > 0; at++) {
        out[at] /= sum;
    }
    free(scores);
}

static double *refer(const test_case *c, const node_of_case *n) {
    double *all = must(malloc((size_t)ggml_nelements(n->result) * sizeof *all), "malloc");
    for (int item = 0; item < c->items; item++) {
        for (int row = 0; row < c->rows; row++) {
            for (int head = 0; head < c->heads; head++) {
                refer_row(c, n, head, item, row,
                          all + (((int64_t)item * c->rows + row) * c->heads + head) * c->dv);
            }
        }
    }
    return all;
}

// --------------------------------------------------------------------------------------------
// cases ---

// Squared error of a backend's result, relative to the reference's squared length. The result
// buffer holds NaN beforehand.
static double error_of(ggml_backend_t backend, const node_of_case *n, const double *reference) {
    float *result = n->result->data;
    const int64_t count = ggml_nelements(n->result);
    for (int64_t at = 0; at < count; at++) {
        result[at] = NAN;
    }
    if (ggml_backend_graph_compute(backend, n->graph) != GGML_STATUS_SUCCESS) {
        return NAN;
    }
    double wrong = 0, all = 0;
    for (int64_t at = 0; at < count; at++) {
        wrong += (result[at] - reference[at]) * (result[at] - reference[at]);
        all += reference[at] * reference[at];
    }
    return wrong / all;
}

// Check a case. It is computed twice with the tensors at the same addresses, first with other
// numbers.
static bool check(const test_case *c, ggml_backend_t cpu, ggml_backend_t clattn, ggml_backend_t copying,
                  int *computed) {
    node_of_case n = build(c, ggml_backend_get_default_buffer_type(cpu));
    bool good = ggml_backend_supports_op(clattn, n.result) == !c->refused;
    if (!good || c->refused) {
        printf("%-34s %s%s\n", c->name, c->refused == good ? "refused" : "taken", good ? "" : ": WRONG");
    } else {
        for (int turn = 0; turn < 2 && good; turn++) {
            double *reference = refer(c, &n);
            const double theirs = error_of(cpu, &n, reference), ours = error_of(clattn, &n, reference);
            const double copied = error_of(copying, &n, reference), most = fmax(theirs, 1e-6);
            good = ours <= most && copied <= most; // false for NaN, too
            printf("%-34s ggml %.1e  clattn %.1e  copying %.1e%s\n", c->name, theirs, ours, copied,
                   good ? "" : ": WRONG");
            free(reference);
            fill(n.q, 1);
            fill(n.k, 1);
        }
        ++*computed;
    }
    release(&n);
    return good;
}

// A cache of 16 TiB, which is never allocated, is refused before any allocation.
static bool check_size(ggml_backend_t clattn) {
    struct ggml_context *c =
        must(ggml_init((struct ggml_init_params){.mem_size = 1 << 20, .no_alloc = true}), "ggml_init");
    struct ggml_tensor *k = ggml_new_tensor_4d(c, F32, 1 << 10, 1 << 20, 1 << 12, 1);
    struct ggml_tensor *q = ggml_new_tensor_4d(c, F32, 1 << 10, 1, 1 << 12, 1);
    const bool good =
        !ggml_backend_supports_op(clattn, ggml_flash_attn_ext(c, q, k, k, NULL, 0.03125f, 0, 0));
    printf("%-34s %s\n", "16 TiB of keys", good ? "refused" : "taken: WRONG");
    ggml_free(c);
    return good;
}

// Change every size and stride of every tensor of a node, one at a time. The node must be refused.
// A mask may have more rows and keys than the node, and one head or item.
static bool check_axes(ggml_backend_t cpu, ggml_backend_t clattn) {
    const test_case c = {"", F16, 64, 32, 4, 2, 6, 70, 2, MASK(BIAS, 4, 2), .max_bias = 8.0f, .sinks = true};
    node_of_case n = build(&c, ggml_backend_get_default_buffer_type(cpu));
    struct ggml_tensor *const all[] = {n.q, n.k, n.v, n.mask, n.sinks, n.result};
    const char *const names[] = {"q", "k", "v", "mask", "sinks", "result"};
    int wrong = !ggml_backend_supports_op(clattn, n.result), count = 0;
    for (int at = 0; at < 6; at++) {
        for (int axis = 0; axis < 4; axis++) {
            const int64_t size = all[at]->ne[axis], sizes[] = {size - 1, size + 1, size / 2, 2 * size, 1};
            const size_t stride = all[at]->nb[axis],
                         strides[] = {stride + 1, axis ? stride + 1 : 2 * stride, 0};
            for (int to = 0; to < 5; to++) {
                const bool may = all[at] == n.mask && (axis < 2 ? sizes[to] > size : sizes[to] == 1);
                if (sizes[to] < 1 || sizes[to] == size || may) {
                    continue;
                }
                all[at]->ne[axis] = sizes[to];
                const bool taken = ggml_backend_supports_op(clattn, n.result);
                all[at]->ne[axis] = size;
                wrong += taken, count++;
                if (taken) {
                    printf("%s of %lld along axis %d: taken: WRONG\n", names[at], (long long)sizes[to], axis);
                }
            }
            // A stride of 0 repeats an input. An output may not overlap itself.
            for (int to = 0; to < (all[at] == n.result ? 3 : 2); to++) {
                all[at]->nb[axis] = strides[to];
                const bool taken = size > 1 && ggml_backend_supports_op(clattn, n.result);
                all[at]->nb[axis] = stride;
                wrong += taken, count++;
                if (taken) {
                    printf("%s with a stride of %zu along axis %d: taken: WRONG\n", names[at], strides[to],
                           axis);
                }
            }
        }
    }
    n.result->src[5] = n.q;
    wrong += ggml_backend_supports_op(clattn, n.result);
    n.result->src[5] = NULL;
    printf("%-34s %d refused, %d wrong\n", "other sizes and strides", count, wrong);
    release(&n);
    return !wrong;
}

// Check attention inside a graph of ggml's scheduler, as in llama.cpp: its input is a ggml product,
// and a ggml operation reads its result.
static bool check_schedule(ggml_backend_t cpu, ggml_backend_t clattn) {
    const test_case c = {"", F16, 64, 64, 4, 2, 20, 96, 1, MASK(CAUSAL, 1, 1), .permuted = true};
    node_of_case n = build(&c, ggml_backend_get_default_buffer_type(cpu));
    struct ggml_context *more =
        must(ggml_init((struct ggml_init_params){.mem_size = 1 << 20, .no_alloc = true}), "ggml_init");
    struct ggml_tensor *attention =
        ggml_flash_attn_ext(more, ggml_scale(more, ggml_cont(more, n.q), 2), n.k, n.v, n.mask, 0.0625f, 0, 0);
    struct ggml_tensor *last = ggml_scale(more, attention, 4);
    struct ggml_cgraph *graph = ggml_new_graph(more);
    ggml_build_forward_expand(graph, last);
    ggml_backend_t both[] = {clattn, cpu};
    ggml_backend_sched_t schedule =
        must(ggml_backend_sched_new(both, NULL, 2, 64, false, true), "ggml_backend_sched_new");
    bool good = ggml_backend_sched_graph_compute(schedule, graph) == GGML_STATUS_SUCCESS &&
                ggml_backend_sched_get_tensor_backend(schedule, attention) == clattn &&
                ggml_backend_sched_get_tensor_backend(schedule, last) == cpu;
    double *reference = refer(&c, &n), wrong = 0, all = 0;
    for (int64_t at = 0; good && at < ggml_nelements(last); at++) {
        wrong += pow(((const float *)last->data)[at] - 4 * reference[at], 2);
        all += 16 * reference[at] * reference[at];
    }
    good = good && wrong <= 1e-6 * all;
    printf("%-34s %.1e%s\n", "a schedule of both backends", wrong / all, good ? "" : ": WRONG");
    free(reference);
    ggml_backend_sched_free(schedule);
    ggml_free(more);
    release(&n);
    return good;
}

// --------------------------------------------------------------------------------------------
// times ---

static double fastest_ms(ggml_backend_t backend, const node_of_case *n) {
    double best = INFINITY;
    for (int turn = 0; turn < 12; turn++) {
        struct timespec from, to;
        clock_gettime(CLOCK_MONOTONIC, &from);
        ggml_backend_graph_compute(backend, n->graph);
        clock_gettime(CLOCK_MONOTONIC, &to);
        best =
            fmin(best, (double)(to.tv_sec - from.tv_sec) * 1e3 + (double)(to.tv_nsec - from.tv_nsec) / 1e6);
    }
    return best;
}

static void times(ggml_backend_t cpu, ggml_backend_t clattn) {
    const enum ggml_type types[] = {F16, Q8_0};
    for (int at = 0; at < 4; at++) {
        const bool decode = at < 2;
        const test_case c = {"",
                             types[at % 2],
                             128,
                             128,
                             32,
                             8,
                             decode ? 1 : 512,
                             decode ? 4096 : 512,
                             1,
                             MASK(CAUSAL, 1, 1),
                             .permuted = true};
        node_of_case n = build(&c, ggml_backend_get_default_buffer_type(cpu));
        printf("%s %s: ggml %.3f ms, clattn %.3f ms\n", ggml_type_name(c.type),
               decode ? "1 row, 4096 keys" : "512 rows, 512 keys", fastest_ms(cpu, &n),
               fastest_ms(clattn, &n));
        release(&n);
    }
}

// Load a backend from a library.
static ggml_backend_t start(const char *path, const char *params) {
    static ggml_backend_reg_t loaded[2];
    static const char *paths[2];
    int at = paths[0] && strcmp(paths[0], path) != 0;
    if (!loaded[at]) {
        loaded[at] = must(ggml_backend_load(path), path);
        paths[at] = path;
    }
    return must(ggml_backend_dev_init(must(ggml_backend_reg_dev_get(loaded[at], 0), "a device"), params),
                "a backend");
}

int main(int count, char **words) {
    if (count < 3) {
        fprintf(stderr, "ggml_host LIBGGML_CPU LIBGGML_CLATTN [times]\n");
        return 2;
    }
    ggml_backend_t cpu = start(words[1], NULL), clattn = start(words[2], NULL),
                   copying = start(words[2], "copy");
    ggml_backend_reg_t registry = ggml_backend_dev_backend_reg(ggml_backend_get_device(cpu));
    ggml_backend_set_n_threads_t set_threads;
    *(void **)&set_threads = must(ggml_backend_reg_get_proc_address(registry, "ggml_backend_set_n_threads"),
                                  "ggml_backend_set_n_threads");
    set_threads(cpu, THREADS);
    int wrong = 0, computed = 0;
    if (count > 3) {
        times(cpu, clattn);
    } else {
        for (size_t at = 0; at < sizeof cases / sizeof *cases; at++) {
            wrong += !check(&cases[at], cpu, clattn, copying, &computed);
        }
        wrong += !check_size(clattn) + !check_axes(cpu, clattn) + !check_schedule(cpu, clattn);
        printf("counted: %d cases of ggml_flash_attn_ext computed by both, %d wrong\n", computed, wrong);
        wrong += computed == 0;
    }
    ggml_backend_free(copying);
    ggml_backend_free(clattn);
    ggml_backend_free(cpu);
    return wrong > 0;
}
