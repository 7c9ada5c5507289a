// test_epilogue.c: what follows a projection before it is stored: an activation, a gate, a residual, against the formula in double;
// by the kernels of every device and by CLBlast, of few rows and of many, in all types and layouts, the residual apart, in place
// and absent; and who does it in the same launch. Leaves out refusals (test_errors_linear.c).
#include "support/harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "evidence/device/guarded.h"
#include "evidence/reference/random.h"
#include "evidence/reference/reference.h"
#include "evidence/reference/storage.h"

enum { BATCH = 2, INNER = 64, CASES = 96 };

static const char *const ways[] = {"",
                                   "linear_rows :", "linear_tiles :", "linear_lanes :", "linear_matrix :"};
enum { WAYS = sizeof ways / sizeof ways[0] };
static const clattn_type kinds[][2] = {
    {CLATTN_TYPE_F32, CLATTN_TYPE_F32},  {CLATTN_TYPE_BF16, CLATTN_TYPE_BF16},
    {CLATTN_TYPE_F32, CLATTN_TYPE_Q8_0}, {CLATTN_TYPE_F16, CLATTN_TYPE_BF16},
    {CLATTN_TYPE_F32, CLATTN_TYPE_BF16}, {CLATTN_TYPE_BF16, CLATTN_TYPE_F32}};
static const int rows_of[] = {1, 3, 2, 9, 45};

// A tensor on the device and its numbers, as stored, on the host.
typedef struct array {
    struct guarded memory;
    double *values;
} array;

static array given(struct random *r, clattn_type type, int rank, const int64_t *shape, enum layout layout,
                   double most, bool written) {
    struct guarded_shape of = {.type = type, .rank = rank, .layout = layout};
    memcpy(of.shape, shape, (size_t)rank * sizeof *shape);
    const int numbers = clattn_type_numbers(type);
    const int64_t count = guarded_shape_count(&of);
    of.shape[rank - 1] /= numbers;
    array a = {.values = reference_alloc(count)};
    for (int64_t n = 0; n < count; n++) a.values[n] = storage_round(type, random_uniform(r, -most, most));
    if (numbers > 1) storage_round_blocks(type, a.values, count);
    a.memory = written ? guarded_in_out(harness_place(), &of, a.values)
                       : guarded_input(harness_place(), &of, a.values);
    return a;
}

static void release(array *a) {
    if (a->values) guarded_release(&a->memory), free(a->values);
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

// Sums of 64 products, of about 1, in float32, and the rounding of what is stored.
static double bound_of(double gate, double up, double want, clattn_type type) {
    return 4e-6 * (1 + fabs(gate)) * (1 + fabs(gate)) * (1 + fabs(up)) +
           1.01 * storage_roundoff(type) * fabs(want);
}

static void run(clattn_context *c, int n, const char *way) {
    struct random r = {(uint64_t)n + 1};
    const clattn_type type = kinds[n % 6][0], of_w = kinds[n % 6][1];
    const int64_t columns = n % 7 ? 45 : 100, rows = rows_of[n % 5], x_shape[] = {BATCH, rows, INNER},
                  w_shape[] = {columns, INNER}, out_shape[] = {BATCH, rows, columns};
    const bool gated = n % 3 != 0, in_place = n % 4 == 2, adds = n % 4 == 1 || in_place;
    const enum layout layout = (enum layout)(n / 2 % LAYOUT_COUNT);
    const double most = 2 / sqrt((double)INNER);
    const clattn_type of_b = n % 2 ? CLATTN_TYPE_F32 : CLATTN_TYPE_F16;
    array x = given(&r, type, 3, x_shape, layout, 1, false),
          w = given(&r, of_w, 2, w_shape, layout, most, false),
          out = given(&r, type, 3, out_shape, layout, 1, true), up = {0}, b = {0}, b_up = {0}, residual = {0};
    if (n % 5 > 1) b = given(&r, of_b, 1, w_shape, layout, 1, false);
    if (gated) up = given(&r, of_w, 2, w_shape, layout, most, false);
    if (gated && n % 5 > 0) b_up = given(&r, of_b, 1, w_shape, layout, 1, false);
    if (adds && !in_place) residual = given(&r, type, 3, out_shape, layout, 1, false);
    clattn_linear_params p = {.x = x.memory.view, .w = w.memory.view, .out = out.memory.view};
    p.b = b.memory.view, p.w_up = up.memory.view, p.b_up = b_up.memory.view;
    p.residual = in_place ? p.out : residual.memory.view;
    p.activation = (clattn_activation)(n % CLATTN_ACTIVATION_COUNT);
    p.projection =
        !*way && n % 8 == 7 && harness_has_clblast() ? CLATTN_PROJECTION_CLBLAST : CLATTN_PROJECTION_NATIVE;
    clattn_linear_choice choice;
    ck_assert_int_eq(clattn_linear_plan(c, &p, &choice), CLATTN_OK);
    const bool follows = p.activation || gated || adds,
               fused = strcmp(choice.kernel_name, "linear_few_lanes") == 0;
    ck_assert_msg(p.projection == CLATTN_PROJECTION_CLBLAST || !strcmp(choice.kernel_name, "linear_matrix") ||
                      (choice.workspace_bytes > 0) == (follows && !fused),
                  "%d: %s asks for %zu bytes", n, choice.kernel_name, choice.workspace_bytes);
    ck_assert_msg(clattn_linear_enqueue(c, harness()->queue, &p, 0, NULL, NULL) == CLATTN_OK, "%s",
                  harness_log_text());
    double *gate = project(&x, &w, &b, BATCH * rows, columns),
           *by = gated ? project(&x, &up, &b_up, BATCH * rows, columns) : NULL,
           *is = reference_alloc(BATCH * rows * columns);
    const double *more = in_place ? out.values : residual.values;
    ck_assert_msg(guarded_read(&out.memory, harness()->queue, is), "%d: bytes around out changed", n);
    for (int64_t i = 0; i < BATCH * rows * columns; i++) {
        const double factor = gated ? by[i] : 1,
                     want = reference_activation(gate[i], p.activation) * factor + (adds ? more[i] : 0);
        ck_assert_msg(fabs(is[i] - want) <= bound_of(gate[i], factor, want, type),
                      "%d by %s: number %d is %.9g, not %.9g", n, choice.kernel_name, (int)i, is[i], want);
    }
    ck_assert(guarded_intact(&x.memory, harness()->queue) && guarded_intact(&w.memory, harness()->queue));
    free(gate), free(by), free(is);
    release(&x), release(&w), release(&out), release(&up), release(&b), release(&b_up), release(&residual);
}

START_TEST(by_every_kernel) {
    clattn_context *c = harness_open(
        (clattn_context_params){.context = harness()->opencl, .log = harness_log(), .tuned_rows = ways[_i]});
    for (int n = 0; n < CASES; n++) run(c, n, ways[_i]);
    clattn_context_destroy(c);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("epilogue");
    TCase *group = harness_add(suite, "epilogue", (const TTest *const[]){NULL});
    tcase_add_loop_test(group, by_every_kernel, 0, WAYS);
    return harness_run(suite);
}
