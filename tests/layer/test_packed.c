// test_packed.c: weights that are packed once, projections on matrix tiles (emulated here;
// test_tiles.c has AMX's own instructions) and split float32. Results are right at every size,
// identical with packed and unpacked weights, and as exact as multiply-adds. Numbers that terms
// cannot represent use multiply-adds. Weights packed for another device or precision are refused.
#include "support/case_assert.h"
#include "support/harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static clattn_context *context;
static struct place place;

static void open_context(void) {
    context = harness_open((clattn_context_params){.context = harness()->opencl,
                                                   .log = harness_log(),
                                                   .tuned_rows = "linear_matrix :",
                                                   .cache_dir = getenv("CLATTN_TEST_CACHE")});
    place = *harness_place();
    place.context = context;
}
static void close_context(void) {
    clattn_context_destroy(context);
}

// Run a case by its name on `context` or the harness' context. With `taken`, the kernel must be
// linear_matrix.
static void assert_kernel(const struct case_arrays *a, bool taken) {
    clattn_linear_choice choice;
    if (a->op != CASE_LINEAR) return;
    ck_assert_int_eq(clattn_linear_plan(context, &a->linear, &choice), CLATTN_OK);
    ck_assert_msg((strcmp(choice.kernel_name, "linear_matrix") == 0) == taken, "%s: %s", choice.kernel_name,
                  choice.why);
    if (taken) ck_assert_uint_eq(choice.workspace_bytes == 0, a->linear.packed.buffer != NULL);
}

static double *run(struct case_data *data, bool taken) {
    struct case_arrays arrays;
    char why[512];
    case_bind(data, &place, &arrays);
    assert_kernel(&arrays, taken);
    const clattn_status status = case_enqueue(context, place.queue, &arrays, NULL);
    ck_assert_msg(status == CLATTN_OK, "%s", harness_log_text());
    struct case_result got = case_collect(&arrays, place.queue, NULL);
    ck_assert_msg(case_agrees(data, &got, why, sizeof why), "%s", why);
    double *out = got.out;
    got.out = NULL;
    case_result_free(&got);
    case_unbind(&arrays);
    return out;
}

// With packed and unpacked weights: the same bits.
static void assert_both(struct test_case *test, bool taken) {
    double *out[2];
    char name[CASE_NAME_SIZE];
    for (int n = 0; n < 2; n++) {
        test->packs = n == 0;
        struct case_data *data = case_make(test);
        case_name(test, name);
        out[n] = run(data, taken);
        case_free(data);
    }
    const size_t count = (size_t)(test->batch ? test->batch : 1) * (size_t)test->n_q *
                         (size_t)(test->op == CASE_LAYER ? (test->width_out ? test->width_out : test->width)
                                                         : (test->heads ? test->heads : 1) * test->head_dim);
    ck_assert_msg(memcmp(out[0], out[1], count * sizeof **out) == 0, "%s: packed and unpacked differ", name);
    free(out[0]);
    free(out[1]);
}

// bf16 by bf16; float32 by float32; float32 by bf16; bf16 by float32.
static void set_types(struct test_case *t, int kind) {
    t->q_type = kind == 0 || kind == 3 ? CLATTN_TYPE_BF16 : CLATTN_TYPE_F32;
    t->matrix_type = kind == 0 || kind == 2 ? CLATTN_TYPE_BF16 : CLATTN_TYPE_F32;
    t->precision = kind ? CLATTN_PRECISION_SPLIT : CLATTN_PRECISION_EXACT;
}

