// test_promises_layer.c: no plan may succeed for a call that then fails: random layers and
// projections, see promise.h. A layer passes attention's options on: a few of them are enough here,
// and test_promises.c has all.
#include "support/promise.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LAYERS = 250, LINEARS = 200 };
// one in this many good calls runs; the argument "all" doubles the number
static int run_one_of = 12;

struct layer_trial {
    clattn_layer_params whole, bare;
    int32_t q_lengths[2], kv_lengths[2];
    float heads[8];
};

#define LAYER_SPOILS(X)                                                                                      \
    X(kv, INVALID_ARGUMENT, "kv: ", p->kv.v = p->x)                                                          \
    X(heads, INVALID_ARGUMENT, "heads: ", p->heads = -1)                                                     \
    X(wq, INVALID_ARGUMENT, "wq: ", p->wq.shape[1]++)                                                        \
    X(out, INVALID_ARGUMENT, "out: ", p->out.shape[2]++)                                                     \
    X(projection, INVALID_ARGUMENT, "projection: ", p->projection = CLATTN_PROJECTION_COUNT)                 \
    X(scale, INVALID_ARGUMENT, "scale: ", p->score.scale = NAN)                                              \
    X(q_norm, INVALID_ARGUMENT, "q_norm: ", (p->norm = CLATTN_NORM_HEADS, p->q_norm = p->wq))                \
    X(norm_epsilon, INVALID_ARGUMENT, "norm_epsilon: ", p->norm_epsilon = -1)                                \
    X(w_gate, INVALID_ARGUMENT, "w_gate: ", (p->w_gate = p->wq, p->w_gate.shape[1]++))                       \
    X(page_size, INVALID_ARGUMENT, "page_size: ", p->kv.page_size = 16)
#define LAYER_SPOIL(name, status, word, wrong)                                                               \
    static void spoil_##name(clattn_layer_params *p) {                                                       \
        (void)(wrong);                                                                                       \
    }
LAYER_SPOILS(LAYER_SPOIL)
static const struct {
    const char *name;
    clattn_status status;
    const char *word;
    void (*spoil)(clattn_layer_params *p);
} spoils[] = {
#define SPOIL_ROW(name, status, word, wrong) {#name, CLATTN_##status, word, spoil_##name},
    LAYER_SPOILS(SPOIL_ROW)};
#define SPOIL_COUNT ((int)(sizeof spoils / sizeof spoils[0]))

static clattn_projection pick_projection(struct random *r) {
    const clattn_projection p = (clattn_projection)PROMISE_PICK(r, 0, 1, 2, 2);
    return p == CLATTN_PROJECTION_CLBLAST && !harness_has_clblast() ? CLATTN_PROJECTION_NATIVE : p;
}

static void make_layer_tensors(struct random *r, clattn_layer_params *p) {
    const int64_t b = PROMISE_PICK(r, 1, 2, 2, 0), nq = PROMISE_PICK(r, 1, 3, 17, 40, 0),
                  nkv = PROMISE_PICK(r, 1, 5, 40, 0), m = PROMISE_PICK(r, 32, 1, 7),
                  my = PROMISE_PICK(r, 32, 3), mo = PROMISE_PICK(r, 32, 5), d = PROMISE_PICK(r, 16, 16, 1, 6),
                  dv = PROMISE_PICK(r, d, d, 3), hkv = PROMISE_PICK(r, 1, 2), h = hkv * PROMISE_PICK(r, 1, 3);
    const clattn_type type = (clattn_type)PROMISE_PICK(r, 0, 0, 1, 2), w = (clattn_type)PROMISE_PICK(r, 0, 2);
    const bool cross = promise_chance(r, 3), biases = promise_chance(r, 2);
    const int64_t of = cross ? my : m, full[] = {b, h, nq, cross ? nkv : nq};
    p->heads = (int32_t)h, p->kv_heads = (int32_t)hkv;
    p->x = promise_input(type, 3, (const int64_t[]){b, nq, m});
    if (cross) p->y = promise_input(type, 3, (const int64_t[]){b, nkv, my});
    p->out = promise_output(0, type, 3, (const int64_t[]){b, nq, mo});
    p->wq = promise_input(w, 2, (const int64_t[]){h * d, m});
    p->wk = promise_input(w, 2, (const int64_t[]){hkv * d, of});
    p->wv = promise_input(w, 2, (const int64_t[]){hkv * dv, of});
    p->wo = promise_input(w, 2, (const int64_t[]){mo, h * dv});
    const int64_t gates[] = {h, m}, all_gates[] = {h * dv, m};
    if (promise_chance(r, 4)) p->w_gate = promise_input(w, 2, promise_chance(r, 2) ? gates : all_gates);
    if (p->w_gate.rank && biases) p->b_gate = promise_input(CLATTN_TYPE_F32, 1, p->w_gate.shape);
    p->norm = (clattn_norm)PROMISE_PICK(r, 0, 0, 0, 0, 1, 2);
    if (p->norm == CLATTN_NORM_HEADS && biases) p->q_norm = promise_input(CLATTN_TYPE_F32, 1, &d);
    if (p->norm == CLATTN_NORM_WIDTH && biases) p->q_norm = promise_input(CLATTN_TYPE_F32, 1, p->wq.shape);
    if (p->q_norm.rank) p->norm_plus_one = promise_chance(r, 2), p->norm_epsilon = 1e-5f;
    if (biases) p->bq = promise_input(CLATTN_TYPE_F32, 1, p->wq.shape);
    if (biases) p->bo = promise_input(CLATTN_TYPE_F32, 1, p->wo.shape);
    if (promise_chance(r, 5)) p->lse = promise_output(1, CLATTN_TYPE_F32, 3, full);
    if (promise_chance(r, 8)) p->weights = promise_output(2, CLATTN_TYPE_F32, 4, full);
    if (promise_chance(r, 8)) p->scores = promise_output(3, CLATTN_TYPE_F32, 4, full);
}

