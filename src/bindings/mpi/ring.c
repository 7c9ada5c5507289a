// ring.c: rank r computes with its own piece of keys first, then with the pieces of ranks r - 1, r
// - 2 and so on. In step s it has the piece of rank r - s, and sends it to rank r + 1 while it
// computes [Liu et al. 2023]. A piece goes no further than the last rank that sees it. Host and
// device have room for two pieces: the current one and the next. A rank that has failed continues
// to send and receive, but does not compute.
//
// For gradients, a rank's share of dk and dv of a piece is float32. It is sent to the keys' rank
// while the next piece is computed. That rank adds the shares in the order of the steps. This sends
// as many bytes as passing sums on with their keys would.
#include "mpi/gradients.h"
#include "mpi/ring.h"

#include <string.h>
#include <time.h>

enum { TAGS = 16384 }; // tags of messages with keys; tags of shares follow
enum { KEYS_IN, KEYS_OUT, SHARE_IN, SHARE_OUT, MESSAGES };
static const char *const message_names[MESSAGES] = {"MPI_Irecv", "MPI_Isend", "MPI_Irecv", "MPI_Isend"};

typedef struct ring {
    job *j;
    partial result;
    gradients gradients; // used instead of `result`
    ring_pieces pieces;
    char *host[2];
    cl_mem device[2];
    // Gradients: the shares of this step and of the previous one, and another rank's share for this
    // rank's keys.
    float *share[2], *came;
    size_t share_bytes;             // bytes of the largest share
    MPI_Request messages[MESSAGES]; // pending messages of this step
    // Round and step of the current piece, and the number of pieces before it.
    int c, step, at;
    clattn_status status; // the first failure on this rank
    double computed;      // when the device was first found idle in this step; 0: not yet
} ring;

static int owner_at(const ring *g, int step) {
    const clattn_mpi *w = g->j->w;
    return (w->rank - step % w->ranks + w->ranks) % w->ranks;
}

// The piece of round c that this rank has in a step: its own, or received from the previous rank.
static ring_load load_at(const ring *g, int c, int step) {
    return cla_mpi_ring_load(g->j, &g->pieces, owner_at(g, step), c, step);
}

// The part of that piece that is sent to the next rank.
static ring_load sent_at(const ring *g, int c, int step) {
    return cla_mpi_ring_load(g->j, &g->pieces, owner_at(g, step), c, step + 1);
}

// The round and the step of the next piece, and of the previous piece.
static int next_c(const ring *g) {
    return g->step + 1 < g->j->w->ranks ? g->c : g->c + 1;
}
static int next_step(const ring *g) {
    return (g->step + 1) % g->j->w->ranks;
}
static int last_c(const ring *g) {
    return g->step ? g->c : g->c - 1;
}
static int last_step(const ring *g) {
    return (g->step ? g->step : g->j->w->ranks) - 1;
}

static void note(ring *g, clattn_status status) {
    if (g->status == CLATTN_OK) g->status = status;
}

// Open the accumulator: gradients or attention.
static clattn_status open_work(ring *g) {
    job *j = g->j;
    const span_list *q = &j->q[j->w->rank];
    const int most = RING_LANES * g->pieces.most * j->w->ranks;
    return j->b ? cla_mpi_gradients_open(&g->gradients, j, q, most)
                : cla_mpi_partial_open(&g->result, j, q, most);
}

static clattn_status expect(ring *g, const span *keys, const clattn_tensor views[PIECE_PARTS]) {
    return g->j->b ? cla_mpi_gradients_expect(&g->gradients, keys, views)
                   : cla_mpi_partial_expect(&g->result, keys, views);
}

static bool sees(const ring *g, const span *keys) {
    return g->j->b ? cla_mpi_gradients_sees(&g->gradients, keys) : cla_mpi_partial_sees(&g->result, keys);
}

// The share that the rank `step` behind the owner has for the owner's c-th piece. `at`: where each
// lane that the rank sees begins, in floats.
typedef struct ring_share {
    const span *lanes[RING_LANES]; // NULL: the rank does not see the lane
    size_t at[RING_LANES], count;
} ring_share;

static ring_share share_of(const ring *g, int owner, int c, int step) {
    const ring_load load = cla_mpi_ring_load(g->j, &g->pieces, owner, c, step);
    ring_share share = {.count = 0};
    for (int lane = 0; lane < RING_LANES; lane++) {
        const span *keys = load.lanes[lane];
        if (!keys || !cla_mpi_ring_sees(g->j, (owner + step) % g->j->w->ranks, keys)) continue;
        share.lanes[lane] = keys;
        share.at[lane] = share.count;
        share.count += cla_mpi_gradients_share(g->j, keys->count);
    }
    return share;
}

