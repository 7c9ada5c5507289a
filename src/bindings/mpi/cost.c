// cost.c: predicts the time of each strategy and chooses one. The prediction uses a way's bytes and
// the link's rate, and its operations and the device's rate. bench/scale.py has the same model for
// machines that are not available.
//
// The rates are measured:
//    bytes a second from a rank's device to the next rank's, while all ranks send
//    operations a second of attention
//    seconds of a small message, and of a small call
// All ranks use the slowest rank's rates, so all predict the same.
#include <math.h>
#include <stdio.h>

#include "mpi/gradients.h"
#include "mpi/ways.h"

enum { LINK_BYTES = 1 << 20, TIMES = 3, ROWS = 512, FEW_ROWS = 8, HEADS = 4, WIDTH = 64 };

// Measure some rounds, and return the shortest time of a round. A round sends a message to the next
// rank while receiving the previous rank's, and copies it to the device.
static double link_round(clattn_mpi *w, char *host, cl_mem device, int bytes, clattn_status *status) {
    const int next = (w->rank + 1) % w->ranks, before = (w->rank + w->ranks - 1) % w->ranks;
    double least = 1e9;
    for (int n = 0; n <= TIMES; n++) {
        const double begin = MPI_Wtime();
        const clattn_status moved =
            cla_mpi_try(w,
                        MPI_Sendrecv(host, bytes, MPI_BYTE, next, 0, host + LINK_BYTES, bytes, MPI_BYTE,
                                     before, 0, w->comm, MPI_STATUS_IGNORE),
                        "MPI_Sendrecv");
        if (*status == CLATTN_OK) *status = moved;
        if (*status == CLATTN_OK)
            *status = cla_mpi_cl(w,
                                 clEnqueueWriteBuffer(w->copies, device, CL_TRUE, 0, (size_t)bytes,
                                                      host + LINK_BYTES, 0, NULL, NULL),
                                 "clEnqueueWriteBuffer");
        const double end = MPI_Wtime();
        if (n > 0 && end - begin < least) least = end - begin;
    }
    return least;
}

static double attention_round(clattn_mpi *w, cl_mem memory, int rows, clattn_status *status) {
    const clattn_tensor in = clattn_tensor_bhsd(memory, CLATTN_TYPE_F32, 1, HEADS, rows, WIDTH);
    clattn_attention_params call = {.q = in, .kv = {.k = in, .v = in}, .out = in};
    double least = 1e9;
    call.out.offset = (int64_t)HEADS * rows * WIDTH;
    for (int n = 0; n <= TIMES && *status == CLATTN_OK; n++) {
        const double begin = MPI_Wtime();
        *status = cla_mpi_library(w, clattn_attention_enqueue(w->context, w->queue, &call, 0, NULL, NULL));
        if (*status == CLATTN_OK) *status = cla_mpi_finish(w, w->queue);
        const double end = MPI_Wtime();
        if (n > 0 && end - begin < least) least = end - begin;
    }
    return least;
}

// Set the rates that are unknown, from the slowest rank's seconds.
static clattn_status slowest(clattn_mpi *w, double seconds[4], clattn_status status) {
    double all[4] = {0};
    TRY(cla_mpi_agree(w, status));
    TRY(cla_mpi_try(w, MPI_Allreduce(seconds, all, 4, MPI_DOUBLE, MPI_MAX, w->comm), "MPI_Allreduce"));
    const double flops = 4.0 * ROWS * ROWS * WIDTH * HEADS;
    if (w->link_seconds == 0) w->link_seconds = all[0];
    if (w->link_bytes == 0) w->link_bytes = LINK_BYTES / (all[1] > all[0] ? all[1] - all[0] : all[1]);
    if (w->flops == 0) w->flops = flops / (all[2] > all[3] ? all[2] - all[3] : all[2]);
    if (w->call_seconds == 0) w->call_seconds = all[3];
    return CLATTN_OK;
}

bool cla_mpi_measured(const clattn_mpi *w) {
    return w->link_bytes > 0 && w->link_seconds > 0 && w->flops > 0 && w->call_seconds > 0;
}

clattn_status cla_mpi_measure(clattn_mpi *w) {
    const size_t bytes = 2 * (size_t)HEADS * ROWS * WIDTH * sizeof(float);
    double seconds[4] = {0};
    clattn_status status = CLATTN_OK;
    cl_mem memory = NULL;
    if (cla_mpi_measured(w)) return CLATTN_OK;
    char *host = cla_mpi_host(w, bytes > 2 * LINK_BYTES ? bytes : 2 * LINK_BYTES, &status);
    for (size_t n = 0; host && n < bytes; n++) host[n] = 0;
    if (status == CLATTN_OK) status = cla_mpi_buffer(w, bytes, &memory);
    if (status == CLATTN_OK)
        status = cla_mpi_cl(w, clEnqueueWriteBuffer(w->queue, memory, CL_TRUE, 0, bytes, host, 0, NULL, NULL),
                            "clEnqueueWriteBuffer");
    status = cla_mpi_agree(w, status);
    if (status == CLATTN_OK) {
        seconds[0] = link_round(w, host, memory, 64, &status);
        seconds[1] = link_round(w, host, memory, LINK_BYTES, &status);
        seconds[2] = attention_round(w, memory, ROWS, &status);
        seconds[3] = attention_round(w, memory, FEW_ROWS, &status);
        status = slowest(w, seconds, status);
    }
    cla_mpi_release(&memory);
    cla_mpi_free(w, host);
    return status;
}

