// test_mods_gradients.c: derivatives of score_mod that the library makes itself, on a device: one of each function compiles, and is what
// differences of the text are, computed in double precision; one that it does not know is refused and enqueues nothing. A bias is the
// score, dlse of 1 and dout of 0 make its gradient the derivative. Which are refused is test_mods_derived.c's.
#include "support/harness.h"
#include "mods/mod_slopes.h"

#include "attention/mods/mod_derive.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 16, ROWS = MOD_SLOPE_SCORES, KEYS = 3, KEY = 1, SIZE = 16, TEXT = 16384 };
enum { Q, K, V, BIAS, BUFFER0, BUFFER1, DLSE, DOUT, OUT, LSE, DBIAS, TENSORS };

static const double buffer_element = 0.75;
static char text[TEXT];

// Item b of the batch is asked text b of those from `first` on; returns how many fit into one text whose derivative is one.
static int join(int first, int most) {
    char *at = text;
    int count = 0;
    for (; count < most && first + count < mod_slope_count; count++) {
        const mod_source source = mod_slope_source(text);
        mod_fault fault;
        char *const end = at;
        at += sprintf(at, "b == %d ? (float)(%s) : ", count, mod_slope_texts[first + count].text);
        strcpy(at, "score");
        char *const gradient = cla_mod_derive(NULL, &source, &fault);
        free(gradient);
        if (gradient) continue;
        strcpy(end, "score");
        break;
    }
    return count;
}

static void bind(struct guarded t[TENSORS], int first, int batch, clattn_attention_backward_params *p) {
    struct place *place = harness_place();
    const clattn_type f = CLATTN_TYPE_F32;
    const struct guarded_shape q = {f, 4, {batch, 1, ROWS, SIZE}, LAYOUT_DENSE},
                               k = {f, 4, {batch, 1, KEYS, SIZE}, LAYOUT_DENSE},
                               bias = {f, 4, {batch, 1, ROWS, KEYS}, LAYOUT_DENSE},
                               lse = {f, 3, {batch, 1, ROWS}, LAYOUT_DENSE},
                               two = {f, 2, {2, 2}, LAYOUT_DENSE}, one = {f, 1, {4}, LAYOUT_DENSE};
    const size_t count = (size_t)MOST * ROWS * SIZE;
    double *zeros = calloc(count, sizeof *zeros), *values = calloc(count, sizeof *values);
    ck_assert(zeros != NULL && values != NULL);
    for (int n = 0; n < batch * ROWS * KEYS; n++)
        values[n] = mod_slope_score(&mod_slope_texts[first + n / (ROWS * KEYS)], n / KEYS % ROWS);
    t[Q] = guarded_input(place, &q, zeros), t[K] = guarded_input(place, &k, zeros);
    t[V] = guarded_input(place, &k, zeros), t[BIAS] = guarded_input(place, &bias, values);
    for (size_t n = 0; n < count; n++) values[n] = buffer_element;
    t[BUFFER0] = guarded_input(place, &two, values), t[BUFFER1] = guarded_input(place, &one, values);
    for (size_t n = 0; n < count; n++) values[n] = 1.0;
    t[DLSE] = guarded_input(place, &lse, values), t[DOUT] = guarded_input(place, &q, zeros);
    t[OUT] = guarded_output(place, &q), t[LSE] = guarded_output(place, &lse);
    t[DBIAS] = guarded_output(place, &bias);
    free(zeros), free(values);
    *p = (clattn_attention_backward_params){
        .forward = {.q = t[Q].view, .out = t[OUT].view, .lse = t[LSE].view},
        .dout = t[DOUT].view,
        .dlse = t[DLSE].view,
        .dbias = t[DBIAS].view};
    p->forward.kv.k = t[K].view, p->forward.kv.v = t[V].view;
    p->forward.score.bias = t[BIAS].view;
    p->forward.score.score_mod = text, p->forward.score.mask_mod = "j == 1";
    p->forward.score.mod_buffers[0] = t[BUFFER0].view, p->forward.score.mod_buffers[1] = t[BUFFER1].view;
}

static void unbind(struct guarded t[TENSORS]) {
    for (int n = 0; n < TENSORS; n++) guarded_release(&t[n]);
}

static clattn_status forward(const clattn_attention_backward_params *p) {
    return clattn_attention_enqueue(harness()->context, harness()->queue, &p->forward, 0, NULL, NULL);
}
static clattn_status backward(const clattn_attention_backward_params *p) {
    return clattn_attention_backward_enqueue(harness()->context, harness()->queue, p, 0, NULL, NULL);
}

static int count_wrong(int first, int batch, const double *dbias) {
    int wrong = 0;
    for (int n = 0; n < batch * ROWS; n++) {
        const struct mod_slope_text *const t = &mod_slope_texts[first + n / ROWS];
        const mod_source source = mod_slope_source(t->text);
        const struct mod_value_at at = {mod_slope_score(t, n % ROWS), n % ROWS, KEY, buffer_element};
        const double want = mod_slope_of(&source, &at), got = dbias[n * KEYS + KEY];
        const bool hidden = dbias[n * KEYS] == 0.0 && dbias[n * KEYS + 2] == 0.0;
        if (hidden && fabs(got - want) <= 1e-4 * fmax(1.0, fabs(want))) continue;
        printf("%s at %g: %.9g, not %.9g\n", t->text, at.score, got, want);
        wrong++;
    }
    return wrong;
}

START_TEST(as_differences) {
    static double dbias[MOST * ROWS * KEYS];
    int wrong = 0, turn = 0;
    for (int first = 0, count; first < mod_slope_count; first += count, turn++) {
        struct guarded t[TENSORS];
        clattn_attention_backward_params p;
        count = join(first, MOST);
        ck_assert_int_gt(count, 0);
        if (!harness_takes(turn)) continue;
        bind(t, first, count, &p);
        harness_log_clear();
        ck_assert_msg(forward(&p) == CLATTN_OK, "%s: %s", text, harness_log_text());
        ck_assert_msg(backward(&p) == CLATTN_OK, "%s: %s", text, harness_log_text());
        harness_finish(harness()->queue);
        ck_assert(guarded_read(&t[DBIAS], harness()->queue, dbias));
        wrong += count_wrong(first, count, dbias);
        unbind(t);
    }
    ck_assert_int_eq(wrong, 0);
}
END_TEST

START_TEST(not_known) {
    struct guarded t[TENSORS];
    clattn_attention_backward_params p;
    static double dbias[ROWS * KEYS];
    bind(t, 0, 1, &p);
    p.forward.score.score_mod = "score +\n 0.5f * lgamma(score)";
    ck_assert_int_eq(forward(&p), CLATTN_OK);
    harness_log_clear();
    ck_assert_int_eq(backward(&p), CLATTN_UNSUPPORTED);
    ck_assert_str_eq(harness_log_text(),
                     "score_mod: line 2, column 9, 'lgamma': has no derivative here: give "
                     "its derivative as score_mod_gradient");
    ck_assert_int_eq(harness_log_count(), 1);
    harness_finish(harness()->queue);
    ck_assert(guarded_intact(&t[DBIAS], harness()->queue));
    p.score_mod_gradient = "2.0f";
    ck_assert_int_eq(backward(&p), CLATTN_OK);
    harness_finish(harness()->queue);
    ck_assert(guarded_read(&t[DBIAS], harness()->queue, dbias));
    ck_assert(dbias[KEY] == 2.0);
    unbind(t);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("gradients of mods");
    harness_add(suite, "gradients", (const TTest *const[]){as_differences, not_known, NULL});
    return harness_run(suite);
}
