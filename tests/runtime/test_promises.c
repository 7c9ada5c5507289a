// test_promises.c: no plan may succeed for a call that then fails. Random attention calls and their
// gradients, with sizes of zero and one, options, kernels and splits. Plan and workspace without
// buffers must agree with prepare and enqueue, and a refusal names the option each time. Elsewhere:
// results (tests/cases) and layers (test_promises_layer.c).
#include "support/promise.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TRIALS = 800 };
// one in this many good calls runs; the argument "all" doubles the number
static int run_one_of = 16;

struct trial {
    clattn_attention_params whole, bare;
    int32_t q_lengths[2], kv_lengths[2], offsets[2];
    float heads[8];
};

static void spoil_nothing(clattn_attention_params *p) {
    (void)p;
}
#define SPOILS(X)                                                                                            \
    X(scale, INVALID_ARGUMENT, "scale: ", p->score.scale = NAN)                                              \
    X(softcap, INVALID_ARGUMENT, "softcap: ", p->score.softcap = -1)                                         \
    X(window, INVALID_ARGUMENT, "window: ", (p->score.window = true, p->score.window_left = -2))             \
    X(alignment, INVALID_ARGUMENT, "alignment: ", p->score.alignment = CLATTN_ALIGN_COUNT)                   \
    X(kernel, INVALID_ARGUMENT, "kernel: ", p->kernel = CLATTN_KERNEL_COUNT)                                 \
    X(splits, INVALID_ARGUMENT, "splits: ", p->splits = -1)                                                  \
    X(scores_at, INVALID_ARGUMENT, "scores_at: ", p->scores_at = CLATTN_TAP_COUNT)                           \
    X(q, INVALID_ARGUMENT, "q: ", p->q.type = CLATTN_TYPE_BOOL)                                              \
    X(v, INVALID_ARGUMENT, "v: ", p->kv.v.shape[2]++)                                                        \
    X(out, INVALID_ARGUMENT, "out: ", p->out.rank = 3)                                                       \
    X(lse, INVALID_ARGUMENT, "lse: ", (p->lse = p->out, p->lse.rank = 2))                                    \
    X(layout, INVALID_ARGUMENT, "rope.layout: ", p->rope.layout = CLATTN_ROPE_COUNT)                         \
    X(score_mod, INVALID_ARGUMENT, "score_mod: ", p->score.score_mod = "score;")                             \
    X(mask_mod, INVALID_ARGUMENT, "mask_mod: ", p->score.mask_mod = "/* j <= i")                             \
    X(mod_buffer, INVALID_ARGUMENT, "mod_buffers[2]: ", p->score.mod_buffers[2] = p->q)                      \
    X(dropout, INVALID_ARGUMENT, "dropout: ", p->score.dropout = 1.0f)                                       \
    X(page_size, INVALID_ARGUMENT, "page_size: ", p->kv.page_size = 16)                                      \
    X(k_new, INVALID_ARGUMENT, "v_new: ", p->kv.k_new = p->kv.k)
#define SPOIL_FUNCTION(name, status, word, wrong)                                                            \
    static void spoil_##name(clattn_attention_params *p) {                                                   \
        (void)(wrong);                                                                                       \
    }
SPOILS(SPOIL_FUNCTION)
static const struct {
    const char *name;
    clattn_status status;
    const char *word;
    void (*spoil)(clattn_attention_params *p);
} spoils[] = {{"as it is", CLATTN_OK, "", spoil_nothing},
#define SPOIL_ROW(name, status, word, wrong) {#name, CLATTN_##status, word, spoil_##name},
              SPOILS(SPOIL_ROW)};
#define SPOIL_COUNT ((int)(sizeof spoils / sizeof spoils[0]))

static clattn_type pick_type(struct random *r) {
    return (clattn_type)PROMISE_PICK(r, CLATTN_TYPE_F32, CLATTN_TYPE_F16, CLATTN_TYPE_BF16);
}

