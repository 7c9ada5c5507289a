// case.c: makes the inputs of a case, puts them on the device and enqueues the call. Leaves out the judgement
// (case_check.c). Called by every attention suite.
#include "case.h"

#include "harness.h"
#include "evidence/storage.h"

#include <stdlib.h>
#include <string.h>

static int64_t or_else(int64_t value, int64_t other) {
    return value != 0 ? value : other;
}

static struct test_case completed(const struct test_case *test) {
    struct test_case t = *test;
    t.batch = or_else(t.batch, 1);
    t.heads = or_else(t.heads, 1);
    t.kv_heads = or_else(t.kv_heads, t.heads);
    t.n_q = or_else(t.n_q, 1);
    t.n_kv = or_else(t.n_kv, 1);
    t.head_dim = or_else(t.head_dim, 1);
    t.head_dim_v = or_else(t.head_dim_v, t.head_dim);
    return t;
}

static struct array_shape map_shape(const struct test_case *t, const struct score_map *map,
                                    clattn_type type) {
    int64_t full[4] = {t->batch, t->heads, t->n_q, t->n_kv};
    struct array_shape shape = {.type = type, .rank = map->rank, .layout = t->layout};
    for (int axis = 4 - map->rank; axis < 4; axis++)
        shape.shape[axis - 4 + map->rank] = map->repeat >> axis & 1 ? 1 : full[axis];
    return shape;
}

static int64_t map_count(const struct test_case *t, const struct score_map *map) {
    struct array_shape shape = map_shape(t, map, CLATTN_TYPE_F32);
    int64_t count = map->rank > 0 ? 1 : 0;
    for (int axis = 0; axis < map->rank; axis++) count *= shape.shape[axis];
    return count;
}

// Three keys in four are kept; every nonzero byte is true.
static double *random_mask(struct random *random, int64_t count) {
    static const double bytes[] = {0, 1, 2, 255};
    double *mask = reference_alloc(count);
    for (int64_t n = 0; n < count; n++) mask[n] = bytes[(int)random_uniform(random, 0, 4)];
    return mask;
}

static float *random_floats(struct random *random, int64_t count, double low, double high) {
    float *values = malloc((size_t)count * sizeof *values);
    harness_expect(values != NULL ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY, "malloc");
    for (int64_t n = 0; n < count; n++) values[n] = (float)random_uniform(random, low, high);
    return values;
}

struct case_data *case_make(const struct test_case *test) {
    struct case_data *data = calloc(1, sizeof *data);
    harness_expect(data != NULL ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY, "calloc");
    data->test = completed(test);
    struct test_case *t = &data->test;
    struct random random = {t->seed + 1};
    data->q = array_random(&random, t->batch * t->heads * t->n_q * t->head_dim, t->q_type, 2);
    data->k = array_random(&random, t->batch * t->kv_heads * t->n_kv * t->head_dim, t->kv_type, 2);
    data->v = array_random(&random, t->batch * t->kv_heads * t->n_kv * t->head_dim_v, t->kv_type, 2);
    if (t->mask.rank > 0) data->mask = random_mask(&random, map_count(t, &t->mask));
    if (t->bias.rank > 0) data->bias = array_random(&random, map_count(t, &t->bias), t->bias.type, 2);
    if (t->alibi) data->slopes = random_floats(&random, t->heads, 0.01, 0.5);
    if (t->sinks) data->sinks = random_floats(&random, t->heads, -2, 2);
    t->options.score.alibi_slopes = data->slopes;
    t->options.score.sinks = data->sinks;
    return data;
}

void case_free(struct case_data *data) {
    free(data->q);
    free(data->k);
    free(data->v);
    free(data->mask);
    free(data->bias);
    free(data->slopes);
    free(data->sinks);
    free(data);
}

// Gather q, k and v of each batch item and row side by side, and make the three views.
static void bind_packed(const struct case_data *data, struct case_arrays *a) {
    const struct test_case *t = &data->test;
    int64_t heads = t->heads + 2 * t->kv_heads, block = t->n_q * t->head_dim;
    struct array_shape shape = {t->q_type, 4, {t->batch, heads, t->n_q, t->head_dim}, LAYOUT_BSHD};
    double *values = reference_alloc(t->batch * heads * block);
    for (int64_t b = 0; b < t->batch; b++) {
        double *to = values + b * heads * block;
        memcpy(to, data->q + b * t->heads * block, (size_t)(t->heads * block) * sizeof *to);
        to += t->heads * block;
        memcpy(to, data->k + b * t->kv_heads * block, (size_t)(t->kv_heads * block) * sizeof *to);
        to += t->kv_heads * block;
        memcpy(to, data->v + b * t->kv_heads * block, (size_t)(t->kv_heads * block) * sizeof *to);
    }
    a->packed = array_input(&shape, values);
    free(values);
    a->params.q = a->params.kv.k = a->params.kv.v = a->packed.view;
    a->params.q.shape[1] = t->heads;
    a->params.kv.k.shape[1] = a->params.kv.v.shape[1] = t->kv_heads;
    a->params.kv.k.offset += t->heads * t->head_dim;
    a->params.kv.v.offset += (t->heads + t->kv_heads) * t->head_dim;
}

