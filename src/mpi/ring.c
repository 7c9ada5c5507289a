// ring.c: rank r computes its own piece, then that of rank r - 1, r - 2, ...: in step s it has the piece of rank r - s, which it
// hands on to r + 1 while it computes [Liu et al. 2023]. A piece goes no further than the last rank that sees it. There are two
// pieces in host memory and two on the device, of which one is at hand and one is coming. A rank on which something failed
// goes on to send and receive, and computes no more.
#include "mpi/ring.h"

#include <time.h>

typedef struct ring {
    job *j;
    partial result;
    ring_pieces pieces;
    char *host[2];
    cl_mem device[2];
    clattn_status status; // the first failure here
    double computed;      // when the device was seen to be idle in this step
} ring;

static int owner_at(const ring *g, int step) {
    const clattn_mpi *w = g->j->w;
    return (w->rank - step % w->ranks + w->ranks) % w->ranks;
}

// The piece of round c that this rank has at that step, its own or from the rank before.
static ring_load load_at(const ring *g, int c, int step) {
    return cla_mpi_ring_load(g->j, &g->pieces, owner_at(g, step), c, step);
}

// And of it what goes on to the next rank.
static ring_load sent_at(const ring *g, int c, int step) {
    return cla_mpi_ring_load(g->j, &g->pieces, owner_at(g, step), c, step + 1);
}

static void note(ring *g, clattn_status status) {
    if (g->status == CLATTN_OK) g->status = status;
}

// Everything that can fail here alone, before anything large is sent.
static clattn_status prepare(ring *g) {
    job *j = g->j;
    clattn_mpi *w = j->w;
    clattn_tensor views[4];
    bool moves = false, comes = false;
    TRY(cla_mpi_partial_open(&g->result, j, &j->q[w->rank], RING_LANES * g->pieces.most * w->ranks));
    for (int c = 0; c < g->pieces.most; c++)
        for (int step = 0; step < w->ranks; step++) {
            const ring_load load = load_at(g, c, step);
            moves = moves || (step && load.bytes) || sent_at(g, c, step).bytes;
            comes = comes || (step && load.bytes);
            for (int lane = 0; lane < RING_LANES; lane++) {
                const span *keys = load.lanes[lane];
                if (!keys) continue;
                cla_mpi_own_views(j, keys->local, keys->count, views);
                TRY(cla_mpi_partial_expect(&g->result, keys, step ? NULL : views));
            }
        }
    TRY(cla_mpi_partial_expect(&g->result, &(span){0, 0, 0}, NULL));
    TRY(cla_mpi_partial_ready(&g->result));
    const size_t bytes = g->pieces.bytes;
    clattn_status status = CLATTN_OK;
    for (int n = 0; n < 2; n++) {
        if (moves) g->host[n] = cla_mpi_host(w, bytes, &status);
        if (comes && status == CLATTN_OK) status = cla_mpi_buffer(w, bytes, &g->device[n]);
    }
    j->report.pieces_unsent = g->pieces.unsent[w->rank];
    j->report.plan.piece_rows = g->pieces.rows;
    j->report.plan.device_bytes = g->result.bytes + (comes ? 2 * bytes : 0);
    j->report.plan.host_bytes = moves ? 2 * bytes : 0;
    return status;
}

// This rank's own rows, to be sent.
static void read_own(ring *g, int c, char *host) {
    const ring_load load = sent_at(g, c, 0), have = load_at(g, c, 0); // which may begin before what is sent
    clattn_tensor views[4];
    for (int lane = 0; lane < RING_LANES; lane++) {
        const span *keys = load.lanes[lane];
        if (!keys) continue;
        const piece_layout layout = cla_mpi_piece_layout(g->j, keys->count);
        cla_mpi_own_views(g->j, keys->local, keys->count, views);
        for (int part = 0; part < 4 && g->status == CLATTN_OK; part++)
            if (views[part].rank)
                note(g, cla_mpi_read(g->j->w, g->j->w->copies, &views[part],
                                     host + have.at[lane] + layout.at[part]));
    }
}

