// test_append.c: clattn_append_enqueue writes rows into a linear or circular cache: every pair of
// types, types with scales, keys with RoPE. Nothing else of the cache may change. Elsewhere:
// refusals (test_errors_append.c), and attention that appends (test_append_attention.c).
#include "support/case_assert.h"
#include "support/harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "verification/device/budget.h"
#include "verification/reference/reference.h"
#include "verification/reference/storage.h"

enum { BATCH = 2, HEADS = 3, ROWS = 5, CAPACITY = 13, SIZE = 32, SIZE_V = 17, MOST = 64, WIDE = 1056 };

typedef struct appending {
    clattn_type type, kept; // storage types of the new rows and of the cache
    enum layout layout;
    bool circular, no_k, no_v;
    bool has_starts, has_lengths;
    int32_t start, starts[BATCH], lengths[BATCH];
    clattn_rope rope;
    const double *positions; // [1 or 3][BATCH][ROWS]; NULL: positions are counted
    int32_t k_rotation, v_rotation;
    int64_t size_v; // 0: SIZE_V, or MOST with blocks
} appending;

// Keys or values: the rows, the cache and its scales, and the expected contents of both.
typedef struct side {
    int64_t size;
    double *rows, *cache, *scales;
    struct guarded rows_of, cache_of, scales_of;
} side;

static int64_t start_of(const appending *a, int64_t b) {
    return a->has_starts ? a->starts[b] : a->start;
}

static void bind_side(const appending *a, side *s, int64_t size, uint64_t seed) {
    struct random random = {seed};
    const int64_t elements = size / clattn_type_numbers(a->kept);
    const struct guarded_shape rows = {a->type, 4, {BATCH, HEADS, ROWS, size}, a->layout},
                               cache = {a->kept, 4, {BATCH, HEADS, CAPACITY, elements}, a->layout},
                               scales = {
                                   CLATTN_TYPE_F32, 3, {BATCH, HEADS, CAPACITY}, layout_loose(a->layout)};
    s->size = size;
    s->rows = case_random(&random, BATCH * HEADS * ROWS * size, a->type, 2);
    s->cache = case_random(&random, BATCH * HEADS * CAPACITY * size, a->kept,
                           CLATTN_TYPE_IS_SCALED(a->kept) ? 100 : 2);
    s->scales = case_random(&random, BATCH * HEADS * CAPACITY, CLATTN_TYPE_F32, 1);
    for (int64_t n = 0; CLATTN_TYPE_IS_SCALED(a->kept) && n < BATCH * HEADS * CAPACITY * size; n++)
        s->cache[n] = storage_unscaled(a->kept, s->cache[n]);
    s->rows_of = guarded_input(harness_place(), &rows, s->rows);
    s->cache_of = guarded_in_out(harness_place(), &cache, s->cache);
    if (CLATTN_TYPE_IS_SCALED(a->kept)) s->scales_of = guarded_in_out(harness_place(), &scales, s->scales);
}

static void free_side(side *s) {
    guarded_release(&s->rows_of);
    guarded_release(&s->cache_of);
    guarded_release(&s->scales_of);
    free(s->rows);
    free(s->cache);
    free(s->scales);
}

static void turn_row(const appending *a, int64_t b, int64_t r, double *row) {
    const double counted = (double)(a->rope.position + start_of(a, b) + r);
    double position[3] = {counted, counted, counted};
    for (int axis = 0; a->positions && axis < (reference_has_sections(&a->rope) ? 3 : 1); axis++)
        position[axis] = a->positions[(axis * BATCH + b) * ROWS + r];
    reference_rope(&a->rope, row, SIZE, position);
}

// One row as the cache should store it, and its scale.
static void store_row(const appending *a, const double *row, int64_t size, double *to, double *scale) {
    double largest = 0;
    for (int64_t d = 0; d < size; d++) largest = fmax(largest, fabs(row[d]));
    *scale = (double)((float)largest / (float)storage_largest(a->kept));
    for (int64_t d = 0; d < size; d++) {
        to[d] = !CLATTN_TYPE_IS_SCALED(a->kept) ? storage_round(a->kept, row[d])
                : *scale > 0 ? storage_unscaled(a->kept, (double)((float)row[d] / (float)*scale))
                             : 0;
    }
    if (clattn_type_numbers(a->kept) > 1) storage_round_blocks(a->kept, to, size);
}

