// layer_rows.c: a layer with rows on several ranks. Each rank projects its own rows. Attention runs
// over all ranks. Then each rank projects its part of the result. clattn_layer_kv_enqueue makes
// queries as well as keys, with norm and RoPE.
#include "mpi/layer.h"

typedef struct layer_rows {
    const clattn_mpi_layer_params *p;
    int64_t batch, rows, heads, kv_heads, head_dim, head_dim_v;
    clattn_tensor q, k, v, attended; // views [B, H, n, D] of memory [B, n, H, D]
    // values of the call that computes queries, which has no use for values: one number a head
    clattn_tensor unused;
    cl_mem memory[5];
} layer_rows;

static clattn_status refuse(clattn_mpi *w, const char *what) {
    return cla_mpi_fail(w, CLATTN_UNSUPPORTED, "%s: is not built for a layer whose rows are shared", what);
}

static clattn_status check(clattn_mpi *w, layer_rows *l) {
    const clattn_layer_params *p = &l->p->layer;
    if (p->y.rank) return refuse(w, "y");
    if (p->kv.k.rank || p->kv.k_rotation || p->kv.v_rotation || p->append) return refuse(w, "kv");
    if (p->w_gate.rank) return refuse(w, "w_gate");
    if (p->weights.rank || p->scores.rank) return refuse(w, "weights, scores");
    if (p->sequences || p->cu_seqlens_q || p->cu_seqlens_q_device.rank) return refuse(w, "cu_seqlens");
    if (p->rope.positions.rank || p->rope.k_positions.rank) return refuse(w, "rope.positions");
    if (p->score.alignment != CLATTN_ALIGN_BOTTOM_RIGHT && p->score.alignment != CLATTN_ALIGN_TOP_LEFT)
        return refuse(w, "an offset");
    if (p->score.alignment == CLATTN_ALIGN_BOTTOM_RIGHT && (p->score.q_lengths || p->score.kv_lengths) &&
        p->rope.layout != CLATTN_ROPE_NONE)
        return refuse(w, "RoPE with lengths that align bottom right");
    l->heads = p->heads, l->kv_heads = p->kv_heads ? p->kv_heads : p->heads;
    if (l->heads < 1 || l->kv_heads < 1 || p->wq.rank != 2 || p->wk.rank != 2 || p->wv.rank != 2)
        return cla_mpi_fail(w, CLATTN_INVALID_ARGUMENT, "heads, wq, wk, wv: must be given");
    l->batch = p->x.shape[0], l->rows = p->x.shape[1];
    l->head_dim = p->wq.shape[0] / l->heads, l->head_dim_v = p->wv.shape[0] / l->kv_heads;
    return CLATTN_OK;
}

static clattn_status open_part(clattn_mpi *w, layer_rows *l, int n, int64_t heads, int64_t dim,
                               clattn_tensor *t) {
    const clattn_type type = l->p->layer.x.type;
    const size_t count = (size_t)(l->batch * l->rows * heads * dim);
    TRY(cla_mpi_buffer(w, count * clattn_type_size(type), &l->memory[n]));
    *t = clattn_tensor_bshd(l->memory[n], type, l->batch, heads, l->rows, dim);
    return CLATTN_OK;
}

static clattn_tensor rows_of(clattn_tensor t, int axis, int64_t first, int64_t count) {
    t.offset += count ? first * t.stride[axis] : 0;
    t.shape[axis] = count;
    return t;
}

// Make queries, keys and values of one segment, whose positions are consecutive.
static clattn_status project(clattn_mpi *w, layer_rows *l, int64_t local, int64_t start, int64_t count) {
    const clattn_layer_params *p = &l->p->layer;
    clattn_layer_kv_params a = {.y = rows_of(p->x, 1, local, count), .precision = p->precision};
    if (!count) return CLATTN_OK;
    a.norm = p->norm, a.norm_epsilon = p->norm_epsilon, a.norm_plus_one = p->norm_plus_one;
    a.rope = p->rope;
    if (a.rope.layout != CLATTN_ROPE_NONE) a.rope.position += start;
    a.wk = p->wk, a.wv = p->wv, a.bk = p->bk, a.bv = p->bv, a.k_norm = p->k_norm;
    a.wk_scale = p->wk_scale, a.wv_scale = p->wv_scale, a.wk_zero = p->wk_zero, a.wv_zero = p->wv_zero;
    a.packed_wk = p->packed_wk, a.packed_wv = p->packed_wv;
    a.k = rows_of(l->k, 2, local, count), a.v = rows_of(l->v, 2, local, count);
    TRY(cla_mpi_library(w, clattn_layer_kv_enqueue(w->context, w->queue, &a, 0, NULL, NULL)));
    a.wk = a.wv = p->wq, a.bk = p->bq, a.bv = (clattn_tensor){0}, a.k_norm = p->q_norm;
    a.wv.shape[0] = l->heads;
    a.wk_scale = a.wv_scale = p->wq_scale, a.wk_zero = a.wv_zero = p->wq_zero;
    a.wv_scale.shape[0] = a.wv_zero.shape[0] = l->heads;
    a.packed_wk = p->packed_wq, a.packed_wv = (clattn_packed){0};
    a.k = rows_of(l->q, 2, local, count), a.v = rows_of(l->unused, 2, local, count);
    return cla_mpi_library(w, clattn_layer_kv_enqueue(w->context, w->queue, &a, 0, NULL, NULL));
}

