/* The API: a right call in small sizes, then changes to it that the input chooses: enums, shapes, strides, offsets, numbers
 * and handles, likely and unlikely ones. Plan and enqueue must answer with a status and a line, and agree; what is enqueued
 * runs on buffers between pages that nobody may touch, so that a kernel that leaves its view ends the run. */
#include "fuzz_device.h"
#include "fuzz_values.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_FIELDS = 32, MOST_WORK = 4000000 };

/* What an input may change of a call. */
typedef struct fields {
    clattn_tensor *tensors[MOST_FIELDS];
    int32_t *ints[MOST_FIELDS];
    float *floats[MOST_FIELDS];
    bool *bools[MOST_FIELDS];
    cl_mem *workspace;
    clattn_score *score;
    clattn_rope *rope;
    int required;     /* the first of tensors */
    unsigned written; /* a bit for each of tensors */
    int tensor_count, int_count, float_count, bool_count;
    unsigned arrays; /* host arrays that are given, a bit for each */
} fields;

/* A dense view in a buffer of its own. */
static void add_view(fields *f, clattn_tensor *t, clattn_type type, int rank, const int64_t *shape) {
    *t = clattn_tensor_dense(fuzz_buffers[f->tensor_count], type, rank, shape);
    f->tensors[f->tensor_count++] = t;
}

static void add_int(fields *f, void *i) {
    f->ints[f->int_count++] = i;
}

static void add_score(fields *f, clattn_score *s, clattn_rope *r) {
    f->score = s, f->rope = r;
    add_int(f, &s->alignment), add_int(f, &s->offset), add_int(f, &s->window_left),
        add_int(f, &s->window_right);
    add_int(f, &r->layout), add_int(f, &r->rotary_dim), add_int(f, &r->scaling);
    f->floats[f->float_count++] = &s->scale, f->floats[f->float_count++] = &s->softcap,
    f->floats[f->float_count++] = &s->dropout;
    f->bools[f->bool_count++] = &s->causal, f->bools[f->bool_count++] = &s->window;
}

static void change_tensor(clattn_tensor *t, fuzz_bytes *b) {
    const int what = fuzz_below(b, 12), axis = what & 3;
    if (what < 4)
        t->shape[axis] = fuzz_number(b);
    else if (what < 8)
        t->stride[axis] = fuzz_number(b);
    else if (what == 8)
        t->offset = fuzz_number(b);
    else if (what == 9)
        t->type = (clattn_type)fuzz_number(b);
    else if (what == 10)
        t->rank = (int)fuzz_number(b);
    else
        t->buffer = fuzz_handle(b);
}

static void change_rope(clattn_rope *r, fuzz_bytes *b) {
    const int what = fuzz_below(b, 4);
    if (what == 0) r->base = fuzz_real(b);
    if (what == 1) r->factor = fuzz_real(b);
    if (what == 2) r->position = fuzz_number(b);
    if (what == 3) r->sections[fuzz_below(b, 3)] = (int32_t)fuzz_number(b);
}

/* One change. The first bytes are those that matter most. */
static void change(fields *f, fuzz_bytes *b) {
    const int what = fuzz_below(b, 16);
    if (what < 8)
        change_tensor(f->tensors[fuzz_below(b, f->tensor_count)], b);
    else if (what < 10 && f->int_count)
        *f->ints[fuzz_below(b, f->int_count)] = (int32_t)(uint64_t)fuzz_number(b);
    else if (what == 10 && f->float_count)
        *f->floats[fuzz_below(b, f->float_count)] = (float)fuzz_real(b);
    else if (what == 11 && f->bool_count)
        *f->bools[fuzz_below(b, f->bool_count)] ^= true;
    else if (what < 14 && f->score)
        f->arrays ^= 1u << fuzz_below(b, 6);
    else if (what == 14 && f->rope)
        change_rope(f->rope, b);
    else if (f->workspace)
        *f->workspace = fuzz_handle(b);
}

/* A host array of exactly `count` numbers; NULL where it would be too long to make. */
static void *host_array(fuzz_bytes *b, int64_t count, bool integers) {
    if (count < 0 || count > 4096) return NULL;
    int32_t *made = malloc(count ? (size_t)count * sizeof *made : 1);
    for (int64_t i = 0; made && i < count; i++) {
        const float x = (float)fuzz_real(b);
        if (integers)
            made[i] = (int32_t)(uint64_t)fuzz_number(b);
        else
            memcpy(made + i, &x, sizeof x);
    }
    return made;
}

