// layer_case.c: makes, runs and judges a layer case. Leaves out the stored layers of real models
// (test_models.c), which fill its arrays themselves. Called by the layer suites.
#include "layer_case.h"

#include "evidence/budget.h"
#include "harness.h"
#include "evidence/storage.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static struct layer_case completed(const struct layer_case *test) {
    struct layer_case t = *test;
    if (t.batch == 0) t.batch = 1;
    if (t.width_out == 0) t.width_out = t.width;
    if (t.kv_heads == 0) t.kv_heads = t.heads;
    if (t.head_dim_v == 0) t.head_dim_v = t.head_dim;
    if (t.width_y == 0) t.n_kv = t.n_q;
    return t;
}

int64_t layer_rows(const struct layer_case *t, int matrix) {
    const int64_t rows[] = {t->heads * t->head_dim, t->kv_heads * t->head_dim, t->kv_heads * t->head_dim_v,
                            t->width_out};
    return rows[matrix];
}

int64_t layer_columns(const struct layer_case *t, int matrix) {
    if (matrix == LAYER_O) return t->heads * t->head_dim_v;
    return matrix == LAYER_Q || t->width_y == 0 ? t->width : t->width_y;
}

// Matrices are small enough that every stage's results are about 1 in size.
struct layer_data *layer_make(const struct layer_case *test) {
    struct layer_data *data = calloc(1, sizeof *data);
    harness_expect(data != NULL ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY, "calloc");
    struct random random = {test->seed + 11};
    data->test = completed(test);
    const struct layer_case *t = &data->test;
    data->x = array_random(&random, t->batch * t->n_q * t->width, t->type, 2);
    if (t->width_y != 0) data->y = array_random(&random, t->batch * t->n_kv * t->width_y, t->type, 2);
    for (int m = 0; m < LAYER_MATRICES; m++) {
        int64_t rows = layer_rows(t, m), columns = layer_columns(t, m);
        data->matrix[m] = array_random(&random, rows * columns, t->matrix_type, 2 / sqrt((double)columns));
        if (t->biases >> m & 1) data->bias[m] = array_random(&random, rows, t->bias_type, 1);
    }
    return data;
}

void layer_free(struct layer_data *data) {
    free(data->x);
    free(data->y);
    for (int m = 0; m < LAYER_MATRICES; m++) {
        free(data->matrix[m]);
        free(data->bias[m]);
    }
    free(data);
}

static void bind_matrices(const struct layer_data *data, struct layer_arrays *a) {
    const struct layer_case *t = &data->test;
    clattn_tensor *matrices[] = {&a->params.wq, &a->params.wk, &a->params.wv, &a->params.wo};
    clattn_tensor *biases[] = {&a->params.bq, &a->params.bk, &a->params.bv, &a->params.bo};
    for (int m = 0; m < LAYER_MATRICES; m++) {
        struct array_shape matrix = {t->matrix_type, 2, {layer_rows(t, m), layer_columns(t, m)}, t->layout};
        struct array_shape bias = {t->bias_type, 1, {layer_rows(t, m)}, t->layout};
        a->matrix[m] = array_input(&matrix, data->matrix[m]);
        *matrices[m] = a->matrix[m].view;
        if (data->bias[m] == NULL) continue;
        a->bias[m] = array_input(&bias, data->bias[m]);
        *biases[m] = a->bias[m].view;
    }
}

void layer_bind(const struct layer_data *data, struct layer_arrays *a) {
    const struct layer_case *t = &data->test;
    struct array_shape x = {t->type, 3, {t->batch, t->n_q, t->width}, t->layout};
    struct array_shape y = {t->type, 3, {t->batch, t->n_kv, t->width_y}, t->layout};
    struct array_shape out = {t->type, 3, {t->batch, t->n_q, t->width_out}, t->layout};
    struct array_shape map = {CLATTN_TYPE_F32, 4, {t->batch, t->heads, t->n_q, t->n_kv}, t->layout};
    *a = (struct layer_arrays){.params = {.score = t->options.score,
                                          .rope = t->options.rope,
                                          .scores_at = t->options.scores_at,
                                          .kernel = t->options.kernel,
                                          .splits = t->options.splits}};
    a->params.heads = (int32_t)t->heads;
    a->params.kv_heads = (int32_t)t->kv_heads;
    a->params.projection = t->projection;
    a->x = array_input(&x, data->x);
    if (t->width_y != 0) a->y = array_input(&y, data->y);
    a->out = array_output(&out);
    if (t->weights) a->weights = array_output(&map);
    if (t->scores) a->scores = array_output(&map);
    a->params.x = a->x.view;
    a->params.y = a->y.view;
    a->params.out = a->out.view;
    a->params.weights = a->weights.view;
    a->params.scores = a->scores.view;
    bind_matrices(data, a);
}

