// gradients.c: see gradients.h.
#include "mpi/gradients.h"

#include <string.h>

#define ALIGNED 256 // results of a call start at multiples of 256 bytes

// The n-th gradient of a local call.
static clattn_tensor *local_gradient(clattn_attention_backward_params *b, int n) {
    static const size_t fields[] = {
#define GRADIENT(field, like, of, shape, types, axes, use) offsetof(clattn_attention_backward_params, field),
#include "tables/views.def"
    };
    _Static_assert(sizeof fields / sizeof fields[0] == OF_READ + GRADIENTS, "a row is a gradient or read");
    return (clattn_tensor *)((char *)b + fields[OF_READ + n]);
}

static int64_t count_of(const int64_t shape[4]) {
    return shape[0] * shape[1] * shape[2] * shape[3];
}

// Shape of a gradient for `rows` rows and `keys` keys. dbias keeps its axes of size 1.
static void shape_of(const job *j, int n, int64_t rows, int64_t keys, int64_t shape[4]) {
    const clattn_tensor *t = cla_mpi_gradient(j->b, n);
    for (int a = 0; a < 4; a++) shape[a] = a < 4 - t->rank ? 1 : t->shape[a - 4 + t->rank];
    if (n == OF_Q || (n == OF_BIAS && t->rank > 1 && shape[2] != 1)) shape[2] = rows;
    if (n == OF_K || n == OF_V) shape[2] = keys;
    if (n == OF_BIAS && shape[3] != 1) shape[3] = keys;
    if (!t->rank) memset(shape, 0, 4 * sizeof *shape);
}

static gradient_layout lay(const job *j, int64_t rows, int64_t keys) {
    gradient_layout l = {.bytes = 0};
    for (int n = 0; n < GRADIENTS; n++) {
        shape_of(j, n, rows, keys, l.shape[n]);
        l.at[n] = l.bytes;
        l.bytes += ((size_t)count_of(l.shape[n]) * sizeof(float) + ALIGNED - 1) / ALIGNED * ALIGNED;
    }
    return l;
}

// Shape of a sum: all rows and keys of this rank; for dbias all keys.
static void sum_shape(const job *j, int n, int64_t shape[4]) {
    const int64_t keys = n == OF_BIAS ? j->n_kv : j->kv[j->w->rank].rows;
    shape_of(j, n, j->q[j->w->rank].rows, keys, shape);
}

static clattn_status floats(gradients *g, size_t count, float **to) {
    *to = cla_mpi_zeroed(g->j->w, count, sizeof **to);
    g->host_bytes += count * sizeof **to;
    return *to ? CLATTN_OK : cla_mpi_fail(g->j->w, CLATTN_OUT_OF_MEMORY, "host memory");
}

clattn_status cla_mpi_gradients_open(gradients *g, job *j, const span_list *q, int most) {
    *g = (gradients){.j = j, .q = q->spans, .q_count = q->count, .whole = {0, q->rows, 0}};
    if (!j->positional) g->q = &g->whole, g->q_count = 1;
    if (q->rows == 0) g->q_count = 0;
    g->begun = cla_mpi_zeroed(j->w, (size_t)g->q_count + 1, sizeof *g->begun);
    g->arrays = cla_mpi_zeroed(j->w, 3 * (size_t)j->batch + 1, sizeof *g->arrays);
    if (!g->begun || !g->arrays) return cla_mpi_fail(j->w, CLATTN_OUT_OF_MEMORY, "host memory");
    for (int n = 0; n < GRADIENTS; n++) {
        int64_t shape[4];
        sum_shape(j, n, shape);
        // The sums of all ranks follow this rank's.
        const size_t ranks = n < OF_HEADS ? 0 : (size_t)j->w->ranks;
        if (cla_mpi_gradient(j->b, n)->rank)
            TRY(floats(g, (size_t)count_of(shape) * (1 + ranks), &g->sums[n]));
    }
    TRY(cla_mpi_mods_open(j, most * g->q_count));
    g->bytes += j->mod_bytes;
    return CLATTN_OK;
}

static void keep(gradients *g, cl_event event) {
    if (g->event) clReleaseEvent(g->event);
    g->event = event;
}