static void make_tensors(struct random *r, clattn_attention_params *p) {
    const int64_t b = PROMISE_PICK(r, 1, 2, 2, 0), hkv = PROMISE_PICK(r, 1, 2, 2, 0),
                  h = hkv * PROMISE_PICK(r, 1, 1, 2, 3, 0), nq = PROMISE_PICK(r, 1, 3, 16, 17, 17, 0),
                  nkv = PROMISE_PICK(r, 1, 5, 300, 300, 0), d = PROMISE_PICK(r, 16, 16, 16, 1, 600),
                  dv = PROMISE_PICK(r, d, d, d, 1);
    const clattn_type kv = pick_type(r);
    p->q = promise_input(pick_type(r), 4, (const int64_t[]){b, h, nq, d});
    p->kv.k = promise_input(kv, 4, (const int64_t[]){b, hkv, nkv, d});
    p->kv.v = promise_input(kv, 4, (const int64_t[]){b, hkv, nkv, dv});
    p->out = promise_output(0, pick_type(r), 4, (const int64_t[]){b, h, nq, dv});
    const int64_t full[] = {b, h, nq, nkv}, of_row[] = {1, h, 1, nkv};
    if (promise_chance(r, 2)) p->lse = promise_output(1, CLATTN_TYPE_F32, 3, full);
    if (promise_chance(r, 8)) p->weights = promise_output(2, pick_type(r), 4, full);
    if (promise_chance(r, 8)) p->scores = promise_output(3, CLATTN_TYPE_F32, 4, full);
    if (promise_chance(r, 5)) p->score.mask = promise_input(CLATTN_TYPE_BOOL, 2, full + 2);
    if (promise_chance(r, 5)) p->score.bias = promise_input(pick_type(r), 4, of_row);
}

static void make_arrays(struct random *r, struct trial *t) {
    clattn_score *s = &t->whole.score;
    for (int i = 0; i < 2; i++) {
        t->q_lengths[i] = (int32_t)random_uniform(r, 0, (double)t->whole.q.shape[2] + 1);
        t->kv_lengths[i] = (int32_t)random_uniform(r, 0, (double)t->whole.kv.k.shape[2] + 1);
        t->offsets[i] = (int32_t)random_uniform(r, -9, 9);
    }
    for (int i = 0; i < 8; i++) t->heads[i] = (float)random_uniform(r, -1, 1);
    s->alignment = (clattn_alignment)PROMISE_PICK(r, 0, 1, 2);
    if (s->alignment == CLATTN_ALIGN_OFFSET && promise_chance(r, 2)) s->offsets = t->offsets;
    if (promise_chance(r, 5)) s->q_lengths = t->q_lengths;
    if (promise_chance(r, 5)) s->kv_lengths = t->kv_lengths;
    if (promise_chance(r, 5)) s->alibi_slopes = t->heads;
    if (promise_chance(r, 5)) s->sinks = t->heads;
    if (promise_chance(r, 5))
        s->head_scales = t->heads;
    else if (promise_chance(r, 3))
        s->scale = 0.3f;
}

static void make_trial(struct random *r, struct trial *t) {
    *t = (struct trial){0};
    clattn_attention_params *p = &t->whole;
    make_tensors(r, p);
    make_arrays(r, t);
    p->scores_at = (clattn_tap)PROMISE_PICK(r, 0, 1, 2, 3);
    p->score.causal = promise_chance(r, 2);
    if (promise_chance(r, 5)) p->score.softcap = 3;
    p->score.window = promise_chance(r, 5);
    p->score.window_left = (int32_t)PROMISE_PICK(r, -1, 0, 3, INT32_MAX);
    p->score.window_right = (int32_t)PROMISE_PICK(r, -1, 0, 3, INT32_MAX);
    if (p->q.shape[3] % 2 == 0 && promise_chance(r, 4))
        p->rope = (clattn_rope){.layout = (clattn_rope_layout)PROMISE_PICK(r, 1, 2), .position = 5};
    p->kernel = (clattn_kernel)PROMISE_PICK(r, 0, 0, 1, 2, 3);
    if (promise_chance(r, 5)) p->splits = (int32_t)PROMISE_PICK(r, 1, 2, 7, 301);
}

