// test_linear_attention.c: clattn_linear_attention_enqueue compared with float64: rules, heads,
// storage types, layouts, states by slots and in place, packed sequences, drafts, and numbers at
// the ends of their ranges. The suite's own clGetDeviceInfo also makes the device one with
// work-groups. Elsewhere: refusals (test_errors_linear_attention.c), events and threads
// (small_calls.h), ONNX's own cases (tests/onnx).
#define _GNU_SOURCE
#include "support/case_assert.h"
#include "support/harness.h"
#include "attention/no_cpu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "verification/reference/reference.h"
#include "verification/reference/reference_recurrent.h"
#include "verification/reference/storage.h"

#define SLOTS_MOST 24

typedef struct linear_case {
    const char *name;
    clattn_linear_rule rule;
    int batch, tokens, q_heads, k_heads, v_heads, head_dim, head_dim_v;
    clattn_type type, out, gates, state;
    enum layout layout;
    bool columns, one_decay, one_beta; // decay a key column; one head of decay, of beta
    bool l2_norm, no_state, no_new_state, in_place;
    float scale;
    double decay_low, decay_high, beta_low, beta_high, k_size; // 0: the usual ranges
    // 0 slots: one for each sequence, without indices. `from` is used with slots, `to` with drafts
    // (columns of `to`) or to_given.
    int slots, from[SLOTS_MOST], drafts, to[SLOTS_MOST];
    bool to_given;
    int sequences, starts[8]; // packed
    bool clamped;             // the call gets `given` in place of `starts`
    int given[8];
    // The middle token has a decay of -infinity, or a NaN in the first column of v.
    bool clears, nan;
} linear_case;

typedef struct numbers {
    double *q, *k, *v, *decay, *beta, *state, *out, *new_state;
    int64_t q_count, k_count, v_count, decay_count, beta_count, state_count, out_count;
} numbers;

static double *uniform(struct random *random, int64_t count, clattn_type type, double low, double high) {
    double *x = reference_alloc(count + 1);
    for (int64_t n = 0; n < count; n++) x[n] = storage_round(type, random_uniform(random, low, high));
    return x;
}

static bool is_gated(const linear_case *c) {
    return c->rule == CLATTN_LINEAR_RULE_GATED || c->rule == CLATTN_LINEAR_RULE_GATED_DELTA;
}

static bool is_delta(const linear_case *c) {
    return c->rule == CLATTN_LINEAR_RULE_DELTA || c->rule == CLATTN_LINEAR_RULE_GATED_DELTA;
}

static struct reference_recurrent reference_of(const linear_case *c) {
    return (struct reference_recurrent){.q_heads = c->q_heads,
                                        .k_heads = c->k_heads,
                                        .v_heads = c->v_heads,
                                        .tokens = c->tokens,
                                        .head_dim = c->head_dim,
                                        .head_dim_v = c->head_dim_v,
                                        .rule = c->rule,
                                        .scale = (double)c->scale,
                                        .l2_norm = c->l2_norm,
                                        .decay_heads = 1,
                                        .decay_columns = c->columns ? c->head_dim : 1,
                                        .beta_heads = 1};
}

static int sequences_of(const linear_case *c) {
    return c->sequences ? c->sequences : c->batch;
}

static int slots_of(const linear_case *c) {
    return c->slots ? c->slots : sequences_of(c);
}

