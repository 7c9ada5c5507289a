// test_linear.c: one projection with random numbers: rows, odd sizes, storage types, bias, views,
// native and CLBlast. Also the call's plan, workspace, prepare, wait lists and sizes of zero.
// Rejected calls are in test_errors_linear.c. Cases: tests/cases/linear.txt.
#include "support/harness.h"
#include "support/case_list.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct test_case ordinary = {
    .op = CASE_LINEAR, .name = "ordinary", .batch = 2, .n_q = 9, .width = 67, .head_dim = 45, .biases = 1};

// A batch item, a row of x or a row of w that is repeated by a stride of 0 leads to the same result
// as copies.
START_TEST(repeated_inputs) {
    for (int n = 0; n < 6; n++) {
        struct test_case test = ordinary;
        struct case_arrays arrays;
        char why[512];
        const int what = n % 3;
        test.projection =
            n / 3 && harness_has_clblast() ? CLATTN_PROJECTION_CLBLAST : CLATTN_PROJECTION_NATIVE;
        struct case_data *data = case_make(&test);
        const int64_t item = test.n_q * test.width;
        for (int64_t at = 0; at < test.batch * item; at++)
            data->x[at] = data->x[what == 0   ? at % item
                                  : what == 1 ? at / item * item + at % test.width
                                              : at];
        for (int64_t at = 0; what == 2 && at < test.head_dim * test.width; at++)
            data->matrix[LAYER_Q][at] = data->matrix[LAYER_Q][at % test.width];
        case_bind(data, harness_place(), &arrays);
        if (what == 0) arrays.linear.x.stride[0] = 0;
        if (what == 1) arrays.linear.x.stride[1] = 0;
        if (what == 2) arrays.linear.w.stride[0] = 0;
        clattn_status status =
            clattn_linear_enqueue(harness()->context, harness()->queue, &arrays.linear, 0, NULL, NULL);
        ck_assert_msg(status == CLATTN_OK, "repeated %d: %s", n, harness_log_text());
        ck_assert_msg(case_holds(data, &arrays, harness()->queue, why, sizeof why), "repeated %d: %s", n,
                      why);
        case_unbind(&arrays);
        case_free(data);
    }
}
END_TEST

// A row of NaN in x becomes a row of NaN in out, and reaches no other row, with every projection.
START_TEST(nan_stays_in_its_row) {
    for (int n = 0; n < CLATTN_PROJECTION_COUNT; n++) {
        struct test_case test = ordinary;
        struct case_arrays arrays;
        char why[512];
        test.projection = (clattn_projection)n;
        if (test.projection == CLATTN_PROJECTION_CLBLAST && !harness_has_clblast()) continue;
        struct case_data *data = case_make(&test);
        data->x[4 * test.width + 3] = (double)NAN;
        case_bind(data, harness_place(), &arrays);
        ck_assert(clattn_linear_enqueue(harness()->context, harness()->queue, &arrays.linear, 0, NULL,
                                        NULL) == CLATTN_OK);
        ck_assert_msg(case_holds(data, &arrays, harness()->queue, why, sizeof why), "NaN: %s", why);
        case_unbind(&arrays);
        case_free(data);
    }
}
END_TEST

// Rows that are hard to convert to integers or to split into terms: one huge number, numbers near
// the smallest float, blocks and rows of zeros, NaN and infinities.
enum hard { HARD_HUGE, HARD_TINY, HARD_ZEROS, HARD_NAN, HARD_INFINITE, HARD_COUNT };
static void make_hard(enum hard what, int64_t rows, int64_t width, double *x) {
    for (int64_t i = 0; i < rows * width && what == HARD_TINY; i++) x[i] *= 0x1p-115;
    for (int64_t i = 0; i < rows * width && what == HARD_ZEROS; i++)
        if (i / 32 % 3 != 1 || i / width == 1) x[i] = 0;
    const int64_t at = (rows - 1) * width + width / 2; // an element of the last row
    if (what == HARD_HUGE) x[at] = 0x1p60;
    if (what == HARD_NAN) x[at] = (double)NAN;
    if (what == HARD_INFINITE) x[at] = (double)-INFINITY;
}

