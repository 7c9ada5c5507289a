// test_rope_call.c: clattn_rope_enqueue in place and out of place. It covers counted and explicit
// positions, M-RoPE's sections, the caller's cosines and sines, every storage type, and the error
// of the angles at position 1,000,000. Elsewhere: refusals (test_errors_rope.c), RoPE inside
// attention and layers (test_rope.c, test_layer_rope.c).
#include "support/case_assert.h"
#include "support/harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verification/device/budget.h"
#include "verification/case/case_fields.h"
#include "verification/reference/reference.h"
#include "verification/reference/storage.h"

enum { BATCH = 2, HEADS = 3, ROWS = 9, SIZE = 40, CACHE = 50 };

typedef enum cached { CACHED_NOT, CACHED_POSITIONS, CACHED_ROWS, CACHED_ONE_ITEM } cached;

// A call, and the data of its expected result.
typedef struct turning {
    clattn_type x, y;
    enum layout layout;
    bool in_place, shared; // shared: all batch items have one row of positions
    const double
        // [1 or 3][BATCH][ROWS], only the first item if shared; NULL: counted
        *positions;
    cached cached;
    clattn_type cached_type;
    clattn_rope rope;
    int32_t offset, offsets[BATCH];
    bool has_offsets;
} turning;

// The call's tensors.
typedef struct bound {
    struct guarded x, y, positions, cos, sin;
    double *values, *cos_values, *sin_values;
    clattn_rope_params params;
} bound;

static int axes_of(const turning *t) {
    return reference_has_sections(&t->rope) ? 3 : 1;
}

static int pairs_of(const turning *t) {
    return (t->rope.rotary_dim ? t->rope.rotary_dim : SIZE) / 2;
}

static void bind_positions(const turning *t, bound *b) {
    const int64_t batch = t->shared ? 1 : BATCH, axes = axes_of(t);
    double values[3 * BATCH * ROWS];
    for (int64_t n = 0; n < axes * batch * ROWS; n++)
        values[n] = t->positions[(n / (batch * ROWS) * BATCH + n / ROWS % batch) * ROWS + n % ROWS];
    const struct guarded_shape plain = {CLATTN_TYPE_I32, 2, {batch, ROWS}, t->layout},
                               three = {CLATTN_TYPE_I32, 3, {3, batch, ROWS}, t->layout};
    b->positions = guarded_input(harness_place(), axes == 3 ? &three : &plain, values);
    b->params.rope.positions = b->positions.view;
}

static void bind_cached(const turning *t, bound *b, struct random *random) {
    const int pairs = pairs_of(t);
    const int64_t items = t->cached == CACHED_ROWS ? BATCH : 1;
    const struct guarded_shape of_rows = {t->cached_type, 3, {items, ROWS, pairs}, layout_loose(t->layout)},
                               of_positions = {t->cached_type, 2, {CACHE, pairs}, layout_loose(t->layout)};
    const struct guarded_shape *shape = t->cached == CACHED_POSITIONS ? &of_positions : &of_rows;
    const int64_t count = guarded_shape_count(shape);
    b->cos_values = case_random(random, count, t->cached_type, 1);
    b->sin_values = case_random(random, count, t->cached_type, 1);
    b->cos = guarded_input(harness_place(), shape, b->cos_values);
    b->sin = guarded_input(harness_place(), shape, b->sin_values);
    b->params.cos = b->cos.view, b->params.sin = b->sin.view;
}

static void bind(const turning *t, bound *b) {
    struct random random = {42};
    const struct guarded_shape x = {t->x, 4, {BATCH, HEADS, ROWS, SIZE}, t->layout},
                               y = {t->y,
                                    4,
                                    {BATCH, HEADS, ROWS, SIZE},
                                    (enum layout)((t->layout + 1) % LAYOUT_COUNT)};
    *b = (bound){.values = case_random(&random, BATCH * HEADS * ROWS * SIZE, t->x, 2)};
    b->params = (clattn_rope_params){.rope = t->rope, .offset = t->offset};
    if (t->has_offsets) b->params.offsets = t->offsets;
    if (t->in_place) {
        b->y = guarded_in_out(harness_place(), &x, b->values);
        b->params.x = b->y.view;
    } else {
        b->x = guarded_input(harness_place(), &x, b->values);
        b->y = guarded_output(harness_place(), &y);
        b->params.x = b->x.view;
    }
    b->params.y = b->y.view;
    if (t->positions) bind_positions(t, b);
    if (t->cached) bind_cached(t, b, &random);
}

static void unbind(bound *b) {
    struct guarded *const all[] = {&b->x, &b->y, &b->positions, &b->cos, &b->sin};
    for (int n = 0; n < 5; n++) guarded_release(all[n]);
    free(b->values);
    free(b->cos_values);
    free(b->sin_values);
}