static numbers make_numbers(const linear_case *c, struct reference_recurrent *r) {
    struct random random = {11};
    numbers x;
    const int64_t heads = reference_recurrent_state_heads(r), tokens = (int64_t)c->batch * c->tokens;
    // Rows of k with a norm of about 1, as the delta rule needs.
    const double size = c->k_size != 0 ? c->k_size : sqrt(3.0 / c->head_dim);
    r->decay_heads = c->one_decay ? 1 : heads, r->beta_heads = c->one_beta ? 1 : heads;
    x.q_count = tokens * c->q_heads * c->head_dim, x.k_count = tokens * c->k_heads * c->head_dim;
    x.v_count = tokens * c->v_heads * c->head_dim_v;
    x.decay_count = tokens * r->decay_heads * r->decay_columns, x.beta_count = tokens * r->beta_heads;
    x.state_count = slots_of(c) * heads * c->head_dim * c->head_dim_v;
    x.out_count = tokens * reference_recurrent_out_heads(r) * c->head_dim_v;
    x.q = uniform(&random, x.q_count, c->type, -1, 1),
    x.k = uniform(&random, x.k_count, c->type, -size, size);
    x.v = uniform(&random, x.v_count, c->type, -1, 1);
    x.decay = uniform(&random, x.decay_count, c->gates, c->decay_low != 0 ? c->decay_low : -2, c->decay_high);
    for (int64_t n = 0; c->clears && n < x.decay_count; n++)
        if (n / r->decay_columns % c->tokens == c->tokens / 2) x.decay[n] = -(double)INFINITY;
    if (c->nan) x.v[c->tokens / 2 * c->head_dim_v] = (double)NAN;
    x.beta = uniform(&random, x.beta_count, c->gates, c->beta_low, c->beta_high != 0 ? c->beta_high : 1);
    x.state = uniform(&random, x.state_count, c->state, -1, 1);
    x.out = reference_alloc(x.out_count + 1), x.new_state = reference_alloc(x.state_count + 1);
    return x;
}

static void free_numbers(numbers *x) {
    free(x->q), free(x->k), free(x->v), free(x->decay), free(x->beta);
    free(x->state), free(x->out), free(x->new_state);
}

// The slot that receives sequence n's state after token t of `count`.
static int slot_after(const linear_case *c, int n, int64_t t, int64_t count) {
    if (c->drafts) return t >= 0 && t < c->drafts ? c->to[n * c->drafts + t] : -1;
    if (t != count - 1) return -1;
    return c->to_given ? c->to[n] : c->slots ? c->from[n] : n;
}

// The expected out and new_state.
static void expect(const linear_case *c, struct reference_recurrent r, numbers *x) {
    const int64_t size = reference_recurrent_state_heads(&r) * c->head_dim * c->head_dim_v, t = c->tokens;
    double *state = reference_alloc(size + 1), *states = reference_alloc(size * c->tokens + 1);
    for (int64_t i = 0; i < x->out_count; i++) x->out[i] = STORAGE_UNTOUCHED;
    for (int64_t i = 0; i < x->state_count; i++)
        x->new_state[i] = c->in_place ? x->state[i] : STORAGE_UNTOUCHED;
    for (int n = 0; n < sequences_of(c); n++) {
        const int item = c->sequences ? 0 : n, slot = c->slots ? c->from[n] : n;
        const int64_t first = c->sequences ? c->starts[n] : 0,
                      count = c->sequences ? c->starts[n + 1] - first : t;
        r.q = x->q + item * t * c->q_heads * c->head_dim, r.k = x->k + item * t * c->k_heads * c->head_dim;
        r.v = x->v + item * t * c->v_heads * c->head_dim_v;
        r.decay = is_gated(c) ? x->decay + item * t * r.decay_heads * r.decay_columns : NULL;
        r.beta = is_delta(c) ? x->beta + item * t * r.beta_heads : NULL;
        memset(state, 0, (size_t)size * sizeof *state);
        if (!c->no_state && slot >= 0 && slot < slots_of(c))
            memcpy(state, x->state + slot * size, (size_t)size * sizeof *state);
        reference_recurrent_attention(&r, first, count, state,
                                      x->out + item * t * reference_recurrent_out_heads(&r) * c->head_dim_v,
                                      states);
        for (int64_t at = count ? 0 : -1; at < count; at++) {
            const int to = slot_after(c, n, at, count);
            if (to >= 0 && to < slots_of(c))
                memcpy(x->new_state + to * size, at < 0 ? state : states + at * size,
                       (size_t)size * sizeof *state);
        }
    }
    free(state), free(states);
}