// Returns element m of row r in double precision, and the error bound of integer kernels
// (linear_few_lanes_integers.clh). Converting x to integers is off by half a step per number. A
// step is the block's largest number / 4161536 (16-bit x: / 32512), plus 2^-121. All K products and
// sums, each block's scale and the result also round once in float32.
static double hard_element(const struct case_data *data, int64_t r, int64_t m, double *bound) {
    const struct test_case *t = &data->test;
    const bool f32 = t->q_type == CLATTN_TYPE_F32;
    const double *x = data->x + r * t->width, *w = data->matrix[LAYER_Q] + m * t->width;
    double y = 0, sizes = 0, steps = 0;
    for (int64_t k = 0; k < t->width; k += 32) {
        double most = 0, weights = 0;
        for (int i = 0; i < 32; i++) {
            y += x[k + i] * w[k + i], sizes += fabs(x[k + i] * w[k + i]);
            most = fmax(most, fabs(x[k + i])), weights += fabs(w[k + i]);
        }
        steps += (most / (f32 ? 4161536.0 : 32512.0) + 0x1p-121) * weights;
    }
    // For q4_1 and for zero points a number is a sum of two terms, whose sizes count.
    const double offsets = t->matrix_type == CLATTN_TYPE_Q4_1 || t->zeros ? 32 : 1;
    *bound = steps * offsets + (double)(t->width + 8) * 0x1p-24 * sizes * offsets +
             (f32 ? 0x1p-24 : 0x1p-8) * fabs(y) + 0x1p-130;
    return y;
}

// Returns true if the suite's tuned row for this kernel requests integer products.
static bool row_asks_for_integers(const char *kernel) {
    const char *rows = getenv("CLATTN_TEST_ROWS"), *row = rows ? strstr(rows, kernel) : NULL,
               *asks = row ? strstr(row, "DOT_I8") : NULL;
    return asks && asks < row + strcspn(row, "|\n");
}

// Run the projection and return its result.
static struct case_result projected(const struct case_arrays *a) {
    ck_assert(clattn_linear_enqueue(harness()->context, harness()->queue, &a->linear, 0, NULL, NULL) ==
              CLATTN_OK);
    return case_collect(a, harness()->queue, NULL);
}

static void hard_rows(enum hard what, clattn_type x, clattn_type w, int64_t rows, int64_t width) {
    struct case_arrays arrays;
    clattn_linear_choice choice;
    const bool scaled = CLATTN_TYPE_IS_SCALED(w);
    const struct test_case test = {.op = CASE_LINEAR,
                                   .name = "hard",
                                   .scale_group = scaled ? 32 : 0,
                                   .scale_type = scaled ? CLATTN_TYPE_F16 : CLATTN_TYPE_F32,
                                   .zeros = scaled,
                                   .batch = 1,
                                   .n_q = rows,
                                   .width = width,
                                   .head_dim = 37,
                                   .q_type = x,
                                   .kv_type = x,
                                   .out_type = x,
                                   .bias_type = x,
                                   .matrix_type = w,
                                   .projection = CLATTN_PROJECTION_NATIVE};
    struct case_data *data = case_make(&test);
    make_hard(what, rows, width, data->x);
    case_bind(data, harness_place(), &arrays);
    ck_assert(clattn_linear_plan(harness()->context, &arrays.linear, &choice) == CLATTN_OK);
    ck_assert_msg(!row_asks_for_integers(choice.kernel_name) || strstr(choice.why, "integer"), "%s",
                  choice.why);
    struct case_result got = projected(&arrays);
    for (int64_t n = 0; n < rows * test.head_dim; n++) {
        double bound;
        const double y = hard_element(data, n / test.head_dim, n % test.head_dim, &bound), is = got.out[n];
        // For q4_1 the two terms of a number may be infinities of opposite signs.
        const bool good = isnan(y)                            ? isnan(is)
                          : isinf(y) && w == CLATTN_TYPE_Q4_1 ? !isfinite(is)
                          : isinf(y)                          ? is == y
                                                              : fabs(is - y) <= bound;
        ck_assert_msg(good, "hard %d, x %s, w %s, %lld x %lld: %lld is %g, not %g, by at most %g", (int)what,
                      clattn_type_name(x), clattn_type_name(w), (long long)rows, (long long)width,
                      (long long)n, is, y, bound);
    }
    case_result_free(&got);
    case_unbind(&arrays);
    case_free(data);
}

