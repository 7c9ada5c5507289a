// test_linear_backward.c: gradients of one projection, compared with sums in double precision. Runs
// clattn's kernels and CLBlast, few and many rows, all types and layouts, each result alone and all
// together. Also a workspace of exactly the stated size, sizes of zero, and rejected calls.
#include <string.h>

#include "support/arrays.h"

enum { CASES = 36 };
static const clattn_type types[] = {CLATTN_TYPE_F32, CLATTN_TYPE_F16, CLATTN_TYPE_BF16};
// B, N, K, M
static const int sizes[][4] = {{2, 5, 7, 9}, {1, 1, 33, 20}, {3, 40, 64, 48}, {1, 150, 20, 70}};

typedef struct gradients {
    int64_t rows, k, m;
    array x, w, dout, dx, dw, db;
    clattn_linear_backward_params params;
} gradients;

static array make(struct random *r, clattn_type type, int rank, const int64_t *shape, enum layout layout,
                  bool written) {
    struct guarded_shape of = {.type = type, .rank = rank, .layout = layout};
    memcpy(of.shape, shape, (size_t)rank * sizeof *shape);
    return array_given(r, &of, 1, written);
}

static gradients open_case(int n) {
    const int *s = sizes[n % 4];
    struct random r = {(uint64_t)n + 1};
    const int64_t x[] = {s[0], s[1], s[2]}, w[] = {s[3], s[2]}, dout[] = {s[0], s[1], s[3]};
    const enum layout layout = (enum layout)(n / 4 % LAYOUT_COUNT);
    const clattn_type type = types[n % 3], other = types[n / 3 % 3];
    gradients g = {.rows = s[0] * s[1], .k = s[2], .m = s[3]};
    g.x = make(&r, type, 3, x, layout, false), g.w = make(&r, other, 2, w, layout, false);
    g.dout = make(&r, type, 3, dout, layout, false);
    if (n % 5 != 1) g.dx = make(&r, type, 3, x, layout, true);
    if (n % 5 != 2) g.dw = make(&r, other, 2, w, layout, true);
    if (n % 5 != 3) g.db = make(&r, CLATTN_TYPE_F32, 1, w, layout, true);
    g.params = (clattn_linear_backward_params){.x = g.x.memory.view,
                                               .w = g.w.memory.view,
                                               .dout = g.dout.memory.view,
                                               .dx = g.dx.memory.view,
                                               .dw = g.dw.memory.view,
                                               .db = g.db.memory.view};
    return g;
}

static void close_case(gradients *g) {
    array *const all[] = {&g->x, &g->w, &g->dout, &g->dx, &g->dw, &g->db};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) array_release(all[i]);
}

// Returns element `at` of a result (0: dx, 1: dw, 2: db) in double precision, and in *of the sum of
// absolute values.
static double want_of(const gradients *g, int which, int64_t at, double *of) {
    const double *x = g->x.values, *w = g->w.values, *d = g->dout.values;
    double sum = 0;
    *of = 0;
    for (int64_t n = 0; n < (which == 0 ? g->m : g->rows); n++) {
        const double term = which == 0   ? d[at / g->k * g->m + n] * w[n * g->k + at % g->k]
                            : which == 1 ? d[n * g->m + at / g->k] * x[n * g->k + at % g->k]
                                         : d[n * g->m + at];
        sum += term, *of += fabs(term);
    }
    return sum;
}

static void assert_result(const gradients *g, int n, int which, const array *is) {
    const int64_t count = which == 0 ? g->rows * g->k : which == 1 ? g->m * g->k : g->m;
    if (!is->values) return;
    double *found = reference_alloc(count);
    ck_assert_msg(guarded_read(&is->memory, harness()->queue, found), "%d: bytes around result %d changed", n,
                  which);
    for (int64_t i = 0; i < count; i++) {
        double of;
        const double want = want_of(g, which, i, &of),
                     bound = 2e-6 * of + 1.01 * storage_roundoff(is->memory.view.type) * fabs(want);
        ck_assert_msg(fabs(found[i] - want) <= bound, "%d: result %d, number %d is %.9g, not %.9g", n, which,
                      (int)i, found[i], want);
    }
    free(found);
}

