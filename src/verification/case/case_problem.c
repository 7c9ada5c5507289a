// case_problem.c: see case_problem.h.
#include "verification/case/case_problem.h"

#include "verification/case/case_shape.h"
#include "verification/reference/storage.h"

// Strides [B, H, Nq, Nkv] of a dense map; 0 along axes that it lacks or repeats.
static void map_strides(const struct test_case *t, const struct score_map *map, int64_t *stride) {
    int64_t full[4] = {t->batch, t->heads, t->n_q, t->n_kv}, step = 1;
    for (int axis = 3; axis >= 0; axis--) {
        bool varies = axis >= 4 - map->rank && !(map->repeat >> axis & 1);
        stride[axis] = varies ? step : 0;
        if (varies) step *= full[axis];
    }
}

static struct reference_places places_of(const struct case_data *data) {
    const struct test_case *t = &data->test;
    return (struct reference_places){.past_k = data->past_k,
                                     .past_v = t->latent ? data->past_k : data->past_v,
                                     .past = t->past,
                                     .past_batch = case_past_batch(t),
                                     .past_lengths = data->past_lengths,
                                     .block_table = data->block_table,
                                     .page_size = t->page_size,
                                     .turned_pages = !t->append,
                                     .rows = case_kv_rows(t)};
}

struct reference case_problem(const struct case_data *data, clattn_type plain,
                              const struct case_sample *sample) {
    const struct test_case *t = &data->test;
    struct reference r = {.batch = t->batch, .heads = t->heads, .kv_heads = t->kv_heads};
    r.n_q = t->n_q;
    r.n_kv = t->n_kv;
    r.head_dim = t->head_dim;
    r.head_dim_v = t->head_dim_v;
    r.q = data->q;
    r.k = data->k;
    r.v = t->latent ? data->k : data->v;
    r.v_row = t->latent ? t->head_dim : 0;
    if (case_has_places(t)) r.places = places_of(data);
    r.mask = data->mask;
    r.bias = data->bias;
    r.score = &t->score;
    r.rope = &t->rope;
    if (!case_projects(t)) r.rotation[0] = t->k_rotation, r.rotation[1] = t->v_rotation;
    r.positions[0] = data->positions[0], r.positions[1] = data->positions[1];
    r.plain = plain;
    r.period = GUARDED_PERIOD, r.kv_period[0] = GUARDED_PERIOD_OF(t->kv_type);
    r.kv_period[1] = GUARDED_PERIOD_OF(case_v_type(t));
    r.map_period = data->map_period ? data->map_period : GUARDED_PERIOD;
    if (sample != NULL) {
        r.rows = sample->rows;
        r.row_count = sample->count;
    }
    map_strides(t, &t->mask, r.mask_stride);
    map_strides(t, &t->bias, r.bias_stride);
    return r;
}

// A linear's inputs are exact in their storage and its sums are float32, so only the type of out
// matters.
clattn_type case_budget_type(const struct test_case *t) {
    if (t->op == CASE_LINEAR) return t->q_type;
    if (t->op == CASE_LAYER) return storage_coarser(t->q_type, storage_coarser(t->matrix_type, t->bias_type));
    return storage_coarser(storage_coarser(t->out_type, t->q_type),
                           storage_coarser(t->kv_type, case_v_type(t)));
}

// The type whose budget applies before the output is rounded. RoPE rounds q and k again,
// Hadamard-transformed keys round q again, and a layer rounds both.
clattn_type case_score_type(const struct test_case *t) {
    if (t->op == CASE_LAYER) return case_budget_type(t);
    if (t->rope.layout == CLATTN_ROPE_NONE) return t->k_rotation ? t->q_type : CLATTN_TYPE_F32;
    return storage_coarser(t->q_type, t->kv_type);
}
