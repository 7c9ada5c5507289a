// linear_case.c: makes, runs and judges one projection. Called by the suites of the linear call.
#include "linear_case.h"

#include "evidence/budget.h"
#include "harness.h"
#include "evidence/reference.h"
#include "evidence/storage.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// The matrix is small enough that results are about 1 in size.
struct linear_data *linear_data_make(const struct linear_case *test) {
    struct linear_data *data = calloc(1, sizeof *data);
    harness_expect(data != NULL ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY, "calloc");
    struct linear_case *t = &data->test;
    *t = *test;
    if (t->batch == 0) t->batch = 1;
    struct random random = {(uint64_t)(t->rows * 1009 + t->inner * 31 + t->columns)};
    data->x = array_random(&random, t->batch * t->rows * t->inner, t->type, 2);
    data->w = array_random(&random, t->columns * t->inner, t->matrix_type, 2 / sqrt((double)t->inner));
    if (t->bias) data->b = array_random(&random, t->columns, t->bias_type, 1);
    return data;
}

void linear_data_free(struct linear_data *data) {
    free(data->x);
    free(data->w);
    free(data->b);
    free(data);
}

void linear_bind(const struct linear_data *data, struct linear_arrays *a) {
    const struct linear_case *t = &data->test;
    struct array_shape x = {t->type, 3, {t->batch, t->rows, t->inner}, t->layout};
    struct array_shape out = {t->type, 3, {t->batch, t->rows, t->columns}, t->layout};
    struct array_shape w = {t->matrix_type, 2, {t->columns, t->inner}, t->layout};
    struct array_shape b = {t->bias_type, 1, {t->columns}, t->layout};
    *a = (struct linear_arrays){.params = {.projection = t->projection}};
    a->x = array_input(&x, data->x);
    a->w = array_input(&w, data->w);
    a->out = array_output(&out);
    if (t->bias) a->b = array_input(&b, data->b);
    a->params.x = a->x.view;
    a->params.w = a->w.view;
    a->params.out = a->out.view;
    a->params.b = a->b.view;
}

void linear_unbind(struct linear_arrays *a) {
    array_release(&a->x);
    array_release(&a->out);
    array_release(&a->w);
    array_release(&a->b);
}

// Inputs are exact in their storage and sums are float32, so that only the type of out decides the budget.
bool linear_agrees(const struct linear_data *data, const struct linear_arrays *a, cl_command_queue queue,
                   char *why, size_t size) {
    const struct linear_case *t = &data->test;
    const int64_t count = t->batch * t->rows * t->columns;
    struct reference_linear problem = {
        .x = data->x, .w = data->w, .b = data->b, .in = t->inner, .out = t->columns};
    problem.rows = t->batch * t->rows;
    double *got = reference_alloc(count), *ref = reference_alloc(count), *plain = reference_alloc(count);
    bool good = array_read(&a->out, queue, got);
    good = array_intact(&a->x, queue) && array_intact(&a->w, queue) && good;
    if (t->bias) good = array_intact(&a->b, queue) && good;
    if (!good) snprintf(why, size, "bytes around the output changed, or an input");
    reference_linear(&problem, ref);
    problem.plain = t->type;
    reference_linear(&problem, plain);
    struct budget budget = {"out", t->type, got, ref, plain, count, 0};
    good = good && budget_holds(&budget, why, size);
    free(got);
    free(ref);
    free(plain);
    return good;
}

void linear_assert(const struct linear_case *test) {
    char why[512] = "";
    struct linear_arrays arrays;
    struct linear_data *data = linear_data_make(test);
    linear_bind(data, &arrays);
    harness_log_clear();
    clattn_status status =
        clattn_linear_enqueue(harness()->context, harness()->queue, &arrays.params, 0, NULL, NULL);
    bool good = status == CLATTN_OK;
    if (!good) snprintf(why, sizeof why, "%s: %s", clattn_status_name(status), harness_log_text());
    good = good && linear_agrees(data, &arrays, harness()->queue, why, sizeof why);
    linear_unbind(&arrays);
    linear_data_free(data);
    const struct linear_case *t = test;
    ck_assert_msg(good, "%s (B %d, N %d, K %d, M %d, types %d %d %d, layout %d, projection %d): %s", t->name,
                  (int)t->batch, (int)t->rows, (int)t->inner, (int)t->columns, (int)t->type,
                  (int)t->matrix_type, (int)t->bias_type, (int)t->layout, (int)t->projection, why);
}
