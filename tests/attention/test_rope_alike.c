// test_rope_alike.c: RoPE of a key is the same wherever it is applied. The places are every kernel
// of projections, CLBlast's results, a small layer in one launch, and the steps of a decoder after
// a prefill. Each is compared with clattn_rope_enqueue on the same numbers, with every scaling and
// partial widths. The weights are unit vectors, so all projections compute the same numbers.
#include "support/harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "verification/case/case_fields.h"
#include "verification/device/guarded.h"
#include "verification/reference/random.h"
#include "verification/reference/reference.h"
#include "verification/reference/storage.h"

enum { HEADS = 2, SIZE = 32, WIDTH = HEADS * SIZE, ROWS = 45, PREFILL = 41, POSITION = 1000 };
#define COUNT ((int64_t)WIDTH * ROWS)

// A kernel, forced by tuned rows, and a number of rows that it supports.
static const struct {
    const char *name, *tuned;
    int64_t rows;
    clattn_precision precision;
} kernels[] = {{"linear_few_lanes", "linear_few_lanes :", 1, CLATTN_PRECISION_EXACT},
               {"linear_few_lanes", "linear_few_lanes :", 9, CLATTN_PRECISION_EXACT},
               {"linear_few_lanes", "linear_few_lanes : LANES=8", 35, CLATTN_PRECISION_EXACT},
               {"linear_lanes", "linear_lanes :", PREFILL, CLATTN_PRECISION_EXACT},
               {"linear_rows", "linear_rows :", 7, CLATTN_PRECISION_EXACT},
               {"linear_tiles", "linear_tiles :", PREFILL, CLATTN_PRECISION_EXACT},
               {"linear_matrix", "linear_matrix : MATRIX_ENGINE=1", PREFILL, CLATTN_PRECISION_SPLIT}};
enum { KERNELS = sizeof kernels / sizeof kernels[0] };

static const clattn_rope scalings[] = {
    {.scaling = CLATTN_ROPE_SCALING_NONE},
    {.scaling = CLATTN_ROPE_SCALING_LINEAR, .factor = 4},
    {.scaling = CLATTN_ROPE_SCALING_NTK, .factor = 4},
    {.scaling = CLATTN_ROPE_SCALING_YARN, .factor = 4, .original_length = 64},
    {.scaling = CLATTN_ROPE_SCALING_YARN, .factor = 1, .original_length = 64, .attention_factor = 2},
    {.scaling = CLATTN_ROPE_SCALING_LLAMA3, .factor = 8, .original_length = 64},
    {.scaling = CLATTN_ROPE_SCALING_DYNAMIC, .factor = 2, .original_length = 64, .length = 300},
    {.scaling = CLATTN_ROPE_SCALING_PAIRS, .pair_factors = case_pair_factors, .attention_factor = 1.25}};
enum { SCALINGS = sizeof scalings / sizeof scalings[0], WAYS = SCALINGS * 4 };

// 16-bit types run every scaling and width, but not all combinations. float16 runs one layout: its
// loads are the only difference to bfloat16, which runs both.
static int step_of(clattn_type type) {
    return type == CLATTN_TYPE_F32 ? 1 : type == CLATTN_TYPE_BF16 ? 3 : 6;
}

static clattn_rope rope_of(int way) {
    clattn_rope rope = scalings[way / 4];
    rope.layout = way % 2 ? CLATTN_ROPE_INTERLEAVED : CLATTN_ROPE_HALF;
    rope.rotary_dim = way % 4 < 2 ? 12 : 0;
    if (rope.pair_factors) rope.pairs = (rope.rotary_dim ? rope.rotary_dim : SIZE) / 2;
    rope.position = way % 3 ? POSITION : -POSITION;
    return rope;
}

// x, the matrix that leaves x unchanged, and x after RoPE, all [HEADS, ROWS, SIZE].
typedef struct numbers {
    struct guarded x, w, turned;
    double *before, *after;
} numbers;