static void bind_inputs(const struct case_data *data, struct case_arrays *a) {
    const struct test_case *t = &data->test;
    struct array_shape q = {t->q_type, 4, {t->batch, t->heads, t->n_q, t->head_dim}, t->layout};
    struct array_shape k = {t->kv_type, 4, {t->batch, t->kv_heads, t->n_kv, t->head_dim}, t->layout};
    struct array_shape v = {t->kv_type, 4, {t->batch, t->kv_heads, t->n_kv, t->head_dim_v}, t->layout};
    a->q = array_input(&q, data->q);
    a->k = array_input(&k, data->k);
    a->v = array_input(&v, data->v);
    a->params.q = a->q.view;
    a->params.kv.k = a->k.view;
    a->params.kv.v = a->v.view;
}

static void bind_maps(const struct case_data *data, struct case_arrays *a) {
    const struct test_case *t = &data->test;
    if (t->mask.rank > 0) {
        struct array_shape shape = map_shape(t, &t->mask, CLATTN_TYPE_BOOL);
        a->mask = array_input(&shape, data->mask);
        a->params.score.mask = a->mask.view;
    }
    if (t->bias.rank > 0) {
        struct array_shape shape = map_shape(t, &t->bias, t->bias.type);
        a->bias = array_input(&shape, data->bias);
        a->params.score.bias = a->bias.view;
    }
}

void case_bind(const struct case_data *data, struct case_arrays *a) {
    const struct test_case *t = &data->test;
    struct array_shape out = {t->out_type, 4, {t->batch, t->heads, t->n_q, t->head_dim_v}, t->layout};
    struct array_shape lse = {CLATTN_TYPE_F32, 3, {t->batch, t->heads, t->n_q}, t->layout};
    struct array_shape scores = {CLATTN_TYPE_F32, 4, {t->batch, t->heads, t->n_q, t->n_kv}, t->layout};
    struct array_shape weights = scores;
    weights.type = t->weights_type;
    *a = (struct case_arrays){.params = t->options};
    if (t->packed)
        bind_packed(data, a);
    else
        bind_inputs(data, a);
    bind_maps(data, a);
    a->out = array_output(&out);
    if (!t->no_lse) a->lse = array_output(&lse);
    if (t->weights) a->weights = array_output(&weights);
    if (t->scores) a->scores = array_output(&scores);
    a->params.out = a->out.view;
    a->params.lse = a->lse.view;
    a->params.weights = a->weights.view;
    a->params.scores = a->scores.view;
}

void case_unbind(struct case_arrays *a) {
    struct array *all[] = {&a->packed, &a->q,       &a->k,      &a->v,    &a->out,
                           &a->lse,    &a->weights, &a->scores, &a->mask, &a->bias};
    for (size_t n = 0; n < sizeof all / sizeof all[0]; n++) array_release(all[n]);
}

static double *collect(const struct array *array, cl_command_queue queue, bool *intact) {
    if (array->view.buffer == NULL) return NULL;
    double *values = reference_alloc(array_count(&array->view));
    *intact = array_read(array, queue, values) && *intact;
    return values;
}

struct case_result case_collect(const struct case_arrays *a, cl_command_queue queue) {
    const struct array *inputs[] = {&a->packed, &a->q, &a->k, &a->v, &a->mask, &a->bias};
    struct case_result result = {.status = CLATTN_OK, .intact = true};
    result.out = collect(&a->out, queue, &result.intact);
    result.lse = collect(&a->lse, queue, &result.intact);
    result.weights = collect(&a->weights, queue, &result.intact);
    result.scores = collect(&a->scores, queue, &result.intact);
    for (size_t n = 0; n < sizeof inputs / sizeof inputs[0]; n++)
        if (inputs[n]->view.buffer != NULL) result.intact = array_intact(inputs[n], queue) && result.intact;
    return result;
}

struct case_result case_run(const struct case_data *data, cl_command_queue queue) {
    struct case_arrays arrays;
    case_bind(data, &arrays);
    harness_log_clear();
    clattn_status status = clattn_attention_enqueue(harness()->context, queue, &arrays.params, 0, NULL, NULL);
    struct case_result result = case_collect(&arrays, queue);
    result.status = status;
    case_unbind(&arrays);
    return result;
}

void case_result_free(struct case_result *result) {
    free(result->out);
    free(result->lse);
    free(result->weights);
    free(result->scores);
    *result = (struct case_result){0};
}