// Untouched elements stay so; the others have one rounding to their type, and sums in float32.
static void compare(const linear_case *c, const char *what, clattn_type type, const double *got,
                    const double *want, int64_t count) {
    double largest = 0, errors = 0, squares = 0;
    for (int64_t n = 0; n < count; n++)
        if (want[n] != STORAGE_UNTOUCHED) largest = fmax(largest, fabs(want[n]));
    for (int64_t n = 0; n < count; n++) {
        if (want[n] == STORAGE_UNTOUCHED || got[n] == STORAGE_UNTOUCHED) {
            ck_assert_msg(got[n] == want[n], "%s: %s %lld is %g, not %g", c->name, what, (long long)n, got[n],
                          want[n]);
            continue;
        }
        if (isnan(want[n]) && isnan(got[n])) continue;
        errors += (got[n] - want[n]) * (got[n] - want[n]), squares += want[n] * want[n];
        ck_assert_msg(fabs(got[n] - want[n]) <=
                          storage_roundoff(type) * fabs(want[n]) + 4e-6 * largest + 6e-8,
                      "%s: %s %lld is %.9g, not %.9g", c->name, what, (long long)n, got[n], want[n]);
    }
    if (type == CLATTN_TYPE_F32)
        ck_assert_msg(errors <= 1e-11 * squares, "%s: %s: NMSE %g", c->name, what, errors / squares);
}

static double *as_doubles(const int *x, int count) {
    double *y = reference_alloc(count + 1);
    for (int n = 0; n < count; n++) y[n] = x[n];
    return y;
}

typedef struct bound {
    struct guarded q, k, v, decay, beta, state, new_state, from, to, starts, out;
} bound;

static clattn_tensor bind_indices(struct guarded *t, const linear_case *c, const int *x, int rank,
                                  int64_t rows, int64_t columns) {
    const struct guarded_shape shape = {CLATTN_TYPE_I32, rank, {rows, columns}, layout_loose(c->layout)};
    double *values = as_doubles(x, (int)guarded_shape_count(&shape));
    *t = guarded_input(harness_place(), &shape, values);
    free(values);
    return t->view;
}

static clattn_linear_attention_params bind(const linear_case *c, const struct reference_recurrent *r,
                                           const numbers *x, bound *b) {
    struct place *place = harness_place();
    const int64_t heads = reference_recurrent_state_heads(r), t = c->tokens, dk = c->head_dim,
                  dv = c->head_dim_v;
    const int n = sequences_of(c);
    const enum layout layout = c->layout;
    const struct guarded_shape q = {c->type, 4, {c->batch, c->q_heads, t, dk}, layout},
                               k = {c->type, 4, {c->batch, c->k_heads, t, dk}, layout},
                               v = {c->type, 4, {c->batch, c->v_heads, t, dv}, layout},
                               decay = {c->gates, 4, {c->batch, r->decay_heads, t, r->decay_columns}, layout},
                               beta = {c->gates, 3, {c->batch, r->beta_heads, t}, layout_loose(layout)},
                               state = {c->state, 4, {slots_of(c), heads, dk, dv}, layout},
                               out = {c->out, 4, {c->batch, reference_recurrent_out_heads(r), t, dv}, layout};
    clattn_linear_attention_params p = {.rule = c->rule, .scale = c->scale, .l2_norm = c->l2_norm};
    *b = (bound){.q = guarded_input(place, &q, x->q),
                 .k = guarded_input(place, &k, x->k),
                 .v = guarded_input(place, &v, x->v),
                 .out = guarded_output(place, &out)};
    p.q = b->q.view, p.k = b->k.view, p.v = b->v.view, p.out = b->out.view;
    if (is_gated(c)) b->decay = guarded_input(place, &decay, x->decay), p.decay = b->decay.view;
    if (is_delta(c)) b->beta = guarded_input(place, &beta, x->beta), p.beta = b->beta.view;
    if (!c->no_new_state) {
        b->new_state = c->in_place ? guarded_in_out(place, &state, x->state) : guarded_output(place, &state);
        p.new_state = b->new_state.view;
    }
    if (!c->no_state && !c->in_place) b->state = guarded_input(place, &state, x->state);
    if (!c->no_state) p.state = c->in_place ? p.new_state : b->state.view;
    if (c->slots && !c->no_state) p.state_indices = bind_indices(&b->from, c, c->from, 1, n, 1);
    if (c->drafts || c->to_given)
        p.new_state_indices = bind_indices(&b->to, c, c->to, c->drafts ? 2 : 1, n, c->drafts ? c->drafts : 1);
    if (c->sequences)
        p.cu_seqlens_device = bind_indices(&b->starts, c, c->clamped ? c->given : c->starts, 1, n + 1, 1);
    return p;
}