// Make the call of the n-th span of q with these keys. False: it computes no requested gradient.
static bool call_of(const gradients *g, int n, const span *keys, const clattn_tensor views[PIECE_PARTS],
                    clattn_attention_backward_params *to) {
    const job *j = g->j;
    const span *q = &g->q[n];
    const gradient_layout l = lay(j, q->count, keys->count);
    local_call c = {.q = *q, .k = *keys, .kv = views, .heads = j->heads};
    c.sinks = !g->begun[n];
    c.mods = j->mod_slot < 0 ? -1 : g->calls;
    c.out = cla_mpi_rows_of(j->p->out, q->local, q->count);
    c.lse = cla_mpi_rows_of(j->p->lse, q->local, q->count);
    *to =
        (clattn_attention_backward_params){.score_mod_gradient = keys->count ? j->score_mod_gradient : NULL};
    cla_mpi_local(j, &c, &to->forward, g->arrays);
    to->dout = cla_mpi_rows_of(j->b->dout, q->local, q->count);
    to->dlse = cla_mpi_rows_of(j->b->dlse, q->local, q->count);
    bool any = false;
    for (int r = 0; r < GRADIENTS; r++) {
        const int rank = cla_mpi_gradient(j->b, r)->rank;
        // Only the first call for these rows computes dsinks.
        const bool here = r == OF_HEADS ? c.sinks : keys->count > 0;
        if (!rank || !here) continue;
        clattn_tensor *result = local_gradient(to, r);
        *result = clattn_tensor_dense(g->device, CLATTN_TYPE_F32, rank, l.shape[r] + 4 - rank);
        result->offset = (int64_t)(l.at[r] / sizeof(float));
        any = true;
    }
    return any;
}

bool cla_mpi_gradients_sees(const gradients *g, const span *keys) {
    return cla_mpi_any_sees(g->j, g->q, g->q_count, keys);
}

clattn_status cla_mpi_gradients_expect(gradients *g, const span *keys,
                                       const clattn_tensor views[PIECE_PARTS]) {
    clattn_tensor none[PIECE_PARTS];
    cla_mpi_piece_views(g->j, NULL, keys->count, none);
    for (int n = 0; n < g->q_count; n++) {
        clattn_attention_backward_params call;
        if (keys->count && !cla_mpi_sees(g->j, &g->q[n], keys)) {
            g->j->report.calls_skipped++;
            continue;
        }
        if (keys->count) cla_mpi_mods_add(g->j, &g->q[n], keys, 0);
        const bool any = call_of(g, n, keys, views ? views : none, &call);
        const gradient_layout l = lay(g->j, g->q[n].count, keys->count);
        if (l.bytes > g->most) g->most = l.bytes;
        g->begun[n] = g->begun[n] || keys->count;
        if (keys->count) g->calls++;
        if (any) TRY(cla_mpi_library(g->j->w, clattn_attention_backward_prepare(g->j->w->context, &call)));
    }
    return CLATTN_OK;
}

// Copy a dense sum to the caller's tensor. float32 is written directly, other types are converted
// on the device. `ahead`: only compile.
static clattn_status deliver(gradients *g, int n, bool ahead) {
    clattn_mpi *w = g->j->w;
    const clattn_tensor *to = cla_mpi_gradient(g->j->b, n);
    if (!to->rank || !cla_mpi_bytes(to)) return CLATTN_OK;
    if (to->type == CLATTN_TYPE_F32) return ahead ? CLATTN_OK : cla_mpi_write(w, w->queue, to, g->sums[n]);
    const clattn_append_params a = {.k_new = clattn_tensor_dense(g->floats, CLATTN_TYPE_F32, 4, to->shape),
                                    .k = *to};
    if (ahead) return cla_mpi_library(w, clattn_append_prepare(w->context, &a));
    TRY(cla_mpi_write(w, w->queue, &a.k_new, g->sums[n]));
    return cla_mpi_library(w, clattn_append_enqueue(w->context, w->queue, &a, 0, NULL, NULL));
}