// Sizes around a tile's side, its depth, a block, a work-item's rows and columns, and a part of the
// reduction.
START_TEST(sizes) {
    static const int64_t rows[] = {1, 15, 16, 33, 63, 129, 200},
                         inner[] = {64, 65, 95, 97, 128, 257, 513, 600},
                         columns[] = {1, 16, 31, 33, 64, 100, 513};
    for (int n = 0; n < 56; n++) {
        struct test_case t = {.op = CASE_LINEAR, .name = "sizes", .batch = 1 + n % 2};
        t.n_q = rows[n % 7], t.width = inner[n % 8], t.head_dim = columns[n * 3 % 7];
        t.biases = n / 2 % 2;
        set_types(&t, n % 4);
        assert_both(&t, true);
    }
    for (int n = 1; n < 64; n += 9) { // bf16 needs no long reduction
        struct test_case t = {.op = CASE_LINEAR, .name = "short", .n_q = 3, .width = n, .head_dim = 40};
        set_types(&t, 0);
        assert_both(&t, true);
        set_types(&t, 1);
        assert_both(&t, false);
    }
}
END_TEST

START_TEST(layouts) {
    for (int n = 0; n < LAYOUT_COUNT * 4; n++) {
        struct test_case t = {.op = CASE_LINEAR, .name = "layouts", .batch = 2, .n_q = 21, .biases = 1};
        t.width = 77, t.head_dim = 45, t.layout = (enum layout)(n % LAYOUT_COUNT);
        set_types(&t, n / LAYOUT_COUNT);
        t.bias_type = (clattn_type)(n % 3);
        assert_both(&t, true);
    }
}
END_TEST

// Heads of all sizes, RoPE fused if tiles hold whole heads and separate otherwise, biases,
// cross-attention.
START_TEST(layers) {
    static const char *const names[] = {
        "layer-bf16-b2-h4-hkv2-n40-d32-m96-causal-biases-ropehalf",
        "layer-bf16-b1-h3-n33-d20-m70-full-biases-ropeinterleaved-rotary10",
        "layer-bf16-b1-h2-n9-nkv50-d48-dv24-m64-full-my80-mo33-biases",
        "layer-f32-b2-h4-n35-d16-m64-causal-split-biases-ropehalf",
        "layer-f32-b1-h2-n20-d34-m70-full-split-ropeinterleaved-ropepos1000",
        "layer-f32-b1-h4-n40-d24-m96-full-split-matrixbf16-qlen31-kvlen20-ropehalf",
        "layer-f32-b1-h2-n17-d600-m64-full-split-ropehalf",
    };
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
        struct test_case t;
        char why[256];
        ck_assert_msg(case_parse(names[n], &t, why), "%s: %s", names[n], why);
        assert_both(&t, true);
    }
}
END_TEST

// Numbers that terms cannot represent, in the middle of tiles. The affected 32 x 32 blocks of out
// equal an exact call on linear_lanes. Every other element is finite and right.
static const struct {
    const char *name;
    float x, w; // x and w each replace one element; 0: unchanged
} hard[] = {
    {"infinity in x", INFINITY, 0},
    {"infinity in w", 0, -INFINITY},
    {"NaN in x", NAN, 0},
    {"NaN in w", 0, NAN},
    {"both", INFINITY, NAN},
    {"small x", 0x1p-110f, 0},
    {"small w", 0, -0x1p-101f},
    {"denormal", 0x1p-140f, 0x1p-130f},
    {"greatest x", 3.4e38f, 0},
    {"greatest w", 0, -3.4e38f},
    {"large product", 0x1p60f, 0x1p60f},
    {"small product", 0x1p-60f, 0x1p-60f},
};
#define HARD ((int)(sizeof hard / sizeof hard[0]))
enum { HARD_ROWS = 100, HARD_INNER = 130, HARD_COLUMNS = 90, ROW = 45, INNER = 70, COLUMN = 50 };

