// test_mods_gradients.c: automatic derivatives of score_mod on a device, at least one for each
// function. They compile, and match differences of the text in double precision, in vectors and
// lane by lane. A text without a derivative is refused and enqueues nothing. Keys are 1, 0, 0, ..,
// so a score is the first number of its query row. With dlse of 1 and dout of 0 that row's gradient
// is the derivative. Refused texts are in test_mods_derived.c.
#include "support/harness.h"
#include "mods/mod_slopes.h"

#include "attention/mods/mod_derive.h"
#include "attention/mods/mod_vector.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 16, ROWS = 2 * MOD_SLOPE_SCORES, KEYS = 3, KEY = 1, SIZE = 16, TEXT = 16384 };
enum { Q, K, V, BUFFER0, BUFFER1, DLSE, DOUT, OUT, LSE, DQ, TENSORS };

static const double buffer_element = 0.75;
static char text[TEXT];
static int chosen[MOST], batch; // batch item b evaluates text chosen[b]

static const struct way {
    const char *rows, *kernel;
    bool vectors; // only texts with vector forms
} ways[] = {{"backward :", "backward", false},
            {"backward_lanes :", "backward_lanes", false},
            {"backward_lanes :", "backward_lanes", true}};

// Returns true if the text has a derivative, and with in_vectors also a vector form of it.
static bool fits(const char *of, bool in_vectors) {
    mod_source source = mod_slope_source(of);
    mod_fault fault;
    char why[MOD_WHY];
    char *const gradient = cla_mod_derive(NULL, &source, &fault);
    if (!gradient) return false;
    source.text = gradient;
    char *const form = cla_mod_vector(NULL, &source, MOD_LANES_ROWS, why);
    const bool good = form || !in_vectors;
    free(form), free(gradient);
    return good;
}

// Join as many texts from `next` on as one text and its derivative can hold. Returns the first text
// not included.
static int join(int next, bool in_vectors) {
    char *at = text;
    strcpy(text, "score");
    for (batch = 0; batch < MOST && next < mod_slope_count; next++) {
        const char *const one = mod_slope_texts[next].text;
        if (in_vectors && !fits(one, true)) continue;
        char *const end = at;
        at += sprintf(at, "b == %d ? (float)(%s) : score", batch, one) - 5;
        if (!fits(text, in_vectors)) {
            strcpy(end, "score");
            break;
        }
        chosen[batch++] = next;
    }
    return next;
}

static double score_of(int b, int row) {
    return mod_slope_score(&mod_slope_texts[chosen[b]], row % MOD_SLOPE_SCORES);
}

static void bind(struct place *place, struct guarded t[TENSORS], clattn_attention_backward_params *p) {
    const clattn_type f = CLATTN_TYPE_F32;
    const struct guarded_shape q = {f, 4, {batch, 1, ROWS, SIZE}, LAYOUT_DENSE},
                               k = {f, 4, {batch, 1, KEYS, SIZE}, LAYOUT_DENSE},
                               lse = {f, 3, {batch, 1, ROWS}, LAYOUT_DENSE},
                               two = {f, 2, {2, 2}, LAYOUT_DENSE}, one = {f, 1, {4}, LAYOUT_DENSE};
    const size_t count = (size_t)MOST * ROWS * SIZE;
    double *zeros = calloc(count, sizeof *zeros), *values = calloc(count, sizeof *values);
    ck_assert(zeros != NULL && values != NULL);
    for (int n = 0; n < batch * ROWS; n++) values[n * SIZE] = score_of(n / ROWS, n % ROWS);
    t[Q] = guarded_input(place, &q, values);
    for (size_t n = 0; n < count; n++) values[n] = n % SIZE == 0;
    t[K] = guarded_input(place, &k, values), t[V] = guarded_input(place, &k, zeros);
    for (size_t n = 0; n < count; n++) values[n] = buffer_element;
    t[BUFFER0] = guarded_input(place, &two, values), t[BUFFER1] = guarded_input(place, &one, values);
    for (size_t n = 0; n < count; n++) values[n] = 1.0;
    t[DLSE] = guarded_input(place, &lse, values), t[DOUT] = guarded_input(place, &q, zeros);
    t[OUT] = guarded_output(place, &q), t[LSE] = guarded_output(place, &lse);
    t[DQ] = guarded_output(place, &q);
    free(zeros), free(values);
    *p = (clattn_attention_backward_params){
        .forward = {.q = t[Q].view, .out = t[OUT].view, .lse = t[LSE].view},
        .dout = t[DOUT].view,
        .dlse = t[DLSE].view,
        .dq = t[DQ].view};
    p->forward.kv.k = t[K].view, p->forward.kv.v = t[V].view;
    p->forward.score.scale = 1.0f;
    p->forward.score.score_mod = text, p->forward.score.mask_mod = "j == 1";
    p->forward.score.mod_buffers[0] = t[BUFFER0].view, p->forward.score.mod_buffers[1] = t[BUFFER1].view;
}

