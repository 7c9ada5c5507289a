// test_hadamard.c: clattn_hadamard_enqueue compared with the matrix in float64, by its definition:
// storage types, layouts, block sizes, in place and out of place, also as a device whose blocks
// have work-groups. Attention over a Hadamard-transformed cache must equal attention between
// separate transforms. Elsewhere: refusals (test_errors_hadamard.c), events and threads
// (small_calls.h), cases with such caches.
#define _GNU_SOURCE
#include "support/case_assert.h"
#include "support/harness.h"
#include "attention/no_cpu.h"

#include <math.h>
#include <stdlib.h>

#include "verification/reference/reference.h"
#include "verification/reference/storage.h"

enum { BATCH = 2, HEADS = 3, ROWS = 5 };

typedef struct turning {
    clattn_type x, y;
    enum layout layout;
    bool in_place;
    int size, block, means; // columns, the requested block, and its meaning
} turning;

// y = x H / sqrt(n), for one block.
static void multiply(const double *x, int n, double *y) {
    for (int j = 0; j < n; j++) {
        y[j] = 0;
        for (int i = 0; i < n; i++) y[j] += (__builtin_popcount((unsigned)(i & j)) & 1 ? -1 : 1) * x[i];
        y[j] /= sqrt(n);
    }
}

static void run(const turning *t) {
    struct random random = {42};
    const int64_t count = (int64_t)BATCH * HEADS * ROWS * t->size;
    const struct guarded_shape x = {t->x, 4, {BATCH, HEADS, ROWS, t->size}, t->layout},
                               y = {t->y, 4, {BATCH, HEADS, ROWS, t->size}, LAYOUT_BSHD};
    double *values = case_random(&random, count, t->x, 2), *got = reference_alloc(count),
           *expected = reference_alloc(count);
    struct guarded from = guarded_input(harness_place(), &x, values),
                   to = t->in_place ? guarded_in_out(harness_place(), &x, values)
                                    : guarded_output(harness_place(), &y);
    const clattn_hadamard_params p = {
        .x = t->in_place ? to.view : from.view, .y = to.view, .block = t->block};
    ck_assert_msg(clattn_hadamard_prepare(on, &p) == CLATTN_OK &&
                      clattn_hadamard_enqueue(on, harness()->queue, &p, 0, NULL, NULL) == CLATTN_OK,
                  "%s", harness_log_text());
    ck_assert_msg(guarded_read(&to, harness()->queue, got), "bytes around y changed");
    ck_assert_msg(guarded_intact(&from, harness()->queue), "x changed");
    double largest = 0;
    for (int64_t n = 0; n < count; n += t->means) multiply(values + n, t->means, expected + n);
    for (int64_t n = 0; n < count; n++) largest = fmax(largest, fabs(expected[n]));
    // The limit allows one rounding to y's type, and eleven roundings in float32.
    for (int64_t n = 0; n < count; n++)
        ck_assert_msg(
            fabs(got[n] - expected[n]) <= storage_roundoff(t->y) * fabs(expected[n]) + 1e-6 * largest,
            "D %d, block %d, element %lld: %g, not %g", t->size, t->block, (long long)n, got[n], expected[n]);
    guarded_release(&from);
    guarded_release(&to);
    free(values), free(got), free(expected);
}

#define TYPES 9
START_TEST(types) {
    const turning t = {.x = (clattn_type)(_i / 3),
                       .y = (clattn_type)(_i % 3),
                       .layout = (enum layout)(_i % LAYOUT_COUNT),
                       .size = 96,
                       .means = 32};
    turning in_place = t;
    run(&t);
    in_place.y = t.x, in_place.in_place = true;
    run(&in_place);
}
END_TEST

static const struct {
    int size, block, means;
} sizes[] = {{2, 0, 2},   {80, 0, 16},  {64, 64, 64},    {128, 32, 32},
             {256, 2, 2}, {576, 0, 64}, {1024, 0, 1024}, {2048, 0, 1024}};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

START_TEST(blocks) {
    run(&(turning){.size = sizes[_i].size, .block = sizes[_i].block, .means = sizes[_i].means});
}
END_TEST

// A large number in each row is spread over its block: the purpose of the transform.
START_TEST(spreads) {
    const struct guarded_shape shape = {CLATTN_TYPE_F32, 4, {1, 1, 1, 64}, LAYOUT_DENSE};
    double values[64] = {[17] = 80}, got[64];
    struct guarded x = guarded_in_out(harness_place(), &shape, values);
    const clattn_hadamard_params p = {.x = x.view, .y = x.view};
    for (int turn = 0; turn < 2; turn++) {
        ck_assert(clattn_hadamard_enqueue(on, harness()->queue, &p, 0, NULL, NULL) == CLATTN_OK);
        ck_assert(guarded_read(&x, harness()->queue, got));
        for (int n = 0; n < 64; n++)
            ck_assert_double_eq_tol(turn ? got[n] : fabs(got[n]), turn ? values[n] : 10, 1e-4);
    }
    guarded_release(&x);
}
END_TEST

