// test_shift.c: clattn_shift_enqueue. Keys RoPE'd at p and shifted by delta equal keys RoPE'd at p
// + delta, in every storage type. Nothing else of the cache changes. Quantised rows are compared
// with clattn_append_enqueue, which test_append.c compares with the host. The suite's own
// clGetDeviceInfo also makes the device one with work-groups. Elsewhere: refusals
// (test_errors_shift.c), events and threads (small_calls.h).
#define _GNU_SOURCE
#include "support/case_assert.h"
#include "support/harness.h"
#include "attention/no_cpu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "verification/case/case_fields.h"
#include "verification/reference/reference.h"
#include "verification/reference/storage.h"

enum { BATCH = 2, HEADS = 3, ROWS = 7, SIZE = 96, LINES = BATCH * HEADS * ROWS, COUNT = LINES * SIZE };

typedef struct shifting {
    clattn_type type;
    enum layout layout;
    clattn_rope rope;
    int32_t delta, deltas[BATCH], lengths[BATCH];
    bool has_deltas, has_lengths;
    bool recorded; // and replayed, twice
    int32_t rotation;
} shifting;

// Keys before RoPE, their positions, and the contents of the cache.
typedef struct keys {
    double *plain, positions[BATCH * ROWS], *before, *after, scales_before[LINES], scales_after[LINES];
    struct guarded cache, scales;
} keys;

static int64_t delta_of(const shifting *s, int64_t line) {
    const int64_t item = line / ROWS / HEADS;
    if (s->has_lengths && line % ROWS >= s->lengths[item]) return 0;
    return (s->recorded ? 2 : 1) * (int64_t)(s->has_deltas ? s->deltas[item] : s->delta);
}

// An empty cache.
static void bind_cache(const shifting *s, struct guarded *cache, struct guarded *scales) {
    double *zeros = reference_alloc(COUNT);
    const int64_t elements = SIZE / clattn_type_numbers(s->type);
    const struct guarded_shape k = {s->type, 4, {BATCH, HEADS, ROWS, elements}, s->layout},
                               k_scale = {CLATTN_TYPE_F32, 3, {BATCH, HEADS, ROWS}, layout_loose(s->layout)};
    *cache = guarded_in_out(harness_place(), &k, zeros);
    *scales = CLATTN_TYPE_IS_SCALED(s->type) ? guarded_in_out(harness_place(), &k_scale, zeros)
                                             : (struct guarded){.bytes = 0};
    free(zeros);
}

// Append float32 rows at these positions [BATCH][ROWS].
static void append(const clattn_rope *rope, int32_t rotation, const double *rows, const double *positions,
                   const struct guarded *cache, const struct guarded *scales) {
    const struct guarded_shape of_rows = {CLATTN_TYPE_F32, 4, {BATCH, HEADS, ROWS, SIZE}, LAYOUT_DENSE},
                               of = {CLATTN_TYPE_I32, 2, {BATCH, ROWS}, LAYOUT_DENSE};
    struct guarded k_new = guarded_input(harness_place(), &of_rows, rows),
                   at = guarded_input(harness_place(), &of, positions);
    clattn_append_params p = {.k_new = k_new.view, .k = cache->view, .k_scale = scales->view, .rope = *rope};
    p.k_rotation = rotation;
    p.rope.positions = at.view;
    ck_assert_msg(clattn_append_enqueue(on, harness()->queue, &p, 0, NULL, NULL) == CLATTN_OK, "%s",
                  harness_log_text());
    clFinish(harness()->queue);
    guarded_release(&k_new);
    guarded_release(&at);
}

// The cache's numbers, rounded like on the device, and its scales.
static void read_cache(const struct guarded *cache, const struct guarded *scales, double *numbers,
                       double *of_rows) {
    ck_assert_msg(guarded_read(cache, harness()->queue, numbers), "bytes around the cache changed");
    for (int n = 0; n < LINES; n++) of_rows[n] = 1;
    if (guarded_given(&scales->view))
        ck_assert_msg(guarded_read(scales, harness()->queue, of_rows), "bytes around the scales changed");
    for (int n = 0; n < COUNT; n++) numbers[n] = (double)(float)(numbers[n] * of_rows[n / SIZE]);
}