// Widths of a part of a vector, of whole vectors, and more than the kernel keeps as integers at
// once.
START_TEST(hard_blocks) {
    static const clattn_type of_x[] = {CLATTN_TYPE_F32, CLATTN_TYPE_BF16},
                             of_w[] = {CLATTN_TYPE_Q8_0, CLATTN_TYPE_Q4_0, CLATTN_TYPE_Q4_1, CLATTN_TYPE_U4};
    static const int64_t widths[] = {32, 96, 128, 576, 2112}, rows[] = {1, 2, 40, 3, 5, 131};
    for (int n = 0; n < HARD_COUNT * 2 * 4 * 5; n++) {
        const int x = n / HARD_COUNT % 2, w = n / HARD_COUNT / 2 % 4, r = (n + n / 5) % 6;
        // Each row count, type of x and type of W compiles another kernel. A shortened suite runs a
        // third of them, with all row counts.
        if (harness_every() > 1 && (x + w + r) % 3 != 0) continue;
        hard_rows((enum hard)(n % HARD_COUNT), of_x[x], of_w[w], rows[r], widths[n / HARD_COUNT / 8]);
    }
}
END_TEST

// Lines (rows of x, or of W with `of_w`) that cannot be split into bfloat16 terms are multiplied as
// floats. Each line of the result must have float32 precision, or that of a bfloat16 result, also
// next to lines that can be split. A matrix engine may flush terms and products below 2^-126.
static void check_terms(enum hard what, clattn_type x, clattn_type w, bool of_w) {
    struct case_arrays arrays;
    const struct test_case test = {.op = CASE_LINEAR,
                                   .name = "terms",
                                   .batch = 1,
                                   .n_q = 70,
                                   .width = 136,
                                   .head_dim = 67,
                                   .q_type = x,
                                   .matrix_type = w,
                                   .precision = CLATTN_PRECISION_SPLIT,
                                   .projection = CLATTN_PROJECTION_NATIVE};
    const int64_t width = test.width, n = test.n_q, m = test.head_dim;
    struct case_data *data = case_make(&test);
    double *const hard = of_w ? data->matrix[LAYER_Q] : data->x;
    make_hard(what, (of_w ? m : n) / 2, width, hard);
    const bool terms = (of_w ? w : x) == CLATTN_TYPE_F32; // bfloat16 would lose digits
    for (int64_t i = 0; i < (of_w ? m : n) / 2 * width && what == HARD_TINY; i++)
        hard[i] *= terms ? 0x1p-3 : 0x1p15;
    case_bind(data, harness_place(), &arrays);
    struct case_result got = projected(&arrays);
    for (int64_t line = 0; line < (of_w ? m : n); line++) {
        double away = 0, all = 0;
        for (int64_t i = 0; i < (of_w ? n : m); i++) {
            const int64_t row = of_w ? i : line, column = of_w ? line : i;
            double y = 0;
            for (int64_t k = 0; k < width; k++)
                y += data->x[row * width + k] * data->matrix[LAYER_Q][column * width + k];
            const double is = got.out[row * m + column];
            ck_assert_msg(isfinite(y) || (isnan(y) ? isnan(is) : is == y), "%d: %lld, %lld: %g, not %g",
                          (int)what, (long long)row, (long long)column, is, y);
            if (isfinite(y)) away += (is - y) * (is - y) * 0x1p200, all += y * y * 0x1p200;
        }
        ck_assert_msg(away <= (x == CLATTN_TYPE_F32 ? 1e-12 : 0x1p-16) * all,
                      "%d of %s, x %s, w %s: line %lld: NMSE %g", (int)what, of_w ? "w" : "x",
                      clattn_type_name(x), clattn_type_name(w), (long long)line, away / all);
    }
    case_result_free(&got);
    case_unbind(&arrays);
    case_free(data);
}

