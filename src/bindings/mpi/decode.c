// decode.c: attention of few query rows, the same on all ranks, over a cache with rows on all
// ranks. Each rank attends its own keys. One allreduce merges (out, lse), H * (Dv + 1) floats for
// each query row. Its operation is registered as non-commutative, so MPI keeps the order of the
// ranks, and the same ranks compute the same bits.
#include <math.h>

#include "mpi/partial.h"

typedef struct decode {
    partial result;
    // One call has all keys of this rank. `lengths` limits the keys to the ones that are seen.
    bool single;
    span keys;        // keys of that call, if `single`
    int32_t *lengths; // [B]; NULL: all keys
} decode;

// Merge partial results. MPI passes `in` from lower ranks than `inout`. An element is a row of Dv
// numbers and its lse. A part that saw no key (lse = -inf) has no effect.
static void merge(void *in, void *inout, int *count, MPI_Datatype *type) {
    int bytes = 0;
    MPI_Type_size(*type, &bytes);
    const int width = bytes / (int)sizeof(float), last = width - 1;
    float *a = in, *b = inout;
    for (int n = 0; n < *count; n++, a += width, b += width) {
        if (a[last] == -INFINITY) continue;
        const bool alone = b[last] == -INFINITY;
        const float most = a[last] > b[last] || alone ? a[last] : b[last];
        const float of_a = alone ? 1.0f : expf(a[last] - most), of_b = alone ? 0.0f : expf(b[last] - most),
                    sum = of_a + of_b;
        for (int d = 0; d < last; d++) b[d] = alone ? a[d] : (a[d] * of_a + b[d] * of_b) / sum;
        b[last] = alone ? a[last] : most + logf(sum);
    }
}

// True if one call can have all keys of the rank. Its segments must be in order, and results must
// not depend on positions, except through a length.
static bool is_single(const job *j, const span_list *keys) {
    clattn_score s = j->p->score;
    if (j->n_q == 1) s.causal = false; // for one row, causality is a length
    for (int n = 1; n < keys->count; n++)
        if (keys->spans[n].start < keys->spans[n - 1].start) return false;
    return keys->count > 1 && !(cla_mpi_score_differs(&s) & (PLACE | BY_KEY));
}

static clattn_status fill_lengths(decode *d, job *j, const span_list *keys) {
    const clattn_score *s = &j->p->score;
    if (!s->causal && !s->kv_lengths) return CLATTN_OK;
    d->lengths = cla_mpi_zeroed(j->w, (size_t)j->batch + 1, sizeof *d->lengths);
    if (!d->lengths) return cla_mpi_fail(j->w, CLATTN_OUT_OF_MEMORY, "host memory");
    for (int64_t b = 0; b < j->batch; b++) {
        const int64_t end =
            ARGS_END_KEY(j->shift[b], ARGS_RIGHT(s), s->kv_lengths ? s->kv_lengths[b] : j->n_kv);
        for (int n = 0; n < keys->count; n++) {
            d->lengths[b] += (int32_t)ARGS_HELD(end - keys->spans[n].start, keys->spans[n].count);
        }
    }
    return CLATTN_OK;
}

static void single_call(decode *d, clattn_attention_params *call) {
    const partial *a = &d->result;
    clattn_tensor views[PIECE_PARTS];
    local_call c = {.q = a->q[0], .k = d->keys, .kv = views};
    cla_mpi_own_views(a->j, 0, d->keys.count, views);
    c.out = a->out, c.lse = a->lse, c.heads = a->j->heads, c.mods = -1;
    c.sinks = !a->sinkless;
    cla_mpi_local(a->j, &c, call, a->arrays);
    call->score.causal = false;
    call->score.kv_lengths = d->lengths;
}

static clattn_status prepare(decode *d, job *j) {
    clattn_mpi *w = j->w;
    const span_list *keys = &j->kv[w->rank];
    clattn_attention_params call;
    clattn_tensor views[PIECE_PARTS];
    TRY(cla_mpi_partial_open(&d->result, j, &j->q[w->rank], keys->count));
    d->result.sinkless = w->rank != 0;
    d->single = is_single(j, keys) && d->result.q_count == 1;
    d->keys = (span){0, keys->rows, 0};
    if (d->single) TRY(fill_lengths(d, j, keys));
    if (d->single) {
        single_call(d, &call);
        TRY(cla_mpi_library(w, clattn_attention_prepare(w->context, &call)));
    }
    for (int n = 0; n < keys->count && !d->single; n++) {
        if (!keys->spans[n].count) continue;
        cla_mpi_own_views(j, keys->spans[n].local, keys->spans[n].count, views);
        TRY(cla_mpi_partial_expect(&d->result, &keys->spans[n], views));
    }
    TRY(cla_mpi_partial_expect(&d->result, &(span){0, 0, 0}, NULL));
    j->report.plan.device_bytes = d->result.bytes;
    if (w->merge != MPI_OP_NULL) return cla_mpi_partial_ready(&d->result);
    TRY(cla_mpi_try(w, MPI_Op_create(merge, 0, &w->merge), "MPI_Op_create"));
    return cla_mpi_partial_ready(&d->result);
}

