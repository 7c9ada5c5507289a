// case_layer.c: see case_layer.h.
#include "evidence/case/case_layer.h"
#include "evidence/case/case_layer_cache.h"
#include "evidence/device/opencl.h"

#include <stdio.h>
#include <stdlib.h>

static int64_t norm_size(const struct test_case *t, int which) {
    const int64_t heads = which == 0 ? t->heads : t->kv_heads;
    return t->norm == CLATTN_NORM_WIDTH ? heads * t->head_dim : t->head_dim;
}

int64_t case_gate_rows(const struct test_case *t) {
    if (t->op != CASE_LAYER || t->gate == CASE_NO_GATE) return 0;
    return t->gate == CASE_GATE_HEADS ? t->heads : t->heads * t->head_dim_v;
}

struct guarded_shape case_layer_shape(const struct test_case *t, int tensor) {
    struct guarded_shape shape = {.rank = 1, .layout = t->layout, .type = t->bias_type};
    shape.shape[0] = case_gate_rows(t);
    if (t->op == CASE_LAYER && tensor < CASE_GATE && t->norm != CLATTN_NORM_NONE && !t->norm_plain) {
        shape.shape[0] = norm_size(t, tensor - CASE_NORM);
        return shape;
    }
    if (tensor == CASE_GATE && shape.shape[0] > 0) {
        shape.type = t->matrix_type;
        shape.rank = 2;
        shape.shape[1] = t->width;
        return shape;
    }
    return tensor == CASE_GATE_BIAS && shape.shape[0] > 0 && t->gate_bias ? shape : (struct guarded_shape){0};
}

bool case_layer_valid(const struct test_case *t, char why[256]) {
    const char *no = case_layer_cache_refusal(t);
    if (no != NULL)
        ;
    else if (t->norm == CLATTN_NORM_NONE && (t->norm_plain || t->norm_plus_one || t->norm_epsilon != 0.0f))
        no = "normplain, normplus and normeps: need normheads or normwidth";
    else if (t->norm_plain && t->norm_plus_one)
        no = "normplus: there are no weights with normplain";
    else if (t->gate_bias && t->gate == CASE_NO_GATE)
        no = "gatebias: needs gateheads or gateall";
    snprintf(why, 256, "%s", no ? no : "");
    return no == NULL;
}

void case_layer_bind(const struct case_data *data, struct place *place, struct case_arrays *a) {
    const struct test_case *t = &data->test;
    clattn_layer_params *p = &a->layer;
    (void)place;
    p->norm = t->norm;
    p->norm_epsilon = t->norm_epsilon;
    p->norm_plus_one = t->norm_plus_one;
    p->q_norm = a->norm[0].view;
    p->k_norm = a->norm[1].view;
    p->w_gate = a->gate.view;
    p->b_gate = a->gate_bias.view;
}

clattn_layer_kv_params case_layer_maker(const clattn_layer_params *p) {
    clattn_layer_kv_params made = {.wk = p->wk,
                                   .wv = p->wv,
                                   .bk = p->bk,
                                   .bv = p->bv,
                                   .precision = p->precision,
                                   .packed_wk = p->packed_wk,
                                   .packed_wv = p->packed_wv,
                                   .norm = p->norm,
                                   .k_norm = p->k_norm,
                                   .norm_epsilon = p->norm_epsilon,
                                   .norm_plus_one = p->norm_plus_one && p->k_norm.rank,
                                   .rope = p->rope};
    if (p->rope.k_positions.rank) made.rope.positions = p->rope.k_positions;
    made.rope.k_positions = (clattn_tensor){0};
    return made;
}

// The layer then has them, and nothing that would make them.
void case_layer_make_ready(const struct case_data *data, struct place *place, struct case_arrays *a) {
    const struct test_case *t = &data->test;
    clattn_layer_params *p = &a->layer;
    const clattn_tensor absent = {0};
    for (int n = 0; n < 2; n++) {
        struct guarded_shape shape = {.type = t->q_type, .rank = 4, .layout = t->layout};
        shape.shape[0] = t->batch;
        shape.shape[1] = t->kv_heads;
        shape.shape[2] = t->n_kv;
        shape.shape[3] = n == 0 ? t->head_dim : t->head_dim_v;
        a->ready[n] = guarded_output(place, &shape);
    }
    clattn_layer_kv_params made = case_layer_maker(p);
    made.y = p->y.rank ? p->y : p->x;
    made.k = a->ready[0].view;
    made.v = a->ready[1].view;
    p->rope.k_positions = absent;
    const clattn_status status = clattn_layer_kv_enqueue(place->context, place->queue, &made, 0, NULL, NULL);
    if (status != CLATTN_OK) place_broken(place, "clattn_layer_kv_enqueue", (cl_int)status);
    clFinish(place->queue);
    p->kv.k = a->ready[0].view;
    p->kv.v = a->ready[1].view;
    p->y = p->wk = p->wv = p->bk = p->bv = p->k_norm = absent;
    p->packed_wk = p->packed_wv = (clattn_packed){0};
}

void case_layer_unbind(struct case_arrays *a) {
    for (int n = 0; n < 2; n++) guarded_release(&a->ready[n]);
}

bool case_layer_intact(const struct case_arrays *a, cl_command_queue queue) {
    bool intact = true;
    for (int n = 0; n < 2; n++) {
        if (a->ready[n].view.buffer == NULL) continue;
        double *values = reference_alloc(guarded_count(&a->ready[n].view));
        intact = guarded_read(&a->ready[n], queue, values) && intact;
        free(values);
    }
    return intact;
}

bool case_layer_is_whole(const struct test_case *t) {
    return t->op == CASE_LAYER && (t->append > 0 || t->rope.layout != CLATTN_ROPE_NONE ||
                                   t->norm != CLATTN_NORM_NONE || t->gate != CASE_NO_GATE);
}

void case_layer_reference(const struct case_data *data, struct reference_layer *l) {
    const struct test_case *t = &data->test;
    l->norm = t->norm;
    l->norm_epsilon = t->norm_epsilon != 0.0f ? (double)t->norm_epsilon : 1e-6;
    l->norm_plus_one = t->norm_plus_one;
    l->q_norm = data->norm[0];
    l->k_norm = data->norm[1];
    l->w_gate = data->gate;
    l->b_gate = data->gate_bias;
    l->gates = case_gate_rows(t);
}