START_TEST(hard_terms) {
    static const clattn_type types[] = {CLATTN_TYPE_F32, CLATTN_TYPE_BF16};
    for (int n = 0; n < HARD_COUNT * 2 * 3; n++)
        if (harness_every() <= 1 || n / HARD_COUNT < 2) // a shortened suite runs only float32
            check_terms((enum hard)(n % HARD_COUNT), types[n / HARD_COUNT / 2 == 1],
                        types[n / HARD_COUNT / 2 == 2], n / HARD_COUNT % 2);
}
END_TEST

// An infinite scale of W: multiplied by the block's zeros it is NaN, in one column, with every
// kernel.
START_TEST(infinite_scale) {
    static const clattn_type of_w[] = {CLATTN_TYPE_Q8_0, CLATTN_TYPE_Q4_0, CLATTN_TYPE_Q4_1};
    for (int n = 0; n < 3; n++) {
        struct case_arrays arrays;
        const struct test_case test = {.op = CASE_LINEAR,
                                       .name = "infinite scale",
                                       .batch = 1,
                                       .n_q = 40,
                                       .width = 64,
                                       .head_dim = 37,
                                       .matrix_type = of_w[n],
                                       .projection = CLATTN_PROJECTION_NATIVE};
        struct case_data *data = case_make(&test);
        data->matrix[LAYER_Q][11 * test.width + 5] = 1e9; // the block's scale overflows float16
        case_bind(data, harness_place(), &arrays);
        struct case_result got = projected(&arrays);
        for (int64_t i = 0; i < test.n_q * test.head_dim; i++)
            ck_assert_msg(isnan(got.out[i]) ? i % test.head_dim == 11
                                            : i % test.head_dim != 11 && isfinite(got.out[i]),
                          "w %s: out[%lld] is %g", clattn_type_name(of_w[n]), (long long)i, got.out[i]);
        case_result_free(&got);
        case_unbind(&arrays);
        case_free(data);
    }
}
END_TEST

static struct test_case scaled(clattn_type type, int64_t width, int64_t group, bool zeros, int64_t rows) {
    return (struct test_case){.op = CASE_LINEAR,
                              .name = "scales",
                              .batch = 1,
                              .n_q = rows,
                              .width = width,
                              .head_dim = 37,
                              .matrix_type = type,
                              .scale_group = group,
                              .scale_type = CLATTN_TYPE_F16,
                              .zeros = zeros,
                              .projection = CLATTN_PROJECTION_NATIVE};
}

// Scales of 0, NaN and infinity affect only their own rows of W.
START_TEST(hostile_scales) {
    for (int n = 0; n < 8; n++) {
        const struct test_case kinds[] = {
            scaled(CLATTN_TYPE_I8, 96, 32, false, 1), scaled(CLATTN_TYPE_U4, 66, 1, true, 1),
            scaled(CLATTN_TYPE_I4, 128, 64, false, 1), scaled(CLATTN_TYPE_U4, 160, 32, true, 1)};
        struct test_case test = kinds[n % 4];
        struct case_arrays arrays;
        test.n_q = n < 4 ? 1 : 40;
        struct case_data *data = case_make(&test);
        double *w = data->matrix[LAYER_Q];
        w[11 * test.width + 5] = 1e9; // the scale overflows float16
        w[3 * test.width + 7] = (double)NAN;
        for (int64_t k = 0; k < test.width; k++) w[7 * test.width + k] = 0;
        case_bind(data, harness_place(), &arrays);
        struct case_result got = projected(&arrays);
        for (int64_t i = 0; i < test.n_q * test.head_dim; i++) {
            const int64_t m = i % test.head_dim;
            const double *x = data->x + i / test.head_dim * test.width, *row = w + m * test.width,
                         is = got.out[i];
            double y = 0, sizes = 0;
            for (int64_t k = 0; k < test.width && m != 3 && m != 11; k++)
                y += x[k] * row[k], sizes += fabs(x[k] * row[k]);
            const bool good = m == 3    ? isnan(is)
                              : m == 11 ? !isfinite(is)
                              : m == 7  ? is == 0
                                        : fabs(is - y) <= (double)(test.width + 8) * 0x1p-24 * 16 * sizes;
            ck_assert_msg(good, "w %s, %lld rows: out[%lld] is %g, not %g",
                          clattn_type_name(test.matrix_type), (long long)test.n_q, (long long)i, is, y);
        }
        case_result_free(&got);
        case_unbind(&arrays);
        case_free(data);
    }
}
END_TEST