static void make_layer(struct random *r, struct layer_trial *t) {
    *t = (struct layer_trial){.heads = {1, -1, 0.5f, 0, 1, 2, 3, 4}};
    clattn_layer_params *p = &t->whole;
    make_layer_tensors(r, p);
    const int64_t nkv = p->y.rank ? p->y.shape[1] : p->x.shape[1];
    for (int i = 0; i < 2; i++) {
        t->q_lengths[i] = (int32_t)random_uniform(r, 0, (double)p->x.shape[1] + 1);
        t->kv_lengths[i] = (int32_t)random_uniform(r, 0, (double)nkv + 1);
    }
    if (promise_chance(r, 4)) p->score.q_lengths = t->q_lengths;
    if (promise_chance(r, 4)) p->score.kv_lengths = t->kv_lengths;
    if (promise_chance(r, 4)) p->score.head_scales = t->heads;
    if (p->wq.shape[0] / p->heads % 2 == 0 && promise_chance(r, 2))
        p->rope.layout = (clattn_rope_layout)PROMISE_PICK(r, 1, 2);
    p->score.alignment = (clattn_alignment)PROMISE_PICK(r, 0, 1);
    p->score.causal = promise_chance(r, 2);
    p->kernel = (clattn_kernel)PROMISE_PICK(r, 0, 0, 1, 2, 3);
    if (promise_chance(r, 5)) p->splits = (int32_t)PROMISE_PICK(r, 1, 2, 7);
    p->projection = pick_projection(r);
}

static void take_layer_buffers(struct layer_trial *t) {
    clattn_layer_params *p = &t->bare;
    *p = t->whole;
    clattn_tensor *const all[] = {&p->x,      &p->y,      &p->out,    &p->wq,    &p->wk,  &p->wv,
                                  &p->wo,     &p->w_gate, &p->bq,     &p->bo,    &p->lse, &p->weights,
                                  &p->scores, &p->kv.v,   &p->q_norm, &p->b_gate};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) all[i]->buffer = NULL;
}

static clattn_status layer_plan(const void *p, size_t *bytes) {
    clattn_plan plan = {0};
    const clattn_status status = clattn_layer_plan(harness()->context, p, &plan);
    *bytes = plan.workspace_bytes;
    return status;
}
static clattn_status layer_workspace(const void *p, size_t *bytes) {
    return clattn_layer_workspace(harness()->context, p, bytes);
}
static clattn_status layer_prepare(const void *p) {
    return clattn_layer_prepare(harness()->context, p);
}
static clattn_status layer_enqueue(const void *p, cl_event *event) {
    return clattn_layer_enqueue(harness()->context, harness()->queue, p, 0, NULL, event);
}
static const struct promise_kind layers = {layer_plan, layer_workspace, layer_prepare, layer_enqueue};

START_TEST(layer_calls) {
    struct random r = {.state = 77};
    int good = 0;
    promise_open();
    for (int i = 0; i < LAYERS; i++) {
        struct layer_trial t;
        const int spoil = promise_chance(&r, 3) ? (int)random_uniform(&r, 0, SPOIL_COUNT) : -1;
        make_layer(&r, &t);
        if (spoil >= 0) spoils[spoil].spoil(&t.whole);
        take_layer_buffers(&t);
        struct promise promise = {.bare = &t.bare,
                                  .whole = &t.whole,
                                  .workspace = &t.whole.workspace,
                                  .does_nothing = t.whole.x.shape[0] * t.whole.x.shape[1] == 0,
                                  .spoilt = spoil >= 0 ? spoils[spoil].status : CLATTN_OK,
                                  .word = spoil >= 0 ? spoils[spoil].word : ""};
        snprintf(promise.name, sizeof promise.name, "layer %d, %s", i,
                 spoil >= 0 ? spoils[spoil].name : "as it is");
        good += promise_kept(&layers, &promise, !promise.does_nothing && good % run_one_of == 0);
    }
    promise_close();
    ck_assert_msg(good > LAYERS / 4 && good < LAYERS, "%d were good", good);
}
END_TEST