void layer_unbind(struct layer_arrays *a) {
    struct array *all[] = {&a->x, &a->y, &a->out, &a->weights, &a->scores};
    for (size_t n = 0; n < sizeof all / sizeof all[0]; n++) array_release(all[n]);
    for (int m = 0; m < LAYER_MATRICES; m++) {
        array_release(&a->matrix[m]);
        array_release(&a->bias[m]);
    }
}

static double *collect(const struct array *array, cl_command_queue queue, bool *intact) {
    if (array->view.buffer == NULL) return NULL;
    double *values = reference_alloc(array_count(&array->view));
    *intact = array_read(array, queue, values) && *intact;
    return values;
}

struct layer_result layer_collect(const struct layer_arrays *a, cl_command_queue queue) {
    struct layer_result result = {.status = CLATTN_OK, .intact = true};
    result.out = collect(&a->out, queue, &result.intact);
    result.weights = collect(&a->weights, queue, &result.intact);
    result.scores = collect(&a->scores, queue, &result.intact);
    result.intact = array_intact(&a->x, queue) && result.intact;
    for (int m = 0; m < LAYER_MATRICES; m++)
        result.intact = array_intact(&a->matrix[m], queue) && result.intact;
    return result;
}

struct layer_result layer_run(const struct layer_data *data, cl_command_queue queue) {
    struct layer_arrays arrays;
    layer_bind(data, &arrays);
    harness_log_clear();
    clattn_status status = clattn_layer_enqueue(harness()->context, queue, &arrays.params, 0, NULL, NULL);
    struct layer_result result = layer_collect(&arrays, queue);
    result.status = status;
    layer_unbind(&arrays);
    return result;
}

struct layer_result layer_reference(const struct layer_data *data, clattn_type plain) {
    const struct layer_case *t = &data->test;
    struct layer_result result = {.status = CLATTN_OK, .intact = true};
    double *const *w = data->matrix, *const *b = data->bias;
    struct reference_layer problem = {t->width, t->width_y, t->width_out, data->x, data->y, w[0], w[1],
                                      w[2],     w[3],       b[0],         b[1],    b[2],    b[3], {0}};
    problem.attention = (struct reference){.batch = t->batch, .heads = t->heads, .kv_heads = t->kv_heads};
    problem.attention.n_q = t->n_q;
    problem.attention.n_kv = t->n_kv;
    problem.attention.head_dim = t->head_dim;
    problem.attention.head_dim_v = t->head_dim_v;
    problem.attention.options = &t->options;
    problem.attention.plain = plain;
    result.out = reference_alloc(t->batch * t->n_q * t->width_out);
    result.weights = reference_alloc(t->batch * t->heads * t->n_q * t->n_kv);
    result.scores = reference_alloc(t->batch * t->heads * t->n_q * t->n_kv);
    struct reference_result to = {.out = result.out};
    to.tap[CLATTN_TAP_SOFTMAX] = result.weights;
    to.tap[CLATTN_TAP_RAW] = result.scores;
    reference_layer(&problem, &to);
    return result;
}

void layer_result_free(struct layer_result *result) {
    free(result->out);
    free(result->weights);
    free(result->scores);
    *result = (struct layer_result){0};
}

bool layer_agrees(const struct layer_data *data, const struct layer_result *got, char *why, size_t size) {
    const struct layer_case *t = &data->test;
    clattn_type type = storage_coarser(t->type, storage_coarser(t->matrix_type, t->bias_type));
    if (got->status != CLATTN_OK || !got->intact) {
        snprintf(why, size, "%s: %s", clattn_status_name(got->status),
                 got->status != CLATTN_OK ? harness_log_text()
                                          : "bytes around an output changed, or an input");
        return false;
    }
    struct layer_result ref = layer_reference(data, CLATTN_TYPE_F32), plain = {0};
    if (type != CLATTN_TYPE_F32) plain = layer_reference(data, type);
    struct budget out = {.what = "out", .type = type, .got = got->out, .ref = ref.out, .plain = plain.out};
    struct budget weights = {.what = "weights", .type = type, .got = got->weights, .ref = ref.weights};
    struct budget scores = {.what = "scores", .type = type, .got = got->scores, .ref = ref.scores};
    out.count = t->batch * t->n_q * t->width_out;
    weights.count = scores.count = t->batch * t->heads * t->n_q * t->n_kv;
    bool good = budget_holds(&out, why, size);
    good = good && (got->weights == NULL || budget_holds(&weights, why, size));
    good = good && (got->scores == NULL || budget_holds(&scores, why, size));
    layer_result_free(&ref);
    layer_result_free(&plain);
    return good;
}

void layer_assert(const struct layer_case *test) {
    char why[512] = "";
    struct layer_data *data = layer_make(test);
    struct layer_result got = layer_run(data, harness()->queue);
    bool good = layer_agrees(data, &got, why, sizeof why);
    layer_result_free(&got);
    layer_free(data);
    ck_assert_msg(good, "%s (projection %d): %s", test->name, (int)test->projection, why);
}