static void compute(ring *g, int c, int step, cl_mem device) {
    const ring_load load = load_at(g, c, step);
    clattn_tensor views[4];
    for (int lane = 0; lane < RING_LANES; lane++) {
        const span *keys = load.lanes[lane];
        if (!keys || g->status != CLATTN_OK) continue;
        if (step)
            cla_mpi_piece_views(g->j, device, keys->count, views);
        else
            cla_mpi_own_views(g->j, keys->local, keys->count, views);
        for (int part = 0; part < 4 && step; part++)
            views[part].offset +=
                views[part].rank ? (int64_t)(load.at[lane] / clattn_type_size(views[part].type)) : 0;
        note(g, cla_mpi_partial_add(&g->result, keys, views));
    }
}

// A piece that came: of the length that it must have, and on to the device where it is seen.
static void take(ring *g, int c, int step, MPI_Status *status, const char *host, cl_mem device) {
    const ring_load load = load_at(g, c, step);
    clattn_mpi *w = g->j->w;
    bool seen = false;
    int came = 0;
    MPI_Get_count(status, MPI_BYTE, &came);
    if ((size_t)came != load.bytes)
        note(g, cla_mpi_fail(w, CLATTN_DRIVER, "a piece of %zu bytes from rank %d came with %d", load.bytes,
                             status->MPI_SOURCE, came));
    g->j->report.received_bytes += (uint64_t)came;
    for (int lane = 0; lane < RING_LANES; lane++)
        seen = seen || (load.lanes[lane] && cla_mpi_partial_sees(&g->result, load.lanes[lane]));
    if (g->status != CLATTN_OK || !seen) return;
    note(g,
         cla_mpi_cl(w, clEnqueueWriteBuffer(w->copies, device, CL_FALSE, 0, load.bytes, host, 0, NULL, NULL),
                    "clEnqueueWriteBuffer"));
    clFlush(w->copies);
}

// When the device is first seen to be idle.
static void look(ring *g) {
    cl_int state = CL_COMPLETE;
    if (g->computed != 0) return;
    if (g->result.event && clGetEventInfo(g->result.event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state,
                                          &state, NULL) != CL_SUCCESS)
        state = CL_COMPLETE;
    if (state <= CL_COMPLETE) g->computed = MPI_Wtime();
}

// Both messages of a step. Asked now and then, because who waits inside MPI takes a processor from a device that is one.
static void exchange(ring *g, MPI_Request *in, MPI_Request *out, int c, int step, int next) {
    const struct timespec pause = {0, 20000};
    MPI_Status status;
    bool waits_in = *in != MPI_REQUEST_NULL, waits_out = *out != MPI_REQUEST_NULL;
    while (waits_in || waits_out) {
        int done = 0;
        if (waits_in) {
            const clattn_status tried = cla_mpi_try(g->j->w, MPI_Test(in, &done, &status), "MPI_Irecv");
            note(g, tried);
            if (done && tried == CLATTN_OK) take(g, c, step, &status, g->host[next], g->device[next]);
            waits_in = !done && tried == CLATTN_OK;
        }
        if (waits_out) {
            const clattn_status tried = cla_mpi_try(g->j->w, MPI_Test(out, &done, &status), "MPI_Isend");
            note(g, tried);
            waits_out = !done && tried == CLATTN_OK;
        }
        look(g);
        if (waits_in || waits_out) nanosleep(&pause, NULL);
    }
}

// A receive that fails is asked for once more, and an empty message goes in place of one that cannot be sent: nobody waits for it.
static void receive(ring *g, char *host, int tag, MPI_Request *in) {
    clattn_mpi *w = g->j->w;
    const int before = (w->rank + w->ranks - 1) % w->ranks;
    for (int tries = 0; tries < 2; tries++) {
        const int code = MPI_Irecv(host, (int)g->pieces.bytes, MPI_BYTE, before, tag, w->comm, in);
        if (code == MPI_SUCCESS) return;
        *in = MPI_REQUEST_NULL;
        note(g, cla_mpi_try(w, code, "MPI_Irecv"));
    }
}

