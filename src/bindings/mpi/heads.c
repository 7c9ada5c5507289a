// heads.c: all_to_all: exchanges rows for heads. An all-to-all sends each rank H/P heads of all
// rows, which the rank computes as one device would. Another one sends the result's rows back.
// [Jacobs et al. 2023, "DeepSpeed Ulysses"]
#include <string.h>

#include "mpi/gradients.h"
#include "mpi/ways.h"

// Tensors that are exchanged from rows to heads, or back. This rank's heads of all rows are dense
// [B, heads / P, N, width], on device and host.
enum {
    EXCHANGE_Q,
    EXCHANGE_K, // from here on the order is that of PIECE_K
    EXCHANGE_V,
    EXCHANGE_K_SCALE,
    EXCHANGE_V_SCALE,
    EXCHANGE_K_ZERO,
    EXCHANGE_V_ZERO,
    EXCHANGE_OUT, // this and the next are results of attention, and inputs of gradients
    EXCHANGE_LSE,
    EXCHANGE_DOUT,
    EXCHANGE_DLSE,
    EXCHANGE_DQ,
    EXCHANGE_DK,
    EXCHANGE_DV,
    EXCHANGES
};
typedef struct head_exchange {
    clattn_tensor rows;     // this rank's rows of all heads
    clattn_tensor heads;    // all rows of this rank's heads
    const span_list *lists; // all ranks' spans of rows
    int64_t count;          // rows of the whole sequence
    size_t row;             // bytes of one row of one head
    cl_mem memory;
    // On the host: of_rows has blocks of ranks, one after the other; of_heads is dense.
    char *of_rows, *of_heads;
} head_exchange;

typedef struct heads {
    job *j;
    head_exchange exchanges[EXCHANGES];
    int *numbers; // [4][ranks]: counts and starts in bytes, for both directions
    cl_mem out_rows, lse_rows;
    int32_t *arrays;
    clattn_attention_backward_params call; // attention uses only its `forward`
    // Gradients of heads [3][H / P] on the device. `sums` has the gradients of all heads and ranks
    // on the host.
    cl_mem of_heads;
    float *sums[3];
} heads;

const char *cla_mpi_heads_refusal(const job *j) {
    const int64_t ranks = j->w->ranks;
    if (j->heads % ranks || j->kv_heads % ranks) return "H and Hkv are not multiples of the number of ranks";
    if (j->p->score.mask.rank || j->p->score.bias.rank) return "a rank has mask and bias of its rows alone";
    const int64_t rows = j->n_q > j->n_kv ? j->n_q : j->n_kv,
                  width = j->head_dim > j->head_dim_v ? j->head_dim : j->head_dim_v;
    const double bytes = (double)j->batch * (double)(j->heads / ranks) * (double)rows * (double)width * 4;
    if (bytes > (double)j->largest) return "a rank's heads of all rows exceed a device's largest buffer";
    return bytes > (double)INT32_MAX ? "a rank's heads of all rows exceed 2 GiB" : NULL;
}

static clattn_status open_exchange(heads *g, int which, const clattn_tensor *t, bool of_q) {
    job *j = g->j;
    head_exchange *u = &g->exchanges[which];
    clattn_status status = CLATTN_OK;
    if (!t->rank) return CLATTN_OK;
    u->rows = *t;
    u->lists = of_q ? j->q : j->kv, u->count = of_q ? j->n_q : j->n_kv;
    u->row = clattn_type_size(t->type) * (size_t)(t->rank == 4 ? t->shape[3] : 1);
    const int64_t shape[4] = {t->shape[0], t->shape[1] / j->w->ranks, u->count, t->shape[3]};
    const size_t whole = (size_t)(shape[0] * shape[1] * shape[2]) * u->row;
    TRY(cla_mpi_buffer(j->w, whole, &u->memory));
    u->heads = clattn_tensor_dense(u->memory, t->type, t->rank, shape);
    u->of_rows = cla_mpi_host(j->w, cla_mpi_bytes(t), &status);
    u->of_heads = cla_mpi_host(j->w, 2 * whole, &status); // the second half has blocks of ranks
    j->report.plan.device_bytes += whole;
    j->report.plan.host_bytes += cla_mpi_bytes(t) + 2 * whole;
    return status;
}

