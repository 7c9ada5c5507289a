// test_epilogue.c: operations fused with a projection before the store (an activation, a gate, a
// residual), compared with their formulas in double precision. Runs the kernels of every device and
// CLBlast, with few and many rows, all types and layouts. The residual is separate, in place or
// absent. Also checks which kernels fuse the operations into one launch. Rejected calls are in
// test_errors_linear.c.
#include "support/arrays.h"
#include "support/harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "verification/reference/reference.h"
#include "verification/reference/storage.h"

enum { BATCH = 2, INNER = 64, CASES = 96 };

static const char *const ways[] = {"",
                                   "linear_rows :", "linear_tiles :", "linear_lanes :", "linear_matrix :"};
enum { WAYS = sizeof ways / sizeof ways[0] };
static const clattn_type kinds[][2] = {
    {CLATTN_TYPE_F32, CLATTN_TYPE_F32},  {CLATTN_TYPE_BF16, CLATTN_TYPE_BF16},
    {CLATTN_TYPE_F32, CLATTN_TYPE_Q8_0}, {CLATTN_TYPE_F16, CLATTN_TYPE_BF16},
    {CLATTN_TYPE_F32, CLATTN_TYPE_BF16}, {CLATTN_TYPE_BF16, CLATTN_TYPE_F32}};
static const int rows_of[] = {1, 3, 2, 9, 45};

static int packs; // number of packed matrices

static array given(struct random *r, clattn_type type, int rank, const int64_t *shape, enum layout layout,
                   double most, bool written) {
    struct guarded_shape of = {.type = type, .rank = rank, .layout = layout};
    memcpy(of.shape, shape, (size_t)rank * sizeof *shape);
    of.shape[rank - 1] /= clattn_type_numbers(type);
    return array_given(r, &of, most, written);
}

static double *project(const array *x, const array *w, const array *b, int64_t rows, int64_t columns) {
    const struct reference_linear of = {.x = x->values,
                                        .w = w->values,
                                        .b = b->values,
                                        .rows = rows,
                                        .in = INNER,
                                        .out = columns,
                                        .plain = CLATTN_TYPE_F32};
    double *y = reference_alloc(rows * columns);
    reference_linear(&of, y);
    return y;
}

// Error bound: sums of 64 float32 products of about 1, and the rounding of the stored result.
static double bound_of(double gate, double up, double want, clattn_type type) {
    return 4e-6 * (1 + fabs(gate)) * (1 + fabs(gate)) * (1 + fabs(up)) +
           1.01 * storage_roundoff(type) * fabs(want);
}

// Pack the matrix if the device has a packed form. Otherwise returns NULL.
static cl_mem pack(clattn_context *c, const array *w, clattn_packed *packed) {
    clattn_pack_params p = {.w = w->memory.view, .precision = CLATTN_PRECISION_SPLIT};
    size_t bytes = 0;
    cl_int code = CL_SUCCESS;
    if (!w->values) return NULL;
    ck_assert_int_eq(clattn_linear_packed_bytes(c, &p, &bytes), CLATTN_OK);
    if (bytes == 0) return NULL;
    p.buffer = clCreateBuffer(harness()->opencl, CL_MEM_READ_WRITE, bytes, NULL, &code);
    harness_expect(code, "clCreateBuffer");
    ck_assert_int_eq(clattn_linear_pack(c, harness()->queue, &p, packed, 0, NULL, NULL), CLATTN_OK);
    packs += packed->buffer != NULL;
    return p.buffer;
}

typedef struct epilogue_case {
    int n;
    int64_t rows, columns; // of out
    bool gated, in_place, adds;
    array x, w, out, up, b, b_up, residual;
} epilogue_case;

static epilogue_case make(int n) {
    struct random r = {(uint64_t)n + 1};
    epilogue_case t = {.n = n, .rows = BATCH * rows_of[n % 5], .columns = n % 7 ? 45 : 100};
    const clattn_type type = kinds[n % 6][0], of_w = kinds[n % 6][1],
                      of_b = n % 2 ? CLATTN_TYPE_F32 : CLATTN_TYPE_F16;
    const int64_t x_shape[] = {BATCH, rows_of[n % 5], INNER}, w_shape[] = {t.columns, INNER},
                  out_shape[] = {BATCH, rows_of[n % 5], t.columns};
    const enum layout layout = (enum layout)(n / 2 % LAYOUT_COUNT);
    const double most = 2 / sqrt((double)INNER);
    t.gated = n % 3 != 0, t.in_place = n % 4 == 2, t.adds = n % 4 == 1 || t.in_place;
    t.x = given(&r, type, 3, x_shape, layout, 1, false),
    t.w = given(&r, of_w, 2, w_shape, layout, most, false);
    t.out = given(&r, type, 3, out_shape, layout, 1, true);
    if (n % 5 > 1) t.b = given(&r, of_b, 1, w_shape, layout, 1, false);
    if (t.gated) t.up = given(&r, of_w, 2, w_shape, layout, most, false);
    if (t.gated && n % 5 > 0) t.b_up = given(&r, of_b, 1, w_shape, layout, 1, false);
    if (t.adds && !t.in_place) t.residual = given(&r, type, 3, out_shape, layout, 1, false);
    return t;
}