static void add_arrays(fields *f, fuzz_bytes *b, int64_t batch, int64_t heads) {
    clattn_score *s = f->score;
    if (f->arrays & 1) s->head_scales = host_array(b, heads, false);
    if (f->arrays & 2) s->alibi_slopes = host_array(b, heads, false);
    if (f->arrays & 4) s->sinks = host_array(b, heads, false);
    if (f->arrays & 8) s->offsets = host_array(b, batch, true);
    if (f->arrays & 16) s->q_lengths = host_array(b, batch, true);
    if (f->arrays & 32) s->kv_lengths = host_array(b, batch, true);
}

static void free_arrays(fields *f) {
    const clattn_score *s = f->score;
    if (!s) return;
    free((void *)s->head_scales), free((void *)s->alibi_slopes), free((void *)s->sinks);
    free((void *)s->offsets), free((void *)s->q_lengths), free((void *)s->kv_lengths);
}

/* An optional tensor without a buffer is absent. */
static bool all_fit(const fields *f) {
    for (int i = 0; i < f->tensor_count; i++) {
        const bool absent = i >= f->required && !f->tensors[i]->buffer;
        if (!absent && !fuzz_fits(f->tensors[i])) return false;
    }
    return true;
}

/* Multiply-adds of a call; a view may repeat an element and so ask for any number of them. */
static double work_of(const clattn_tensor *q, int64_t keys, int64_t width) {
    return (double)q->shape[0] * (double)q->shape[1] * (double)q->shape[2] * (double)keys * (double)width;
}

/* All that makes another program. */
static bool attention_may_run(const clattn_attention_params *p, const clattn_plan *plan) {
    const clattn_score *s = &p->score;
    struct {
        char name[32];
        int64_t numbers[20];
    } of = {"",
            {p->q.type, p->kv.k.type, p->out.type, p->q.shape[3], p->kv.v.shape[3], plan->tile_q,
             plan->tile_kv, plan->splits > 1, p->weights.rank ? 1 + (int64_t)p->weights.type : 0,
             s->bias.rank ? 1 + (int64_t)s->bias.type : 0, s->mask.rank != 0, s->softcap != 0.0f,
             s->alibi_slopes != NULL, s->causal, s->window, s->sinks != NULL, p->rope.layout,
             s->head_scales != NULL}};
    memcpy(of.name, plan->kernel_name, sizeof of.name);
    return work_of(&p->q, p->kv.k.shape[2], p->q.shape[3] + p->kv.v.shape[3]) <= MOST_WORK &&
           fuzz_kernel_may_run(&of, sizeof of);
}

/* What planning does not look at: it is asked without any buffer, and then without the views that enqueueing takes for
 * absent because they have none. */
typedef struct hidden {
    cl_mem buffers[MOST_FIELDS];
    int ranks[MOST_FIELDS];
} hidden;

static void hide_buffers(const fields *f, hidden *h) {
    for (int i = 0; i < f->tensor_count; i++) {
        h->buffers[i] = f->tensors[i]->buffer;
        h->ranks[i] = f->tensors[i]->rank;
        f->tensors[i]->buffer = NULL;
    }
}

/* Whether there are any of these. */
static bool hide_absent(const fields *f, const hidden *h) {
    bool any = false;
    for (int i = 0; i < f->tensor_count; i++) {
        f->tensors[i]->buffer = h->buffers[i];
        if (i < f->required || h->buffers[i]) continue;
        any = any || h->ranks[i];
        f->tensors[i]->rank = 0;
    }
    return any;
}

static void show(const fields *f, const hidden *h) {
    for (int i = 0; i < f->tensor_count; i++) f->tensors[i]->rank = h->ranks[i];
}

/* What was taken must not have been refused. */
static bool end(const fields *f, const fuzz_launch *at, clattn_status status, bool right) {
    const bool done = fuzz_finish(at, status, right);
    for (int i = 0; done && i < f->tensor_count; i++) {
        const bool written = f->written >> i & 1;
        fuzz_check_access(f->tensors[i], !written, written);
        for (int k = 0; written && k < f->tensor_count; k++)
            if (k != i) fuzz_check_apart(f->tensors[i], f->tensors[k]);
    }
    return done;
}