static double *run_on(clattn_context *c, const struct case_data *data, clattn_precision precision) {
    struct case_arrays a;
    struct place at = place;
    at.context = c;
    case_bind(data, &at, &a);
    a.linear.precision = precision;
    a.linear.projection = CLATTN_PROJECTION_NATIVE;
    const clattn_status status = clattn_linear_enqueue(c, place.queue, &a.linear, 0, NULL, NULL);
    ck_assert_msg(status == CLATTN_OK, "%s", harness_log_text());
    struct case_result got = case_collect(&a, place.queue, NULL);
    double *out = got.out;
    got.out = NULL;
    case_result_free(&got);
    case_unbind(&a);
    return out;
}

static bool same(double a, double b) {
    return a == b || (isnan(a) && isnan(b));
}

START_TEST(hard_numbers) {
    struct test_case t = {.op = CASE_LINEAR, .name = hard[_i].name, .n_q = HARD_ROWS, .width = HARD_INNER};
    t.head_dim = HARD_COLUMNS, t.biases = 1, t.packs = true;
    clattn_context *lanes = harness_open(
        (clattn_context_params){.context = harness()->opencl, .tuned_rows = "linear_lanes cpu=1 :"});
    for (int kind = 1; kind < 3; kind++) {
        set_types(&t, kind);
        if (kind == 2 && (float)hard[_i].w == 3.4e38f) continue;
        struct case_data *data = case_make(&t);
        double *x = data->x + ROW * HARD_INNER, *w = data->matrix[LAYER_Q] + COLUMN * HARD_INNER;
        if (hard[_i].x != 0.0f) x[INNER] = (double)hard[_i].x;
        if (hard[_i].w != 0.0f) w[INNER] = (double)hard[_i].w;
        double *exact = run_on(lanes, data, CLATTN_PRECISION_EXACT),
               *split = run_on(context, data, CLATTN_PRECISION_SPLIT);
        for (int r = 0; r < HARD_ROWS; r++)
            for (int c = 0; c < HARD_COLUMNS; c++) {
                const double want = exact[r * HARD_COLUMNS + c], got = split[r * HARD_COLUMNS + c];
                const bool sees_x = hard[_i].x != 0.0f && r / 32 == ROW / 32;
                const bool sees_w = hard[_i].w != 0.0f && c / 32 == COLUMN / 32;
                const bool alone =
                    // each number alone is harmless; only their product is hard
                    hard[_i].x == 0x1p60f || hard[_i].x == 0x1p-60f;
                if (alone ? sees_x && sees_w : sees_x || sees_w)
                    ck_assert_msg(same(want, got), "%s, %d: [%d, %d] is %g, not %g", hard[_i].name, kind, r,
                                  c, got, want);
                else
                    ck_assert_msg(fabs(got - want) <= 1e-5 * (fabs(want) + 10),
                                  "%s, %d: [%d, %d] is %g, not %g", hard[_i].name, kind, r, c, got, want);
            }
        free(exact);
        free(split);
        case_free(data);
    }
    clattn_context_destroy(lanes);
}
END_TEST

// Rows and columns of small numbers, whose products are normal in float32 but not in tiles. Results
// are right to float32's last bits.
START_TEST(small_products) {
    struct test_case t = {.op = CASE_LINEAR, .name = "small", .n_q = 40, .width = 96, .head_dim = 40};
    set_types(&t, 1);
    for (int shift = 20; shift <= 70; shift += 10) {
        struct case_data *data = case_make(&t);
        for (int n = 0; n < 40 * 96; n++)
            data->x[n] = ldexp(data->x[n], -shift),
            data->matrix[LAYER_Q][n] = ldexp(data->matrix[LAYER_Q][n], -shift);
        double *got = run_on(context, data, CLATTN_PRECISION_SPLIT), worst = 0;
        for (int r = 0; r < 40; r++)
            for (int c = 0; c < 40; c++) {
                double sum = 0, size = 0;
                for (int k = 0; k < 96; k++) {
                    const double p = data->x[r * 96 + k] * data->matrix[LAYER_Q][c * 96 + k];
                    sum += p, size += fabs(p);
                }
                // Below 2^-126 float32 has a fixed step. 96 sums may be off by half a step each.
                const double error = fmax(fabs(got[r * 40 + c] - sum) - 0x1p-143, 0) / size;
                worst = error > worst ? error : worst;
            }
        ck_assert_msg(worst < 1e-6, "2^-%d: error %g", shift, worst);
        free(got);
        case_free(data);
    }
}
END_TEST