static void assert_ok(clattn_context *context, clattn_status status) {
    char why[256] = "";
    if (status != CLATTN_OK) clattn_context_last_error(context, why, sizeof why);
    ck_assert_msg(status == CLATTN_OK, "%s: %s", clattn_status_name(status), why);
}

// A row of x has all heads of that row.
static clattn_tensor heads_of(const clattn_tensor *rows) {
    clattn_tensor t = clattn_tensor_bshd(rows->buffer, rows->type, 1, HEADS, rows->shape[1], SIZE);
    t.offset = rows->offset;
    return t;
}

static numbers numbers_of(const clattn_rope *rope, clattn_type type) {
    struct random random = {3};
    const struct guarded_shape rows = {type, 3, {1, ROWS, WIDTH}, LAYOUT_DENSE},
                               heads = {type, 4, {1, HEADS, ROWS, SIZE}, LAYOUT_DENSE},
                               square = {type, 2, {WIDTH, WIDTH}, LAYOUT_DENSE};
    double *x = reference_alloc(COUNT), *unit = reference_alloc(WIDTH * WIDTH);
    numbers n = {.before = reference_alloc(COUNT), .after = reference_alloc(COUNT)};
    for (int64_t i = 0; i < COUNT; i++) x[i] = storage_round(type, random_uniform(&random, -1, 1));
    for (int64_t i = 0; i < COUNT; i++)
        n.before[i] = x[i / SIZE % ROWS * WIDTH + i / SIZE / ROWS * SIZE + i % SIZE];
    for (int64_t i = 0; i < WIDTH * WIDTH; i++) unit[i] = i / WIDTH == i % WIDTH;
    n.x = guarded_input(harness_place(), &rows, x);
    n.w = guarded_input(harness_place(), &square, unit);
    n.turned = guarded_output(harness_place(), &heads);
    const clattn_rope_params p = {.x = heads_of(&n.x.view), .y = n.turned.view, .rope = *rope};
    assert_ok(harness()->context,
              clattn_rope_enqueue(harness()->context, harness()->queue, &p, 0, NULL, NULL));
    ck_assert(guarded_read(&n.turned, harness()->queue, n.after));
    free(x);
    free(unit);
    return n;
}

static void release(numbers *n) {
    guarded_release(&n->x), guarded_release(&n->w), guarded_release(&n->turned);
    free(n->before), free(n->after);
}

// Rows [first, first + rows) of k equal the rows RoPE'd by themselves. The tolerance is one ulp of
// the two numbers of a pair, and of the storage type; bits are equal where RoPE does nothing.
// YaRN's factor is 1.14 by default.
static void assert_alike(const char *name, const numbers *n, const double *k, int64_t first, int64_t rows,
                         const clattn_rope *rope) {
    const int width = rope->rotary_dim ? rope->rotary_dim : SIZE;
    const double amplitude = rope->attention_factor > 0 ? rope->attention_factor : 1.2;
    for (int64_t h = 0; h < HEADS; h++)
        for (int64_t at = 0; at < rows * SIZE; at++) {
            const int d = (int)(at % SIZE);
            const double want = n->after[(h * ROWS + first) * SIZE + at], is = k[h * rows * SIZE + at],
                         stored = n->x.view.type == CLATTN_TYPE_F32
                                      ? 0
                                      : 2 * storage_roundoff(n->x.view.type) * fabs(want),
                         most = d < width ? 2 * amplitude * 0x1p-23 + stored : 0;
            ck_assert_msg(fabs(want - is) <= most, "%s: head %d, row %d, number %d of %d turned: %g, not %g",
                          name, (int)h, (int)(first + at / SIZE), d, width, is, want);
            ck_assert_msg(d < width || is == n->before[(h * ROWS + first) * SIZE + at], "%s", name);
        }
}