// Compute the expected contents of the cache, in s->cache and s->scales.
static void append_rows(const appending *a, side *s, bool keys) {
    double row[WIDE];
    for (int64_t n = 0; n < BATCH * HEADS * ROWS; n++) {
        const int64_t r = n % ROWS, head = n / ROWS, b = head / HEADS;
        if (a->has_lengths && r >= a->lengths[b]) continue;
        const int64_t to = head * CAPACITY + (start_of(a, b) + r) % CAPACITY;
        memcpy(row, s->rows + n * s->size, (size_t)s->size * sizeof *row);
        if (keys && a->rope.layout != CLATTN_ROPE_NONE) turn_row(a, b, r, row);
        reference_hadamard(row, s->size, keys ? a->k_rotation : a->v_rotation);
        store_row(a, row, s->size, s->cache + to * s->size, &s->scales[to]);
    }
}

// The device's cosines and the sums of a Hadamard transform are float32, so a result may differ by
// one step of the type. The step is an integer for int8, and a part of the number for float8. For
// blocks of numbers up to 3 (8 when transformed) it is the range divided by the number of codes.
static void check_side(const appending *a, side *s, bool rotated, const char *what) {
    const int64_t rows = BATCH * HEADS * CAPACITY, count = rows * s->size;
    const double most = rotated ? 8 : 3.1;
    double *got = reference_alloc(count), *scales = reference_alloc(rows), step = 0;
    ck_assert_msg(guarded_read(&s->cache_of, harness()->queue, got), "%s: bytes around the cache changed",
                  what);
    ck_assert_msg(guarded_intact(&s->rows_of, harness()->queue), "%s: the rows changed", what);
    if (CLATTN_TYPE_IS_SCALED(a->kept))
        ck_assert_msg(guarded_read(&s->scales_of, harness()->queue, scales),
                      "%s: bytes around scales changed", what);
    for (int64_t n = 0; n < count; n++) {
        if (a->rope.layout != CLATTN_ROPE_NONE || rotated)
            step = a->kept == CLATTN_TYPE_I8        ? 1
                   : CLATTN_TYPE_IS_SCALED(a->kept) ? fmax(fabs(s->cache[n]) / 4, 0x1p-14)
                   : a->kept == CLATTN_TYPE_Q8_0    ? most / 127
                   : a->kept >= CLATTN_TYPE_Q4_0    ? 2 * most / 15
                                                    : 2 * storage_roundoff(a->kept) * most + 4e-6;
        ck_assert_msg(fabs(got[n] - s->cache[n]) <= step, "%s: element %lld is %.9g, should be %.9g", what,
                      (long long)n, got[n], s->cache[n]);
    }
    for (int64_t n = 0; CLATTN_TYPE_IS_SCALED(a->kept) && n < rows; n++)
        ck_assert_msg(fabs(scales[n] - s->scales[n]) <= 1e-6 * fabs(s->scales[n]),
                      "%s: scale %lld is %.9g, not %.9g", what, (long long)n, scales[n], s->scales[n]);
    free(got);
    free(scales);
}

static void run(const appending *a, const char *what) {
    side k = {0}, v = {0};
    struct guarded positions = {0};
    const int64_t size_v = a->size_v ? a->size_v : clattn_type_numbers(a->kept) > 1 ? MOST : SIZE_V;
    bind_side(a, &k, SIZE, 1), bind_side(a, &v, size_v, 2);
    clattn_append_params p = {.start = a->start, .circular = a->circular, .rope = a->rope};
    if (!a->no_k) p.k_rotation = a->k_rotation;
    if (!a->no_v) p.v_rotation = a->v_rotation;
    if (!a->no_k) p.k_new = k.rows_of.view, p.k = k.cache_of.view, p.k_scale = k.scales_of.view;
    if (!a->no_v) p.v_new = v.rows_of.view, p.v = v.cache_of.view, p.v_scale = v.scales_of.view;
    if (a->has_starts) p.starts = a->starts;
    if (a->has_lengths) p.lengths = a->lengths;
    if (a->positions) {
        const bool three = reference_has_sections(&a->rope);
        const struct guarded_shape one = {CLATTN_TYPE_I32, 2, {BATCH, ROWS}, a->layout},
                                   axes = {CLATTN_TYPE_I32, 3, {3, BATCH, ROWS}, a->layout};
        positions = guarded_input(harness_place(), three ? &axes : &one, a->positions);
        p.rope.positions = positions.view;
    }
    harness_log_clear();
    ck_assert_msg(clattn_append_enqueue(harness()->context, harness()->queue, &p, 0, NULL, NULL) == CLATTN_OK,
                  "%s: %s", what, harness_log_text());
    if (!a->no_k) append_rows(a, &k, true);
    if (!a->no_v) append_rows(a, &v, false);
    appending plain = *a;
    plain.rope.layout = CLATTN_ROPE_NONE;
    check_side(a, &k, a->k_rotation != 0, what);
    check_side(&plain, &v, a->v_rotation != 0, what);
    guarded_release(&positions);
    free_side(&k);
    free_side(&v);
}