// The share for this rank's keys that arrives now: of the previous step.
static ring_share came_at(const ring *g) {
    return share_of(g, g->j->w->rank, last_c(g), last_step(g));
}

static clattn_status prepare_shares(ring *g) {
    clattn_mpi *w = g->j->w;
    clattn_status status = CLATTN_OK;
    for (int r = 0; r < w->ranks; r++)
        for (int c = 0; c < g->pieces.most; c++)
            for (int step = 0; step < w->ranks; step++) {
                const size_t bytes = share_of(g, r, c, step).count * sizeof(float);
                if (bytes > g->share_bytes) g->share_bytes = bytes;
            }
    for (int n = 0; n < 2; n++) g->share[n] = cla_mpi_host(w, g->share_bytes, &status);
    g->came = cla_mpi_host(w, g->share_bytes, &status);
    return status;
}

static clattn_status ready(ring *g) {
    if (!g->j->b) return cla_mpi_partial_ready(&g->result);
    TRY(prepare_shares(g));
    return cla_mpi_gradients_ready(&g->gradients);
}

// All steps that can fail on one rank alone, before anything large is sent.
static clattn_status prepare(ring *g) {
    job *j = g->j;
    clattn_mpi *w = j->w;
    clattn_tensor views[PIECE_PARTS];
    bool moves = false, comes = false;
    TRY(open_work(g));
    for (int c = 0; c < g->pieces.most; c++)
        for (int step = 0; step < w->ranks; step++) {
            const ring_load load = load_at(g, c, step);
            moves = moves || (step && load.bytes) || sent_at(g, c, step).bytes;
            comes = comes || (step && load.bytes);
            for (int lane = 0; lane < RING_LANES; lane++) {
                const span *keys = load.lanes[lane];
                if (!keys) continue;
                cla_mpi_own_views(j, keys->local, keys->count, views);
                TRY(expect(g, keys, step ? NULL : views));
            }
        }
    TRY(expect(g, &(span){0, 0, 0}, NULL));
    TRY(ready(g));
    const size_t bytes = g->pieces.bytes;
    clattn_status status = CLATTN_OK;
    for (int n = 0; n < 2; n++) {
        if (moves) g->host[n] = cla_mpi_host(w, bytes, &status);
        if (comes && status == CLATTN_OK) status = cla_mpi_buffer(w, bytes, &g->device[n]);
    }
    j->report.pieces_unsent = g->pieces.unsent[w->rank];
    j->report.plan.piece_rows = g->pieces.rows;
    j->report.plan.device_bytes = g->result.bytes + g->gradients.bytes + (comes ? 2 * bytes : 0);
    j->report.plan.host_bytes = g->gradients.host_bytes + 3 * g->share_bytes + (moves ? 2 * bytes : 0);
    return status;
}

// Read this rank's own rows, to send them.
static void read_own(ring *g, int c, char *host) {
    // `have` is the whole piece. The lanes that are sent keep the offsets that they have in it.
    const ring_load load = sent_at(g, c, 0), have = load_at(g, c, 0);
    clattn_tensor views[PIECE_PARTS];
    for (int lane = 0; lane < RING_LANES; lane++) {
        const span *keys = load.lanes[lane];
        if (!keys) continue;
        const piece_layout layout = cla_mpi_piece_layout(g->j, keys->count);
        cla_mpi_own_views(g->j, keys->local, keys->count, views);
        for (int part = 0; part < PIECE_PARTS && g->status == CLATTN_OK; part++)
            if (views[part].rank)
                note(g, cla_mpi_read(g->j->w, g->j->w->copies, &views[part],
                                     host + have.at[lane] + layout.at[part]));
    }
}

// Record when the device is first found idle.
static void look(ring *g) {
    cl_int state = CL_COMPLETE;
    const cl_event event = g->j->b ? g->gradients.event : g->result.event;
    if (g->computed != 0) return;
    if (event &&
        clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL) != CL_SUCCESS)
        state = CL_COMPLETE;
    if (state <= CL_COMPLETE) g->computed = MPI_Wtime();
}

// Copy a received piece to the device, if a row of this rank sees it.
static void take_keys(ring *g) {
    const ring_load load = load_at(g, next_c(g), next_step(g));
    clattn_mpi *w = g->j->w;
    const int to = 1 - g->at % 2;
    bool seen = false;
    for (int lane = 0; lane < RING_LANES; lane++)
        seen = seen || (load.lanes[lane] && sees(g, load.lanes[lane]));
    if (g->status != CLATTN_OK || !seen) return;
    note(g, cla_mpi_cl(w,
                       clEnqueueWriteBuffer(w->copies, g->device[to], CL_FALSE, 0, load.bytes, g->host[to], 0,
                                            NULL, NULL),
                       "clEnqueueWriteBuffer"));
    clFlush(w->copies);
}