static void release(bound *b) {
    struct guarded *const all[] = {&b->q,     &b->k,    &b->v,  &b->decay, &b->beta,
                                   &b->state, &b->from, &b->to, &b->starts};
    for (size_t n = 0; n < sizeof all / sizeof *all; n++)
        if (guarded_given(&all[n]->view)) {
            ck_assert_msg(guarded_intact(all[n], harness()->queue), "an input changed");
            guarded_release(all[n]);
        }
    guarded_release(&b->out);
    if (guarded_given(&b->new_state.view)) guarded_release(&b->new_state);
}

static void run(const linear_case *c) {
    struct reference_recurrent r = reference_of(c);
    numbers x = make_numbers(c, &r);
    bound b;
    expect(c, r, &x);
    harness_place()->drawn = 5;
    const clattn_linear_attention_params p = bind(c, &r, &x, &b);
    ck_assert_msg(clattn_linear_attention_prepare(on, &p) == CLATTN_OK &&
                      clattn_linear_attention_enqueue(on, harness()->queue, &p, 0, NULL, NULL) == CLATTN_OK,
                  "%s: %s", c->name, harness_log_text());
    double *got = reference_alloc(x.out_count + 1), *got_state = reference_alloc(x.state_count + 1);
    ck_assert_msg(guarded_read(&b.out, harness()->queue, got), "%s: bytes around out changed", c->name);
    compare(c, "out", c->out, got, x.out, x.out_count);
    if (!c->no_new_state) {
        ck_assert_msg(guarded_read(&b.new_state, harness()->queue, got_state),
                      "%s: bytes around new_state changed", c->name);
        compare(c, "new_state", c->state, got_state, x.new_state, x.state_count);
    }
    release(&b);
    free_numbers(&x);
    free(got), free(got_state);
}

#define F32 CLATTN_TYPE_F32
#define F16 CLATTN_TYPE_F16
#define BF16 CLATTN_TYPE_BF16
#define GATED_DELTA CLATTN_LINEAR_RULE_GATED_DELTA
#define TYPES(x) .type = (x), .out = (x), .gates = (x)
#define SIZES(b, t, hq, hk, hv, dk, dv)                                                                      \
    .batch = (b), .tokens = (t), .q_heads = (hq), .k_heads = (hk), .v_heads = (hv), .head_dim = (dk),        \
    .head_dim_v = (dv)