// Positive numbers times an infinite scale are infinity, also if a row ends inside a vector. The
// padding after the row must not make the result NaN. With the large scale a sum of integers would
// overflow float32 before scaling, and the result must be right.
START_TEST(infinity_at_a_tail) {
    for (int n = 0; n < 6; n++) {
        struct test_case test = scaled(CLATTN_TYPE_I4, n / 2 ? 160 : 66, 1, false, n % 2 ? 40 : 1);
        struct case_arrays arrays;
        const float factor = n < 4 ? INFINITY : 0x1p110f;
        test.scale_type = CLATTN_TYPE_F32;
        struct case_data *data = case_make(&test);
        for (int64_t i = 0; i < test.n_q * test.width; i++)
            data->x[i] = (fabs(data->x[i]) + 0.1) * (n < 4 ? 1.0 : 0x1p-90);
        for (int64_t k = 0; k < test.width; k++) data->matrix[LAYER_Q][11 * test.width + k] = 1;
        case_bind(data, harness_place(), &arrays);
        const clattn_tensor *scale = &arrays.linear.w_scale;
        harness_expect(clEnqueueWriteBuffer(harness()->queue, scale->buffer, CL_TRUE,
                                            (size_t)(scale->offset + 11 * scale->stride[0]) * sizeof factor,
                                            sizeof factor, &factor, 0, NULL, NULL),
                       "clEnqueueWriteBuffer");
        struct case_result got = projected(&arrays);
        for (int64_t i = 0; i < test.n_q * test.head_dim; i++) {
            double y = 0;
            for (int64_t k = 0; k < test.width; k++) // 1 is stored as 7
                y += data->x[i / test.head_dim * test.width + k] * 7.0 * (double)factor;
            ck_assert_msg(i % test.head_dim != 11 ? isfinite(got.out[i])
                          : n < 4                 ? got.out[i] == (double)INFINITY
                                                  : fabs(got.out[i] - y) <= 1e-5 * y,
                          "%lld rows: out[%lld] is %g, not %g", (long long)test.n_q, (long long)i, got.out[i],
                          y);
        }
        case_result_free(&got);
        case_unbind(&arrays);
        case_free(data);
    }
}
END_TEST

// Fail unless the plan has this projection and kernel. With AUTO either projection may be chosen,
// but the kernel must belong to it.
static void expect_choice(const struct test_case *test, clattn_projection projection, const char *kernel) {
    struct case_arrays arrays;
    clattn_linear_choice choice = {0};
    size_t bytes = 77;
    struct case_data *data = case_make(test);
    case_bind(data, harness_place(), &arrays);
    clattn_linear_params p = arrays.linear;
    p.x.buffer = p.w.buffer = p.out.buffer = p.b.buffer = NULL;
    ck_assert_msg(clattn_linear_plan(harness()->context, &p, &choice) == CLATTN_OK, "%s", harness_log_text());
    ck_assert(clattn_linear_workspace(harness()->context, &p, &bytes) == CLATTN_OK);
    ck_assert_uint_eq(bytes, choice.workspace_bytes);
    if (projection == CLATTN_PROJECTION_AUTO) {
        projection = choice.projection;
        kernel = projection == CLATTN_PROJECTION_CLBLAST ? "clblast" : "linear_";
    }
    ck_assert_int_eq(choice.projection, projection);
    ck_assert(projection == CLATTN_PROJECTION_CLBLAST || projection == CLATTN_PROJECTION_NATIVE);
    ck_assert_msg(strncmp(choice.kernel_name, kernel, strlen(kernel)) == 0, "kernel %s, not %s",
                  choice.kernel_name, kernel);
    ck_assert(choice.why[0] != '\0' && strchr(choice.why, '\n') == NULL);
    if (projection == CLATTN_PROJECTION_NATIVE) ck_assert_uint_eq(bytes, 0);
    case_unbind(&arrays);
    case_free(data);
}