static bool run_attention(const clattn_attention_params *p, fields *f, fuzz_launch *at) {
    clattn_plan plan = {.workspace_bytes = 0};
    clattn_family families[16];
    size_t bytes = 0, count = 0;
    hidden h;
    hide_buffers(f, &h);
    const bool bare = fuzz_answered(clattn_attention_plan(fuzz_context, p, &plan));
    const bool fewer = hide_absent(f, &h);
    const clattn_status status = clattn_attention_plan(fuzz_context, p, &plan);
    const bool planned = fuzz_answered(status), fit = all_fit(f);
    FUZZ_CHECK(bare || fewer || !planned);
    FUZZ_CHECK(clattn_attention_workspace(fuzz_context, p, &bytes) == status &&
               (!planned || bytes == plan.workspace_bytes));
    FUZZ_CHECK(clattn_attention_families(fuzz_context, p, families, 16, &count) == status);
    show(f, &h);
    if (planned && fit && !attention_may_run(p, &plan)) return true;
    return end(f, at,
               clattn_attention_enqueue(fuzz_context, at->queue, p, at->wait_count, at->wait_list, at->to),
               planned && fit && !at->wrong);
}

static bool layer_may_run(const clattn_layer_params *p, const clattn_plan *plan) {
    const clattn_attention_params a = {
        .q = {.type = p->x.type, .shape = {p->x.shape[0], p->heads, p->x.shape[1], p->wq.shape[0]}},
        .kv.k.shape = {0, 0, p->y.rank ? p->y.shape[1] : p->x.shape[1], 0},
        .kv.v.shape = {0, 0, 0, p->wv.shape[0]},
        .kv.k.type = p->wq.type,
        .out.type = p->bq.rank ? p->bq.type : p->wq.type,
        .weights = p->weights,
        .score = p->score,
        .rope = p->rope};
    return p->projection == CLATTN_PROJECTION_NATIVE && attention_may_run(&a, plan);
}

static bool run_layer(const clattn_layer_params *p, fields *f, fuzz_launch *at) {
    clattn_plan plan = {.workspace_bytes = 0};
    size_t bytes = 0;
    hidden h;
    hide_buffers(f, &h);
    const bool bare = fuzz_answered(clattn_layer_plan(fuzz_context, p, &plan));
    const bool fewer = hide_absent(f, &h);
    const clattn_status status = clattn_layer_plan(fuzz_context, p, &plan);
    const bool planned = fuzz_answered(status), fit = all_fit(f);
    FUZZ_CHECK(bare || fewer || !planned);
    FUZZ_CHECK(clattn_layer_workspace(fuzz_context, p, &bytes) == status);
    show(f, &h);
    if (planned && fit && !layer_may_run(p, &plan)) return true;
    return end(f, at, clattn_layer_enqueue(fuzz_context, at->queue, p, at->wait_count, at->wait_list, at->to),
               planned && fit && !at->wrong);
}

static bool run_linear(const clattn_linear_params *p, fields *f, fuzz_launch *at) {
    clattn_linear_choice choice = {.workspace_bytes = 0};
    size_t bytes = 0;
    hidden h;
    hide_buffers(f, &h);
    const bool bare = fuzz_answered(clattn_linear_plan(fuzz_context, p, &choice));
    const bool fewer = hide_absent(f, &h);
    const clattn_status status = clattn_linear_plan(fuzz_context, p, &choice);
    const bool planned = fuzz_answered(status), fit = all_fit(f);
    FUZZ_CHECK(bare || fewer || !planned);
    FUZZ_CHECK(clattn_linear_workspace(fuzz_context, p, &bytes) == status &&
               (!planned || bytes == choice.workspace_bytes));
    const int64_t of[] = {p->x.type, p->w.type, p->b.rank ? 1 + (int64_t)p->b.type : 0, choice.kernel_name[7],
                          p->x.shape[1] > 8};
    const clattn_tensor x = {.shape = {1, p->x.shape[0], p->x.shape[1]}};
    if (planned && fit &&
        (choice.projection != CLATTN_PROJECTION_NATIVE ||
         work_of(&x, p->x.shape[2], p->w.shape[0]) > MOST_WORK || !fuzz_kernel_may_run(of, sizeof of)))
        return true;
    return end(f, at,
               clattn_linear_enqueue(fuzz_context, at->queue, p, at->wait_count, at->wait_list, at->to),
               planned && fit && !at->wrong);
}