static clattn_status attend(decode *d, job *j) {
    clattn_mpi *w = j->w;
    const span_list *keys = &j->kv[w->rank];
    clattn_attention_params call;
    clattn_tensor views[PIECE_PARTS];
    if (d->single) {
        single_call(d, &call);
        j->report.calls++;
        d->result.begun[0] = true;
        return cla_mpi_library(w, clattn_attention_enqueue(w->context, w->queue, &call, 0, NULL, NULL));
    }
    for (int n = 0; n < keys->count; n++) {
        if (!keys->spans[n].count) continue;
        cla_mpi_own_views(j, keys->spans[n].local, keys->spans[n].count, views);
        TRY(cla_mpi_partial_add(&d->result, &keys->spans[n], views));
    }
    return cla_mpi_partial_empty(&d->result);
}

// Copy between the separate out and lse, and rows that have both side by side.
static void interleave(const job *j, float *rows, float *out, float *lse, bool to_rows) {
    const int64_t count = j->batch * j->heads * j->n_q, width = j->head_dim_v;
    for (int64_t n = 0; n < count; n++) {
        for (int64_t d = 0; d < width; d++)
            if (to_rows)
                rows[n * (width + 1) + d] = out[n * width + d];
            else
                out[n * width + d] = rows[n * (width + 1) + d];
        if (to_rows)
            rows[n * (width + 1) + width] = lse[n];
        else
            lse[n] = rows[n * (width + 1) + width];
    }
}

static clattn_status reduce(decode *d, job *j, clattn_status status, float *rows, float *out, float *lse) {
    clattn_mpi *w = j->w;
    const int64_t count = j->batch * j->heads * j->n_q;
    MPI_Datatype row;
    if (status == CLATTN_OK) status = cla_mpi_read(w, w->queue, &d->result.out, out);
    if (status == CLATTN_OK) status = cla_mpi_read(w, w->queue, &d->result.lse, lse);
    if (status == CLATTN_OK) status = cla_mpi_finish(w, w->queue);
    for (int64_t n = 0; status != CLATTN_OK && n < count; n++) lse[n] = -INFINITY;
    interleave(j, rows, out, lse, true);
    const double begin = MPI_Wtime();
    MPI_Type_contiguous((int)j->head_dim_v + 1, MPI_FLOAT, &row);
    MPI_Type_commit(&row);
    const clattn_status moved = cla_mpi_try(
        w, MPI_Allreduce(MPI_IN_PLACE, rows, (int)count, row, w->merge, w->comm), "MPI_Allreduce");
    MPI_Type_free(&row);
    j->report.transfer_seconds = j->report.exposed_seconds = MPI_Wtime() - begin;
    j->report.sent_bytes = (uint64_t)count * (uint64_t)(j->head_dim_v + 1) * sizeof(float);
    interleave(j, rows, out, lse, false);
    if (status == CLATTN_OK) status = moved;
    if (status == CLATTN_OK) status = cla_mpi_write(w, w->queue, &d->result.out, out);
    if (status == CLATTN_OK) status = cla_mpi_write(w, w->queue, &d->result.lse, lse);
    if (status == CLATTN_OK)
        status = cla_mpi_deliver(j, &d->result.out, &d->result.lse, d->result.arrays, false);
    const clattn_status done = cla_mpi_finish(w, w->queue);
    return status == CLATTN_OK ? done : status;
}

static clattn_status run(job *j) {
    decode d = {.single = false};
    clattn_mpi *w = j->w;
    const size_t count = (size_t)(j->batch * j->heads * j->n_q), width = (size_t)j->head_dim_v;
    clattn_status status = prepare(&d, j);
    float *rows = cla_mpi_host(w, count * (width + 1) * sizeof(float), &status),
          *out = cla_mpi_host(w, count * width * sizeof(float), &status),
          *lse = cla_mpi_host(w, count * sizeof(float), &status);
    j->report.plan.host_bytes = count * (width + 1) * 2 * sizeof(float);
    status = cla_mpi_agree(w, status);
    if (status == CLATTN_OK && count) {
        const double begin = MPI_Wtime();
        status = attend(&d, j);
        status = reduce(&d, j, status, rows, out, lse);
        j->report.seconds = MPI_Wtime() - begin;
        j->report.compute_seconds = j->report.seconds - j->report.transfer_seconds;
        status = cla_mpi_agree(w, status);
    }
    cla_mpi_drain(w, status);
    cla_mpi_free(w, rows);
    cla_mpi_free(w, out);
    cla_mpi_free(w, lse);
    cla_mpi_free(w, d.lengths);
    cla_mpi_partial_close(&d.result);
    return status;
}

clattn_status clattn_mpi_decode_run(clattn_mpi *w, const clattn_mpi_attention_params *params,
                                    clattn_mpi_report *report) {
    job j;
    if (!w) return CLATTN_INVALID_ARGUMENT;
    clattn_status status = cla_mpi_job_open(w, params, true, &j);
    if (status == CLATTN_OK) status = run(&j);
    if (report) *report = j.report;
    cla_mpi_job_close(&j);
    return status;
}
