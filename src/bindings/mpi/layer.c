// layer.c: a layer with heads on several ranks. Each rank computes its part of out, and an
// allreduce sums the parts. layer_rows.c is for a layer with rows on several ranks.
#include "mpi/layer.h"

#include <stdio.h>
#include <string.h>

// MPI passes `in` from lower ranks than `inout`, because the operation is registered as
// non-commutative.
static void sum(void *in, void *inout, int *count, MPI_Datatype *type) {
    const float *a = in;
    float *b = inout;
    (void)type;
    for (int n = 0; n < *count; n++) b[n] = a[n] + b[n];
}

// Exchanged in w->calls, whose entries are larger.
typedef struct layer_words {
    world_word word;
    int64_t strategy, batch, rows, width, out_width, type, y_rows;
} layer_words;

static clattn_status check(clattn_mpi *w, const clattn_mpi_layer_params *p) {
    if (!p) return cla_mpi_fail(w, CLATTN_INVALID_ARGUMENT, "params: is NULL");
    const clattn_layer_params *l = &p->layer;
    if ((unsigned)p->strategy >= CLATTN_MPI_LAYER_STRATEGY_COUNT)
        return cla_mpi_fail(w, CLATTN_INVALID_ARGUMENT, "strategy: %d is none of CLATTN_MPI_LAYER_*",
                            (int)p->strategy);
    if (l->x.rank != 3 || l->out.rank != 3)
        return cla_mpi_fail(w, CLATTN_INVALID_ARGUMENT, "x, out: must have 3 axes");
    if (p->strategy == CLATTN_MPI_LAYER_HEADS && (p->rows.count || p->attention || p->piece_rows))
        return cla_mpi_fail(w, CLATTN_INVALID_ARGUMENT,
                            "rows, attention, piece_rows: must be zero, since each rank has all rows");
    if (p->strategy == CLATTN_MPI_LAYER_HEADS && l->lse.rank)
        return cla_mpi_fail(w, CLATTN_INVALID_ARGUMENT, "lse: must be absent, since heads are shared");
    return CLATTN_OK;
}

// The first exchange. A rank with wrong arguments sends its error to all.
static clattn_status compare(clattn_mpi *w, const clattn_mpi_layer_params *p) {
    static const char *const names[] = {"strategy", "B", "Nq", "M", "Mo", "x's type", "Nkv of y"};
    layer_words mine = {.strategy = 0}, *all = w->calls;
    mine.word.status = (int32_t)check(w, p);
    if (mine.word.status != CLATTN_OK)
        snprintf(mine.word.text, sizeof mine.word.text, "%.*s", WORLD_LINE - 1, w->error);
    if (mine.word.status == CLATTN_OK) {
        const clattn_layer_params *l = &p->layer;
        const bool rows = p->strategy == CLATTN_MPI_LAYER_ROWS;
        mine.strategy = p->strategy, mine.batch = l->x.shape[0], mine.rows = rows ? 0 : l->x.shape[1];
        mine.width = l->x.shape[2], mine.out_width = l->out.shape[2], mine.type = l->x.type;
        mine.y_rows = l->y.rank ? l->y.shape[1] : 0;
    }
    const int bytes = (int)sizeof mine;
    TRY(cla_mpi_try(w, MPI_Allgather(&mine, bytes, MPI_BYTE, all, bytes, MPI_BYTE, w->comm),
                    "MPI_Allgather"));
    TRY(cla_mpi_first_failed(w, &all->word, sizeof *all));
    for (size_t n = 0; n < sizeof names / sizeof *names; n++)
        for (int r = 1; r < w->ranks; r++) {
            const int64_t a = (&all[0].strategy)[n], b = (&all[r].strategy)[n];
            if (a != b)
                return cla_mpi_fail(w, CLATTN_INVALID_ARGUMENT,
                                    "%s: rank 0 has %lld, rank %d has %lld: must be the same", names[n],
                                    (long long)a, r, (long long)b);
        }
    return CLATTN_OK;
}

// View rows [B, N, M] as one head, so that appending to a cache can convert them.
static clattn_tensor as_head(clattn_tensor t) {
    t.rank = 4;
    t.shape[3] = t.shape[2], t.stride[3] = t.stride[2];
    t.shape[2] = t.shape[1], t.stride[2] = t.stride[1];
    t.shape[1] = 1, t.stride[1] = 0;
    return t;
}

typedef struct layer_heads {
    clattn_layer_params layer; // with this rank's part as its out
    clattn_tensor whole;       // out in float32
    cl_mem part, floats;
    float *host;
    size_t count;
} layer_heads;

static clattn_status convert(clattn_mpi *w, const clattn_tensor *from, const clattn_tensor *to, bool ahead) {
    const clattn_append_params a = {.k_new = as_head(*from), .k = as_head(*to)};
    return cla_mpi_library(w, ahead ? clattn_append_prepare(w->context, &a)
                                    : clattn_append_enqueue(w->context, w->queue, &a, 0, NULL, NULL));
}

