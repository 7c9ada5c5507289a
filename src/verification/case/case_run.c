// case_run.c: see case_run.h.
#include "verification/case/case_run.h"

#include <stdlib.h>
#include <string.h>

#include "verification/case/case_backward.h"
#include "verification/case/case_kv.h"
#include "verification/case/case_layer.h"
#include "verification/case/case_mods.h"
#include "verification/case/case_positions.h"
#include "verification/case/case_ragged.h"
#include "verification/case/case_shape.h"
#include "verification/reference/reference.h"
#include "verification/device/opencl.h"

// Gather q, k and v of each batch item and row side by side, and create their three views.
static void bind_packed(const struct case_data *data, struct place *place, struct case_arrays *a) {
    const struct test_case *t = &data->test;
    const struct guarded_shape shape = case_shape(t, CASE_PACKED);
    int64_t heads = t->heads + 2 * t->kv_heads, block = t->n_q * t->head_dim;
    double *values = reference_alloc(t->batch * heads * block);
    for (int64_t b = 0; b < t->batch; b++) {
        double *to = values + b * heads * block;
        memcpy(to, data->q + b * t->heads * block, (size_t)(t->heads * block) * sizeof *to);
        to += t->heads * block;
        memcpy(to, data->k + b * t->kv_heads * block, (size_t)(t->kv_heads * block) * sizeof *to);
        to += t->kv_heads * block;
        memcpy(to, data->v + b * t->kv_heads * block, (size_t)(t->kv_heads * block) * sizeof *to);
    }
    a->packed = guarded_input(place, &shape, values);
    free(values);
    a->params.q = a->params.kv.k = a->params.kv.v = a->packed.view;
    a->params.q.shape[1] = t->heads;
    a->params.kv.k.shape[1] = a->params.kv.v.shape[1] = t->kv_heads;
    a->params.kv.k.offset += t->heads * t->head_dim;
    a->params.kv.v.offset += (t->heads + t->kv_heads) * t->head_dim;
}

static void fill_attention(const struct test_case *t, struct case_arrays *a) {
    clattn_attention_params *p = &a->params;
    p->score = t->score;
    p->score.mask = a->mask.view;
    p->score.bias = a->bias.view;
    p->rope = t->rope;
    p->kernel = t->kernel;
    p->splits = t->splits;
    p->cascade = t->cascade == CASE_CASCADE_TRY ? CLATTN_CASCADE_AUTO : t->cascade;
    p->scores_at = t->scores_at;
    p->out = a->out.view;
    p->lse = a->lse.view;
    p->weights = a->weights.view;
    p->scores = a->scores.view;
    p->kv.k_rotation = t->k_rotation, p->kv.v_rotation = t->v_rotation;
    if (t->packed) return;
    p->q = a->q.view;
}

static void fill_layer(const struct test_case *t, struct case_arrays *a) {
    clattn_layer_params *p = &a->layer;
    *p = (clattn_layer_params){.score = t->score, .rope = t->rope, .scores_at = t->scores_at};
    p->score.mask = a->mask.view;
    p->score.bias = a->bias.view;
    p->kernel = t->kernel;
    p->splits = t->splits;
    p->heads = (int32_t)t->heads;
    p->kv_heads = (int32_t)t->kv_heads;
    p->projection = t->projection;
    p->precision = t->precision;
    p->kv.k_rotation = t->k_rotation, p->kv.v_rotation = t->v_rotation;
    p->x = a->x.view;
    p->y = a->y.view;
    p->out = a->out.view;
    p->weights = a->weights.view;
    p->scores = a->scores.view;
    clattn_tensor *matrices[] = {&p->wq, &p->wk, &p->wv, &p->wo},
                  *biases[] = {&p->bq, &p->bk, &p->bv, &p->bo},
                  *scales[] = {&p->wq_scale, &p->wk_scale, &p->wv_scale, &p->wo_scale},
                  *zeros[] = {&p->wq_zero, &p->wk_zero, &p->wv_zero, &p->wo_zero};
    for (int m = 0; m < LAYER_MATRICES; m++) {
        *matrices[m] = a->matrix[m].view;
        *scales[m] = a->kv_scales[case_kv_scales(CASE_MATRIX + m)].view;
        *zeros[m] = a->kv_zeros[case_kv_scales(CASE_MATRIX + m)].view;
        *biases[m] = a->matrix_bias[m].view;
    }
}