static void take_buffers(struct trial *t) {
    clattn_attention_params *p = &t->bare;
    *p = t->whole;
    clattn_tensor *const all[] = {&p->q,       &p->kv.k,   &p->kv.v,       &p->out,        &p->lse,
                                  &p->weights, &p->scores, &p->score.mask, &p->score.bias, &p->kv.k_new};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) all[i]->buffer = NULL;
}

static clattn_status plan_of(const void *p, size_t *bytes) {
    clattn_plan plan = {0};
    const clattn_status status = clattn_attention_plan(harness()->context, p, &plan);
    *bytes = plan.workspace_bytes;
    return status;
}
static clattn_status workspace_of(const void *p, size_t *bytes) {
    return clattn_attention_workspace(harness()->context, p, bytes);
}
static clattn_status prepare_of(const void *p) {
    return clattn_attention_prepare(harness()->context, p);
}
static clattn_status enqueue_of(const void *p, cl_event *event) {
    return clattn_attention_enqueue(harness()->context, harness()->queue, p, 0, NULL, event);
}
static const struct promise_kind attention = {plan_of, workspace_of, prepare_of, enqueue_of};

// Exactly one family is chosen, and the plan names the same family.
static void check_families(const struct trial *t, const char *name) {
    clattn_family families[32];
    clattn_plan plan;
    size_t count = 0, taken = 0;
    ck_assert_int_eq(clattn_attention_plan(harness()->context, &t->bare, &plan), CLATTN_OK);
    ck_assert_int_eq(clattn_attention_families(harness()->context, &t->bare, families, 32, &count),
                     CLATTN_OK);
    ck_assert_msg(count >= CLATTN_KERNEL_COUNT - 1 && count <= 32, "%s: %zu families", name, count);
    for (size_t i = 0; i < count; i++) {
        const clattn_family *f = &families[i];
        ck_assert_msg(f->name[0] && f->why[0] && f->kernel != CLATTN_KERNEL_AUTO, "%s: family %zu", name, i);
        if (!f->taken) continue;
        taken++;
        ck_assert_msg(f->kernel == plan.kernel && strcmp(f->why, plan.why) == 0, "%s: %s: %s, the plan: %s",
                      name, f->name, f->why, plan.why);
        if (f->kernel != CLATTN_KERNEL_DECODE)
            ck_assert_msg(strncmp(f->name, plan.kernel_name, strlen(plan.kernel_name)) == 0, "%s: %s of %s",
                          name, f->name, plan.kernel_name);
    }
    ck_assert_msg(taken == 1, "%s: %zu families are taken", name, taken);
}

START_TEST(attention_calls) {
    struct random r = {.state = 2026};
    int good = 0, run = 0;
    promise_open();
    for (int i = 0; i < TRIALS; i++) {
        struct trial t;
        const int spoil = promise_chance(&r, 2) ? (int)random_uniform(&r, 0, SPOIL_COUNT) : 0;
        make_trial(&r, &t);
        spoils[spoil].spoil(&t.whole);
        take_buffers(&t);
        const int64_t *q = t.whole.q.shape;
        struct promise promise = {.bare = &t.bare,
                                  .whole = &t.whole,
                                  .workspace = &t.whole.workspace,
                                  .does_nothing = q[0] * q[1] * q[2] == 0,
                                  .spoilt = spoils[spoil].status,
                                  .word = spoils[spoil].word};
        snprintf(promise.name, sizeof promise.name, "attention %d, %s", i, spoils[spoil].name);
        const bool runs = !promise.does_nothing && good % run_one_of == 0;
        if (!promise_kept(&attention, &promise, runs)) continue;
        check_families(&t, promise.name);
        good++, run += runs;
    }
    promise_close();
    ck_assert_msg(good > TRIALS / 5 && good < TRIALS && run > TRIALS / (100 * harness_every()),
                  "%d were good, %d ran", good, run);
}
END_TEST

