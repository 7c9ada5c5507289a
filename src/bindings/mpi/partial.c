// partial.c: see partial.h.
#include "mpi/partial.h"

static clattn_tensor dense(cl_mem buffer, int rank, int64_t b, int64_t h, int64_t n, int64_t d) {
    const int64_t shape[4] = {b, h, n, d};
    return clattn_tensor_dense(buffer, CLATTN_TYPE_F32, rank, shape);
}

static clattn_status floats(partial *a, int64_t rows, int64_t width, cl_mem *buffer) {
    const job *j = a->j;
    const size_t bytes = (size_t)(j->batch * j->heads * rows * width) * sizeof(float);
    a->bytes += bytes;
    return cla_mpi_buffer(j->w, bytes, buffer);
}

clattn_status cla_mpi_partial_open(partial *a, job *j, const span_list *q, int most) {
    *a = (partial){.j = j, .q = q->spans, .q_count = q->count, .whole = {0, q->rows, 0}};
    if (!j->positional) a->q = &a->whole, a->q_count = 1;
    if (q->rows == 0) a->q_count = 0;
    a->begun = cla_mpi_zeroed(j->w, (size_t)a->q_count + 1, sizeof *a->begun);
    a->parts = cla_mpi_zeroed(j->w, (size_t)a->q_count + 1, sizeof *a->parts);
    a->arrays = cla_mpi_zeroed(j->w, 3 * (size_t)j->batch + 1, sizeof *a->arrays);
    if (!a->begun || !a->parts || !a->arrays) return cla_mpi_fail(j->w, CLATTN_OUT_OF_MEMORY, "host memory");
    TRY(cla_mpi_mods_open(j, most * a->q_count));
    a->bytes += j->mod_bytes;
    // A merge would write rows past a length, which belong to the caller. So with lengths the
    // results are merged elsewhere.
    const bool own = j->p->out.type == CLATTN_TYPE_F32 && !j->p->score.q_lengths,
               own_lse = j->p->lse.rank && !j->p->score.q_lengths;
    a->out = own ? j->p->out : dense(NULL, 4, j->batch, j->heads, q->rows, j->head_dim_v);
    a->lse = own_lse ? j->p->lse : dense(NULL, 3, j->batch, j->heads, q->rows, 0);
    if (!own) TRY(floats(a, q->rows, j->head_dim_v, &a->out_memory));
    if (!own) a->out.buffer = a->out_memory;
    if (!own_lse) TRY(floats(a, q->rows, 1, &a->lse_memory));
    if (!own_lse) a->lse.buffer = a->lse_memory;
    return CLATTN_OK;
}

// The local call of the n-th span of q with these keys.
static local_call part_of(const partial *a, int n, const span *keys, const clattn_tensor views[PIECE_PARTS]) {
    const span *q = &a->q[n];
    local_call c = {.q = *q, .k = *keys, .kv = views};
    c.heads = a->j->heads;
    c.sinks = !a->begun[n] && !a->sinkless;
    c.mods = a->j->mod_slot < 0 ? -1 : a->calls;
    c.out = cla_mpi_rows_of(a->out, q->local, q->count), c.lse = cla_mpi_rows_of(a->lse, q->local, q->count);
    if (!a->begun[n]) return c;
    c.out = dense(a->part_memory, 4, a->j->batch, a->j->heads, q->count, a->j->head_dim_v);
    c.lse = dense(a->part_lse_memory, 3, a->j->batch, a->j->heads, q->count, 0);
    return c;
}

bool cla_mpi_partial_sees(const partial *a, const span *keys) {
    return cla_mpi_any_sees(a->j, a->q, a->q_count, keys);
}

clattn_status cla_mpi_partial_expect(partial *a, const span *keys, const clattn_tensor views[PIECE_PARTS]) {
    clattn_tensor none[PIECE_PARTS];
    cla_mpi_piece_views(a->j, NULL, keys->count, none);
    for (int n = 0; n < a->q_count; n++) {
        clattn_attention_params call;
        if (keys->count && !cla_mpi_sees(a->j, &a->q[n], keys)) {
            a->j->report.calls_skipped++;
            continue;
        }
        const local_call c = part_of(a, n, keys, views ? views : none);
        if (keys->count) cla_mpi_mods_add(a->j, &a->q[n], keys, 0);
        cla_mpi_local(a->j, &c, &call, a->arrays);
        a->begun[n] = a->begun[n] || keys->count;
        a->parts[n] += keys->count ? 1 : 0;
        if (keys->count) a->calls++;
        TRY(cla_mpi_library(a->j->w, clattn_attention_prepare(a->j->w->context, &call)));
    }
    return CLATTN_OK;
}