// Copy between dense [B, H, n, width] and blocks of ranks [P][B, H / P, n, width].
static void by_ranks(const heads *g, const head_exchange *u, char *dense, char *blocks, bool to_blocks) {
    const int64_t ranks = g->j->w->ranks, batch = u->rows.shape[0], own = u->heads.shape[1];
    const size_t part = (size_t)(own * u->rows.shape[2]) * u->row;
    for (int64_t r = 0; r < ranks; r++)
        for (int64_t b = 0; b < batch; b++) {
            char *a = dense + (size_t)(b * ranks + r) * part, *c = blocks + (size_t)(r * batch + b) * part;
            memcpy(to_blocks ? c : a, to_blocks ? a : c, part);
        }
}

// Copy between the ranks' blocks [P][B, H / P, n of the rank, width] and all rows in the sequence's
// order.
static void by_places(const heads *g, const head_exchange *u, char *dense, char *blocks, bool to_blocks) {
    for (int r = 0; r < g->j->w->ranks; r++) {
        const span_list *list = &u->lists[r];
        for (int64_t h = 0; h < u->heads.shape[0] * u->heads.shape[1]; h++) {
            for (int n = 0; n < list->count; n++) {
                const span *s = &list->spans[n];
                char *a = dense + (size_t)(h * u->count + s->start) * u->row,
                     *c = blocks + (size_t)(h * list->rows + s->local) * u->row;
                memcpy(to_blocks ? c : a, to_blocks ? a : c, (size_t)s->count * u->row);
            }
        }
        blocks += (size_t)(u->heads.shape[0] * u->heads.shape[1] * list->rows) * u->row;
    }
}

static clattn_status exchange(heads *g, const head_exchange *u, char *rows, char *of_heads, bool to_heads) {
    clattn_mpi *w = g->j->w;
    int *row_counts = g->numbers, *row_starts = row_counts + w->ranks, *counts = row_starts + w->ranks,
        *starts = counts + w->ranks;
    const int64_t each = u->heads.shape[0] * u->heads.shape[1];
    int at = 0, row_at = 0;
    for (int r = 0; r < w->ranks; r++) {
        counts[r] = (int)((size_t)(each * u->lists[r].rows) * u->row);
        row_counts[r] = (int)((size_t)(each * u->lists[w->rank].rows) * u->row);
        starts[r] = at, row_starts[r] = row_at;
        at += counts[r], row_at += row_counts[r];
        if (r == w->rank) continue;
        g->j->report.sent_bytes += (uint64_t)(to_heads ? row_counts[r] : counts[r]);
        g->j->report.received_bytes += (uint64_t)(to_heads ? counts[r] : row_counts[r]);
    }
    const int code = to_heads ? MPI_Alltoallv(rows, row_counts, row_starts, MPI_BYTE, of_heads, counts,
                                              starts, MPI_BYTE, w->comm)
                              : MPI_Alltoallv(of_heads, counts, starts, MPI_BYTE, rows, row_counts,
                                              row_starts, MPI_BYTE, w->comm);
    return cla_mpi_try(w, code, "MPI_Alltoallv");
}