static void bind(const shifting *s, keys *k) {
    struct random random = {42};
    *k = (keys){.plain = case_random(&random, COUNT, CLATTN_TYPE_F32, 2),
                .before = reference_alloc(COUNT),
                .after = reference_alloc(COUNT)};
    for (int n = 0; n < BATCH * ROWS; n++) k->positions[n] = floor(random_uniform(&random, 0, 9000));
    bind_cache(s, &k->cache, &k->scales);
    append(&s->rope, s->rotation, k->plain, k->positions, &k->cache, &k->scales);
    read_cache(&k->cache, &k->scales, k->before, k->scales_before);
}

static void unbind(keys *k) {
    guarded_release(&k->cache);
    guarded_release(&k->scales);
    free(k->plain), free(k->before), free(k->after);
}

static clattn_shift_params params_of(const shifting *s, const keys *k) {
    clattn_shift_params p = {
        .k = k->cache.view, .k_scale = k->scales.view, .rope = s->rope, .delta = s->delta};
    p.k_rotation = s->rotation;
    if (s->has_deltas) p.deltas = s->deltas;
    if (s->has_lengths) p.lengths = s->lengths;
    return p;
}

// The step of the type at the largest number of a RoPE'd pair, for numbers up to 2.
static double step_of(clattn_type type) {
    const double most = 2 * 1.4143;
    switch (type) {
    case CLATTN_TYPE_I8:
    case CLATTN_TYPE_Q8_0:
        return most / 127;
    case CLATTN_TYPE_F8E4M3:
        return most / 8;
    case CLATTN_TYPE_F8E5M2:
        return most / 4;
    case CLATTN_TYPE_Q4_0:
        return most / 8;
    case CLATTN_TYPE_Q4_1:
        return 2 * most / 15;
    default:
        return 2 * storage_roundoff(type) * most;
    }
}

// Rows RoPE'd at p, rounded, shifted by delta and rounded equal rows RoPE'd at p + delta.
// Hadamard-transformed numbers are up to three times as large.
static void check_positions(const shifting *s, const keys *k, const char *what) {
    const double bound = (s->rotation ? 3 : 1) * ((s->recorded ? 3.5 : 2.5) * step_of(s->type) + 2e-6);
    for (int line = 0; line < LINES; line++) {
        double row[SIZE];
        const double at = k->positions[line / ROWS / HEADS * ROWS + line % ROWS] + (double)delta_of(s, line);
        memcpy(row, k->plain + line * SIZE, sizeof row);
        reference_rope(&s->rope, row, SIZE, (const double[3]){at, at, at});
        reference_hadamard(row, SIZE, s->rotation);
        for (int d = 0; d < SIZE; d++)
            ck_assert_msg(fabs(k->after[line * SIZE + d] - row[d]) <= bound,
                          "%s: row %d, column %d is %.9g, should be %.9g", what, line, d,
                          k->after[line * SIZE + d], row[d]);
    }
}

// Shifted rows have the bits of appended rows. Other rows, and blocks behind R, keep their bits.
static void check_numbers(const shifting *s, const keys *k, const char *what) {
    const int width = s->rope.rotary_dim ? s->rope.rotary_dim : SIZE, of_block = clattn_type_numbers(s->type);
    double deltas[BATCH * ROWS], *want = reference_alloc(COUNT), of_rows[LINES];
    struct guarded cache, scales;
    clattn_rope rope = s->rope;
    if (rope.scaling == CLATTN_ROPE_SCALING_YARN || rope.scaling == CLATTN_ROPE_SCALING_PAIRS)
        rope.attention_factor = 1; // the keys already contain the factor
    for (int n = 0; n < BATCH * ROWS; n++)
        deltas[n] = (double)delta_of(s, n / ROWS * HEADS * ROWS + n % ROWS);
    bind_cache(s, &cache, &scales);
    append(&rope, 0, k->before, deltas, &cache, &scales);
    read_cache(&cache, &scales, want, of_rows);
    for (int n = 0; n < COUNT; n++) {
        const bool stays =
            delta_of(s, n / SIZE) == 0 || (of_block > 1 && n % SIZE / of_block * of_block >= width);
        const double is = stays ? k->before[n] : want[n];
        ck_assert_msg(k->after[n] == is, "%s: row %d, column %d is %.9g, should be %.9g", what, n / SIZE,
                      n % SIZE, k->after[n], is);
    }
    for (int n = 0; n < LINES; n++) {
        const double is = delta_of(s, n) ? of_rows[n] : k->scales_before[n];
        ck_assert_msg(k->scales_after[n] == is, "%s: scale %d is %.9g, should be %.9g", what, n,
                      k->scales_after[n], is);
    }
    guarded_release(&cache);
    guarded_release(&scales);
    free(want);
}