#define SAMPLES 32 // rows sampled in a part, to estimate how many keys its rows see

// Estimated number of scores in a part: pairs of a row and a key that it sees, in all batch items
// and heads.
static double pairs(const job *j, const span *q, const span *k) {
    const clattn_score *s = &j->p->score;
    double all = 0;
    for (int64_t b = 0; b < j->batch; b++) {
        const int64_t rows = s->q_lengths && s->q_lengths[b] < q->start + q->count
                                 ? s->q_lengths[b] - q->start
                                 : q->count,
                      keys = s->kv_lengths && s->kv_lengths[b] < k->start + k->count ? s->kv_lengths[b]
                                                                                     : k->start + k->count;
        for (int n = 0; n < SAMPLES && rows > 0; n++) {
            const int64_t p = q->start + rows * (2 * n + 1) / (2 * SAMPLES) + j->shift[b];
            const int64_t from = ARGS_FIRST_KEY(p, ARGS_LEFT(s), keys),
                          end = ARGS_END_KEY(p, ARGS_RIGHT(s), keys),
                          first = from > k->start ? from : k->start;
            if (end > first) all += (double)(end - first) * (double)rows / SAMPLES;
        }
    }
    return all * (double)j->heads;
}

// Gradients need five matrix products, attention two.
static double seconds_of(const job *j, double scores) {
    return scores * (j->b ? 5 : 2) * (double)(j->head_dim + j->head_dim_v) / j->w->flops;
}

static double rank_pairs(const job *j, int rank, const span *keys) {
    double all = 0;
    for (int n = 0; n < j->q[rank].count; n++) all += pairs(j, &j->q[rank].spans[n], keys);
    return all;
}

// Number of a rank's calls on these keys: one for each part of its rows that sees any of them.
// Later keys also need a merge for each.
static double calls_of(const job *j, int rank, const span *keys) {
    double calls = 0;
    for (int n = 0; n < j->q[rank].count; n++) calls += cla_mpi_sees(j, &j->q[rank].spans[n], keys);
    return j->positional || calls < 1 ? calls : 1;
}

// Seconds of a rank in one step. *sent: bytes that it sends in the step.
static double step_cost(const job *j, const ring_pieces *p, int c, int step, int rank, double *sent) {
    const int owner = (rank - step + j->w->ranks) % j->w->ranks;
    const ring_load load = cla_mpi_ring_load(j, p, owner, c, step);
    double computes = 0;
    *sent = (double)cla_mpi_ring_load(j, p, owner, c, step + 1).bytes;
    for (int lane = 0; lane < RING_LANES; lane++) {
        if (!load.lanes[lane]) continue;
        // The rank's share of dk and dv is sent to the keys' rank.
        if (j->b && step && cla_mpi_ring_sees(j, rank, load.lanes[lane]))
            *sent += (double)(cla_mpi_gradients_share(j, load.lanes[lane]->count) * sizeof(float));
        const double calls = calls_of(j, rank, load.lanes[lane]) * (step || c ? 2 : 1);
        computes += seconds_of(j, rank_pairs(j, rank, load.lanes[lane])) + calls * j->w->call_seconds;
    }
    return fmax(computes, *sent > 0 ? *sent / j->w->link_bytes + j->w->link_seconds : 0);
}

// A step is as long as the slowest rank's computation or transfer.
static clattn_status ring_cost(job *j) {
    ring_pieces pieces;
    const int ranks = j->w->ranks;
    double seconds = 0, sent, *all = cla_mpi_zeroed(j->w, (size_t)ranks, sizeof *all), most = 0;
    clattn_status status = cla_mpi_ring_lay(j, &pieces);
    if (!all) status = cla_mpi_fail(j->w, CLATTN_OUT_OF_MEMORY, "host memory");
    for (int c = 0; status == CLATTN_OK && c < pieces.most; c++)
        for (int step = 0; step < ranks; step++) {
            double longest = 0;
            for (int r = 0; r < ranks; r++) {
                longest = fmax(longest, step_cost(j, &pieces, c, step, r, &sent));
                all[r] += sent;
                most = fmax(most, all[r]);
            }
            seconds += longest;
        }
    j->plan.piece_rows = pieces.rows;
    j->plan.seconds[CLATTN_MPI_RING] = seconds;
    j->plan.sent_bytes[CLATTN_MPI_RING] = (uint64_t)most;
    cla_mpi_ring_free(j, &pieces);
    cla_mpi_free(j->w, all);
    return status;
}