static clattn_context *open_with(const char *tuned) {
    return harness_open((clattn_context_params){.context = harness()->opencl,
                                                .log = harness_log(),
                                                .tuned_rows = tuned,
                                                .cache_dir = getenv("CLATTN_TEST_CACHE")});
}

static clattn_tensor some_rows(clattn_tensor x, int64_t first, int64_t rows) {
    x.offset += first * x.stride[1];
    x.shape[1] = rows;
    return x;
}

// clattn_layer_kv_enqueue with each kernel and each type that it supports.
START_TEST(projections) {
    const int kernel = _i % KERNELS;
    const clattn_type type = (clattn_type)(_i / KERNELS);
    const int64_t rows = kernels[kernel].rows;
    if (type == CLATTN_TYPE_F16 && !strcmp(kernels[kernel].name, "linear_matrix")) return;
    clattn_context *context = open_with(kernels[kernel].tuned);
    for (int way = 0; way < WAYS; way += step_of(type)) {
        const clattn_rope rope = rope_of(way);
        numbers n = numbers_of(&rope, type);
        const struct guarded_shape shape = {type, 4, {1, HEADS, rows, SIZE}, LAYOUT_PADDED};
        struct guarded k = guarded_output(harness_place(), &shape),
                       v = guarded_output(harness_place(), &shape);
        const clattn_tensor x = some_rows(n.x.view, 0, rows), w = n.w.view;
        const clattn_linear_params of = {.x = x,
                                         .w = w,
                                         .out = x,
                                         .projection = CLATTN_PROJECTION_NATIVE,
                                         .precision = kernels[kernel].precision};
        clattn_linear_params planned = of;
        clattn_linear_choice choice;
        planned.x.buffer = planned.w.buffer = planned.out.buffer = NULL;
        assert_ok(context, clattn_linear_plan(context, &planned, &choice));
        ck_assert_str_eq(choice.kernel_name, kernels[kernel].name);
        const clattn_layer_kv_params p = {.y = x,
                                          .wk = w,
                                          .wv = w,
                                          .k = k.view,
                                          .v = v.view,
                                          .rope = rope,
                                          .precision = kernels[kernel].precision};
        assert_ok(context, clattn_layer_kv_enqueue(context, harness()->queue, &p, 0, NULL, NULL));
        double *got = reference_alloc(COUNT);
        ck_assert(guarded_read(&k, harness()->queue, got));
        assert_alike(kernels[kernel].name, &n, got, 0, rows, &rope);
        free(got);
        guarded_release(&k), guarded_release(&v), release(&n);
    }
    clattn_context_destroy(context);
}
END_TEST

// A prefill and the steps of a decoder, by a layer that appends (0: native, 1: CLBlast), or with
// keys that are computed before (2).
START_TEST(prefill_and_steps) {
    const int by = _i % 3;
    const clattn_type type = (clattn_type)(_i / 3);
    if (by == 1 && !harness_has_clblast()) return;
    for (int way = 0; way < WAYS; way += step_of(type)) {
        const clattn_rope rope = rope_of(way);
        numbers n = numbers_of(&rope, type);
        const struct guarded_shape cache = {type, 4, {1, HEADS, ROWS, SIZE}, LAYOUT_DENSE},
                                   rows = {type, 3, {1, ROWS, WIDTH}, LAYOUT_DENSE};
        struct guarded k = guarded_output(harness_place(), &cache),
                       v = guarded_output(harness_place(), &cache),
                       out = guarded_output(harness_place(), &rows);
        const clattn_tensor w = n.w.view;
        for (int64_t first = 0, count = PREFILL; first < ROWS; first += count, count = first % 3 + 1) {
            if (first + count > ROWS) count = ROWS - first;
            const int32_t length = (int32_t)(first + count);
            clattn_layer_params p = {.heads = HEADS, .wq = w, .wk = w, .wv = w, .wo = w, .rope = rope};
            p.x = some_rows(n.x.view, first, count), p.out = some_rows(out.view, first, count);
            p.kv.k = k.view, p.kv.v = v.view, p.append = true;
            p.score.kv_lengths = &length, p.score.causal = true;
            p.score.alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
            p.projection = by ? CLATTN_PROJECTION_CLBLAST : CLATTN_PROJECTION_NATIVE;
            clattn_layer_kv_params made = {
                .y = p.x, .wk = w, .wv = w, .k = k.view, .v = v.view, .rope = rope};
            made.rope.position += first;
            made.k.offset += first * SIZE, made.v.offset += first * SIZE;
            made.k.shape[2] = made.v.shape[2] = count;
            assert_ok(
                harness()->context,
                by == 2 ? clattn_layer_kv_enqueue(harness()->context, harness()->queue, &made, 0, NULL, NULL)
                        : clattn_layer_enqueue(harness()->context, harness()->queue, &p, 0, NULL, NULL));
        }
        double *got = reference_alloc(COUNT);
        ck_assert(guarded_read(&k, harness()->queue, got));
        assert_alike("steps", &n, got, 0, ROWS, &rope);
        free(got);
        guarded_release(&k), guarded_release(&v), guarded_release(&out), release(&n);
    }
}
END_TEST