static clattn_status prepare(layer_heads *h, clattn_mpi *w, const clattn_mpi_layer_params *p) {
    const clattn_tensor *out = &p->layer.out;
    clattn_status status = CLATTN_OK;
    h->layer = p->layer;
    if (w->rank) h->layer.bo = (clattn_tensor){0};
    h->count = (size_t)(out->shape[0] * out->shape[1] * out->shape[2]);
    if (h->count * sizeof(float) > INT32_MAX)
        return cla_mpi_fail(w, CLATTN_UNSUPPORTED, "out: of 2 GiB of float32 and more");
    TRY(cla_mpi_library(w, clattn_layer_prepare(w->context, &p->layer)));
    TRY(cla_mpi_buffer(w, h->count * clattn_type_size(out->type), &h->part));
    TRY(cla_mpi_buffer(w, h->count * sizeof(float), &h->floats));
    h->layer.out = clattn_tensor_dense(h->part, out->type, 3, out->shape);
    h->whole = clattn_tensor_dense(h->floats, CLATTN_TYPE_F32, 3, out->shape);
    h->host = cla_mpi_host(w, h->count * sizeof(float), &status);
    TRY(status);
    if (h->count) TRY(convert(w, &h->layer.out, &h->whole, true));
    if (h->count) TRY(convert(w, &h->whole, out, true));
    if (w->sum == MPI_OP_NULL) TRY(cla_mpi_try(w, MPI_Op_create(sum, 0, &w->sum), "MPI_Op_create"));
    return cla_mpi_library(w, clattn_layer_prepare(w->context, &h->layer));
}

static clattn_status part_of(layer_heads *h, clattn_mpi *w) {
    const size_t bytes = h->count * sizeof(float);
    TRY(cla_mpi_library(w, clattn_layer_enqueue(w->context, w->queue, &h->layer, 0, NULL, NULL)));
    TRY(convert(w, &h->layer.out, &h->whole, false));
    return cla_mpi_cl(w, clEnqueueReadBuffer(w->queue, h->floats, CL_TRUE, 0, bytes, h->host, 0, NULL, NULL),
                      "clEnqueueReadBuffer");
}

// A rank that failed still takes part in the allreduce, with zeros. Afterwards all ranks learn that
// the call failed.
static clattn_status run_heads(layer_heads *h, clattn_mpi *w, const clattn_mpi_layer_params *p,
                               clattn_mpi_report *report) {
    const size_t bytes = h->count * sizeof(float);
    const double begin = MPI_Wtime();
    clattn_status status = part_of(h, w);
    if (status != CLATTN_OK) memset(h->host, 0, bytes);
    const double there = MPI_Wtime();
    const clattn_status moved = cla_mpi_try(
        w, MPI_Allreduce(MPI_IN_PLACE, h->host, (int)h->count, MPI_FLOAT, w->sum, w->comm), "MPI_Allreduce");
    report->transfer_seconds = report->exposed_seconds = MPI_Wtime() - there;
    report->compute_seconds = there - begin;
    report->sent_bytes = bytes;
    report->calls = 1;
    if (status == CLATTN_OK) status = moved;
    if (status == CLATTN_OK)
        status = cla_mpi_cl(
            w, clEnqueueWriteBuffer(w->queue, h->floats, CL_TRUE, 0, bytes, h->host, 0, NULL, NULL),
            "clEnqueueWriteBuffer");
    if (status == CLATTN_OK) status = convert(w, &h->whole, &p->layer.out, false);
    const clattn_status done = cla_mpi_finish(w, w->queue);
    report->seconds = MPI_Wtime() - begin;
    return status == CLATTN_OK ? done : status;
}

clattn_status clattn_mpi_layer_run(clattn_mpi *w, const clattn_mpi_layer_params *params,
                                   clattn_mpi_report *report) {
    clattn_mpi_report told = {.seconds = 0};
    layer_heads h = {.count = 0};
    if (!w) return CLATTN_INVALID_ARGUMENT;
    w->error[0] = '\0';
    clattn_status status = compare(w, params);
    if (status == CLATTN_OK && params->strategy == CLATTN_MPI_LAYER_ROWS) {
        status = cla_mpi_layer_rows(w, params, &told);
    } else if (status == CLATTN_OK) {
        status = cla_mpi_agree(w, prepare(&h, w, params));
        if (status == CLATTN_OK && h.count) status = cla_mpi_agree(w, run_heads(&h, w, params, &told));
    }
    if (report) *report = told;
    cla_mpi_drain(w, status);
    cla_mpi_release(&h.part);
    cla_mpi_release(&h.floats);
    cla_mpi_free(w, h.host);
    return status;
}