// Returns the kernel expected for many rows: the one in CLATTN_TEST_ROWS, or the device's default.
static const char *kernel_of_many(void) {
    const clattn_capabilities *of = clattn_context_capabilities(harness()->context);
    const char *named = getenv("CLATTN_TEST_ROWS");
    if (named && strstr(named, "linear_rows")) return "linear_rows";
    if (named && strstr(named, "linear_tiles")) return "linear_tiles";
    return of->is_cpu && of->float_vector_width >= 4 ? "linear_lanes" : "linear_";
}

START_TEST(plan) {
    struct test_case test = ordinary;
    test.projection = CLATTN_PROJECTION_NATIVE;
    expect_choice(&test, CLATTN_PROJECTION_NATIVE, "linear_");
    test.n_q = 200;
    expect_choice(&test, CLATTN_PROJECTION_NATIVE, kernel_of_many());
    test.projection = CLATTN_PROJECTION_CLBLAST;
    if (harness_has_clblast()) expect_choice(&test, CLATTN_PROJECTION_CLBLAST, "clblast");
    test.projection = CLATTN_PROJECTION_AUTO;
    expect_choice(&test, CLATTN_PROJECTION_AUTO, NULL);
    test.n_q = 0;
    expect_choice(&test, CLATTN_PROJECTION_NATIVE, "linear_");
}
END_TEST

START_TEST(prepare_compiles_all) {
    struct case_arrays arrays;
    clattn_context_stats before, after;
    struct test_case test = ordinary;
    test.projection = CLATTN_PROJECTION_NATIVE;
    test.n_q = 23;
    struct case_data *data = case_make(&test);
    case_bind(data, harness_place(), &arrays);
    clattn_linear_params p = arrays.linear;
    p.x.buffer = p.w.buffer = p.out.buffer = p.b.buffer = NULL;
    ck_assert(clattn_linear_prepare(harness()->context, &p) == CLATTN_OK);
    clattn_context_get_stats(harness()->context, &before);
    ck_assert(clattn_linear_enqueue(harness()->context, harness()->queue, &arrays.linear, 0, NULL, NULL) ==
              CLATTN_OK);
    clattn_context_get_stats(harness()->context, &after);
    ck_assert_mem_eq(&before, &after, sizeof before);
    harness_finish(harness()->queue);
    case_unbind(&arrays);
    case_free(data);
}
END_TEST

// A workspace of exactly the required size, and a larger one. CLBlast needs a workspace for every
// type except float32.
START_TEST(workspace) {
    if (!harness_has_clblast()) return;
    for (int n = 0; n < 6; n++) {
        struct test_case test = ordinary;
        struct case_arrays arrays;
        char why[512];
        size_t bytes = 0;
        cl_int code;
        test.q_type = (clattn_type)(n % 3);
        test.matrix_type = CLATTN_TYPE_BF16;
        test.projection = CLATTN_PROJECTION_CLBLAST;
        struct case_data *data = case_make(&test);
        case_bind(data, harness_place(), &arrays);
        ck_assert(clattn_linear_workspace(harness()->context, &arrays.linear, &bytes) == CLATTN_OK);
        ck_assert_uint_gt(bytes, 0);
        arrays.linear.workspace =
            clCreateBuffer(harness()->opencl, CL_MEM_READ_WRITE, bytes + (n < 3 ? 0 : 77), NULL, &code);
        harness_expect(code, "clCreateBuffer");
        clattn_status status =
            clattn_linear_enqueue(harness()->context, harness()->queue, &arrays.linear, 0, NULL, NULL);
        ck_assert_msg(status == CLATTN_OK, "%s", harness_log_text());
        ck_assert_msg(case_holds(data, &arrays, harness()->queue, why, sizeof why), "workspace: %s", why);
        clReleaseMemObject(arrays.linear.workspace);
        case_unbind(&arrays);
        case_free(data);
    }
}
END_TEST