clattn_status cla_mpi_partial_ready(partial *a) {
    int64_t most = 0;
    for (int n = 0; n < a->q_count; n++) {
        if (a->parts[n] > 1 && a->q[n].count > most) most = a->q[n].count;
        a->begun[n] = false;
    }
    a->calls = 0;
    TRY(floats(a, most, a->j->head_dim_v, &a->part_memory));
    TRY(floats(a, most, 1, &a->part_lse_memory));
    if (a->q_count) TRY(cla_mpi_deliver(a->j, &a->out, &a->lse, a->arrays, true));
    return cla_mpi_mods_upload(a->j);
}

static void keep(partial *a, cl_event event) {
    if (a->event) clReleaseEvent(a->event);
    a->event = event;
}

static clattn_status add_one(partial *a, int n, const span *keys, const clattn_tensor views[PIECE_PARTS]) {
    clattn_mpi *w = a->j->w;
    const local_call c = part_of(a, n, keys, views);
    clattn_attention_params call;
    cl_event event = NULL;
    cla_mpi_local(a->j, &c, &call, a->arrays);
    TRY(cla_mpi_library(w, clattn_attention_enqueue(w->context, w->queue, &call, 0, NULL, &event)));
    keep(a, event);
    a->j->report.calls++;
    a->calls += keys->count ? 1 : 0;
    if (a->begun[n]) {
        const clattn_merge_params merge = {cla_mpi_rows_of(a->out, c.q.local, c.q.count),
                                           cla_mpi_rows_of(a->lse, c.q.local, c.q.count), c.out, c.lse};
        event = NULL;
        TRY(cla_mpi_library(w, clattn_merge_enqueue(w->context, w->queue, &merge, 0, NULL, &event)));
        keep(a, event);
    }
    a->begun[n] = true;
    return cla_mpi_cl(w, clFlush(w->queue), "clFlush");
}

clattn_status cla_mpi_partial_add(partial *a, const span *keys, const clattn_tensor views[PIECE_PARTS]) {
    for (int n = 0; n < a->q_count; n++)
        if (cla_mpi_sees(a->j, &a->q[n], keys)) TRY(add_one(a, n, keys, views));
    return CLATTN_OK;
}

// Converts by appending rows to a cache, the only public call that converts rows and knows lengths.
static clattn_status append(const job *j, const clattn_append_params *a, bool ahead) {
    clattn_mpi *w = j->w;
    return cla_mpi_library(w, ahead ? clattn_append_prepare(w->context, a)
                                    : clattn_append_enqueue(w->context, w->queue, a, 0, NULL, NULL));
}

clattn_status cla_mpi_deliver(job *j, const clattn_tensor *out, const clattn_tensor *lse, int32_t *arrays,
                              bool ahead) {
    clattn_mpi *w = j->w;
    const clattn_mpi_attention_params *p = j->p;
    const span_list *q = &j->q[w->rank];
    for (int n = 0; n < q->count; n++) {
        const span *s = &q->spans[n];
        for (int64_t b = 0; b < j->batch; b++) {
            const int64_t rows = p->score.q_lengths ? p->score.q_lengths[b] - s->start : s->count;
            arrays[b] = (int32_t)(rows < 0 ? 0 : rows > s->count ? s->count : rows);
        }
        clattn_append_params a = {.lengths = arrays};
        a.k_new = cla_mpi_rows_of(*out, s->local, s->count),
        a.k = cla_mpi_rows_of(p->out, s->local, s->count);
        if (s->count && out->buffer != p->out.buffer) TRY(append(j, &a, ahead));
        if (!s->count || !p->lse.rank || lse->buffer == p->lse.buffer) continue;
        a.k_new = cla_mpi_rows_of(*lse, s->local, s->count),
        a.k = cla_mpi_rows_of(p->lse, s->local, s->count);
        a.k_new.rank = a.k.rank = 4;
        a.k_new.shape[3] = a.k.shape[3] = a.k_new.stride[3] = a.k.stride[3] = 1;
        TRY(append(j, &a, ahead));
    }
    return CLATTN_OK;
}

clattn_status cla_mpi_partial_empty(partial *a) {
    const span none = {0, 0, 0};
    clattn_tensor views[PIECE_PARTS];
    cla_mpi_piece_views(a->j, NULL, 0, views);
    for (int n = 0; n < a->q_count; n++)
        if (!a->begun[n]) TRY(add_one(a, n, &none, views));
    return CLATTN_OK;
}

clattn_status cla_mpi_partial_end(partial *a) {
    TRY(cla_mpi_partial_empty(a));
    if (a->q_count) TRY(cla_mpi_deliver(a->j, &a->out, &a->lse, a->arrays, false));
    return CLATTN_OK;
}

void cla_mpi_partial_close(partial *a) {
    keep(a, NULL);
    cla_mpi_release(&a->out_memory);
    cla_mpi_release(&a->lse_memory);
    cla_mpi_release(&a->part_memory);
    cla_mpi_release(&a->part_lse_memory);
    if (!a->j) return; // never opened
    cla_mpi_free(a->j->w, a->begun);
    cla_mpi_free(a->j->w, a->parts);
    cla_mpi_free(a->j->w, a->arrays);
}