// Apply the caller's cosine and sine to pair d of a row. Tables are tested with one axis of
// positions only.
static void turn_by_cached(const turning *t, const bound *b, int64_t item, int64_t n, double position,
                           double *row) {
    const int pairs = pairs_of(t);
    const bool half = t->rope.layout == CLATTN_ROPE_HALF;
    int64_t at = (int64_t)fmin(fmax(position, 0), CACHE - 1);
    if (t->cached != CACHED_POSITIONS) at = (t->cached == CACHED_ROWS ? item * ROWS : 0) + n;
    for (int d = 0; d < pairs; d++) {
        double *x = row + (half ? d : 2 * d), *y = row + (half ? d + pairs : 2 * d + 1), x0 = *x, y0 = *y;
        const double c = b->cos_values[at * pairs + d], s = b->sin_values[at * pairs + d];
        *x = x0 * c - y0 * s, *y = y0 * c + x0 * s;
    }
}

// Replace b->values by the expected result.
static void turn_values(const turning *t, bound *b) {
    for (int64_t r = 0; r < BATCH * HEADS * ROWS; r++) {
        const int64_t n = r % ROWS, item = r / ROWS / HEADS, from = t->shared ? 0 : item;
        const double counted =
            (double)(t->rope.position + n + (t->has_offsets ? t->offsets[item] : t->offset));
        double position[3] = {counted, counted, counted};
        for (int axis = 0; t->positions && axis < axes_of(t); axis++)
            position[axis] = t->positions[(axis * BATCH + from) * ROWS + n];
        if (t->cached)
            turn_by_cached(t, b, item, n, position[0], b->values + r * SIZE);
        else
            reference_rope(&t->rope, b->values + r * SIZE, SIZE, position);
    }
}

// Returns the largest error of all elements.
static double run(const turning *t, const char *what) {
    bound b;
    char why[256] = "";
    const int64_t count = BATCH * HEADS * ROWS * SIZE;
    double *got = reference_alloc(count), largest = 0, error = 0;
    bind(t, &b);
    cl_event event = NULL;
    const clattn_status status =
        clattn_rope_enqueue(harness()->context, harness()->queue, &b.params, 0, NULL, &event);
    ck_assert_msg(status == CLATTN_OK, "%s: %s", what, harness_log_text());
    clReleaseEvent(event);
    ck_assert_msg(guarded_read(&b.y, harness()->queue, got), "%s: bytes around y changed", what);
    ck_assert_msg(t->in_place || guarded_intact(&b.x, harness()->queue), "%s: x changed", what);
    turn_values(t, &b);
    for (int64_t n = 0; n < count; n++) {
        largest = fmax(largest, fabs(b.values[n]));
        error = fmax(error, fabs(got[n] - b.values[n]));
    }
    const struct budget budget = {.what = "y",
                                  .type = t->y,
                                  .got = got,
                                  .ref = b.values,
                                  .count = count,
                                  .max_error = 1.01 * storage_roundoff(t->y) * largest + 3e-6};
    ck_assert_msg(budget_holds(&budget, why, sizeof why), "%s: %s", what, why);
    free(got);
    unbind(&b);
    return error;
}

static turning plain(int n) {
    return (turning){
        .layout = (enum layout)(n % LAYOUT_COUNT),
        .in_place = n / 2 % 2 == 1,
        .rope = {.layout = n % 2 ? CLATTN_ROPE_HALF : CLATTN_ROPE_INTERLEAVED, .position = 1000}};
}

START_TEST(both_layouts) {
    static const int widths[] = {0, 40, 24, 2};
    for (int n = 0; n < 16; n++) {
        turning t = plain(n);
        t.rope.rotary_dim = widths[n / 4];
        run(&t, "layouts");
    }
}
END_TEST

START_TEST(storage_types) {
    static const clattn_type types[][2] = {{CLATTN_TYPE_F16, CLATTN_TYPE_F16},
                                           {CLATTN_TYPE_BF16, CLATTN_TYPE_BF16},
                                           {CLATTN_TYPE_F32, CLATTN_TYPE_BF16},
                                           {CLATTN_TYPE_F16, CLATTN_TYPE_F32}};
    for (int n = 0; n < 16; n++) {
        turning t = plain(n);
        t.x = types[n / 4][0], t.y = types[n / 4][1];
        t.in_place = t.in_place && t.x == t.y;
        run(&t, "types");
    }
}
END_TEST

// Counted positions, also below 0.
START_TEST(counted_positions) {
    for (int n = 0; n < 8; n++) {
        turning t = plain(n);
        t.rope.position = n / 2 == 3 ? -70 : 9000;
        if (n / 2 == 1) t.offset = -8000;
        if (n / 2 >= 2) t.has_offsets = true, t.offsets[0] = 60, t.offsets[1] = -9000;
        run(&t, "counted");
    }
}
END_TEST

static void make_positions(double positions[3 * BATCH * ROWS], double low, double high) {
    struct random random = {5};
    for (int n = 0; n < 3 * BATCH * ROWS; n++) positions[n] = floor(random_uniform(&random, low, high));
}