// Squared error relative to the float64 result on the same numbers. Split must not have a larger
// error than exact.
static double error_of(const double *got, const struct case_data *data) {
    const struct test_case *t = &data->test;
    double error = 0, norm = 0;
    for (int64_t r = 0; r < t->n_q; r++)
        for (int64_t c = 0; c < t->head_dim; c++) {
            double sum = 0;
            for (int64_t k = 0; k < t->width; k++)
                sum += data->x[r * t->width + k] * data->matrix[LAYER_Q][c * t->width + k];
            const double d = got[r * t->head_dim + c] - sum;
            error += d * d, norm += sum * sum;
        }
    return error / norm;
}

START_TEST(no_less_exact) {
    static const int64_t inner[] = {64, 80, 128, 256, 768, 1500};
    clattn_context *lanes = harness_open(
        (clattn_context_params){.context = harness()->opencl, .tuned_rows = "linear_lanes cpu=1 :"});
    for (int n = 0; n < 12; n++) {
        struct test_case t = {.op = CASE_LINEAR, .name = "error", .n_q = 64, .head_dim = 64};
        t.width = inner[n % 6], t.packs = true;
        set_types(&t, 1 + n / 6);
        struct case_data *data = case_make(&t);
        double *exact = run_on(lanes, data, CLATTN_PRECISION_EXACT),
               *split = run_on(context, data, CLATTN_PRECISION_SPLIT);
        const double of_exact = error_of(exact, data), of_split = error_of(split, data);
        ck_assert_msg(of_split <= of_exact, "K %d, %d products: %g, exact has %g", (int)t.width,
                      n < 6 ? 6 : 3, of_split, of_exact);
        if (getenv("CLATTN_TEST_TELL"))
            printf("K %d kind %d: split %.2g exact %.2g\n", (int)t.width, n / 6, of_split, of_exact);
        free(exact);
        free(split);
        case_free(data);
    }
    clattn_context_destroy(lanes);
}
END_TEST

// Progress of packing: the reported fraction only grows, and ends at 1.
static double told;
static bool hear(void *user, double done) {
    *(bool *)user = *(bool *)user && done >= told && done <= 1.0;
    told = done;
    return true;
}

START_TEST(packing_is_heard) {
    struct test_case t;
    char why[512];
    bool grows = true;
    const clattn_progress progress = {.fn = hear, .user = &grows};
    ck_assert(case_parse("layer-bf16-b2-h4-n140-d32-m96-causal-biases-ropehalf", &t, why));
    for (int n = 0; n < 2; n++) {
        struct case_arrays a;
        t.packs = n == 1;
        struct case_data *data = case_make(&t);
        case_bind(data, &place, &a);
        a.layer.progress = &progress, told = 0.0;
        ck_assert_int_eq(clattn_layer_enqueue(context, place.queue, &a.layer, 0, NULL, NULL), CLATTN_OK);
        ck_assert_msg(case_holds(data, &a, place.queue, why, sizeof why), "%s", why);
        ck_assert_msg(grows && told == 1.0, "%d: told of %g", n, told);
        case_unbind(&a);
        case_free(data);
    }
}
END_TEST

int main(void) {
    const TTest *const tests[] = {sizes,         layouts,          layers, small_products,
                                  no_less_exact, packing_is_heard, NULL};
    Suite *suite = suite_create("packed weights");
    TCase *group = harness_add(suite, "packed", tests);
    tcase_add_checked_fixture(group, open_context, close_context);
    harness_add_loop(group, hard_numbers, HARD);
    return harness_run(suite);
}