// A layer of few rows, in one launch if possible. With one key an item, the log-sum-exp is the
// score of its row and itself. Native, and with CLBlast, where attention applies RoPE to the keys.
START_TEST(whole_layers) {
    if (_i == 1 && !harness_has_clblast()) return;
    for (int way = 0; way < WAYS; way++) {
        const clattn_rope rope = rope_of(way);
        numbers n = numbers_of(&rope, CLATTN_TYPE_F32);
        const struct guarded_shape of_lse = {CLATTN_TYPE_F32, 3, {ROWS, HEADS, 1}, LAYOUT_DENSE},
                                   rows = {CLATTN_TYPE_F32, 3, {ROWS, 1, WIDTH}, LAYOUT_DENSE};
        struct guarded lse = guarded_output(harness_place(), &of_lse),
                       out = guarded_output(harness_place(), &rows);
        const clattn_tensor w = n.w.view;
        clattn_layer_params p = {.heads = HEADS, .wq = w, .wk = w, .wv = w, .wo = w, .rope = rope};
        p.x = n.x.view, p.out = out.view, p.lse = lse.view;
        p.x.shape[0] = ROWS, p.x.shape[1] = 1, p.x.stride[0] = WIDTH;
        p.score.scale = 1;
        p.projection = _i ? CLATTN_PROJECTION_CLBLAST : CLATTN_PROJECTION_NATIVE;
        if (_i == 0) p.x.shape[0] = p.out.shape[0] = p.lse.shape[0] = 16;
        assert_ok(harness()->context,
                  clattn_layer_enqueue(harness()->context, harness()->queue, &p, 0, NULL, NULL));
        double got[ROWS * HEADS];
        guarded_read(&lse, harness()->queue, got);
        for (int64_t b = 0; b < p.x.shape[0]; b++)
            for (int64_t h = 0; h < HEADS; h++) {
                double want =
                    // the place of the first row of any head: RoPE keeps lengths, except for the
                    // factor
                    0;
                for (int d = 0; d < SIZE; d++) want += pow(n.after[(h * ROWS + b) * SIZE + d], 2);
                ck_assert_msg(fabs(got[b * HEADS + h] - want) <= 1e-5 * want, "item %d, head %d: %g, not %g",
                              (int)b, (int)h, got[b * HEADS + h], want);
            }
        guarded_release(&lse), guarded_release(&out), release(&n);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("rope_alike");
    TCase *group = harness_add(suite, "alike", (const TTest *const[]){NULL});
    harness_add_loop(group, projections, 3 * KERNELS);
    harness_add_loop(group, prefill_and_steps, 3 * 3);
    tcase_add_loop_test(group, whole_layers, 0, 2);
    return harness_run(suite);
}