static void multiply_rows(clattn_tensor x, clattn_tensor y, int block) {
    const clattn_hadamard_params p = {.x = x, .y = y, .block = block};
    ck_assert_msg(clattn_hadamard_enqueue(on, harness()->queue, &p, 0, NULL, NULL) == CLATTN_OK, "%s",
                  harness_log_text());
}

enum { KEYS = 19, AROUND = 48, VALUES = 32 };
static const int32_t lengths[BATCH] = {ROWS, 3};

static void attend(const clattn_attention_params *p) {
    ck_assert_msg(clattn_attention_prepare(on, p) == CLATTN_OK &&
                      clattn_attention_enqueue(on, harness()->queue, p, 0, NULL, NULL) == CLATTN_OK,
                  "%s", harness_log_text());
}

// Compute the same attention by separate calls: transform q before attention, and the written rows
// of the result after it.
static void attend_between(clattn_attention_params p, clattn_tensor turned, clattn_tensor out) {
    multiply_rows(p.q, turned, p.kv.k_rotation);
    const int32_t back = p.kv.v_rotation;
    p.q = turned, p.out = out, p.kv.k_rotation = p.kv.v_rotation = 0;
    attend(&p);
    for (int b = 0; b < BATCH; b++) {
        clattn_tensor of_item = out;
        of_item.offset += b * of_item.stride[0], of_item.shape[0] = 1, of_item.shape[2] = lengths[b];
        multiply_rows(of_item, of_item, back);
    }
}

// Rows past a length keep their contents.
START_TEST(around_attention) {
    static const int32_t keys[] = {KEYS, KEYS - 4};
    const clattn_type type = _i == 2 ? CLATTN_TYPE_BF16 : CLATTN_TYPE_F32;
    const struct guarded_shape shapes[] = {{type, 4, {BATCH, HEADS, ROWS, AROUND}, LAYOUT_BSHD},
                                           {type, 4, {BATCH, HEADS, KEYS, AROUND}, LAYOUT_DENSE},
                                           {type, 4, {BATCH, HEADS, KEYS, VALUES}, LAYOUT_DENSE},
                                           {type, 4, {BATCH, HEADS, ROWS, VALUES}, LAYOUT_BSHD}};
    enum { COUNT = BATCH * HEADS * ROWS * VALUES };
    struct random random = {7};
    struct guarded in[3], turned = guarded_output(harness_place(), &shapes[0]), out[2];
    double marks[COUNT], got[2][COUNT];
    for (int n = 0; n < 3; n++) {
        double *x = case_random(&random, guarded_shape_count(&shapes[n]), type, 2);
        in[n] = guarded_input(harness_place(), &shapes[n], x);
        free(x);
    }
    for (int n = 0; n < COUNT; n++) marks[n] = 7;
    for (int n = 0; n < 2; n++) out[n] = guarded_in_out(harness_place(), &shapes[3], marks);
    clattn_attention_params p = {
        .q = in[0].view, .kv = {.k = in[1].view, .v = in[2].view}, .out = out[0].view};
    p.score.q_lengths = lengths, p.score.kv_lengths = keys, p.score.causal = _i != 0;
    p.kv.k_rotation = 16, p.kv.v_rotation = 32;
    attend(&p);
    attend_between(p, turned.view, out[1].view);
    for (int n = 0; n < 2; n++) ck_assert(guarded_read(&out[n], harness()->queue, got[n]));
    for (int n = 0; n < COUNT; n++) {
        const bool past = n / VALUES % ROWS >= lengths[n / VALUES / ROWS / HEADS];
        ck_assert_msg(fabs(got[0][n] - got[1][n]) <= (type == CLATTN_TYPE_F32 ? 2e-6 : 0.02) &&
                          (!past || got[0][n] == 7),
                      "element %d: %g, not %g", n, got[0][n], got[1][n]);
    }
    for (int n = 0; n < 3; n++) guarded_release(&in[n]);
    guarded_release(&out[0]), guarded_release(&out[1]), guarded_release(&turned);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("hadamard");
    TCase *group = harness_add(suite, "as the device is", (const TTest *const[]){spreads, NULL}),
          *in_groups = harness_add(suite, "as no CPU", (const TTest *const[]){NULL});
    tcase_add_unchecked_fixture(group, begin_cpu, NULL);
    tcase_add_unchecked_fixture(in_groups, begin_gpu, end_gpu);
    harness_add_loop(group, types, TYPES);
    harness_add_loop(group, blocks, SIZES);
    harness_add_loop(group, around_attention, 3);
    harness_add_loop(in_groups, types, TYPES);
    harness_add_loop(in_groups, blocks, SIZES);
    harness_add_loop(in_groups, around_attention, 3);
    return harness_run(suite);
}