static clattn_status enqueue(const shifting *s, const clattn_shift_params *p) {
    cl_command_queue queue = harness()->queue;
    clattn_recording *r = NULL;
    if (!s->recorded) return clattn_shift_enqueue(on, queue, p, 0, NULL, NULL);
    clattn_status status = clattn_recording_begin(on, queue, &r);
    if (status == CLATTN_OK) status = clattn_shift_enqueue(on, queue, p, 0, NULL, NULL);
    if (status == CLATTN_OK) status = clattn_recording_end(r);
    for (int n = 0; n < 2 && status == CLATTN_OK; n++)
        status = clattn_recording_enqueue(r, queue, 0, NULL, NULL);
    clFinish(queue);
    clattn_recording_destroy(r);
    return status;
}

static void run(const shifting *s, const char *what) {
    keys k;
    bind(s, &k);
    const clattn_shift_params p = params_of(s, &k);
    harness_log_clear();
    ck_assert_msg(clattn_shift_prepare(on, &p) == CLATTN_OK && enqueue(s, &p) == CLATTN_OK, "%s: %s", what,
                  harness_log_text());
    read_cache(&k.cache, &k.scales, k.after, k.scales_after);
    check_positions(s, &k, what);
    if (!s->recorded && !s->rotation) check_numbers(s, &k, what);
    for (int n = 0; n < COUNT; n++)
        ck_assert_msg(k.after[n] == k.before[n] || delta_of(s, n / SIZE) != 0, "%s: row %d changed", what,
                      n / SIZE);
    unbind(&k);
}

static const clattn_type types[] = {CLATTN_TYPE_F32, CLATTN_TYPE_Q8_0,   CLATTN_TYPE_BF16,
                                    CLATTN_TYPE_I8,  CLATTN_TYPE_F8E4M3, CLATTN_TYPE_F8E5M2,
                                    CLATTN_TYPE_F16, CLATTN_TYPE_Q4_0,   CLATTN_TYPE_Q4_1};
enum { TYPES = sizeof types / sizeof types[0] };

static shifting plain(clattn_type type, int n) {
    return (shifting){.type = type,
                      .layout = (enum layout)(n % LAYOUT_COUNT),
                      .delta = n % 3 ? -700 - n : 4000,
                      .rope = {.layout = n % 2 ? CLATTN_ROPE_HALF : CLATTN_ROPE_INTERLEAVED}};
}

// Widths that end with a block, widths that end inside a block, and widths whose halves meet inside
// a block. A shortened run has each width in one layout only.
START_TEST(storage_types) {
    static const int widths[] = {0, 64, 32, 40, 10};
    for (int n = 0; n < 10; n++) {
        if (harness_every() > 1 && (n + n / 2) % 2) continue;
        shifting s = plain(types[_i], n);
        s.rope.rotary_dim = widths[n / 2];
        run(&s, clattn_type_name(types[_i]));
    }
}
END_TEST

// Each item has its own delta and number of rows. Items with a delta of 0, and rows past the
// number, keep every bit.
START_TEST(items) {
    static const int32_t deltas[][BATCH] = {{-5, 17}, {0, -16777216}, {-4096, 0}},
                         lengths[][BATCH] = {{ROWS, 3}, {0, ROWS - 1}, {1, ROWS}};
    for (int n = 0; n < 9; n++) {
        shifting s = plain(types[_i], n);
        s.has_deltas = n % 3 != 1, s.has_lengths = n % 3 != 0;
        if (s.has_deltas) s.delta = 0;
        memcpy(s.deltas, deltas[n / 3], sizeof s.deltas);
        memcpy(s.lengths, lengths[(n + 1) / 3 % 3], sizeof s.lengths);
        s.rope.rotary_dim = n % 2 ? 48 : 0;
        run(&s, clattn_type_name(types[_i]));
    }
}
END_TEST