// A user event blocks the call, and the call's own event completes after the result, on both kinds
// of queue.
static void wait_on(cl_command_queue queue, clattn_projection projection) {
    struct test_case test = ordinary;
    struct case_arrays arrays;
    char why[512];
    test.q_type = CLATTN_TYPE_F16;
    test.projection = projection;
    struct case_data *data = case_make(&test);
    case_bind(data, harness_place(), &arrays);
    cl_event gate = harness_gate(), done = NULL;
    clattn_status status = clattn_linear_enqueue(harness()->context, queue, &arrays.linear, 1, &gate, &done);
    ck_assert_msg(status == CLATTN_OK, "%s", harness_log_text());
    harness_open_gate(gate, done, queue);
    ck_assert_msg(case_holds(data, &arrays, queue, why, sizeof why), "wait list: %s", why);
    case_unbind(&arrays);
    case_free(data);
}

START_TEST(wait_lists) {
    harness_each_way(wait_on);
}
END_TEST

// Sizes of zero compile and measure nothing, so this test must run first.
START_TEST(sizes_of_zero) {
    clattn_context_stats before, after;
    clattn_context_get_stats(harness()->context, &before);
    for (int n = 0; n < 2 * CLATTN_PROJECTION_COUNT; n++) {
        struct test_case test = ordinary;
        struct case_arrays arrays;
        cl_event done = NULL;
        size_t bytes = 77;
        test.projection = (clattn_projection)(n / 2);
        if (test.projection == CLATTN_PROJECTION_CLBLAST && !harness_has_clblast()) continue;
        struct case_data *data = case_make(&test);
        case_bind(data, harness_place(), &arrays);
        arrays.linear.x.shape[n % 2] = arrays.linear.out.shape[n % 2] = 0;
        ck_assert(clattn_linear_workspace(harness()->context, &arrays.linear, &bytes) == CLATTN_OK);
        ck_assert_uint_eq(bytes, 0);
        ck_assert(clattn_linear_prepare(harness()->context, &arrays.linear) == CLATTN_OK);
        ck_assert(clattn_linear_enqueue(harness()->context, harness()->queue, &arrays.linear, 0, NULL,
                                        &done) == CLATTN_OK);
        ck_assert_ptr_nonnull(done);
        harness_expect(clWaitForEvents(1, &done), "clWaitForEvents");
        ck_assert_msg(guarded_intact(&arrays.out, harness()->queue), "a call of no rows wrote");
        clReleaseEvent(done);
        case_unbind(&arrays);
        case_free(data);
    }
    clattn_context_get_stats(harness()->context, &after);
    ck_assert_mem_eq(&before, &after, sizeof before);
}
END_TEST

int main(void) {
    const TTest *const numbers[] = {repeated_inputs, nan_stays_in_its_row, hard_blocks,        hard_terms,
                                    infinite_scale,  hostile_scales,       infinity_at_a_tail, NULL};
    const TTest *const calls[] = {sizes_of_zero, plan, prepare_compiles_all, workspace, wait_lists, NULL};
    Suite *suite = suite_create("linear");
    harness_add(suite, "calls", calls);
    harness_add(suite, "numbers", numbers);
    case_list_add(suite, "linear", "cases");
    return harness_run(suite);
}