// Allocate a buffer and pack the weights into it; the call then uses it.
static clattn_status pack(struct place *place, clattn_pack_params *p, struct guarded *memory,
                          clattn_packed *to) {
    size_t bytes = 0;
    const clattn_status status = clattn_linear_packed_bytes(place->context, p, &bytes);
    if (status != CLATTN_OK) return status;
    if (bytes) {
        const struct guarded_shape shape = {.rank = 1, .shape = {(int64_t)bytes / 4}};
        *memory = guarded_output(place, &shape);
        p->buffer = memory->view.buffer;
    }
    return clattn_linear_pack(place->context, place->queue, p, to, 0, NULL, NULL);
}

// Pack before the call: it may wait for an event, and then finds the packed weights.
static void pack_weights(const struct test_case *t, struct place *place, struct case_arrays *a) {
    clattn_packed *const of_layer[] = {&a->layer.packed_wq, &a->layer.packed_wk, &a->layer.packed_wv,
                                       &a->layer.packed_wo};
    for (int m = 0; m < (t->op == CASE_LAYER ? LAYER_MATRICES : 1); m++) {
        clattn_pack_params p = {.w = a->matrix[m].view, .precision = t->precision};
        clattn_packed *to = t->op == CASE_LAYER ? of_layer[m] : &a->linear.packed;
        const clattn_status status = pack(place, &p, &a->packed_weights[m], to);
        if (status != CLATTN_OK) place_broken(place, "clattn_linear_pack", (cl_int)status);
    }
    clFinish(place->queue);
}

// Bind sink logits in a buffer instead of a host array.
static void bind_sinks(const struct case_data *data, struct place *place, struct case_arrays *a) {
    const struct test_case *t = &data->test;
    clattn_score *score = t->op == CASE_LAYER ? &a->layer.score : &a->params.score;
    const struct guarded_shape shape = {CLATTN_TYPE_F32, 1, {t->heads}, layout_loose(t->layout)};
    if (!t->device_sinks) return;
    double *values = reference_alloc(t->heads);
    for (int64_t h = 0; h < t->heads; h++) values[h] = (double)t->score.sinks[h];
    a->sinks = guarded_input(place, &shape, values);
    free(values);
    score->sinks = NULL;
    score->sinks_device = a->sinks.view;
}

// CASE_CASCADE_TRY: select the cascade if the library supports it for this call.
static void try_cascade(const struct place *place, clattn_attention_params *p) {
    clattn_plan plan;
    p->cascade = CLATTN_CASCADE_ALWAYS;
    if (clattn_attention_plan(place->context, p, &plan) == CLATTN_UNSUPPORTED)
        p->cascade = CLATTN_CASCADE_AUTO;
}

static void bind_inputs(const struct case_data *data, const struct case_data *packed, struct place *place,
                        struct case_arrays *a) {
    const struct test_case *t = &data->test;
    for (int n = 0; n < CASE_INPUTS; n++) {
        const struct case_data *from = case_ragged_has(t, n) ? packed : data;
        const struct guarded_shape shape = case_shape(&from->test, n);
        const bool elsewhere =
            (t->packed && n <= CASE_V) || n == CASE_K || n == CASE_V || n == CASE_PAST_K || n == CASE_PAST_V;
        const bool matrix = (n >= CASE_MATRIX && n < CASE_MATRIX_BIAS) || n == CASE_GATE;
        if (shape.rank > 0 && matrix && CLATTN_TYPE_IS_SCALED(shape.type))
            a->all[n] = case_kv_bind_scaled(from, place, n, a);
        else if (shape.rank > 0 && !elsewhere)
            a->all[n] = guarded_input(place, &shape, from->input[n]);
    }
}