// Add the share of another rank for this rank's keys.
static void take_share(ring *g, const ring_share *share, const float *from) {
    for (int lane = 0; lane < RING_LANES && g->status == CLATTN_OK; lane++)
        if (share->lanes[lane])
            cla_mpi_gradients_take(&g->gradients, share->lanes[lane], from + share->at[lane]);
}

// Process a received message, which must have the expected length.
static void take(ring *g, int n, MPI_Status *status) {
    const ring_share share = n == SHARE_IN ? came_at(g) : (ring_share){.count = 0};
    const size_t bytes =
        n == SHARE_IN ? share.count * sizeof(float) : load_at(g, next_c(g), next_step(g)).bytes;
    int came = 0;
    MPI_Get_count(status, MPI_BYTE, &came);
    if ((size_t)came != bytes)
        note(g, cla_mpi_fail(g->j->w, CLATTN_DRIVER, "a piece of %zu bytes from rank %d came with %d", bytes,
                             status->MPI_SOURCE, came));
    g->j->report.received_bytes += (uint64_t)came;
    if (n == SHARE_IN)
        take_share(g, &share, g->came);
    else
        take_keys(g);
}

// Check the step's messages. True: all have been received and sent.
static bool poll(ring *g) {
    bool done_all = true;
    for (int n = 0; n < MESSAGES; n++) {
        MPI_Status status;
        int done = 0;
        if (g->messages[n] == MPI_REQUEST_NULL) continue;
        const clattn_status tried =
            cla_mpi_try(g->j->w, MPI_Test(&g->messages[n], &done, &status), message_names[n]);
        note(g, tried);
        if (tried != CLATTN_OK) g->messages[n] = MPI_REQUEST_NULL;
        if (tried == CLATTN_OK && done && (n == KEYS_IN || n == SHARE_IN)) take(g, n, &status);
        done_all = done_all && (done || tried != CLATTN_OK);
    }
    look(g);
    return done_all;
}

// Wait for all messages of a step. It polls with pauses, because a wait inside MPI would occupy a
// core that a CPU device needs.
static void exchange(ring *g) {
    const struct timespec pause = {0, 20000};
    while (!poll(g)) nanosleep(&pause, NULL);
}

// Poll until the device has finished the current call.
static void meanwhile(void *user) {
    const struct timespec pause = {0, 20000};
    ring *g = user;
    for (g->computed = 0; poll(g), g->computed == 0;) nanosleep(&pause, NULL);
}

static void compute(ring *g) {
    const ring_load load = load_at(g, g->c, g->step);
    const ring_share share =
        g->j->b ? share_of(g, owner_at(g, g->step), g->c, g->step) : (ring_share){.count = 0};
    float *const floats = g->share[g->at % 2];
    clattn_tensor views[PIECE_PARTS];
    if (share.count) memset(floats, 0, share.count * sizeof *floats);
    for (int lane = 0; lane < RING_LANES; lane++) {
        const span *keys = load.lanes[lane];
        if (!keys || g->status != CLATTN_OK) continue;
        if (g->step)
            cla_mpi_piece_views(g->j, g->device[g->at % 2], keys->count, views);
        else
            cla_mpi_own_views(g->j, keys->local, keys->count, views);
        for (int part = 0; part < PIECE_PARTS && g->step; part++)
            views[part].offset +=
                views[part].rank ? (int64_t)(load.at[lane] / clattn_type_size(views[part].type)) : 0;
        note(g, g->j->b
                    ? cla_mpi_gradients_add(&g->gradients, keys, views, floats + share.at[lane], meanwhile, g)
                    : cla_mpi_partial_add(&g->result, keys, views));
    }
    if (g->j->b && g->step == 0) take_share(g, &share, floats);
}

// A receive that fails is tried once more. A send that fails is replaced by an empty message. So no
// rank waits forever.
static void receive(ring *g, int n, void *to, size_t bytes, int from, int tag) {
    clattn_mpi *w = g->j->w;
    for (int tries = 0; tries < 2; tries++) {
        const int code = MPI_Irecv(to, (int)bytes, MPI_BYTE, from, tag, w->comm, &g->messages[n]);
        if (code == MPI_SUCCESS) return;
        g->messages[n] = MPI_REQUEST_NULL;
        note(g, cla_mpi_try(w, code, message_names[n]));
    }
}

static void send(ring *g, int n, const void *from, size_t bytes, int to, int tag) {
    clattn_mpi *w = g->j->w;
    for (int tries = 0; tries < 2; tries++, bytes = 0) {
        const int code = MPI_Isend(from, (int)bytes, MPI_BYTE, to, tag, w->comm, &g->messages[n]);
        if (code == MPI_SUCCESS) break;
        g->messages[n] = MPI_REQUEST_NULL;
        note(g, cla_mpi_try(w, code, message_names[n]));
    }
    g->j->report.sent_bytes += bytes;
}