// The gradients of a trial's call: out and lse are inputs, and any of the results are requested.
struct gradient_trial {
    struct trial t;
    clattn_attention_backward_params whole, bare;
};

// Add, in some calls, an option that has no gradient, unless another refusal is expected.
static void make_gradients(struct random *r, struct gradient_trial *g, bool spoilt) {
    clattn_attention_params *p = &g->t.whole;
    clattn_attention_backward_params *b = &g->whole;
    make_trial(r, &g->t);
    *b = (clattn_attention_backward_params){.dlse = {.rank = 0}};
    if (!promise_chance(r, 8) || spoilt)
        p->weights = p->scores = (clattn_tensor){0}, p->kernel = CLATTN_KERNEL_AUTO, p->splits = 0;
    p->out = promise_input(p->out.type, 4, p->out.shape);
    p->lse = promise_input(CLATTN_TYPE_F32, 3, p->q.shape);
    b->dout = promise_input(pick_type(r), 4, p->out.shape);
    if (promise_chance(r, 3)) b->dlse = promise_input(CLATTN_TYPE_F32, 3, p->q.shape);
    const clattn_type of_keys = pick_type(r);
    if (promise_chance(r, 2)) b->dk = promise_output(1, of_keys, 4, p->kv.k.shape);
    if (promise_chance(r, 2)) b->dv = promise_output(2, of_keys, 4, p->kv.v.shape);
    if (p->score.bias.rank && promise_chance(r, 2))
        b->dbias = promise_output(3, CLATTN_TYPE_F32, 4, p->score.bias.shape);
    if (promise_chance(r, 2) || !(b->dk.rank || b->dv.rank || b->dbias.rank))
        b->dq = promise_output(0, pick_type(r), 4, p->q.shape);
}

static void take_gradient_buffers(struct gradient_trial *g) {
    clattn_attention_backward_params *b = &g->bare;
    take_buffers(&g->t);
    *b = g->whole;
    b->forward = g->t.bare, g->whole.forward = g->t.whole;
    clattn_tensor *const all[] = {&b->dout, &b->dlse, &b->dq, &b->dk, &b->dv, &b->dbias};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) all[i]->buffer = NULL;
}

static clattn_status plan_gradients(const void *p, size_t *bytes) {
    clattn_plan plan = {0};
    const clattn_status status = clattn_attention_backward_plan(harness()->context, p, &plan);
    *bytes = plan.workspace_bytes;
    return status;
}
static clattn_status workspace_of_gradients(const void *p, size_t *bytes) {
    return clattn_attention_backward_workspace(harness()->context, p, bytes);
}
static clattn_status prepare_gradients(const void *p) {
    return clattn_attention_backward_prepare(harness()->context, p);
}
static clattn_status enqueue_gradients(const void *p, cl_event *event) {
    return clattn_attention_backward_enqueue(harness()->context, harness()->queue, p, 0, NULL, event);
}
static const struct promise_kind gradients = {plan_gradients, workspace_of_gradients, prepare_gradients,
                                              enqueue_gradients};

START_TEST(gradient_calls) {
    struct random r = {.state = 2027};
    int good = 0, run = 0;
    promise_open();
    for (int i = 0; i < TRIALS; i++) {
        struct gradient_trial g;
        int spoil = promise_chance(&r, 2) ? (int)random_uniform(&r, 0, SPOIL_COUNT) : 0;
        // always refused
        if (strstr("k_new splits kernel", spoils[spoil].name)) spoil = 0;
        make_gradients(&r, &g, spoil != 0);
        spoils[spoil].spoil(&g.t.whole);
        take_gradient_buffers(&g);
        const int64_t *q = g.t.whole.q.shape;
        struct promise promise = {.bare = &g.bare,
                                  .whole = &g.whole,
                                  .workspace = &g.whole.workspace,
                                  .does_nothing = q[0] * q[1] == 0,
                                  .spoilt = spoils[spoil].status,
                                  .word = spoils[spoil].word};
        snprintf(promise.name, sizeof promise.name, "gradients %d, %s", i, spoils[spoil].name);
        const bool runs = !promise.does_nothing && good % run_one_of == 0;
        if (!promise_kept(&gradients, &promise, runs)) continue;
        good++, run += runs;
    }
    promise_close();
    ck_assert_msg(good > TRIALS / 8 && good < TRIALS && run > TRIALS / (200 * harness_every()),
                  "%d were good, %d ran", good, run);
}
END_TEST