// Rows of a Hadamard-transformed cache: whole rows, and a RoPE'd part that ends inside a block. The
// shift must undo the transform, apply RoPE, and transform again.
START_TEST(rotated) {
    static const int32_t rotations[] = {32, 2, 16, 8};
    for (int n = _i % 2; n < 4; n += 2) {
        shifting s = plain(types[_i], n);
        s.rotation = rotations[n];
        s.rope.rotary_dim = n < 2 ? 0 : 40;
        s.has_lengths = true, s.lengths[0] = 4, s.lengths[1] = ROWS;
        run(&s, clattn_type_name(types[_i]));
    }
}
END_TEST

// Returns whether byte `at` of the cache's buffer is part of a shifted row.
static bool is_turned(const shifting *s, const clattn_tensor *k, int64_t at) {
    const int64_t element = at / (int64_t)clattn_type_size(s->type), numbers = clattn_type_numbers(s->type);
    for (int line = 0; line < LINES; line++) {
        const int64_t column = element - k->offset - line / ROWS / HEADS * k->stride[0] -
                               line / ROWS % HEADS * k->stride[1] - line % ROWS * k->stride[2];
        const int64_t end =
            CLATTN_TYPE_IS_SCALED(s->type) ? SIZE : (s->rope.rotary_dim + numbers - 1) / numbers;
        if (delta_of(s, line) != 0 && column >= 0 && column < end) return true;
    }
    return false;
}

static void fill(const struct guarded *tensor, uint8_t byte) {
    uint8_t *bytes = malloc(tensor->bytes + 1);
    ck_assert_ptr_nonnull(bytes);
    memset(bytes, byte, tensor->bytes);
    ck_assert(clEnqueueWriteBuffer(harness()->queue, tensor->view.buffer, CL_TRUE, 0, tensor->bytes, bytes, 0,
                                   NULL, NULL) == CL_SUCCESS);
    free(bytes);
}

// Bytes that the library itself would never store, so that quantising them again changes them. All
// bytes outside the shifted rows stay, the others change. The elements of rows are spaced apart.
START_TEST(other_bytes) {
    static const int32_t deltas[][BATCH] = {{0, 0}, {0, -9}, {700, 0}};
    for (int n = 0; n < 4; n++) {
        shifting s = plain(types[_i], 2);
        keys k;
        int64_t kept = 0, changed = 0;
        s.delta = 0, s.rope.rotary_dim = 32, s.has_deltas = n > 0;
        if (n > 0) memcpy(s.deltas, deltas[n - 1], sizeof s.deltas);
        s.has_lengths = n > 1, s.lengths[0] = ROWS - 2, s.lengths[1] = 1;
        bind(&s, &k);
        fill(&k.cache, 0x2b);
        if (guarded_given(&k.scales.view)) fill(&k.scales, 0x2b);
        const clattn_shift_params p = params_of(&s, &k);
        ck_assert_msg(enqueue(&s, &p) == CLATTN_OK, "%s", harness_log_text());
        uint8_t *bytes = guarded_bytes(&k.cache, harness()->queue);
        for (size_t at = 0; at < k.cache.bytes; at++) {
            const bool turned = is_turned(&s, &k.cache.view, (int64_t)at);
            kept += !turned, changed += bytes[at] != 0x2b;
            ck_assert_msg(turned || bytes[at] == 0x2b, "%s: byte %zu changed", clattn_type_name(s.type), at);
        }
        ck_assert(kept > 0 && (changed > 0) == (n > 1));
        free(bytes);
        unbind(&k);
    }
}
END_TEST

START_TEST(recorded) {
    shifting s = plain(types[_i], 1 + _i);
    s.recorded = true, s.has_lengths = true, s.lengths[0] = 4, s.lengths[1] = ROWS;
    run(&s, clattn_type_name(types[_i]));
}
END_TEST