// Exchange rows for heads. Blocks of ranks are received into the second half of of_heads.
static clattn_status to_heads(heads *g, int which, clattn_status status) {
    head_exchange *u = &g->exchanges[which];
    clattn_mpi *w = g->j->w;
    char *dense = NULL;
    if (!u->rows.rank) return status;
    const size_t whole = cla_mpi_bytes(&u->heads), mine = cla_mpi_bytes(&u->rows);
    dense = cla_mpi_host(w, mine, &status);
    if (status == CLATTN_OK) status = cla_mpi_read(w, w->queue, &u->rows, dense);
    if (status == CLATTN_OK) status = cla_mpi_finish(w, w->queue);
    if (status == CLATTN_OK) by_ranks(g, u, dense, u->of_rows, true);
    cla_mpi_drain(w, status);
    cla_mpi_free(w, dense);
    const clattn_status moved = exchange(g, u, u->of_rows, u->of_heads + whole, true);
    TRY(status);
    TRY(moved);
    by_places(g, u, u->of_heads, u->of_heads + whole, false);
    TRY(cla_mpi_write(w, w->queue, &u->heads, u->of_heads));
    return cla_mpi_finish(w, w->queue);
}

static clattn_status to_rows(heads *g, int which, clattn_status status, const clattn_tensor *to) {
    head_exchange *u = &g->exchanges[which];
    clattn_mpi *w = g->j->w;
    if (!u->rows.rank) return status;
    const size_t whole = cla_mpi_bytes(&u->heads), mine = cla_mpi_bytes(&u->rows);
    if (status == CLATTN_OK) status = cla_mpi_read(w, w->queue, &u->heads, u->of_heads);
    if (status == CLATTN_OK) status = cla_mpi_finish(w, w->queue);
    if (status == CLATTN_OK) by_places(g, u, u->of_heads, u->of_heads + whole, true);
    const clattn_status moved = exchange(g, u, u->of_rows, u->of_heads + whole, false);
    TRY(status);
    TRY(moved);
    char *dense = cla_mpi_host(w, mine, &status);
    if (status == CLATTN_OK) by_ranks(g, u, dense, u->of_rows, false);
    if (status == CLATTN_OK) status = cla_mpi_write(w, w->queue, to, dense);
    const clattn_status done = cla_mpi_finish(w, w->queue);
    cla_mpi_drain(w, done);
    cla_mpi_free(w, dense);
    return status == CLATTN_OK ? done : status;
}

// Attention must not write rows past a length of the caller's tensors, so its results go to dense
// tensors first.
static clattn_status prepare_results(heads *g) {
    job *j = g->j;
    clattn_mpi *w = j->w;
    const clattn_mpi_attention_params *p = j->p;
    if (j->b) return CLATTN_OK;
    TRY(cla_mpi_buffer(w, cla_mpi_bytes(&p->out), &g->out_rows));
    TRY(cla_mpi_buffer(w, cla_mpi_bytes(&p->lse), &g->lse_rows));
    const clattn_tensor out = clattn_tensor_dense(g->out_rows, p->out.type, 4, p->out.shape),
                        lse = clattn_tensor_dense(g->lse_rows, CLATTN_TYPE_F32, 3, p->out.shape);
    // Also fills g->arrays.
    if (j->q[w->rank].rows) TRY(cla_mpi_deliver(j, &out, &lse, g->arrays, true));
    j->report.plan.device_bytes += cla_mpi_bytes(&p->out) + cla_mpi_bytes(&p->lse);
    return CLATTN_OK;
}

// Allocate the gradients with one number for each head, for this rank's heads.
static clattn_status prepare_of_heads(heads *g) {
    job *j = g->j;
    clattn_mpi *w = j->w;
    const int64_t own = j->heads / w->ranks;
    clattn_tensor *const results[3] = {&g->call.dsinks, &g->call.dalibi_slopes, &g->call.dhead_scales};
    clattn_status status = CLATTN_OK;
    if (!j->b) return CLATTN_OK;
    TRY(cla_mpi_buffer(w, 3 * (size_t)own * sizeof(float), &g->of_heads));
    j->report.plan.device_bytes += 3 * (size_t)own * sizeof(float);
    for (int n = 0; n < 3; n++) {
        if (!cla_mpi_gradient(j->b, OF_HEADS + n)->rank) continue;
        *results[n] = clattn_tensor_dense(g->of_heads, CLATTN_TYPE_F32, 1, &own);
        results[n]->offset = n * own;
        const size_t bytes = (size_t)j->heads * (1 + (size_t)w->ranks) * sizeof(float);
        g->sums[n] = cla_mpi_host(w, bytes, &status);
        if (g->sums[n]) memset(g->sums[n], 0, bytes);
        j->report.plan.host_bytes += bytes;
    }
    return status;
}