START_TEST(storage_types) {
    static const clattn_type types[][2] = {
        {CLATTN_TYPE_F32, CLATTN_TYPE_F32},    {CLATTN_TYPE_F32, CLATTN_TYPE_F16},
        {CLATTN_TYPE_F32, CLATTN_TYPE_I8},     {CLATTN_TYPE_F16, CLATTN_TYPE_BF16},
        {CLATTN_TYPE_BF16, CLATTN_TYPE_F32},   {CLATTN_TYPE_BF16, CLATTN_TYPE_I8},
        {CLATTN_TYPE_F32, CLATTN_TYPE_F8E4M3}, {CLATTN_TYPE_F16, CLATTN_TYPE_F8E5M2},
        {CLATTN_TYPE_F32, CLATTN_TYPE_Q8_0},   {CLATTN_TYPE_F32, CLATTN_TYPE_Q4_0},
        {CLATTN_TYPE_F32, CLATTN_TYPE_Q4_1},   {CLATTN_TYPE_BF16, CLATTN_TYPE_Q4_0}};
    for (int n = 0; n < 24; n++) {
        const appending a = {.type = types[n / 2][0],
                             .kept = types[n / 2][1],
                             .layout = (enum layout)(n % LAYOUT_COUNT),
                             .start = n % 9};
        run(&a, "types");
    }
}
END_TEST

// Each item has its own start and number of rows, also around the end of the ring.
START_TEST(starts) {
    for (int n = 0; n < 16; n++) {
        appending a = {.layout = (enum layout)(n % LAYOUT_COUNT),
                       .kept = n / 8 ? CLATTN_TYPE_I8 : CLATTN_TYPE_F32};
        a.has_starts = n & 1, a.has_lengths = n & 2, a.circular = n & 4;
        a.start = a.has_starts ? 0 : a.circular ? 1000 : CAPACITY - ROWS;
        a.starts[0] = a.circular ? CAPACITY - 2 : 3, a.starts[1] = CAPACITY - ROWS;
        a.lengths[0] = 0, a.lengths[1] = 4;
        run(&a, "starts");
    }
}
END_TEST

START_TEST(one_side) {
    for (int n = 0; n < 4; n++) {
        const appending a = {
            .no_k = n % 2 == 0, .no_v = n % 2 == 1, .kept = n / 2 ? CLATTN_TYPE_I8 : CLATTN_TYPE_F32};
        run(&a, "one side");
    }
}
END_TEST

START_TEST(turned) {
    static const int32_t sections[][3] = {{0, 0, 0}, {4, 5, 3}, {3, 4, 5}};
    double positions[3 * BATCH * ROWS];
    struct random random = {3};
    for (int n = 0; n < 3 * BATCH * ROWS; n++) positions[n] = floor(random_uniform(&random, -0x1p20, 0x1p20));
    const int n = _i;
    appending a = {.kept = n >= 12      ? (clattn_type)(CLATTN_TYPE_Q8_0 + n % 3)
                           : n % 6 == 3 ? CLATTN_TYPE_F8E4M3
                           : n % 3 == 0 ? CLATTN_TYPE_I8
                           : n % 3 == 1 ? CLATTN_TYPE_F32
                                        : CLATTN_TYPE_BF16,
                   .layout = (enum layout)(n % LAYOUT_COUNT),
                   .has_starts = true,
                   .starts = {2, 7},
                   .circular = n % 4 == 0,
                   .rope = {.layout = n % 2 ? CLATTN_ROPE_HALF : CLATTN_ROPE_INTERLEAVED}};
    if (n < 6) {
        a.rope.position = n < 3 ? 1000000 : -5;
        a.rope.rotary_dim = 10;
        a.rope.scaling = CLATTN_ROPE_SCALING_YARN;
        a.rope.factor = 4, a.rope.original_length = 4096;
    } else {
        a.positions = positions, a.rope.rotary_dim = 24;
        memcpy(a.rope.sections, sections[n % 3], sizeof sections[0]);
        a.rope.sections_interleaved = n % 3 == 2;
    }
    run(&a, "turned");
}
END_TEST