static void unbind(struct guarded t[TENSORS]) {
    for (int n = 0; n < TENSORS; n++) guarded_release(&t[n]);
}

static clattn_status forward(const struct place *place, const clattn_attention_backward_params *p) {
    return clattn_attention_enqueue(place->context, place->queue, &p->forward, 0, NULL, NULL);
}
static clattn_status backward(const struct place *place, const clattn_attention_backward_params *p) {
    return clattn_attention_backward_enqueue(place->context, place->queue, p, 0, NULL, NULL);
}

static int count_wrong(const double *dq) {
    int wrong = 0;
    for (int n = 0; n < batch * ROWS; n++) {
        const mod_source source = mod_slope_source(mod_slope_texts[chosen[n / ROWS]].text);
        const struct mod_value_at at = {score_of(n / ROWS, n % ROWS), n % ROWS, KEY, buffer_element};
        const double want = mod_slope_of(&source, &at), got = dq[n * SIZE];
        if (fabs(got - want) <= 1e-4 * fmax(1.0, fabs(want)) && dq[n * SIZE + 1] == 0.0) continue;
        printf("%s at %g: %.9g, not %.9g\n", source.text, at.score, got, want);
        wrong++;
    }
    return wrong;
}

static int run(struct place *place, const struct way *w) {
    static double dq[MOST * ROWS * SIZE];
    struct guarded t[TENSORS];
    clattn_attention_backward_params p;
    clattn_plan plan;
    bind(place, t, &p);
    harness_log_clear();
    ck_assert_msg(forward(place, &p) == CLATTN_OK, "%s: %s", text, harness_log_text());
    ck_assert_int_eq(clattn_attention_backward_plan(place->context, &p, &plan), CLATTN_OK);
    ck_assert_str_eq(plan.kernel_name, w->kernel);
    ck_assert_msg(backward(place, &p) == CLATTN_OK, "%s: %s", text, harness_log_text());
    harness_finish(place->queue);
    ck_assert(guarded_read(&t[DQ], place->queue, dq));
    unbind(t);
    return count_wrong(dq);
}

START_TEST(as_differences) {
    const struct way *const w = &ways[_i];
    struct place place = *harness_place();
    int wrong = 0, turn = 0, texts = 0;
    place.context = harness_open(
        (clattn_context_params){.context = harness()->opencl, .tuned_rows = w->rows, .log = harness_log()});
    for (int next = 0; next < mod_slope_count; turn++) {
        next = join(next, w->vectors);
        texts += batch;
        if (batch && harness_takes(3 * turn + _i)) wrong += run(&place, w);
    }
    clattn_context_destroy(place.context);
    ck_assert_int_eq(wrong, 0);
    ck_assert_int_ge(texts, w->vectors ? 40 : mod_slope_count);
}
END_TEST

START_TEST(not_known) {
    const struct place *const place = harness_place();
    struct guarded t[TENSORS];
    clattn_attention_backward_params p;
    static double dq[ROWS * SIZE];
    batch = 1, chosen[0] = 0;
    bind(harness_place(), t, &p);
    p.forward.score.score_mod = "score +\n 0.5f * lgamma(score)";
    ck_assert_int_eq(forward(place, &p), CLATTN_OK);
    harness_log_clear();
    ck_assert_int_eq(backward(place, &p), CLATTN_UNSUPPORTED);
    ck_assert_str_eq(harness_log_text(),
                     "score_mod: line 2, column 9, 'lgamma': has no derivative here: give "
                     "its derivative as score_mod_gradient");
    ck_assert_int_eq(harness_log_count(), 1);
    harness_finish(place->queue);
    ck_assert(guarded_intact(&t[DQ], place->queue));
    p.score_mod_gradient = "2.0f";
    ck_assert_int_eq(backward(place, &p), CLATTN_OK);
    harness_finish(place->queue);
    ck_assert(guarded_read(&t[DQ], place->queue, dq));
    ck_assert(dq[0] == 2.0);
    unbind(t);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("gradients of mods");
    TCase *all = harness_add(suite, "gradients", (const TTest *const[]){not_known, NULL});
    tcase_add_loop_test(all, as_differences, 0, (int)(sizeof ways / sizeof ways[0]));
    return harness_run(suite);
}
