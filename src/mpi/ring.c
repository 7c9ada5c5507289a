// ring.c: rank r computes its own piece, then that of rank r - 1, r - 2, ...: in step s it has the piece of rank r - s, which it
// hands on to r + 1 while it computes [Liu et al. 2023]. A piece goes no further than the last rank that sees it. There are two
// pieces in host memory and two on the device, of which one is at hand and one is coming. A rank on which something failed
// goes on to send and receive, and computes no more.
#include "mpi/ring.h"

#include <stdlib.h>
#include <time.h>

#define MOST_BYTES ((int64_t)1 << 30) // of a message: MPI counts in int

typedef struct ring {
    job *j;
    partial result;
    ring_pieces pieces;
    char *host[2];
    cl_mem device[2];
    clattn_status status; // the first failure here
    double computed;      // when the device was seen to be idle in this step
} ring;

static const span *piece_of(const ring *g, int owner, int c) {
    return &g->pieces.spans[owner * g->pieces.most + c];
}

static int owner_at(const ring *g, int step) {
    const clattn_mpi *w = g->j->w;
    return (w->rank - step % w->ranks + w->ranks) % w->ranks;
}

// Whether this rank has the piece of that step, by its own or from the rank before.
static bool holds(const ring *g, int c, int step) {
    const int owner = owner_at(g, step), ranks = g->j->w->ranks;
    return c < g->pieces.most && step < ranks && piece_of(g, owner, c)->count &&
           step <= g->pieces.hops[owner * g->pieces.most + c];
}

static bool sends(const ring *g, int c, int step) {
    return holds(g, c, step) && step < g->pieces.hops[owner_at(g, step) * g->pieces.most + c];
}

static void note(ring *g, clattn_status status) {
    if (g->status == CLATTN_OK) g->status = status;
}

// The last rank behind the owner that sees it.
static int hops_of(const job *j, int owner, const span *keys) {
    const int ranks = j->w->ranks;
    for (int hop = ranks - 1; hop > 0; hop--) {
        const span_list *q = &j->q[(owner + hop) % ranks];
        for (int n = 0; n < q->count; n++)
            if (cla_mpi_sees(j, &q->spans[n], keys)) return hop;
    }
    return 0;
}

static int64_t cuts_of(const span *s, int64_t rows) {
    return (s->count + rows - 1) / rows;
}

clattn_status cla_mpi_ring_lay(const job *j, ring_pieces *p) {
    const int64_t row = (int64_t)cla_mpi_piece_layout(j, 64).bytes / 64 + 1, room = (int64_t)32 << 20;
    int64_t rows = j->p->piece_rows ? j->p->piece_rows : room / row;
    if (rows > MOST_BYTES / row) rows = MOST_BYTES / row;
    if (!j->p->piece_rows && rows > 64) rows -= rows % 64;
    if (rows < 1) rows = 1;
    *p = (ring_pieces){.most = 0};
    for (int r = 0; r < j->w->ranks; r++) {
        int64_t count = 0;
        for (int n = 0; n < j->kv[r].count; n++) count += cuts_of(&j->kv[r].spans[n], rows);
        if (count > p->most) p->most = (int)count;
    }
    p->spans = calloc((size_t)p->most * (size_t)j->w->ranks + 1, sizeof *p->spans);
    p->hops = calloc((size_t)p->most * (size_t)j->w->ranks + 1, sizeof *p->hops);
    if (!p->spans || !p->hops) return cla_mpi_fail(j->w, CLATTN_OUT_OF_MEMORY, "host memory");
    for (int r = 0; r < j->w->ranks; r++) {
        span *to = p->spans + r * p->most;
        for (int n = 0; n < j->kv[r].count; n++) {
            const span *s = &j->kv[r].spans[n];
            const int64_t cuts = cuts_of(s, rows);
            for (int64_t x = 0; x < cuts; x++, to++) {
                const int64_t first = s->count * x / cuts, end = s->count * (x + 1) / cuts;
                *to = (span){s->start + first, end - first, s->local + first};
                p->hops[to - p->spans] = hops_of(j, r, to);
                if (to->count > p->rows) p->rows = to->count;
            }
        }
    }
    return CLATTN_OK;
}

void cla_mpi_ring_free(ring_pieces *p) {
    free(p->spans);
    free(p->hops);
    *p = (ring_pieces){0};
}