static void send(ring *g, const char *host, int c, int step, int tag, MPI_Request *out) {
    clattn_mpi *w = g->j->w;
    const ring_load have = load_at(g, c, step), load = sent_at(g, c, step);
    size_t first = 0, bytes = load.bytes;
    for (int lane = RING_LANES - 1; lane >= 0; lane--)
        if (load.lanes[lane]) first = have.at[lane];
    for (int tries = 0; tries < 2; tries++, bytes = 0) {
        const int code =
            MPI_Isend(host + first, (int)bytes, MPI_BYTE, (w->rank + 1) % w->ranks, tag, w->comm, out);
        if (code == MPI_SUCCESS) break;
        *out = MPI_REQUEST_NULL;
        note(g, cla_mpi_try(w, code, "MPI_Isend"));
    }
    g->j->report.sent_bytes += bytes;
}

// One piece is computed while it is sent on and the next one comes.
static void tick(ring *g, int c, int step, int at) {
    clattn_mpi *w = g->j->w;
    const int tag = at % 16384, next = 1 - at % 2, ranks = w->ranks;
    const int next_c = step + 1 < ranks ? c : c + 1, next_step = (step + 1) % ranks;
    clattn_mpi_report *report = &g->j->report;
    MPI_Request in = MPI_REQUEST_NULL, out = MPI_REQUEST_NULL;
    const double begin = MPI_Wtime();
    g->computed = 0;
    compute(g, c, step, g->device[at % 2]);
    if (next_step && load_at(g, next_c, next_step).bytes) receive(g, g->host[next], tag, &in);
    if (sent_at(g, c, step).bytes) send(g, g->host[at % 2], c, step, tag, &out);
    if (!next_step && next_c < g->pieces.most && sent_at(g, next_c, 0).bytes)
        read_own(g, next_c, g->host[next]);
    exchange(g, &in, &out, next_c, next_step, next);
    note(g, cla_mpi_finish(w, w->copies));
    look(g);
    const double moved = MPI_Wtime();
    note(g, cla_mpi_finish(w, w->queue));
    const double end = MPI_Wtime(), idle = g->computed != 0 ? g->computed : end;
    report->compute_seconds += idle - begin;
    report->transfer_seconds += moved - begin;
    report->exposed_seconds += moved > idle ? moved - idle : 0;
}

clattn_status cla_mpi_ring_run(job *j) {
    ring g = {.j = j};
    clattn_mpi *w = j->w;
    clattn_status status = cla_mpi_ring_lay(j, &g.pieces);
    if (status == CLATTN_OK) status = prepare(&g);
    status = cla_mpi_agree(w, status);
    if (status == CLATTN_OK) {
        const double begin = MPI_Wtime();
        note(&g, cla_mpi_finish(w, w->queue));
        if (g.pieces.most && sent_at(&g, 0, 0).bytes) read_own(&g, 0, g.host[0]);
        note(&g, cla_mpi_finish(w, w->copies));
        for (int c = 0, at = 0; c < g.pieces.most; c++)
            for (int step = 0; step < w->ranks; step++, at++) tick(&g, c, step, at);
        if (g.status == CLATTN_OK) note(&g, cla_mpi_partial_end(&g.result));
        note(&g, cla_mpi_finish(w, w->queue));
        j->report.seconds = MPI_Wtime() - begin;
        status = cla_mpi_agree(w, g.status);
    }
    for (int n = 0; n < 2; n++) {
        cla_mpi_give(w, g.host[n]);
        cla_mpi_release(&g.device[n]);
    }
    cla_mpi_partial_close(&g.result);
    cla_mpi_ring_free(j, &g.pieces);
    return status;
}