void case_bind(const struct case_data *data, struct place *place, struct case_arrays *a) {
    const struct test_case *t = &data->test;
    const struct case_data *packed = case_ragged_pack(data);
    *a = (struct case_arrays){.op = t->op};
    place->drawn = t->seed;
    bind_inputs(data, packed, place, a);
    for (int n = CASE_OUT; n < CASE_TENSORS; n++) {
        const struct guarded_shape shape = case_shape(case_ragged_has(t, n) ? &packed->test : t, n);
        if (shape.rank > 0) a->all[n] = guarded_output(place, &shape);
    }
    if (t->packed)
        bind_packed(data, place, a);
    else if (t->append && !case_projects(t))
        case_kv_bind_append(data, place, a);
    else if (!case_projects(t))
        case_kv_bind(data, case_ragged_has(t, CASE_K) ? packed : data, place, a);
    if (t->op == CASE_LAYER)
        fill_layer(t, a), case_layer_bind(data, a), case_ragged_bind_layer(data, place, a);
    else if (t->op == CASE_LINEAR)
        a->linear = (clattn_linear_params){.x = a->x.view,
                                           .out = a->out.view,
                                           .w = a->matrix[LAYER_Q].view,
                                           .w_scale = a->kv_scales[case_kv_scales(CASE_MATRIX)].view,
                                           .w_zero = a->kv_zeros[case_kv_scales(CASE_MATRIX)].view,
                                           .b = a->matrix_bias[LAYER_Q].view,
                                           .projection = t->projection,
                                           .precision = t->precision};
    else
        fill_attention(t, a), case_ragged_bind(data, place, a);
    case_ragged_free(data, packed);
    case_positions_bind(data, place, a, t->op == CASE_LAYER ? &a->layer.rope : &a->params.rope);
    if (t->mods) case_mods_bind(data, place, a, t->op == CASE_LAYER ? &a->layer.score : &a->params.score);
    bind_sinks(data, place, a);
    if (t->blocks) case_blocks_bind(data, place, a);
    if (t->packs) pack_weights(t, place, a);
    if (t->op == CASE_LAYER && t->ready) case_layer_bind_ready(data, place, a);
    case_layer_bind_append(data, place, a);
    if (t->cascade == CASE_CASCADE_TRY) try_cascade(place, &a->params);
    if (t->op == CASE_BACKWARD) case_backward_bind(data, place, a);
}

void case_unbind(struct case_arrays *a) {
    for (int n = 0; n < CASE_TENSORS; n++) guarded_release(&a->all[n]);
    for (int n = 0; n < 2; n++) {
        guarded_release(&a->caches[n]);
        guarded_release(&a->new_rows[n]);
    }
    for (int n = 0; n < CASE_SCALED; n++) guarded_release(&a->kv_scales[n]), guarded_release(&a->kv_zeros[n]);
    guarded_release(&a->block_table);
    for (int n = 0; n < CLATTN_MOD_BUFFERS; n++) guarded_release(&a->mods[n]);
    guarded_release(&a->blocks);
    guarded_release(&a->sinks);
    for (int n = 0; n < 2; n++) guarded_release(&a->positions[n]);
    case_layer_unbind(a);
    for (int n = 0; n < 2; n++) {
        guarded_release(&a->cu_device[n]);
        free(a->cu[n]);
    }
    for (int n = 0; n < LAYER_MATRICES; n++) guarded_release(&a->packed_weights[n]);
}

clattn_status case_enqueue(clattn_context *context, cl_command_queue queue, const struct case_arrays *a,
                           cl_event *event) {
    if (a->op == CASE_LAYER) return clattn_layer_enqueue(context, queue, &a->layer, 0, NULL, event);
    if (a->op == CASE_LINEAR) return clattn_linear_enqueue(context, queue, &a->linear, 0, NULL, event);
    if (a->op == CASE_BACKWARD) return case_backward_enqueue(context, queue, a, event);
    return clattn_attention_enqueue(context, queue, &a->params, 0, NULL, event);
}

static double *collect(const struct guarded *tensor, cl_command_queue queue, const struct case_sample *sample,
                       int64_t width, bool *intact) {
    if (!guarded_given(&tensor->view)) return NULL;
    double *values = reference_alloc(sample != NULL ? sample->count * width : guarded_numbers(&tensor->view));
    if (sample == NULL) *intact = guarded_read(tensor, queue, values) && *intact;
    for (int64_t n = 0; sample != NULL && n < sample->count; n++)
        guarded_read_row(tensor, queue, sample->rows[n] * width, width, values + n * width);
    return values;
}

