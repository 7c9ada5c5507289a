// gather.c: all_gather: every rank receives all keys and values, and computes each segment of its
// rows in one call. [Llama 3, Dubey et al. 2024]
#include <string.h>

#include "mpi/ways.h"

typedef struct gather {
    job *j;
    partial result;
    // `mine`: this rank's rows. `all`: all ranks' rows, rank by rank. `whole`: all rows in the
    // sequence's order.
    char *mine, *all, *whole;
    int *counts, *starts;
    cl_mem device;
} gather;

const char *cla_mpi_gather_refusal(const job *j) {
    const size_t bytes = cla_mpi_piece_layout(j, j->n_kv).bytes;
    if (j->b) return "is not built for gradients: ring and all_to_all are";
    if (bytes > j->largest) return "keys and values of all ranks exceed a device's largest buffer";
    return bytes + 1024 * (size_t)j->w->ranks > INT32_MAX ? "keys and values of all ranks exceed 2 GiB"
                                                          : NULL;
}

static clattn_status prepare(gather *g) {
    job *j = g->j;
    clattn_mpi *w = j->w;
    const size_t whole = cla_mpi_piece_layout(j, j->n_kv).bytes;
    const span keys = {0, j->n_kv, 0};
    size_t all = 0;
    clattn_tensor views[PIECE_PARTS];
    clattn_status status = CLATTN_OK;
    g->counts = cla_mpi_zeroed(w, 2 * (size_t)w->ranks, sizeof *g->counts);
    if (!g->counts) return cla_mpi_fail(w, CLATTN_OUT_OF_MEMORY, "host memory");
    g->starts = g->counts + w->ranks;
    for (int r = 0; r < w->ranks; r++) {
        g->counts[r] = (int)cla_mpi_piece_layout(j, j->kv[r].rows).bytes;
        g->starts[r] = (int)all;
        all += (size_t)g->counts[r];
    }
    g->mine = cla_mpi_host(w, (size_t)g->counts[w->rank], &status);
    g->all = cla_mpi_host(w, all, &status);
    g->whole = cla_mpi_host(w, whole, &status);
    if (status == CLATTN_OK) status = cla_mpi_buffer(w, whole, &g->device);
    TRY(status);
    TRY(cla_mpi_partial_open(&g->result, j, &j->q[w->rank], 1));
    cla_mpi_piece_views(j, g->device, j->n_kv, views);
    if (j->n_kv) TRY(cla_mpi_partial_expect(&g->result, &keys, views));
    TRY(cla_mpi_partial_expect(&g->result, &(span){0, 0, 0}, NULL));
    j->report.plan.device_bytes = whole + g->result.bytes;
    j->report.plan.host_bytes = whole + all + (size_t)g->counts[w->rank];
    return cla_mpi_partial_ready(&g->result);
}

static clattn_status read_mine(gather *g) {
    const job *j = g->j;
    const int64_t rows = j->kv[j->w->rank].rows;
    const piece_layout layout = cla_mpi_piece_layout(j, rows);
    clattn_tensor views[PIECE_PARTS];
    cla_mpi_own_views(j, 0, rows, views);
    for (int part = 0; part < PIECE_PARTS; part++)
        if (views[part].rank) TRY(cla_mpi_read(j->w, j->w->queue, &views[part], g->mine + layout.at[part]));
    return cla_mpi_finish(j->w, j->w->queue);
}

// Copy the rows of all ranks to their places in the sequence.
static void place(const gather *g) {
    const job *j = g->j;
    const piece_layout to = cla_mpi_piece_layout(j, j->n_kv);
    size_t row[PIECE_PARTS];
    cla_mpi_row_bytes(j, row);
    for (int r = 0; r < j->w->ranks; r++) {
        const piece_layout from = cla_mpi_piece_layout(j, j->kv[r].rows);
        for (int part = 0; part < PIECE_PARTS; part++)
            for (int64_t h = 0; h < j->batch * j->kv_heads; h++)
                for (int n = 0; n < j->kv[r].count; n++) {
                    const span *s = &j->kv[r].spans[n];
                    memcpy(g->whole + to.at[part] + (size_t)(h * j->n_kv + s->start) * row[part],
                           g->all + g->starts[r] + from.at[part] +
                               (size_t)(h * j->kv[r].rows + s->local) * row[part],
                           (size_t)s->count * row[part]);
                }
    }
}

static clattn_status attend(gather *g, clattn_status status) {
    job *j = g->j;
    clattn_mpi *w = j->w;
    const span keys = {0, j->n_kv, 0};
    const size_t bytes = cla_mpi_piece_layout(j, j->n_kv).bytes;
    clattn_tensor views[PIECE_PARTS];
    const double begin = MPI_Wtime();
    if (status == CLATTN_OK) status = read_mine(g);
    const clattn_status moved = cla_mpi_try(w,
                                            MPI_Allgatherv(g->mine, g->counts[w->rank], MPI_BYTE, g->all,
                                                           g->counts, g->starts, MPI_BYTE, w->comm),
                                            "MPI_Allgatherv");
    TRY(status);
    TRY(moved);
    place(g);
    cla_mpi_piece_views(j, g->device, j->n_kv, views);
    if (bytes)
        TRY(cla_mpi_cl(w,
                       clEnqueueWriteBuffer(w->queue, g->device, CL_TRUE, 0, bytes, g->whole, 0, NULL, NULL),
                       "clEnqueueWriteBuffer"));
    j->report.transfer_seconds = j->report.exposed_seconds = MPI_Wtime() - begin;
    j->report.sent_bytes = (uint64_t)g->counts[w->rank] * (uint64_t)(w->ranks - 1);
    for (int r = 0; r < w->ranks; r++)
        if (r != w->rank) j->report.received_bytes += (uint64_t)g->counts[r];
    if (j->n_kv) TRY(cla_mpi_partial_add(&g->result, &keys, views));
    TRY(cla_mpi_partial_end(&g->result));
    return cla_mpi_finish(w, w->queue);
}

clattn_status cla_mpi_gather_run(job *j) {
    gather g = {.j = j};
    clattn_status status = cla_mpi_agree(j->w, prepare(&g));
    if (status == CLATTN_OK) {
        const double begin = MPI_Wtime();
        status = attend(&g, cla_mpi_finish(j->w, j->w->queue));
        j->report.seconds = MPI_Wtime() - begin;
        j->report.compute_seconds = j->report.seconds - j->report.transfer_seconds;
        status = cla_mpi_agree(j->w, status);
    }
    cla_mpi_drain(j->w, status);
    cla_mpi_partial_close(&g.result);
    cla_mpi_release(&g.device);
    cla_mpi_free(j->w, g.mine);
    cla_mpi_free(j->w, g.all);
    cla_mpi_free(j->w, g.whole);
    cla_mpi_free(j->w, g.counts);
    return status;
}