// Every type, with keys after RoPE or without, with transformed values or without. Values have 64
// numbers with blocks, and else 17, which no block divides.
START_TEST(rotated) {
    static const clattn_type types[] = {CLATTN_TYPE_F32,    CLATTN_TYPE_BF16, CLATTN_TYPE_I8,
                                        CLATTN_TYPE_F8E4M3, CLATTN_TYPE_Q8_0, CLATTN_TYPE_Q4_1};
    const int n = _i;
    const clattn_type kept = types[n % 6];
    appending a = {.kept = kept,
                   .layout = (enum layout)(n % LAYOUT_COUNT),
                   .has_starts = true,
                   .starts = {2, 7},
                   .has_lengths = n % 2 != 0,
                   .lengths = {3, ROWS},
                   .no_k = n / 6 == 3,
                   .k_rotation = n / 6 == 2 ? 0 : 4 << n % 4};
    if (clattn_type_numbers(kept) > 1) a.v_rotation = n % 2 ? 64 : 16;
    if (n / 6 == 1)
        a.rope =
            (clattn_rope){.layout = n % 2 ? CLATTN_ROPE_HALF : CLATTN_ROPE_INTERLEAVED, .rotary_dim = 24};
    run(&a, "rotated");
}
END_TEST

// Keys are Hadamard-transformed, values are not. Rows of values are wider than the local memory of
// a transformed row.
START_TEST(rotated_beside_wide) {
    static const clattn_type types[] = {CLATTN_TYPE_F32,    CLATTN_TYPE_BF16, CLATTN_TYPE_I8,
                                        CLATTN_TYPE_F8E4M3, CLATTN_TYPE_Q8_0, CLATTN_TYPE_Q4_1};
    appending a = {.kept = types[_i], .start = 2, .k_rotation = 16, .size_v = WIDE};
    if (_i % 2) a.rope = (clattn_rope){.layout = CLATTN_ROPE_HALF};
    run(&a, "rotated beside wide rows");
}
END_TEST

// Rows of zeros, and rows with numbers that a byte cannot store.
START_TEST(hostile_rows) {
    static const clattn_type types[] = {CLATTN_TYPE_I8, CLATTN_TYPE_F8E4M3, CLATTN_TYPE_F8E5M2};
    const clattn_type type = types[_i];
    const struct guarded_shape rows = {CLATTN_TYPE_F32, 4, {1, 1, 4, SIZE}, LAYOUT_DENSE},
                               cache = {type, 4, {1, 1, 4, SIZE}, LAYOUT_DENSE},
                               scales = {CLATTN_TYPE_F32, 3, {1, 1, 4}, LAYOUT_DENSE};
    double x[4 * SIZE] = {0}, got[4 * SIZE], scale[4];
    x[SIZE + 3] = (double)NAN, x[2 * SIZE + SIZE - 1] = (double)INFINITY, x[3 * SIZE] = storage_largest(type);
    for (int d = 1; d < SIZE; d++) x[3 * SIZE + d] = d - 10.5; // ties
    struct guarded from = guarded_input(harness_place(), &rows, x),
                   to = guarded_output(harness_place(), &cache),
                   of = guarded_output(harness_place(), &scales);
    const clattn_append_params p = {.k_new = from.view, .k = to.view, .k_scale = of.view};
    ck_assert_msg(clattn_append_enqueue(harness()->context, harness()->queue, &p, 0, NULL, NULL) == CLATTN_OK,
                  "%s", harness_log_text());
    ck_assert(guarded_read(&to, harness()->queue, got) && guarded_read(&of, harness()->queue, scale));
    ck_assert_double_eq(scale[0], 0);
    for (int d = 0; d < SIZE; d++) {
        ck_assert_double_eq(got[d], 0);
        ck_assert_msg(isnan(got[SIZE + d] * scale[1]) && isnan(got[2 * SIZE + d] * scale[2]),
                      "column %d is a number", d);
        ck_assert_double_eq(got[3 * SIZE + d], storage_unscaled(type, x[3 * SIZE + d]));
    }
    guarded_release(&from);
    guarded_release(&to);
    guarded_release(&of);
}
END_TEST