static void assert_out(const epilogue_case *t, clattn_activation activation, const char *kernel) {
    const int64_t count = t->rows * t->columns;
    double *gate = project(&t->x, &t->w, &t->b, t->rows, t->columns), *is = reference_alloc(count),
           *by = t->gated ? project(&t->x, &t->up, &t->b_up, t->rows, t->columns) : NULL;
    const double *more = t->in_place ? t->out.values : t->residual.values;
    ck_assert_msg(guarded_read(&t->out.memory, harness()->queue, is), "%d: bytes around out changed", t->n);
    for (int64_t i = 0; i < count; i++) {
        const double factor = t->gated ? by[i] : 1,
                     want = reference_activation(gate[i], activation) * factor + (t->adds ? more[i] : 0);
        ck_assert_msg(fabs(is[i] - want) <= bound_of(gate[i], factor, want, t->out.memory.view.type),
                      "%d by %s: number %d is %.9g, not %.9g", t->n, kernel, (int)i, is[i], want);
    }
    ck_assert(guarded_intact(&t->x.memory, harness()->queue) &&
              guarded_intact(&t->w.memory, harness()->queue));
    free(gate), free(by), free(is);
}

static void run(clattn_context *c, int n, const char *way) {
    epilogue_case t = make(n);
    clattn_linear_params p = {.x = t.x.memory.view, .w = t.w.memory.view, .out = t.out.memory.view};
    clattn_linear_choice choice;
    p.b = t.b.memory.view, p.w_up = t.up.memory.view, p.b_up = t.b_up.memory.view;
    p.residual = t.in_place ? p.out : t.residual.memory.view;
    p.activation = (clattn_activation)(n % CLATTN_ACTIVATION_COUNT);
    p.projection =
        !*way && n % 8 == 7 && harness_has_clblast() ? CLATTN_PROJECTION_CLBLAST : CLATTN_PROJECTION_NATIVE;
    p.precision = n % 2 ? CLATTN_PRECISION_SPLIT : CLATTN_PRECISION_EXACT;
    cl_mem more_of_w = n % 4 < 2 ? pack(c, &t.w, &p.packed) : NULL,
           more_of_up = n % 4 < 2 ? pack(c, &t.up, &p.packed_up) : NULL;
    ck_assert_int_eq(clattn_linear_plan(c, &p, &choice), CLATTN_OK);
    const bool follows = p.activation || t.gated || t.adds,
               fused = strcmp(choice.kernel_name, "linear_few_lanes") == 0;
    ck_assert_msg(p.projection == CLATTN_PROJECTION_CLBLAST || !strcmp(choice.kernel_name, "linear_matrix") ||
                      (choice.workspace_bytes > 0) == (follows && !fused),
                  "%d: %s asks for %zu bytes", n, choice.kernel_name, choice.workspace_bytes);
    ck_assert_msg(clattn_linear_enqueue(c, harness()->queue, &p, 0, NULL, NULL) == CLATTN_OK, "%s",
                  harness_log_text());
    assert_out(&t, p.activation, choice.kernel_name);
    if (more_of_w) clReleaseMemObject(more_of_w);
    if (more_of_up) clReleaseMemObject(more_of_up);
    array_release(&t.x), array_release(&t.w), array_release(&t.out), array_release(&t.up);
    array_release(&t.b), array_release(&t.b_up), array_release(&t.residual);
}

START_TEST(by_every_kernel) {
    clattn_context *c = harness_open(
        (clattn_context_params){.context = harness()->opencl, .log = harness_log(), .tuned_rows = ways[_i]});
    packs = 0;
    for (int n = 0; n < CASES; n++)
        if (harness_takes(n + CASES * _i)) run(c, n, ways[_i]);
    ck_assert_msg(packs > 0 || strcmp(ways[_i], "linear_matrix :") != 0 ||
                      !clattn_context_capabilities(c)->is_cpu,
                  "nothing was packed");
    clattn_context_destroy(c);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("epilogue");
    TCase *group = harness_add(suite, "epilogue", (const TTest *const[]){NULL});
    tcase_add_loop_test(group, by_every_kernel, 0, WAYS);
    return harness_run(suite);
}