static const linear_case cases[] = {
    {"gated delta", SIZES(2, 9, 2, 2, 2, 32, 40)},
    {"linear", CLATTN_LINEAR_RULE_LINEAR, SIZES(2, 9, 2, 2, 2, 32, 40)},
    {"gated", CLATTN_LINEAR_RULE_GATED, SIZES(2, 9, 2, 2, 2, 32, 40)},
    {"delta", CLATTN_LINEAR_RULE_DELTA, SIZES(2, 9, 2, 2, 2, 32, 40)},
    {"KDA", SIZES(2, 9, 2, 2, 2, 32, 40), .columns = true, .l2_norm = true, .layout = LAYOUT_BSHD},
    {"gated by columns", CLATTN_LINEAR_RULE_GATED, SIZES(1, 5, 1, 1, 1, 20, 12), .columns = true},
    {"one head of decay and beta", SIZES(2, 5, 4, 4, 4, 16, 16), .one_decay = true, .one_beta = true},
    {"one head of decays by column", SIZES(2, 5, 4, 4, 4, 16, 16), .columns = true, .one_decay = true},
    {"more query heads", SIZES(2, 5, 6, 2, 2, 16, 24), .l2_norm = true, .layout = LAYOUT_PADDED},
    {"more value heads", SIZES(2, 5, 2, 2, 6, 16, 24), .l2_norm = true, .layout = LAYOUT_SPACED},
    {"more key heads", SIZES(2, 5, 4, 4, 1, 16, 24), .layout = LAYOUT_SCATTERED},
    {"all heads differ", SIZES(1, 5, 12, 2, 6, 16, 24), .layout = LAYOUT_SCATTERED},
    {"one token", SIZES(3, 1, 2, 2, 2, 128, 128), .in_place = true},
    {"odd sizes", SIZES(2, 4, 2, 2, 2, 33, 37), .layout = LAYOUT_PADDED, .columns = true},
    {"odd sizes, in 16 bits", SIZES(2, 4, 2, 2, 2, 33, 37), TYPES(BF16), .state = F16,
     .layout = LAYOUT_SCATTERED},
    {"Dk = Dv = 1", SIZES(1, 6, 1, 1, 1, 1, 1), .columns = true},
    {"Dk = 3", SIZES(1, 6, 1, 1, 1, 3, 129)},
    {"largest Dk", SIZES(1, 3, 1, 1, 1, 576, 5), .l2_norm = true},
    {"f16", SIZES(2, 7, 2, 2, 2, 32, 40), TYPES(F16), .scale = 0.5f},
    {"bf16", SIZES(2, 7, 2, 2, 2, 32, 40), TYPES(BF16), .columns = true, .layout = LAYOUT_BSHD},
    {"types differ", SIZES(2, 7, 2, 2, 2, 32, 40), .type = F16, .out = F32, .gates = BF16, .state = BF16},
    {"no state", SIZES(2, 7, 2, 2, 2, 32, 40), .no_state = true},
    {"no new state", SIZES(2, 7, 2, 2, 2, 32, 40), .no_new_state = true},
    {"neither state", SIZES(2, 7, 2, 2, 2, 32, 40), .no_state = true, .no_new_state = true},
    {"negative scale", SIZES(1, 3, 1, 1, 1, 8, 8), .scale = -2},
    {"in place, 16 bits", SIZES(2, 7, 2, 2, 2, 32, 40), TYPES(F16), .state = F16, .in_place = true,
     .layout = LAYOUT_PADDED},
    // Slots: one is not in the pool, one sequence has no state.
    {"slots", SIZES(4, 3, 2, 2, 2, 16, 24), .slots = 6, .from = {5, -1, 0, 6}, .in_place = true,
     .layout = LAYOUT_PADDED},
    {"slots, apart", SIZES(4, 3, 2, 2, 2, 16, 24), .slots = 6, .from = {5, -7, 0, 2}},
    {"new slots", SIZES(3, 3, 2, 2, 2, 16, 24), .slots = 6, .from = {5, -1, 0}, .to_given = true,
     .to = {1, 2, -1}, .in_place = true, .layout = LAYOUT_SCATTERED},
    {"new slots, no state", SIZES(3, 3, 2, 2, 2, 16, 24), .slots = 6, .no_state = true, .to_given = true,
     .to = {4, 2, 1000}},
    {"drafts", SIZES(2, 4, 2, 2, 2, 16, 24), .slots = 9, .from = {8, 3}, .drafts = 4,
     .to = {0, 1, 2, 8, 4, -1, 9, 5}, .in_place = true},
    {"fewer drafts", SIZES(2, 4, 2, 2, 2, 16, 24), .slots = 9, .from = {8, 3}, .drafts = 2,
     .to = {0, 1, 2, 4}, .state = BF16, .layout = LAYOUT_SCATTERED},
    {"packed", SIZES(1, 11, 2, 2, 2, 16, 24), .sequences = 4, .starts = {0, 3, 3, 9, 10}},
    {"packed, with a gap", SIZES(1, 11, 4, 2, 2, 16, 24), .sequences = 3, .starts = {2, 3, 8, 8},
     .columns = true, .layout = LAYOUT_SCATTERED, .in_place = true},
    {"packed drafts", SIZES(1, 7, 2, 2, 2, 16, 24), .sequences = 3, .starts = {0, 3, 3, 6}, .slots = 8,
     .from = {7, 6, 5}, .drafts = 2, .to = {0, 1, 2, 3, 4, 6}, .in_place = true},
    {"packed, with wrong numbers", SIZES(1, 11, 2, 2, 2, 16, 24), .sequences = 4, .starts = {0, 3, 3, 11, 11},
     .clamped = true, .given = {-5, 3, 3, 1 << 30, 4}},
    {"no tokens", SIZES(2, 0, 2, 2, 2, 16, 24)},
    {"no tokens, in place", SIZES(2, 0, 2, 2, 2, 16, 24), .in_place = true},
    {"no tokens, no state", SIZES(2, 0, 2, 2, 2, 16, 24), .no_state = true},
    {"no items", SIZES(0, 4, 2, 2, 2, 16, 24)},
    // The ends of ranges.
    {"decay near 1", SIZES(1, 200, 1, 1, 1, 32, 16), .decay_low = -1e-6},
    {"decay near 0", SIZES(1, 20, 1, 1, 1, 32, 16), .decay_low = -120, .decay_high = -80, .columns = true},
    {"decay of -infinity", SIZES(2, 9, 2, 2, 2, 32, 40), .clears = true},
    {"decay of -infinity, by columns", CLATTN_LINEAR_RULE_GATED, SIZES(1, 9, 2, 2, 2, 32, 40), .clears = true,
     .columns = true},
    {"a NaN in v", SIZES(2, 9, 2, 2, 2, 32, 40), .nan = true},
    {"growth", SIZES(1, 9, 1, 1, 1, 32, 16), .decay_low = 0.1, .decay_high = 0.5},
    {"beta 0", SIZES(1, 9, 1, 1, 1, 32, 16), .beta_high = 1e-30},
    {"beta 1", SIZES(1, 40, 1, 1, 1, 32, 16), .beta_low = 1, .beta_high = 1, .l2_norm = true},
    {"zero keys", SIZES(1, 9, 1, 1, 1, 32, 16), .k_size = 1e-45, .l2_norm = true},
    {"1,000 tokens", SIZES(1, 1000, 1, 1, 1, 64, 32), .l2_norm = true, .decay_low = -0.1},
    {"1,000 tokens without decay", CLATTN_LINEAR_RULE_DELTA, SIZES(1, 1000, 1, 1, 1, 64, 32),
     .l2_norm = true},
};
enum { CASES = sizeof cases / sizeof cases[0] };

START_TEST(each) {
    run(&cases[_i]);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("linear_attention");
    TCase *group = harness_add(suite, "as the device is", (const TTest *const[]){NULL}),
          *in_groups = harness_add(suite, "as no CPU", (const TTest *const[]){NULL});
    tcase_add_unchecked_fixture(group, begin_cpu, NULL);
    tcase_add_unchecked_fixture(in_groups, begin_gpu, end_gpu);
    tcase_add_loop_test(group, each, 0, CASES);
    tcase_add_loop_test(in_groups, each, 0, CASES);
    return harness_run(suite);
}