clattn_status cla_mpi_gradients_ready(gradients *g) {
    size_t most = 0;
    for (int n = 0; n < g->q_count; n++) g->begun[n] = false;
    for (int n = 0; n < OF_BIAS; n++) {
        const clattn_tensor *t = cla_mpi_gradient(g->j->b, n);
        const size_t bytes = t->rank && t->type != CLATTN_TYPE_F32
                                 ? cla_mpi_bytes(t) / clattn_type_size(t->type) * sizeof(float)
                                 : 0;
        if (bytes > most) most = bytes;
    }
    g->calls = 0;
    TRY(cla_mpi_buffer(g->j->w, g->most, &g->device));
    TRY(cla_mpi_buffer(g->j->w, most, &g->floats));
    TRY(floats(g, g->most / sizeof(float), &g->host));
    g->bytes += g->most + most;
    for (int n = 0; n < OF_BIAS; n++) TRY(deliver(g, n, true));
    return cla_mpi_mods_upload(g->j);
}

// Add a dense box to a sum at this row and column. `all` is the sum's shape.
static void add_box(float *sum, const int64_t all[4], const float *from, const int64_t shape[4], int64_t row,
                    int64_t column) {
    for (int64_t h = 0; h < shape[0] * shape[1]; h++)
        for (int64_t i = 0; i < shape[2]; i++) {
            float *to = sum + (h * all[2] + row + i) * all[3] + column;
            for (int64_t d = 0; d < shape[3]; d++) to[d] += *from++;
        }
}

static void take_results(gradients *g, const span *q, const span *keys,
                         clattn_attention_backward_params *call, float *share) {
    const job *j = g->j;
    const gradient_layout l = lay(j, q->count, keys->count);
    for (int n = 0; n < GRADIENTS; n++) {
        const float *from = g->host + l.at[n] / sizeof(float);
        const int64_t *shape = l.shape[n];
        int64_t all[4];
        sum_shape(j, n, all);
        if (!local_gradient(call, n)->rank) continue;
        if (n == OF_K || n == OF_V)
            add_box(share + (n == OF_V ? count_of(l.shape[OF_K]) : 0), shape, from, shape, 0, 0);
        else
            add_box(g->sums[n], all, from, shape, n < OF_HEADS && all[2] != 1 ? q->local : 0,
                    n == OF_BIAS && all[3] != 1 ? keys->start : 0);
    }
}

static clattn_status add_one(gradients *g, int n, const span *keys, const clattn_tensor views[PIECE_PARTS],
                             float *share, void (*meanwhile)(void *user), void *user) {
    clattn_mpi *w = g->j->w;
    clattn_attention_backward_params call;
    cl_event event = NULL;
    const bool any = call_of(g, n, keys, views, &call);
    g->begun[n] = true;
    g->calls += keys->count ? 1 : 0;
    if (!any) return CLATTN_OK;
    TRY(cla_mpi_library(w, clattn_attention_backward_enqueue(w->context, w->queue, &call, 0, NULL, &event)));
    keep(g, event);
    g->j->report.calls++;
    TRY(cla_mpi_cl(w, clFlush(w->queue), "clFlush"));
    if (meanwhile) meanwhile(user);
    const size_t bytes = lay(g->j, g->q[n].count, keys->count).bytes;
    TRY(cla_mpi_cl(w, clEnqueueReadBuffer(w->queue, g->device, CL_TRUE, 0, bytes, g->host, 0, NULL, NULL),
                   "clEnqueueReadBuffer"));
    take_results(g, &g->q[n], keys, &call, share);
    return CLATTN_OK;
}

clattn_status cla_mpi_gradients_add(gradients *g, const span *keys, const clattn_tensor views[PIECE_PARTS],
                                    float *share, void (*meanwhile)(void *user), void *user) {
    for (int n = 0; n < g->q_count; n++)
        if (cla_mpi_sees(g->j, &g->q[n], keys)) TRY(add_one(g, n, keys, views, share, meanwhile, user));
    return CLATTN_OK;
}

size_t cla_mpi_gradients_share(const job *j, int64_t keys) {
    const gradient_layout l = lay(j, 0, keys);
    return (size_t)(count_of(l.shape[OF_K]) + count_of(l.shape[OF_V]));
}