static void other_costs(job *j) {
    const span whole = {0, j->n_kv, 0}, all_rows = {0, j->n_q, 0};
    const int ranks = j->w->ranks;
    const double row = (double)j->batch, q = (double)clattn_type_size(j->p->q.type),
                 out = (double)clattn_type_size(j->p->out.type);
    double computes = 0, most_kv = 0, most_rows = 0;
    for (int r = 0; r < ranks; r++) {
        computes = fmax(computes, seconds_of(j, rank_pairs(j, r, &whole)) +
                                      calls_of(j, r, &whole) * j->w->call_seconds);
        const double kv = (double)cla_mpi_piece_layout(j, j->kv[r].rows).bytes;
        most_kv = fmax(most_kv, kv);
        most_rows = fmax(most_rows, kv + row * (double)j->heads * (double)j->q[r].rows *
                                             ((double)j->head_dim * q + (double)j->head_dim_v * out));
    }
    // The all_to_all sends as many bytes of gradients again.
    const double gathered = (double)cla_mpi_piece_layout(j, j->n_kv).bytes * (ranks - 1) / ranks,
                 turned = most_rows * (j->b ? 2 : 1) * (ranks - 1) / ranks;
    const clattn_mpi *w = j->w;
    clattn_mpi_plan *plan = &j->plan;
    plan->sent_bytes[CLATTN_MPI_ALL_GATHER] = (uint64_t)(most_kv * (ranks - 1));
    plan->sent_bytes[CLATTN_MPI_ALL_TO_ALL] = (uint64_t)turned;
    plan->seconds[CLATTN_MPI_ALL_GATHER] =
        gathered / w->link_bytes + (ranks - 1) * w->link_seconds + computes;
    plan->seconds[CLATTN_MPI_ALL_TO_ALL] = turned / w->link_bytes + 4 * (ranks - 1) * w->link_seconds +
                                           w->call_seconds +
                                           seconds_of(j, pairs(j, &all_rows, &whole) / ranks);
    if (cla_mpi_gather_refusal(j)) plan->seconds[CLATTN_MPI_ALL_GATHER] = (double)INFINITY;
    if (cla_mpi_heads_refusal(j)) plan->seconds[CLATTN_MPI_ALL_TO_ALL] = (double)INFINITY;
}

static void tell(job *j, clattn_mpi_strategy strategy) {
    const double *s = j->plan.seconds;
    snprintf(j->plan.why, sizeof j->plan.why,
             "%s%s: ring %.3g ms, all_to_all %.3g ms, all_gather %.3g ms by %.3g GB/s, %.3g GFLOP/s, %.3g ms "
             "a call",
             clattn_mpi_strategy_name(strategy), j->p->strategy ? ", as asked" : "", 1e3 * s[CLATTN_MPI_RING],
             1e3 * s[CLATTN_MPI_ALL_TO_ALL], 1e3 * s[CLATTN_MPI_ALL_GATHER], j->w->link_bytes / 1e9,
             j->w->flops / 1e9, 1e3 * j->w->call_seconds);
}

// If the caller selects a strategy, rates are not needed. Then they are reported if known, but not
// measured.
clattn_status cla_mpi_choose(job *j) {
    clattn_mpi *w = j->w;
    int strategy = j->p->strategy;
    const char *refused = strategy == CLATTN_MPI_ALL_TO_ALL   ? cla_mpi_heads_refusal(j)
                          : strategy == CLATTN_MPI_ALL_GATHER ? cla_mpi_gather_refusal(j)
                                                              : NULL;
    if (refused)
        return cla_mpi_fail(w, CLATTN_UNSUPPORTED, "%s: %s", clattn_mpi_strategy_name(j->p->strategy),
                            refused);
    j->plan.strategy = j->p->strategy;
    snprintf(j->plan.why, sizeof j->plan.why, "%s, as asked", clattn_mpi_strategy_name(j->p->strategy));
    if (strategy == CLATTN_MPI_AUTO && w->ranks == 1) {
        j->plan.strategy = CLATTN_MPI_RING;
        snprintf(j->plan.why, sizeof j->plan.why, "ring: there is one rank");
    }
    if (!cla_mpi_measured(w) && j->plan.strategy != CLATTN_MPI_AUTO) return CLATTN_OK;
    TRY(cla_mpi_measure(w));
    j->plan.link_bytes_per_second = w->link_bytes, j->plan.link_seconds = w->link_seconds;
    j->plan.flops_per_second = w->flops, j->plan.call_seconds = w->call_seconds;
    TRY(cla_mpi_agree(w, ring_cost(j)));
    other_costs(j);
    if (w->ranks == 1) return CLATTN_OK;
    strategy = CLATTN_MPI_RING;
    for (int n = CLATTN_MPI_RING; n < CLATTN_MPI_STRATEGY_COUNT; n++)
        if (j->plan.seconds[n] < j->plan.seconds[strategy]) strategy = n;
    if (j->p->strategy) strategy = j->p->strategy;
    // All ranks use rank 0's choice, because processors may round differently.
    TRY(cla_mpi_try(w, MPI_Bcast(&strategy, 1, MPI_INT, 0, w->comm), "MPI_Bcast"));
    j->plan.strategy = (clattn_mpi_strategy)strategy;
    tell(j, j->plan.strategy);
    return CLATTN_OK;
}