// Send the current piece on, and receive the next one.
static void post_keys(ring *g) {
    clattn_mpi *w = g->j->w;
    const int tag = g->at % TAGS;
    const ring_load have = load_at(g, g->c, g->step), load = sent_at(g, g->c, g->step);
    size_t first = 0;
    for (int lane = RING_LANES - 1; lane >= 0; lane--)
        if (load.lanes[lane]) first = have.at[lane];
    if (next_step(g) && load_at(g, next_c(g), next_step(g)).bytes)
        receive(g, KEYS_IN, g->host[1 - g->at % 2], g->pieces.bytes, (w->rank + w->ranks - 1) % w->ranks,
                tag);
    if (load.bytes) send(g, KEYS_OUT, g->host[g->at % 2] + first, load.bytes, (w->rank + 1) % w->ranks, tag);
}

// Send the share of the previous step to the keys' rank.
static void post_shares(ring *g) {
    const int ranks = g->j->w->ranks, step = last_step(g), tag = TAGS + g->at % TAGS;
    if (!g->j->b || g->at == 0 || step == 0) return;
    const ring_share own = share_of(g, owner_at(g, step), last_c(g), step);
    if (came_at(g).count) receive(g, SHARE_IN, g->came, g->share_bytes, (g->j->w->rank + step) % ranks, tag);
    if (own.count)
        send(g, SHARE_OUT, g->share[1 - g->at % 2], own.count * sizeof(float), owner_at(g, step), tag);
}

// Compute with one piece while it is sent on and the next one is received. Gradients wait for each
// call and poll for messages meanwhile.
static void tick(ring *g) {
    clattn_mpi *w = g->j->w;
    clattn_mpi_report *report = &g->j->report;
    const double begin = MPI_Wtime();
    g->computed = 0;
    if (!g->j->b) compute(g);
    post_keys(g);
    post_shares(g);
    if (!next_step(g) && next_c(g) < g->pieces.most && sent_at(g, next_c(g), 0).bytes)
        read_own(g, next_c(g), g->host[1 - g->at % 2]);
    if (g->j->b) compute(g);
    exchange(g);
    note(g, cla_mpi_finish(w, w->copies));
    look(g);
    const double moved = MPI_Wtime();
    note(g, cla_mpi_finish(w, w->queue));
    const double end = MPI_Wtime(), idle = g->computed != 0 ? g->computed : end;
    report->compute_seconds += idle - begin;
    report->transfer_seconds += moved - begin;
    report->exposed_seconds += moved > idle ? moved - idle : 0;
}

static void run(ring *g) {
    clattn_mpi *w = g->j->w;
    note(g, cla_mpi_finish(w, w->queue));
    if (g->pieces.most && sent_at(g, 0, 0).bytes) read_own(g, 0, g->host[0]);
    note(g, cla_mpi_finish(w, w->copies));
    for (g->c = 0; g->c < g->pieces.most; g->c++)
        for (g->step = 0; g->step < w->ranks; g->step++, g->at++) tick(g);
    g->step = 0;
    post_shares(g);
    exchange(g);
    if (g->status == CLATTN_OK)
        note(g, g->j->b ? cla_mpi_gradients_end(&g->gradients) : cla_mpi_partial_end(&g->result));
    if (g->j->b) note(g, cla_mpi_gradients_of_heads(g->j, g->gradients.sums + OF_HEADS, g->status));
    note(g, cla_mpi_finish(w, w->queue));
}

clattn_status cla_mpi_ring_run(job *j) {
    ring g = {.j = j};
    clattn_mpi *w = j->w;
    for (int n = 0; n < MESSAGES; n++) g.messages[n] = MPI_REQUEST_NULL;
    clattn_status status = cla_mpi_ring_lay(j, &g.pieces);
    if (status == CLATTN_OK) status = prepare(&g);
    status = cla_mpi_agree(w, status);
    if (status == CLATTN_OK) {
        const double begin = MPI_Wtime();
        run(&g);
        j->report.seconds = MPI_Wtime() - begin;
        status = cla_mpi_agree(w, g.status);
    }
    cla_mpi_drain(w, status);
    for (int n = 0; n < 2; n++) {
        cla_mpi_free(w, g.host[n]);
        cla_mpi_release(&g.device[n]);
        cla_mpi_free(w, g.share[n]);
    }
    cla_mpi_free(w, g.came);
    cla_mpi_partial_close(&g.result);
    cla_mpi_gradients_close(&g.gradients);
    cla_mpi_ring_free(j, &g.pieces);
    return status;
}