static void list_tensors(const job *j, const clattn_tensor *to[EXCHANGES]) {
    static const clattn_tensor none = {.rank = 0};
    const clattn_mpi_attention_params *p = j->p;
    const clattn_mpi_attention_backward_params *b = j->b;
    const clattn_tensor *const tensors[EXCHANGES] = {&p->q,
                                                     &p->k,
                                                     &p->v,
                                                     &p->k_scale,
                                                     &p->v_scale,
                                                     &p->k_zero,
                                                     &p->v_zero,
                                                     &p->out,
                                                     &p->lse,
                                                     b ? &b->dout : &none,
                                                     b ? &b->dlse : &none,
                                                     b ? &b->dq : &none,
                                                     b ? &b->dk : &none,
                                                     b ? &b->dv : &none};
    memcpy(to, tensors, sizeof tensors);
}

static bool is_of_q(int which) {
    return which == EXCHANGE_Q || (which >= EXCHANGE_OUT && which <= EXCHANGE_DQ);
}

static clattn_status prepare(heads *g) {
    job *j = g->j;
    clattn_mpi *w = j->w;
    const span q = {0, j->n_q, 0}, k = {0, j->n_kv, 0};
    const int64_t own = j->heads / w->ranks;
    const clattn_tensor *tensors[EXCHANGES];
    size_t dense = 0; // largest temporary copy of a tensor in to_heads and to_rows
    g->numbers = cla_mpi_zeroed(w, 4 * (size_t)w->ranks, sizeof *g->numbers);
    g->arrays = cla_mpi_zeroed(w, 3 * (size_t)j->batch + 1, sizeof *g->arrays);
    if (!g->numbers || !g->arrays) return cla_mpi_fail(w, CLATTN_OUT_OF_MEMORY, "host memory");
    list_tensors(j, tensors);
    for (int n = 0; n < EXCHANGES; n++) TRY(open_exchange(g, n, tensors[n], is_of_q(n)));
    for (int n = 0; n < EXCHANGES; n++)
        dense = cla_mpi_bytes(tensors[n]) > dense ? cla_mpi_bytes(tensors[n]) : dense;
    j->report.plan.host_bytes += dense;
    TRY(prepare_results(g));
    TRY(prepare_of_heads(g));
    TRY(cla_mpi_mods_open(j, 1));
    j->report.plan.device_bytes += j->mod_bytes;
    const head_exchange *t = g->exchanges;
    clattn_tensor kv[PIECE_PARTS];
    for (int part = 0; part < PIECE_PARTS; part++) kv[part] = t[EXCHANGE_K + part].heads;
    local_call c = {.q = q, .k = k, .kv = kv, .sinks = true};
    c.out = t[EXCHANGE_OUT].heads, c.lse = t[EXCHANGE_LSE].heads;
    c.first_head = own * w->rank, c.heads = own;
    c.mods = cla_mpi_mods_add(j, &q, &k, c.first_head);
    cla_mpi_local(j, &c, &g->call.forward, g->arrays);
    g->call.forward.q = t[EXCHANGE_Q].heads;
    TRY(cla_mpi_mods_upload(j));
    if (!j->b) return cla_mpi_library(w, clattn_attention_prepare(w->context, &g->call.forward));
    g->call.score_mod_gradient = j->score_mod_gradient;
    g->call.dout = t[EXCHANGE_DOUT].heads, g->call.dlse = t[EXCHANGE_DLSE].heads;
    g->call.dq = t[EXCHANGE_DQ].heads, g->call.dk = t[EXCHANGE_DK].heads, g->call.dv = t[EXCHANGE_DV].heads;
    return cla_mpi_library(w, clattn_attention_backward_prepare(w->context, &g->call));
}