static void collect_gradients(const struct case_arrays *a, cl_command_queue queue,
                              const struct case_sample *sample, struct case_result *result) {
    struct case_sample keys = {0};
    if (sample != NULL) keys = (struct case_sample){.count = sample->key_count, .rows = sample->keys};
    for (int g = 0; g < (sample ? GRADIENT_BIAS : GRADIENTS); g++) {
        const struct case_sample *some = sample && g != GRADIENT_Q ? &keys : sample;
        const int64_t width = a->gradient[g].view.shape[3];
        result->gradient[g] = collect(&a->gradient[g], queue, some, width, &result->intact);
        if (g < GRADIENT_BIAS)
            result->gradient[g] =
                case_ragged_unpack_gradient(a, g == GRADIENT_Q, result->gradient[g], width, &result->intact);
    }
    result->intact = result->intact && a->forward.intact && guarded_intact(&a->out, queue) &&
                     guarded_intact(&a->lse, queue);
}

struct case_result case_collect(const struct case_arrays *a, cl_command_queue queue,
                                const struct case_sample *sample) {
    struct case_result result = {.status = CLATTN_OK, .intact = true};
    const clattn_tensor *out = &a->out.view;
    const bool of_heads = a->op != CASE_LAYER || sample == NULL;
    if (a->op == CASE_BACKWARD) {
        collect_gradients(a, queue, sample, &result);
        sample = NULL; // sampled gradients need all rows of out
    }
    result.out = collect(&a->out, queue, sample, out->shape[out->rank - 1], &result.intact);
    result.lse = collect(&a->lse, queue, sample, 1, &result.intact);
    result.out = case_ragged_unpack(a, result.out, out->shape[out->rank - 1], &result.intact);
    result.lse = case_ragged_unpack(a, result.lse, 1, &result.intact);
    if (of_heads) {
        result.weights = collect(&a->weights, queue, sample, a->weights.view.shape[3], &result.intact);
        result.scores = collect(&a->scores, queue, sample, a->scores.view.shape[3], &result.intact);
    }
    if (sample == NULL) result.intact = case_layer_intact(a, queue) && result.intact;
    for (int n = 0; n <= CASE_PACKED && sample == NULL; n++)
        if (guarded_given(&a->all[n].view))
            result.intact = guarded_intact(&a->all[n], queue) && result.intact;
    for (int n = 0; n < 2 && sample == NULL; n++) {
        // Checks that nothing around a cache changed.
        free(collect(&a->caches[n], queue, NULL, 0, &result.intact));
        if (guarded_given(&a->new_rows[n].view))
            result.intact = guarded_intact(&a->new_rows[n], queue) && result.intact;
    }
    return result;
}

static clattn_status enqueue_recorded(const struct place *place, const struct case_arrays *a) {
    clattn_recording *r = NULL;
    clattn_status status = clattn_recording_begin(place->context, place->queue, &r);
    if (status == CLATTN_OK) status = case_enqueue(place->context, place->queue, a, NULL);
    if (status == CLATTN_OK) status = clattn_recording_end(r);
    if (status == CLATTN_OK) status = clattn_recording_enqueue(r, place->queue, 0, NULL, NULL);
    if (status == CLATTN_OK) clFinish(place->queue);
    clattn_recording_destroy(r);
    return status;
}

struct case_result case_execute(const struct case_data *data, struct place *place) {
    struct case_arrays arrays;
    case_bind(data, place, &arrays);
    const bool recorded = place->recorded && data->test.projection != CLATTN_PROJECTION_CLBLAST;
    const clattn_status status = recorded ? enqueue_recorded(place, &arrays)
                                          : case_enqueue(place->context, place->queue, &arrays, NULL);
    struct case_result result = case_collect(&arrays, place->queue, NULL);
    result.status = status;
    if (status != CLATTN_OK) place_message(place, status, result.message);
    case_unbind(&arrays);
    return result;
}

void case_result_free(struct case_result *result) {
    free(result->out);
    free(result->lse);
    free(result->weights);
    free(result->scores);
    for (int g = 0; g < GRADIENTS; g++) free(result->gradient[g]);
    *result = (struct case_result){0};
}

void case_skip_first_call(clattn_context *context) {
    clattn_attention_params p = {.kernel = CLATTN_KERNEL_AUTO};
    p.q = p.out = clattn_tensor_bhsd(NULL, CLATTN_TYPE_F32, 1, 1, 0, 4);
    p.kv.k = p.kv.v = clattn_tensor_bhsd(NULL, CLATTN_TYPE_F32, 1, 1, 1, 4);
    if (!clattn_context_capabilities(context)->driver_known) (void)clattn_attention_prepare(context, &p);
}