static void run(int n, clattn_projection projection) {
    gradients g = open_case(n);
    size_t bytes = 0;
    cl_int code = CL_SUCCESS;
    g.params.projection = projection;
    ck_assert_int_eq(clattn_linear_backward_workspace(harness()->context, &g.params, &bytes), CLATTN_OK);
    ck_assert_int_eq(clattn_linear_backward_prepare(harness()->context, &g.params), CLATTN_OK);
    if (n % 2 && bytes)
        g.params.workspace = clCreateBuffer(harness()->opencl, CL_MEM_READ_WRITE, bytes, NULL, &code);
    harness_expect(code, "clCreateBuffer");
    ck_assert_msg(clattn_linear_backward_enqueue(harness()->context, harness()->queue, &g.params, 0, NULL,
                                                 NULL) == CLATTN_OK,
                  "%d: %s", n, harness_log_text());
    const array *const results[] = {&g.dx, &g.dw, &g.db};
    for (int i = 0; i < 3; i++) assert_result(&g, n, i, results[i]);
    ck_assert(guarded_intact(&g.x.memory, harness()->queue) &&
              guarded_intact(&g.w.memory, harness()->queue) &&
              guarded_intact(&g.dout.memory, harness()->queue));
    if (g.params.workspace) clReleaseMemObject(g.params.workspace);
    close_case(&g);
}

START_TEST(agrees) {
    run(_i, CLATTN_PROJECTION_NATIVE);
    if (_i % 6 == 0 && harness_has_clblast()) run(_i, CLATTN_PROJECTION_CLBLAST);
}
END_TEST

// Without rows dw and db are 0, and dx is empty.
START_TEST(no_rows) {
    struct random r = {1};
    gradients g = open_case(0);
    g.params.x.shape[1] = g.params.dout.shape[1] = g.params.dx.shape[1] = 0;
    ck_assert_int_eq(
        clattn_linear_backward_enqueue(harness()->context, harness()->queue, &g.params, 0, NULL, NULL),
        CLATTN_OK);
    double *found = reference_alloc(g.m * g.k);
    (void)r;
    ck_assert(guarded_read(&g.dw.memory, harness()->queue, found));
    for (int64_t i = 0; i < g.m * g.k; i++) ck_assert(found[i] == 0);
    ck_assert(guarded_read(&g.db.memory, harness()->queue, found));
    for (int64_t i = 0; i < g.m; i++) ck_assert(found[i] == 0);
    free(found);
    close_case(&g);
}
END_TEST

static void refused(gradients *g, const char *word) {
    ck_assert_int_eq(
        clattn_linear_backward_enqueue(harness()->context, harness()->queue, &g->params, 0, NULL, NULL),
        CLATTN_INVALID_ARGUMENT);
    ck_assert_msg(strstr(harness_log_text(), word) != NULL, "%s: %s", word, harness_log_text());
}

START_TEST(refusals) {
    gradients g = open_case(0);
    const clattn_linear_backward_params good = g.params;
    const clattn_tensor none = {0};
    g.params.w = none, refused(&g, "dx: is asked for without w"), g.params = good;
    g.params.x = none, refused(&g, "dw: is asked for without x"), g.params = good;
    g.params.dx = g.params.dw = g.params.db = none, refused(&g, "dx: no gradient"), g.params = good;
    g.params.dw.shape[1]--, refused(&g, "dw: "), g.params = good;
    g.params.dw = g.params.w, refused(&g, "dw: overlaps w"), g.params = good;
    close_case(&g);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("linear_backward");
    TCase *group = harness_add(suite, "gradients", (const TTest *const[]){no_rows, refusals, NULL});
    harness_add_loop(group, agrees, CASES);
    return harness_run(suite);
}