static clattn_status project_all(clattn_mpi *w, layer_rows *l, int64_t start) {
    const clattn_mpi_rows *rows = &l->p->rows;
    int64_t local = 0;
    if (!rows->count) return project(w, l, 0, start, l->rows);
    for (int32_t n = 0; n < rows->count; n++) {
        const clattn_mpi_segment *s = &rows->segments[n];
        if (s->count < 0 || local + s->count > l->rows)
            return cla_mpi_fail(w, CLATTN_INVALID_ARGUMENT, "rows: segments have more rows than x");
        TRY(project(w, l, local, s->start, s->count));
        local += s->count;
    }
    return CLATTN_OK;
}

static clattn_status prepare(clattn_mpi *w, layer_rows *l, int64_t start) {
    TRY(check(w, l));
    TRY(open_part(w, l, 0, l->heads, l->head_dim, &l->q));
    TRY(open_part(w, l, 1, l->kv_heads, l->head_dim, &l->k));
    TRY(open_part(w, l, 2, l->kv_heads, l->head_dim_v, &l->v));
    TRY(open_part(w, l, 3, l->heads, l->head_dim_v, &l->attended));
    TRY(open_part(w, l, 4, l->heads, 1, &l->unused));
    return project_all(w, l, start);
}

static clattn_status project_out(clattn_mpi *w, const layer_rows *l) {
    const clattn_layer_params *p = &l->p->layer;
    const int64_t shape[3] = {l->batch, l->rows, l->heads * l->head_dim_v};
    const clattn_linear_params o = {.x = clattn_tensor_dense(l->memory[3], p->x.type, 3, shape),
                                    .out = p->out,
                                    .w = p->wo,
                                    .b = p->bo,
                                    .projection = p->projection,
                                    .precision = p->precision,
                                    .packed = p->packed_wo,
                                    .w_scale = p->wo_scale,
                                    .w_zero = p->wo_zero};
    TRY(cla_mpi_library(w, clattn_linear_enqueue(w->context, w->queue, &o, 0, NULL, NULL)));
    const cl_int code = clFinish(w->queue);
    return cla_mpi_cl(w, code, "clFinish");
}

clattn_status cla_mpi_layer_rows(clattn_mpi *w, const clattn_mpi_layer_params *p, clattn_mpi_report *report) {
    layer_rows l = {.p = p};
    int64_t mine = p->layer.x.shape[1], start = 0;
    clattn_status status =
        cla_mpi_try(w, MPI_Exscan(&mine, &start, 1, MPI_INT64_T, MPI_SUM, w->comm), "MPI_Exscan");
    if (w->rank == 0) start = 0; // MPI_Exscan leaves rank 0's undefined
    if (status == CLATTN_OK) status = prepare(w, &l, start);
    status = cla_mpi_agree(w, status);
    if (status == CLATTN_OK) {
        clattn_mpi_attention_params a = {
            .q = l.q, .k = l.k, .v = l.v, .out = l.attended, .lse = p->layer.lse};
        a.q_rows = a.kv_rows = p->rows;
        a.score = p->layer.score, a.kernel = p->layer.kernel;
        a.strategy = p->attention, a.piece_rows = p->piece_rows;
        status = clattn_mpi_attention_run(w, &a, report);
    }
    if (status == CLATTN_OK) status = cla_mpi_agree(w, l.rows && l.batch ? project_out(w, &l) : CLATTN_OK);
    clFinish(w->queue);
    for (int n = 0; n < 5; n++) cla_mpi_release(&l.memory[n]);
    return status;
}