// One block of zeros, one with a NaN, one with an infinity, and one of numbers. A NaN or infinity
// must not affect other blocks.
START_TEST(hostile_blocks) {
    enum { BLOCKS = 4, COUNT = BLOCKS * 32 };
    const clattn_type type = (clattn_type)(CLATTN_TYPE_Q8_0 + _i);
    const struct guarded_shape rows = {CLATTN_TYPE_F32, 4, {1, 1, 1, COUNT}, LAYOUT_DENSE},
                               cache = {type, 4, {1, 1, 1, BLOCKS}, LAYOUT_DENSE};
    double x[COUNT] = {0}, got[COUNT];
    x[32 + 3] = (double)NAN, x[64 + 31] = -(double)INFINITY;
    for (int d = 96; d < COUNT; d++) x[d] = (d - 111) / 16.0;
    struct guarded from = guarded_input(harness_place(), &rows, x),
                   to = guarded_output(harness_place(), &cache);
    const clattn_append_params p = {.k_new = from.view, .k = to.view};
    ck_assert_msg(clattn_append_enqueue(harness()->context, harness()->queue, &p, 0, NULL, NULL) == CLATTN_OK,
                  "%s", harness_log_text());
    ck_assert(guarded_read(&to, harness()->queue, got));
    storage_round_blocks(type, x, COUNT);
    for (int d = 0; d < COUNT; d++)
        ck_assert_msg(d >= 32 && d < 96 ? isnan(got[d]) : got[d] == x[d], "column %d is %g", d, got[d]);
    guarded_release(&from);
    guarded_release(&to);
}
END_TEST

// Rows of 64 numbers in groups with scales and zero points. Each stored number must match the
// written scale and zero point, which follow from the group. One group has a NaN. Rows that are not
// appended stay.
enum { GROUPED = 64, GROUPED_ROWS = 3 };

static void check_group(const double *x, int group, clattn_type type, clattn_type scale_type, bool zeros,
                        const double *n, double scale, double zero) {
    const double low = storage_least(type), high = storage_largest(type);
    double least = INFINITY, most = -INFINITY;
    bool is_nan = false;
    for (int d = 0; d < group; d++) least = fmin(least, x[d]), most = fmax(most, x[d]), is_nan |= isnan(x[d]);
    const double range = least == most ? fabs(most) : (most - least) / (high - low),
                 want = zeros ? range : fmax(-least, most) / high,
                 rounding = 2 * storage_roundoff(scale_type);
    for (int d = 0; d < group; d++) {
        const double number = (n[d] - zero) * scale, y = (double)((float)x[d] / (float)scale + (float)zero);
        ck_assert_msg(is_nan ? isnan(number) != 0
                             : n[d] == (scale == 0 ? 0
                                        : zeros    ? storage_from_zero(type, y)
                                                   : storage_unscaled(type, y)),
                      "%s: number %d, %g, is stored as %g", clattn_type_name(type), d, x[d], n[d]);
    }
    if (is_nan) return;
    ck_assert_msg(fabs(scale - want) <= rounding * want, "scale %g, should be %g", scale, want);
    // The zero point uses the rounded scale. With the unrounded scale, most zero points of 16 bits
    // would differ slightly.
    const double of_zero = scale > 0 && zeros ? low - least / scale : 0,
                 division = scale > 0 ? 0x1p-22 * fabs(least / scale) : 0;
    ck_assert_msg(zero >= storage_round(scale_type, of_zero - division) &&
                      zero <= storage_round(scale_type, of_zero + division),
                  "zero %g, should be %g", zero, of_zero);
}