// Every scaling whose angles are linear in the position. YaRN's factor is not applied twice.
START_TEST(scalings) {
    static const clattn_rope all[CLATTN_ROPE_SCALING_COUNT] = {
        {.base = 500000},
        {.factor = 4},
        {.factor = 8},
        {.factor = 32, .original_length = 4096, .base = 150000, .untruncated = true},
        {.factor = 8, .original_length = 8192, .base = 500000},
        {.factor = 2, .original_length = 2048, .length = 2048},
        {.pair_factors = case_pair_factors, .pairs = SIZE / 2, .attention_factor = 1.19}};
    for (int n = 0; n < 2 * CLATTN_ROPE_SCALING_COUNT; n++) {
        shifting s = plain(n < CLATTN_ROPE_SCALING_COUNT ? CLATTN_TYPE_F32 : CLATTN_TYPE_Q8_0, n);
        const int scaling = n % CLATTN_ROPE_SCALING_COUNT;
        const clattn_rope_layout layout = s.rope.layout;
        s.rope = all[scaling];
        s.rope.layout = layout, s.rope.scaling = (clattn_rope_scaling)scaling;
        run(&s, names_scalings[scaling]);
    }
}
END_TEST

// Rows of zeros stay zeros. A row whose scale is NaN is read as NaN, its neighbours are not.
START_TEST(hostile_scales) {
    const clattn_type type = (clattn_type[]){CLATTN_TYPE_I8, CLATTN_TYPE_F8E4M3, CLATTN_TYPE_F8E5M2}[_i];
    const struct guarded_shape k = {type, 4, {1, 1, 4, 32}, LAYOUT_DENSE},
                               k_scale = {CLATTN_TYPE_F32, 3, {1, 1, 4}, LAYOUT_DENSE};
    double x[4 * 32], scales[] = {0, (double)NAN, (double)INFINITY, 2}, got[4 * 32], of[4];
    for (int n = 0; n < 4 * 32; n++) x[n] = n % 32 - 12;
    struct guarded cache = guarded_in_out(harness_place(), &k, x),
                   with = guarded_in_out(harness_place(), &k_scale, scales);
    const clattn_shift_params p = {
        .k = cache.view, .k_scale = with.view, .delta = -9, .rope = {.layout = CLATTN_ROPE_HALF}};
    ck_assert_msg(clattn_shift_enqueue(on, harness()->queue, &p, 0, NULL, NULL) == CLATTN_OK, "%s",
                  harness_log_text());
    ck_assert(guarded_read(&cache, harness()->queue, got) && guarded_read(&with, harness()->queue, of));
    ck_assert_double_eq(of[0], 0);
    for (int d = 0; d < 32; d++) {
        ck_assert_double_eq(got[d], 0);
        ck_assert(isnan(got[32 + d] * of[1]) && isnan(got[64 + d] * of[2]) && isfinite(got[96 + d] * of[3]));
    }
    guarded_release(&cache);
    guarded_release(&with);
}
END_TEST

static bool hear(void *user, double done) {
    return *(double *)user = done, true;
}

START_TEST(tells) {
    const shifting s = plain(CLATTN_TYPE_F16, 1);
    keys k;
    bind(&s, &k);
    double done = 0;
    const clattn_progress progress = {hear, &done};
    clattn_shift_params p = params_of(&s, &k);
    p.progress = &progress;
    ck_assert_msg(enqueue(&s, &p) == CLATTN_OK, "%s", harness_log_text());
    ck_assert_double_eq(done, 1.0);
    unbind(&k);
}
END_TEST

// Run the suite with one work-item per row, and then with work-groups.
int main(void) {
    Suite *suite = suite_create("shift");
    TCase *group = harness_add(suite, "as the device is", (const TTest *const[]){scalings, tells, NULL}),
          *in_groups = harness_add(suite, "as no CPU", (const TTest *const[]){NULL});
    tcase_add_unchecked_fixture(group, begin_cpu, NULL);
    tcase_add_unchecked_fixture(in_groups, begin_gpu, end_gpu);
    tcase_add_loop_test(group, storage_types, 0, TYPES);
    tcase_add_loop_test(group, items, 0, TYPES);
    tcase_add_loop_test(group, other_bytes, 0, TYPES);
    tcase_add_loop_test(group, recorded, 0, TYPES);
    harness_add_loop(group, rotated, TYPES);
    tcase_add_loop_test(group, hostile_scales, 0, 3);
    harness_add_loop(in_groups, storage_types, TYPES);
    harness_add_loop(in_groups, other_bytes, TYPES);
    harness_add_loop(in_groups, rotated, TYPES);
    return harness_run(suite);
}