// Keys of a row that repeats by a stride of 0: the layer's own k would need 2^40 bytes and more.
START_TEST(layer_of_more_than_a_buffer) {
    const int64_t row[] = {1, 1, 32}, w[] = {512, 32}, wo[] = {32, 512};
    struct layer_trial t = {.whole = {.heads = 1, .projection = CLATTN_PROJECTION_NATIVE}};
    const struct promise promise = {.name = "too large",
                                    .bare = &t.bare,
                                    .whole = &t.whole,
                                    .spoilt = CLATTN_OUT_OF_MEMORY,
                                    .word = "workspace: "};
    promise_open();
    t.whole.x = t.whole.y = promise_input(CLATTN_TYPE_F32, 3, row);
    t.whole.y.shape[1] = 1 << 30, t.whole.y.stride[1] = 0;
    t.whole.out = promise_output(0, CLATTN_TYPE_F32, 3, row);
    t.whole.wq = t.whole.wk = t.whole.wv = promise_input(CLATTN_TYPE_F32, 2, w);
    t.whole.wo = promise_input(CLATTN_TYPE_F32, 2, wo);
    take_layer_buffers(&t);
    ck_assert(!promise_kept(&layers, &promise, false));
    promise_close();
}
END_TEST

static clattn_status linear_plan(const void *p, size_t *bytes) {
    clattn_linear_choice choice = {0};
    const clattn_status status = clattn_linear_plan(harness()->context, p, &choice);
    *bytes = choice.workspace_bytes;
    return status;
}
static clattn_status linear_workspace(const void *p, size_t *bytes) {
    return clattn_linear_workspace(harness()->context, p, bytes);
}
static clattn_status linear_prepare(const void *p) {
    return clattn_linear_prepare(harness()->context, p);
}
static clattn_status linear_enqueue(const void *p, cl_event *event) {
    return clattn_linear_enqueue(harness()->context, harness()->queue, p, 0, NULL, event);
}
static const struct promise_kind linears = {linear_plan, linear_workspace, linear_prepare, linear_enqueue};

// A width of 0 is refused, a size of 0 is not.
static clattn_linear_params make_linear(struct random *r, struct promise *promise) {
    const int64_t b = PROMISE_PICK(r, 1, 2, 0), n = PROMISE_PICK(r, 1, 7, 60, 0),
                  k = PROMISE_PICK(r, 1, 31, 64, 64, 0), m = PROMISE_PICK(r, 1, 31, 64, 64, 0);
    const clattn_type type = (clattn_type)PROMISE_PICK(r, 0, 1, 2), w = (clattn_type)PROMISE_PICK(r, 0, 1, 2);
    clattn_linear_params p = {.x = promise_input(type, 3, (const int64_t[]){b, n, k}),
                              .out = promise_output(0, type, 3, (const int64_t[]){b, n, m}),
                              .w = promise_input(w, 2, (const int64_t[]){m, k}),
                              .projection = pick_projection(r)};
    if (promise_chance(r, 2)) p.b = promise_input(CLATTN_TYPE_F32, 1, &m);
    promise->does_nothing = b * n == 0;
    promise->spoilt = k * m == 0 ? CLATTN_INVALID_ARGUMENT : CLATTN_OK;
    promise->word = "its last size is 0";
    return p;
}

START_TEST(linear_calls) {
    struct random r = {.state = 5};
    int good = 0;
    promise_open();
    for (int i = 0; i < LINEARS; i++) {
        struct promise promise = {0};
        clattn_linear_params whole = make_linear(&r, &promise), bare = whole;
        bare.x.buffer = bare.out.buffer = bare.w.buffer = bare.b.buffer = NULL;
        promise.bare = &bare, promise.whole = &whole, promise.workspace = &whole.workspace;
        snprintf(promise.name, sizeof promise.name, "linear %d", i);
        good += promise_kept(&linears, &promise, !promise.does_nothing && good % run_one_of == 0);
    }
    promise_close();
    ck_assert_msg(good > LINEARS / 3 && good < LINEARS, "%d were good", good);
}
END_TEST

int main(int argc, char **argv) {
    run_one_of = argc > 1 && strcmp(argv[1], "all") == 0 ? run_one_of / 2 : run_one_of * harness_every();
    const TTest *const tests[] = {layer_calls, layer_of_more_than_a_buffer, linear_calls, NULL};
    Suite *suite = suite_create("promises of layers");
    harness_add(suite, "plan and enqueue", tests);
    return harness_run(suite);
}