START_TEST(groups) {
    static const clattn_type types[] = {CLATTN_TYPE_I8, CLATTN_TYPE_I4, CLATTN_TYPE_U4, CLATTN_TYPE_F8E4M3};
    const clattn_type type = types[_i % 4], scale_type = (clattn_type)(_i / 4 % 3);
    const bool zeros = _i >= 12;
    for (int group = 32; group <= GROUPED && (zeros || type != CLATTN_TYPE_U4); group *= 2) {
        const int64_t per_row = GROUPED / group, elements = GROUPED / clattn_type_numbers(type);
        const enum layout layout = (enum layout)(_i % LAYOUT_COUNT);
        const struct guarded_shape rows = {CLATTN_TYPE_F32, 4, {1, 2, 2, GROUPED}, layout},
                                   cache = {type, 4, {1, 2, GROUPED_ROWS, elements}, layout},
                                   of = {scale_type, 4, {1, 2, GROUPED_ROWS, per_row}, layout};
        double x[2 * 2 * GROUPED], n[2 * GROUPED_ROWS * GROUPED], s[12], z[12] = {0},
                                                                         before[2 * GROUPED_ROWS * GROUPED];
        struct random random = {(uint64_t)_i + 7};
        for (int d = 0; d < 2 * 2 * GROUPED; d++) x[d] = (double)(float)random_uniform(&random, -1, 3);
        // groups of zeros and of equal numbers
        for (int d = 0; d < group; d++) x[d] = 0, x[GROUPED + d] = -2.5;
        x[2 * GROUPED + 5] = (double)NAN;
        for (int d = 0; d < 2 * GROUPED_ROWS * GROUPED; d++) before[d] = d % 3;
        for (int d = 0; d < 12; d++) s[d] = 7;
        struct guarded from = guarded_input(harness_place(), &rows, x),
                       to = guarded_in_out(harness_place(), &cache, before),
                       scale = guarded_in_out(harness_place(), &of, s), zero = {.bytes = 0};
        clattn_tensor view = scale.view;
        view.buffer = NULL, view.svm = view.usm = NULL, view.offset += 3;
        zero = guarded_view(harness_place(), &view, s, true);
        clattn_append_params p = {.k_new = from.view, .k = to.view, .k_scale = scale.view, .start = 1};
        if (zeros) p.k_zero = zero.view;
        ck_assert_msg(clattn_append_enqueue(harness()->context, harness()->queue, &p, 0, NULL, NULL) ==
                          CLATTN_OK,
                      "%s", harness_log_text());
        ck_assert(guarded_read(&to, harness()->queue, n) && guarded_read(&scale, harness()->queue, s));
        ck_assert(guarded_read(&zero, harness()->queue, z));
        for (int64_t line = 0; line < 2 * GROUPED_ROWS; line++)
            for (int64_t g = 0; g < per_row; g++) {
                const int64_t head = line / GROUPED_ROWS, row = line % GROUPED_ROWS,
                              at = line * GROUPED + g * group;
                const double of_zero = zeros ? z[line * per_row + g] : 0;
                if (row == 0)
                    for (int64_t d = at; d < at + group; d++) ck_assert_double_eq(n[d], before[d]);
                else
                    check_group(x + (head * 2 + row - 1) * GROUPED + g * group, group, type, scale_type,
                                zeros, n + at, s[line * per_row + g], of_zero);
            }
        guarded_release(&from), guarded_release(&to), guarded_release(&scale), guarded_release(&zero);
    }
}
END_TEST