// Everything that can fail here alone, before anything large is sent.
static clattn_status prepare(ring *g) {
    job *j = g->j;
    clattn_mpi *w = j->w;
    clattn_tensor views[4];
    bool moves = false, comes = false;
    TRY(cla_mpi_partial_open(&g->result, j, &j->q[w->rank], g->pieces.most * w->ranks));
    for (int c = 0; c < g->pieces.most; c++)
        for (int step = 0; step < w->ranks; step++) {
            const span *keys = piece_of(g, owner_at(g, step), c);
            if (keys->count && !holds(g, c, step)) j->report.pieces_unsent++;
            if (!holds(g, c, step)) continue;
            moves = moves || step || sends(g, c, step), comes = comes || step;
            cla_mpi_own_views(j, keys->local, keys->count, views);
            TRY(cla_mpi_partial_expect(&g->result, keys, step ? NULL : views));
        }
    TRY(cla_mpi_partial_expect(&g->result, &(span){0, 0, 0}, NULL));
    TRY(cla_mpi_partial_ready(&g->result));
    const size_t bytes = cla_mpi_piece_layout(j, g->pieces.rows).bytes;
    clattn_status status = CLATTN_OK;
    for (int n = 0; n < 2; n++) {
        if (moves) g->host[n] = cla_mpi_host(w, bytes, &status);
        if (comes && status == CLATTN_OK) status = cla_mpi_buffer(w, bytes, &g->device[n]);
    }
    j->report.plan.piece_rows = g->pieces.rows;
    j->report.plan.device_bytes = g->result.bytes + (comes ? 2 * bytes : 0);
    j->report.plan.host_bytes = moves ? 2 * bytes : 0;
    return status;
}

// This rank's own rows, to be sent.
static void read_own(ring *g, int c, char *host) {
    const span *keys = piece_of(g, g->j->w->rank, c);
    const piece_layout layout = cla_mpi_piece_layout(g->j, keys->count);
    clattn_tensor views[4];
    cla_mpi_own_views(g->j, keys->local, keys->count, views);
    for (int part = 0; part < 4 && g->status == CLATTN_OK; part++)
        if (views[part].rank)
            note(g, cla_mpi_read(g->j->w, g->j->w->copies, &views[part], host + layout.at[part]));
}

static void compute(ring *g, int c, int step, cl_mem device) {
    const span *keys = piece_of(g, owner_at(g, step), c);
    clattn_tensor views[4];
    if (!holds(g, c, step) || g->status != CLATTN_OK) return;
    if (step)
        cla_mpi_piece_views(g->j, device, keys->count, views);
    else
        cla_mpi_own_views(g->j, keys->local, keys->count, views);
    note(g, cla_mpi_partial_add(&g->result, keys, views));
}

// A piece that came: of the length that it must have, and on to the device where it is seen.
static void take(ring *g, int c, int step, MPI_Status *status, const char *host, cl_mem device) {
    const span *keys = piece_of(g, owner_at(g, step), c);
    const size_t bytes = cla_mpi_piece_layout(g->j, keys->count).bytes;
    clattn_mpi *w = g->j->w;
    int came = 0;
    MPI_Get_count(status, MPI_BYTE, &came);
    if ((size_t)came != bytes)
        note(g, cla_mpi_fail(w, CLATTN_DRIVER, "a piece of %zu bytes from rank %d came with %d", bytes,
                             status->MPI_SOURCE, came));
    g->j->report.received_bytes += (uint64_t)came;
    if (g->status != CLATTN_OK || !cla_mpi_partial_sees(&g->result, keys)) return;
    note(g, cla_mpi_cl(w, clEnqueueWriteBuffer(w->copies, device, CL_FALSE, 0, bytes, host, 0, NULL, NULL),
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
    if (next_step && holds(g, next_c, next_step)) {
        const size_t bytes = cla_mpi_piece_layout(g->j, g->pieces.rows).bytes;
        note(g, cla_mpi_try(w,
                            MPI_Irecv(g->host[next], (int)bytes, MPI_BYTE, (w->rank + ranks - 1) % ranks, tag,
                                      w->comm, &in),
                            "MPI_Irecv"));
    }
    if (sends(g, c, step)) {
        const size_t bytes = cla_mpi_piece_layout(g->j, piece_of(g, owner_at(g, step), c)->count).bytes;
        note(g, cla_mpi_try(w,
                            MPI_Isend(g->host[at % 2], (int)bytes, MPI_BYTE, (w->rank + 1) % ranks, tag,
                                      w->comm, &out),
                            "MPI_Isend"));
        report->sent_bytes += bytes;
    }
    if (!next_step && sends(g, next_c, 0)) read_own(g, next_c, g->host[next]);
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
        if (sends(&g, 0, 0)) read_own(&g, 0, g.host[0]);
        note(&g, cla_mpi_finish(w, w->copies));
        for (int c = 0, at = 0; c < g.pieces.most; c++)
            for (int step = 0; step < w->ranks; step++, at++) tick(&g, c, step, at);
        if (g.status == CLATTN_OK) note(&g, cla_mpi_partial_end(&g.result));
        note(&g, cla_mpi_finish(w, w->queue));
        j->report.seconds = MPI_Wtime() - begin;
        status = cla_mpi_agree(w, g.status);
    }
    for (int n = 0; n < 2; n++) {
        free(g.host[n]);
        cla_mpi_release(&g.device[n]);
    }
    cla_mpi_partial_close(&g.result);
    cla_mpi_ring_free(&g.pieces);
    return status;
}