static clattn_attention_params small_call(void) {
    clattn_attention_params p = {.q = clattn_tensor_bhsd(NULL, CLATTN_TYPE_F32, 1, 2, 40, 16)};
    p.kv.k = p.kv.v = p.out = p.q;
    return p;
}

// The call writes at most `capacity` families, and returns the number of all families.
START_TEST(families_in_little_room) {
    const clattn_attention_params p = small_call();
    clattn_family all[32], few[32];
    size_t count = 0, again = 0;
    clattn_context *c = harness()->context;
    ck_assert_int_eq(clattn_attention_families(c, &p, NULL, 0, &count), CLATTN_OK);
    ck_assert(count >= 3 && count < 32);
    ck_assert_int_eq(clattn_attention_families(c, &p, all, 32, &again), CLATTN_OK);
    ck_assert_uint_eq(count, again);
    for (size_t room = 0; room <= count; room++) {
        memset(few, 0x5a, sizeof few);
        ck_assert_int_eq(clattn_attention_families(c, &p, few, room, &again), CLATTN_OK);
        ck_assert_uint_eq(count, again);
        for (size_t i = 0; i < room; i++) ck_assert_str_eq(few[i].name, all[i].name);
        const unsigned char *past = (const unsigned char *)&few[room];
        for (size_t i = 0; i < sizeof few[0]; i++) ck_assert_int_eq(past[i], 0x5a);
    }
}
END_TEST

// NULL in place of a pointer is in test_null.c.
START_TEST(families_refused) {
    clattn_attention_params p = small_call();
    clattn_family families[2];
    size_t count = 0;
    p.splits = 2;
    harness_log_clear();
    harness_assert_refused("splits", clattn_attention_families(harness()->context, &p, families, 2, &count),
                           CLATTN_UNSUPPORTED, "splits");
}
END_TEST

// A RoPE'd copy of a key that repeats by a stride of 0 would have 256 GiB: no buffer is that large.
START_TEST(more_than_a_buffer) {
    enum { N = (1 << 24) - 8, D = 4096 };
    struct trial t = {.whole.rope = {.layout = CLATTN_ROPE_HALF}};
    const struct promise promise = {.name = "too large",
                                    .bare = &t.bare,
                                    .whole = &t.whole,
                                    .spoilt = CLATTN_OUT_OF_MEMORY,
                                    .word = "workspace: "};
    const int64_t row[] = {1, 1, 1, D};
    promise_open();
    t.whole.q = t.whole.kv.k = promise_input(CLATTN_TYPE_F32, 4, row);
    t.whole.out = promise_output(0, CLATTN_TYPE_F32, 4, row);
    t.whole.kv.k.shape[2] = N, t.whole.kv.k.stride[2] = 0;
    t.whole.kv.v = t.whole.kv.k;
    take_buffers(&t);
    ck_assert(!promise_kept(&attention, &promise, false));
    promise_close();
}
END_TEST

int main(int argc, char **argv) {
    run_one_of = argc > 1 && strcmp(argv[1], "all") == 0 ? run_one_of / 2 : run_one_of * harness_every();
    const TTest *const tests[] = {attention_calls, gradient_calls, more_than_a_buffer, NULL};
    const TTest *const of_families[] = {families_in_little_room, families_refused, NULL};
    Suite *suite = suite_create("promises");
    harness_add(suite, "plan and enqueue", tests);
    harness_add(suite, "families", of_families);
    return harness_run(suite);
}