static void change_all(fields *f, fuzz_bytes *b) {
    f->arrays = fuzz_below(b, 4) ? 0 : fuzz_byte(b);
    for (int left = fuzz_below(b, 6); left > 0; left--) change(f, b);
}

/* Strides of 0 for the first tensors, but in the last axis. */
static void repeat(const fields *f, int count, const clattn_tensor *output) {
    for (int i = 0; i < count; i++)
        for (int axis = 0; f->tensors[i] != output && axis + 1 < f->tensors[i]->rank; axis++)
            f->tensors[i]->stride[axis] = 0;
}

static bool attention(fuzz_bytes *b) {
    const fuzz_sizes l = fuzz_letters(b);
    const clattn_type q = fuzz_float_type(b), kv = fuzz_below(b, 8) ? q : CLATTN_TYPE_I8;
    const unsigned with = fuzz_byte(b) & fuzz_byte(b);
    clattn_attention_params p = {.kernel = (clattn_kernel)(fuzz_below(b, 8) % CLATTN_KERNEL_COUNT)};
    fields f = {.required = 4, .written = 15 << 3, .workspace = &p.workspace};
    fuzz_launch at;
    fuzz_launch_choose(&at, b);
    add_view(&f, &p.q, q, 4, (int64_t[]){l.batch, l.heads, l.n_q, l.d});
    add_view(&f, &p.kv.k, kv, 4, (int64_t[]){l.batch, l.kv_heads, l.n_kv, l.d});
    add_view(&f, &p.kv.v, kv, 4, (int64_t[]){l.batch, l.kv_heads, l.n_kv, l.dv});
    add_view(&f, &p.out, q, 4, (int64_t[]){l.batch, l.heads, l.n_q, l.dv});
    const int64_t full[4] = {l.batch, l.heads, l.n_q, l.n_kv}, keys[3] = {l.batch, l.kv_heads, l.n_kv};
    if (l.repeats) repeat(&f, f.tensor_count, &p.out);
    const clattn_type types[] = {CLATTN_TYPE_F32, CLATTN_TYPE_F32, CLATTN_TYPE_F32, CLATTN_TYPE_BOOL, q};
    clattn_tensor *const optional[] = {&p.lse, &p.weights, &p.scores, &p.score.mask, &p.score.bias};
    for (int i = 0; i < 5; i++) {
        add_view(&f, optional[i], types[i], i == 0 ? 3 : 4, full);
        if (!(with >> i & 1)) *optional[i] = (clattn_tensor){0};
    }
    add_view(&f, &p.kv.k_scale, CLATTN_TYPE_F32, 3, keys),
        add_view(&f, &p.kv.v_scale, CLATTN_TYPE_F32, 3, keys);
    if (kv != CLATTN_TYPE_I8) p.kv.k_scale = p.kv.v_scale = (clattn_tensor){0};
    p.score.causal = with >> 5 & 1;
    p.score.window = with >> 6 & 1, p.score.window_left = 2;
    if (with >> 7 & 1) p.rope = (clattn_rope){.layout = CLATTN_ROPE_HALF};
    add_int(&f, &p.kernel), add_int(&f, &p.splits), add_int(&f, &p.scores_at);
    add_score(&f, &p.score, &p.rope);
    change_all(&f, b);
    add_arrays(&f, b, p.q.shape[0], p.q.shape[1]);
    const bool done = run_attention(&p, &f, &at);
    free_arrays(&f);
    return done;
}