START_TEST(explicit_positions) {
    static const int32_t sections[][3] = {{0, 0, 0}, {4, 6, 10}, {0, 20, 0}, {8, 7, 5}, {2, 11, 7}};
    double positions[3 * BATCH * ROWS];
    make_positions(positions, -0x1p20, 0x1p20);
    for (int n = 0; n < 20; n++) {
        turning t = plain(n);
        t.rope.position = 0;
        t.positions = positions;
        t.shared = n / 2 % 2 == 0;
        memcpy(t.rope.sections, sections[n / 4], sizeof sections[0]);
        t.rope.sections_interleaved = n / 4 >= 3;
        run(&t, "explicit");
    }
}
END_TEST

// ONNX's RotaryEmbedding. The tables have numbers that are no cosines, so that a wrong index shows.
START_TEST(cached_rows) {
    double positions[3 * BATCH * ROWS];
    make_positions(positions, -10, CACHE + 10); // indices outside read the ends of the tables
    for (int n = 0; n < 20; n++) {
        turning t = plain(n);
        t.cached = (cached)(1 + n / 4 % 3);
        t.rope.position = 0;
        if (n < 4) t.rope.position = 3, t.offset = CACHE - 3 - ROWS;
        if (n >= 12) t.cached = CACHED_POSITIONS, t.positions = positions;
        if (n >= 16) t.x = t.y = t.cached_type = CLATTN_TYPE_F16, t.rope.rotary_dim = 24;
        run(&t, "cached");
    }
}
END_TEST

// For each scaling, prints the error of the RoPE'd numbers relative to float64. An angle computed
// in plain float32 would be off by 0.03.
START_TEST(one_million) {
    static const clattn_rope scalings[CLATTN_ROPE_SCALING_COUNT] = {
        {0},
        {.factor = 4},
        {.factor = 8},
        {.factor = 32, .original_length = 4096, .base = 150000, .untruncated = true},
        {.factor = 8, .original_length = 8192, .base = 500000},
        {.factor = 2, .original_length = 2048, .length = 7000},
        {.pair_factors = case_pair_factors, .pairs = SIZE / 2, .attention_factor = 1.19}};
    double positions[3 * BATCH * ROWS];
    make_positions(positions, 999990, 1000010);
    for (int n = 0; n < 4 * CLATTN_ROPE_SCALING_COUNT; n++) {
        const int scaling = n / 4;
        turning t = plain(n);
        t.rope = scalings[scaling];
        t.rope.layout = n % 2 ? CLATTN_ROPE_HALF : CLATTN_ROPE_INTERLEAVED;
        t.rope.scaling = (clattn_rope_scaling)scaling;
        if (n / 2 % 2)
            t.positions = positions;
        else
            t.rope.position = 1000000;
        const double error = run(&t, "one million");
        printf("rope at 1,000,000: %s, %s, %s: largest error %.2g\n", names_scalings[scaling],
               n % 2 ? "half" : "interleaved", t.positions ? "explicit" : "counted", error);
        ck_assert_msg(error < 1.5e-6, "%s: %g", names_scalings[scaling], error);
    }
}
END_TEST

// A size of 0 means no work, for each of B, H and N.
START_TEST(sizes_of_zero) {
    for (int axis = 0; axis < 3; axis++) {
        const turning t = plain(axis);
        bound b;
        bind(&t, &b);
        b.params.x.shape[axis] = b.params.y.shape[axis] = 0;
        ck_assert_msg(clattn_rope_enqueue(harness()->context, harness()->queue, &b.params, 0, NULL, NULL) ==
                          CLATTN_OK,
                      "%s", harness_log_text());
        ck_assert(guarded_intact(&b.y, harness()->queue));
        unbind(&b);
    }
}
END_TEST

static bool hear(void *user, double done) {
    return *(double *)user = done, true;
}

START_TEST(waits_and_tells) {
    const turning t = plain(0);
    bound b;
    cl_event gate = harness_gate(), event = NULL;
    bind(&t, &b);
    ck_assert(clattn_rope_prepare(harness()->context, &b.params) == CLATTN_OK);
    ck_assert_msg(clattn_rope_enqueue(harness()->context, harness()->queue, &b.params, 1, &gate, &event) ==
                      CLATTN_OK,
                  "%s", harness_log_text());
    harness_open_gate(gate, event, harness()->queue);
    double done = 0;
    const clattn_progress progress = {hear, &done};
    b.params.progress = &progress;
    ck_assert(clattn_rope_enqueue(harness()->context, harness()->queue, &b.params, 0, NULL, NULL) ==
              CLATTN_OK);
    ck_assert_double_eq(done, 1.0);
    unbind(&b);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {both_layouts,       storage_types,   counted_positions,
                                  explicit_positions, cached_rows,     one_million,
                                  sizes_of_zero,      waits_and_tells, NULL};
    Suite *suite = suite_create("rope_call");
    harness_add(suite, "rope", tests);
    return harness_run(suite);
}