static clattn_status enqueue(heads *g) {
    clattn_mpi *w = g->j->w;
    const clattn_status status =
        g->j->b ? clattn_attention_backward_enqueue(w->context, w->queue, &g->call, 0, NULL, NULL)
                : clattn_attention_enqueue(w->context, w->queue, &g->call.forward, 0, NULL, NULL);
    return cla_mpi_library(w, status);
}

// Send results back to the ranks that have their rows.
static clattn_status bring_back(heads *g, clattn_status status) {
    job *j = g->j;
    clattn_mpi *w = j->w;
    const clattn_mpi_attention_params *p = j->p;
    clattn_tensor out = clattn_tensor_dense(g->out_rows, p->out.type, 4, p->out.shape),
                  lse = clattn_tensor_dense(g->lse_rows, CLATTN_TYPE_F32, 3, p->out.shape);
    if (!j->b) {
        status = to_rows(g, EXCHANGE_OUT, status, &out);
        status = to_rows(g, EXCHANGE_LSE, status, &lse);
        return status == CLATTN_OK ? cla_mpi_deliver(j, &out, &lse, g->arrays, false) : status;
    }
    const size_t own = (size_t)(j->heads / w->ranks), bytes = own * sizeof(float);
    for (int n = EXCHANGE_DQ; n <= EXCHANGE_DV; n++)
        status = to_rows(g, n, status, cla_mpi_gradient(j->b, n - EXCHANGE_DQ));
    for (size_t n = 0; n < 3 && status == CLATTN_OK; n++)
        if (g->sums[n] && bytes)
            status = cla_mpi_cl(w,
                                clEnqueueReadBuffer(w->queue, g->of_heads, CL_TRUE, n * bytes, bytes,
                                                    g->sums[n] + (size_t)w->rank * own, 0, NULL, NULL),
                                "clEnqueueReadBuffer");
    return cla_mpi_gradients_of_heads(j, g->sums, status);
}

static clattn_status attend(heads *g, clattn_status status) {
    job *j = g->j;
    clattn_mpi *w = j->w;
    const double begin = MPI_Wtime();
    for (int n = EXCHANGE_Q; n <= (j->b ? EXCHANGE_DLSE : EXCHANGE_V_ZERO); n++)
        status = to_heads(g, n, status);
    const double there = MPI_Wtime();
    if (status == CLATTN_OK) status = enqueue(g);
    if (status == CLATTN_OK) status = cla_mpi_finish(w, w->queue);
    j->report.calls++;
    const double done = MPI_Wtime();
    status = bring_back(g, status);
    if (status == CLATTN_OK) status = cla_mpi_finish(w, w->queue);
    j->report.compute_seconds = done - there;
    j->report.seconds = MPI_Wtime() - begin;
    j->report.transfer_seconds = j->report.exposed_seconds = j->report.seconds - (done - there);
    return status;
}

clattn_status cla_mpi_heads_run(job *j) {
    heads g = {.j = j};
    clattn_mpi *w = j->w;
    clattn_status status = cla_mpi_agree(w, prepare(&g));
    if (status == CLATTN_OK) status = cla_mpi_agree(w, attend(&g, cla_mpi_finish(w, w->queue)));
    cla_mpi_drain(w, status);
    for (int n = 0; n < EXCHANGES; n++) {
        cla_mpi_release(&g.exchanges[n].memory);
        cla_mpi_free(w, g.exchanges[n].of_rows);
        cla_mpi_free(w, g.exchanges[n].of_heads);
    }
    cla_mpi_release(&g.out_rows);
    cla_mpi_release(&g.lse_rows);
    cla_mpi_release(&g.of_heads);
    for (int n = 0; n < 3; n++) cla_mpi_free(w, g.sums[n]);
    cla_mpi_free(w, g.numbers);
    cla_mpi_free(w, g.arrays);
    return status;
}