static bool layer(fuzz_bytes *b) {
    const fuzz_sizes l = fuzz_letters(b);
    const int64_t width = l.repeats ? l.dv : 16;
    /* A product that 64 bits do not hold is no size at all. */
    int64_t q_width = -1, kv_width = -1;
    (void)(__builtin_mul_overflow(l.heads, l.d, &q_width) ||
           __builtin_mul_overflow(l.kv_heads, l.d, &kv_width));
    const clattn_type type = fuzz_float_type(b);
    const unsigned with = fuzz_byte(b) & fuzz_byte(b);
    clattn_layer_params p = {.heads = (int32_t)(uint64_t)l.heads,
                             .kv_heads = (int32_t)(uint64_t)l.kv_heads,
                             .projection = CLATTN_PROJECTION_NATIVE};
    fields f = {.required = 6, .written = 1 << 1 | 3 << 7, .workspace = &p.workspace};
    fuzz_launch at;
    fuzz_launch_choose(&at, b);
    add_view(&f, &p.x, type, 3, (int64_t[]){l.batch, l.n_q, width});
    add_view(&f, &p.out, type, 3, (int64_t[]){l.batch, l.n_q, width});
    add_view(&f, &p.wq, type, 2, (int64_t[]){q_width, width});
    add_view(&f, &p.wk, type, 2, (int64_t[]){kv_width, width});
    add_view(&f, &p.wv, type, 2, (int64_t[]){kv_width, width});
    add_view(&f, &p.wo, type, 2, (int64_t[]){width, q_width});
    if (l.repeats) repeat(&f, f.tensor_count, &p.out);
    const int64_t keys = with & 1 ? l.n_kv : l.n_q, full[4] = {l.batch, l.heads, l.n_q, keys},
                  sizes[4] = {q_width, kv_width, kv_width, width};
    clattn_tensor *const optional[] = {&p.lse, &p.weights, &p.score.bias, &p.bq, &p.bk, &p.bv, &p.bo};
    add_view(&f, &p.y, type, 3, (int64_t[]){l.batch, l.n_kv, width});
    if (!(with & 1)) p.y = (clattn_tensor){0};
    for (int i = 0; i < 7; i++) {
        static const int ranks[] = {3, 4, 4, 1, 1, 1, 1};
        add_view(&f, optional[i], i < 2 ? CLATTN_TYPE_F32 : type, ranks[i], i < 3 ? full : sizes + (i - 3));
        if (!(with >> (1 + i) & 1)) *optional[i] = (clattn_tensor){0};
    }
    add_int(&f, &p.kernel), add_int(&f, &p.splits), add_int(&f, &p.heads), add_int(&f, &p.kv_heads),
        add_int(&f, &p.projection);
    add_score(&f, &p.score, &p.rope);
    change_all(&f, b);
    add_arrays(&f, b, p.x.shape[0], p.heads);
    const bool done = run_layer(&p, &f, &at);
    free_arrays(&f);
    return done;
}

static bool linear(fuzz_bytes *b) {
    const fuzz_sizes l = fuzz_letters(b);
    const int64_t n = l.n_q, k = l.n_kv, m = l.d;
    const clattn_type x = fuzz_float_type(b), w = fuzz_below(b, 3) ? x : fuzz_float_type(b);
    clattn_linear_params p = {.projection = CLATTN_PROJECTION_NATIVE};
    fields f = {.required = 3, .written = 1 << 1, .workspace = &p.workspace};
    fuzz_launch at;
    fuzz_launch_choose(&at, b);
    add_view(&f, &p.x, x, 3, (int64_t[]){l.batch, n, k});
    add_view(&f, &p.out, x, 3, (int64_t[]){l.batch, n, m});
    add_view(&f, &p.w, w, 2, (int64_t[]){m, k});
    add_view(&f, &p.b, w, 1, &m);
    if (fuzz_byte(b) & 1) p.b = (clattn_tensor){0};
    if (l.repeats) repeat(&f, f.tensor_count, &p.out);
    add_int(&f, &p.projection);
    change_all(&f, b);
    return run_linear(&p, &f, &at);
}

static bool merge(fuzz_bytes *b) {
    const fuzz_sizes l = fuzz_letters(b);
    const int64_t shape[4] = {l.batch, l.heads, l.n_q, l.dv};
    const clattn_type type = fuzz_float_type(b);
    clattn_merge_params p;
    fields f = {.required = 4, .written = 3, .workspace = NULL};
    fuzz_launch at;
    fuzz_launch_choose(&at, b);
    add_view(&f, &p.out_a, type, 4, shape), add_view(&f, &p.lse_a, CLATTN_TYPE_F32, 3, shape);
    add_view(&f, &p.out_b, type, 4, shape), add_view(&f, &p.lse_b, CLATTN_TYPE_F32, 3, shape);
    change_all(&f, b);
    return end(&f, &at, clattn_merge_enqueue(fuzz_context, at.queue, &p, at.wait_count, at.wait_list, at.to),
               all_fit(&f) && !at.wrong);
}

bool fuzz_one(const uint8_t *data, size_t size) {
    static bool (*const entries[])(fuzz_bytes *) = {attention, attention, attention, layer,
                                                    layer,     linear,    linear,    merge};
    fuzz_bytes b = {data, size};
    if (!fuzz_context) fuzz_device_open();
    return entries[fuzz_below(&b, 8)](&b);
}