void cla_mpi_gradients_take(gradients *g, const span *keys, const float *share) {
    const gradient_layout l = lay(g->j, 0, keys->count);
    for (int n = OF_K; n <= OF_V; n++) {
        int64_t all[4];
        sum_shape(g->j, n, all);
        if (g->sums[n]) add_box(g->sums[n], all, share, l.shape[n], keys->local, 0);
        share += count_of(l.shape[n]);
    }
}

// Write dbias, which may have any strides.
static clattn_status write_bias(gradients *g) {
    const clattn_tensor *to = cla_mpi_gradient(g->j->b, OF_BIAS);
    clattn_mpi *w = g->j->w;
    int64_t shape[4], stride[4] = {0};
    if (!to->rank) return CLATTN_OK;
    sum_shape(g->j, OF_BIAS, shape);
    for (int a = 0; a < to->rank; a++) stride[4 - to->rank + a] = to->stride[a];
    clattn_tensor rows = {.buffer = to->buffer, .type = CLATTN_TYPE_F32, .rank = 4, .offset = to->offset};
    const bool dense = stride[3] == 1 || shape[3] == 1;
    memcpy(rows.shape, shape, sizeof shape), memcpy(rows.stride, stride, sizeof stride);
    if (dense) return cla_mpi_write(w, w->queue, &rows, g->sums[OF_BIAS]);
    const float *from = g->sums[OF_BIAS];
    for (int64_t n = 0; n < count_of(shape); n++) {
        int64_t rest = n, at = to->offset;
        for (int a = 3; a >= 0; a--) at += rest % shape[a] * stride[a], rest /= shape[a];
        TRY(cla_mpi_cl(w,
                       clEnqueueWriteBuffer(w->queue, to->buffer, CL_FALSE, (size_t)at * sizeof *from,
                                            sizeof *from, from + n, 0, NULL, NULL),
                       "clEnqueueWriteBuffer"));
    }
    return CLATTN_OK;
}

clattn_status cla_mpi_gradients_end(gradients *g) {
    const span none = {0, 0, 0};
    clattn_tensor views[PIECE_PARTS];
    cla_mpi_piece_views(g->j, NULL, 0, views);
    for (int n = 0; n < g->q_count; n++)
        if (!g->begun[n]) TRY(add_one(g, n, &none, views, NULL, NULL, NULL));
    for (int n = 0; n < OF_BIAS; n++) TRY(deliver(g, n, false));
    TRY(write_bias(g));
    return cla_mpi_finish(g->j->w, g->j->w->queue);
}

clattn_status cla_mpi_gradients_of_heads(job *j, float *const sums[3], clattn_status status) {
    clattn_mpi *w = j->w;
    const size_t heads = (size_t)j->heads;
    for (int n = 0; n < 3; n++) {
        const clattn_tensor *to = cla_mpi_gradient(j->b, OF_HEADS + n);
        if (!to->rank || !heads) continue;
        float *const all = sums[n] + heads; // [ranks, H], after this rank's own
        const clattn_status moved =
            cla_mpi_try(w, MPI_Allgather(sums[n], (int)heads, MPI_FLOAT, all, (int)heads, MPI_FLOAT, w->comm),
                        "MPI_Allgather");
        if (status == CLATTN_OK) status = moved;
        for (size_t h = 0; h < heads && status == CLATTN_OK; h++) {
            sums[n][h] = 0;
            for (int r = 0; r < w->ranks; r++) sums[n][h] += all[(size_t)r * heads + h];
            const size_t at = (size_t)(to->offset + (int64_t)h * to->stride[0]) * sizeof(float);
            status = cla_mpi_cl(w,
                                clEnqueueWriteBuffer(w->queue, to->buffer, CL_TRUE, at, sizeof(float),
                                                     &sums[n][h], 0, NULL, NULL),
                                "clEnqueueWriteBuffer");
        }
    }
    return status;
}

void cla_mpi_gradients_close(gradients *g) {
    if (!g->j) return; // never opened
    keep(g, NULL);
    cla_mpi_release(&g->device);
    cla_mpi_release(&g->floats);
    for (int n = 0; n < GRADIENTS; n++) cla_mpi_free(g->j->w, g->sums[n]);
    cla_mpi_free(g->j->w, g->host);
    cla_mpi_free(g->j->w, g->begun);
    cla_mpi_free(g->j->w, g->arrays);
}