// Decode every byte of float8 by the definition of OFP8. The byte is a value whose key has the
// whole weight. One Dv is a multiple of the vector width, the other is not.
START_TEST(every_float8) {
    const bool e4m3 = _i % 2 == 0;
    const int size = _i / 2 ? 241 : 256, mantissa = e4m3 ? 3 : 2, bias = e4m3 ? 7 : 15;
    double bytes[256], exact[256], got[256], one[16], scale = 2;
    for (int n = 0; n < size; n++) {
        const int code = (n + 15) % 256, exponent = (code & 127) >> mantissa,
                  part = code & ((1 << mantissa) - 1);
        const double step = ldexp(1, (exponent ? exponent : 1) - bias - mantissa);
        exact[n] = step * (exponent ? part + (1 << mantissa) : part) * (code & 128 ? -1 : 1);
        if (e4m3 ? (code & 127) == 127 : exponent == 31)
            exact[n] = e4m3 || part ? (double)NAN : copysign((double)INFINITY, exact[n]);
        bytes[n] = code;
    }
    for (int n = 0; n < 16; n++) one[n] = 0;
    const struct guarded_shape rows = {CLATTN_TYPE_F32, 4, {1, 1, 1, 16}, LAYOUT_DENSE},
                               keys = {CLATTN_TYPE_BOOL, 4, {1, 1, 1, 16}, LAYOUT_DENSE},
                               values = {CLATTN_TYPE_BOOL, 4, {1, 1, 1, size}, LAYOUT_DENSE},
                               outs = {CLATTN_TYPE_F32, 4, {1, 1, 1, size}, LAYOUT_DENSE},
                               scales = {CLATTN_TYPE_F32, 3, {1, 1, 1}, LAYOUT_DENSE};
    struct guarded q = guarded_input(harness_place(), &rows, one),
                   k = guarded_input(harness_place(), &keys, one),
                   v = guarded_input(harness_place(), &values, bytes),
                   s = guarded_input(harness_place(), &scales, &scale),
                   out = guarded_output(harness_place(), &outs);
    clattn_attention_params p = {
        .q = q.view, .out = out.view, .kv = {.k = k.view, .v = v.view, .k_scale = s.view, .v_scale = s.view}};
    p.kv.k.type = p.kv.v.type = e4m3 ? CLATTN_TYPE_F8E4M3 : CLATTN_TYPE_F8E5M2;
    for (int kernel = CLATTN_KERNEL_UNFUSED; kernel <= CLATTN_KERNEL_DECODE; kernel++) {
        p.kernel = (clattn_kernel)kernel;
        ck_assert_msg(clattn_attention_enqueue(harness()->context, harness()->queue, &p, 0, NULL, NULL) ==
                          CLATTN_OK,
                      "%s", harness_log_text());
        ck_assert(guarded_read(&out, harness()->queue, got));
        for (int n = 0; n < size; n++)
            ck_assert_msg(isnan(exact[n]) ? isnan(got[n]) != 0 : got[n] == 2 * exact[n],
                          "%s: byte %d is %g, not %g", clattn_kernel_name(p.kernel), (n + 15) % 256,
                          got[n] / 2, exact[n]);
    }
    guarded_release(&q), guarded_release(&k), guarded_release(&v), guarded_release(&s), guarded_release(&out);
}
END_TEST

START_TEST(sizes_of_zero) {
    for (int axis = 0; axis < 3; axis++) {
        const appending a = {0};
        side k = {0};
        bind_side(&a, &k, SIZE, 1);
        clattn_append_params p = {.k_new = k.rows_of.view, .k = k.cache_of.view};
        p.k_new.shape[axis] = 0;
        if (axis < 2) p.k.shape[axis] = 0;
        ck_assert_msg(clattn_append_enqueue(harness()->context, harness()->queue, &p, 0, NULL, NULL) ==
                          CLATTN_OK,
                      "%s", harness_log_text());
        p.k_new.buffer = NULL; // it has no elements
        ck_assert_msg(clattn_append_enqueue(harness()->context, harness()->queue, &p, 0, NULL, NULL) ==
                          CLATTN_OK,
                      "%s", harness_log_text());
        ck_assert(guarded_intact(&k.cache_of, harness()->queue));
        free_side(&k);
    }
}
END_TEST

static bool hear(void *user, double done) {
    return *(double *)user = done, true;
}

START_TEST(waits_and_tells) {
    const appending a = {.kept = CLATTN_TYPE_F32};
    side k = {0};
    bind_side(&a, &k, SIZE, 1);
    double done = 0;
    const clattn_progress progress = {hear, &done};
    clattn_append_params p = {.k_new = k.rows_of.view, .k = k.cache_of.view};
    cl_event gate = harness_gate(), event = NULL;
    ck_assert(clattn_append_prepare(harness()->context, &p) == CLATTN_OK);
    ck_assert(clattn_append_enqueue(harness()->context, harness()->queue, &p, 1, &gate, &event) == CLATTN_OK);
    harness_open_gate(gate, event, harness()->queue);
    p.progress = &progress;
    ck_assert(clattn_append_enqueue(harness()->context, harness()->queue, &p, 0, NULL, NULL) == CLATTN_OK);
    ck_assert_double_eq(done, 1.0);
    free_side(&k);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {storage_types, starts, one_side, sizes_of_zero, waits_and_tells, NULL};
    Suite *suite = suite_create("append");
    TCase *group = harness_add(suite, "append", tests);
    tcase_add_loop_test(group, hostile_rows, 0, 3);
    tcase_add_loop_test(group, hostile_blocks, 0, 3);
    tcase_add_loop_test(group, every_float8, 0, 4);
    harness_add_loop(group, turned, 18);
    harness_add_loop(group, rotated, 24);
    tcase_add_loop_test(group, rotated_beside_wide, 0, 6);
    harness_add_loop(group, groups, 24);
    return harness_run(suite);
}
