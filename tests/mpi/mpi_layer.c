// mpi_layer.c: a layer partitioned by heads or rows, compared with the same layer on one device.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/harness.h"
#include "mpi/mpi_suite.h"

enum { BATCH = 2, ROWS = 61, WIDTH = 48, HEADS = 8, DIM = 16, OUT = 40, MATRICES = 6 };

static cl_mem filled(int64_t count, uint64_t seed, double scale, float **host) {
    cl_int code;
    struct random random = {seed};
    float *numbers = malloc((size_t)(count + 1) * sizeof *numbers);
    for (int64_t n = 0; n < count; n++) numbers[n] = (float)random_uniform(&random, -scale, scale);
    cl_mem buffer = clCreateBuffer(harness()->opencl, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                   (size_t)(count + 1) * sizeof *numbers, numbers, &code);
    harness_expect(code, "clCreateBuffer");
    *host = numbers;
    return buffer;
}

static clattn_tensor dense(cl_mem buffer, int rank, int64_t a, int64_t b, int64_t c) {
    const int64_t shape[] = {a, b, c};
    return clattn_tensor_dense(buffer, CLATTN_TYPE_F32, rank, shape);
}

typedef struct room {
    cl_mem memory[MATRICES + 3];
    int kv_heads;
    clattn_layer_params layer; // the complete layer
    float *x, *want;
} room;

static void read_back(cl_mem from, int64_t count, float *to) {
    harness_expect(clEnqueueReadBuffer(harness()->queue, from, CL_TRUE, 0, (size_t)count * sizeof *to, to, 0,
                                       NULL, NULL),
                   "clEnqueueReadBuffer");
}

static void open_room(room *r, int kv_heads) {
    const int64_t rows[MATRICES] = {HEADS * DIM, kv_heads * DIM, kv_heads * DIM, OUT, OUT, HEADS * DIM},
                  columns[MATRICES] = {WIDTH, WIDTH, WIDTH, HEADS * DIM, 1, 1};
    clattn_tensor t[MATRICES];
    float *unused;
    for (int n = 0; n < MATRICES; n++) {
        r->memory[n] = filled(rows[n] * columns[n], 100 + (uint64_t)n, 0.2, &unused);
        t[n] = dense(r->memory[n], columns[n] == 1 ? 1 : 2, rows[n], columns[n], 0);
        free(unused);
    }
    r->memory[MATRICES] = filled(BATCH * ROWS * WIDTH, 7, 1, &r->x);
    r->memory[MATRICES + 1] = filled(BATCH * ROWS * OUT, 8, 1, &r->want);
    r->kv_heads = kv_heads;
    r->layer = (clattn_layer_params){.x = dense(r->memory[MATRICES], 3, BATCH, ROWS, WIDTH),
                                     .out = dense(r->memory[MATRICES + 1], 3, BATCH, ROWS, OUT),
                                     .wq = t[0],
                                     .wk = t[1],
                                     .wv = t[2],
                                     .wo = t[3],
                                     .bo = t[4],
                                     .bq = t[5],
                                     .heads = HEADS,
                                     .kv_heads = kv_heads,
                                     .norm = CLATTN_NORM_HEADS,
                                     .rope = {.layout = CLATTN_ROPE_HALF},
                                     .projection = CLATTN_PROJECTION_NATIVE};
    r->layer.score.causal = true;
    const clattn_status status =
        clattn_layer_enqueue(harness()->context, harness()->queue, &r->layer, 0, NULL, NULL);
    suite_check(status == CLATTN_OK, "one device's layer", clattn_status_name(status));
    read_back(r->memory[MATRICES + 1], BATCH * ROWS * OUT, r->want);
}

// Compare the local rows with those of the complete layer.
static void judge(const float *got, const float *want, int64_t count, const char *what) {
    double error = 0, norm = 0;
    char why[64];
    for (int64_t n = 0; n < count; n++) {
        error += ((double)got[n] - (double)want[n]) * ((double)got[n] - (double)want[n]);
        norm += (double)want[n] * (double)want[n];
    }
    snprintf(why, sizeof why, "error %g", error / norm);
    suite_check(count == 0 || (norm > 0 && error <= 1e-11 * norm), what, why);
}

static void shared_heads(room *r) {
    const int ranks = suite.ranks, heads = HEADS / ranks, kv = r->kv_heads / ranks;
    clattn_mpi_layer_params p = {.layer = r->layer, .strategy = CLATTN_MPI_LAYER_HEADS};
    clattn_layer_params *l = &p.layer;
    clattn_mpi_report report;
    float *got = calloc(BATCH * ROWS * OUT, sizeof *got);
    if (HEADS % ranks || r->kv_heads % ranks) {
        free(got);
        return;
    }
    clattn_tensor *const kv_matrices[] = {&l->wk, &l->wv};
    l->heads = heads, l->kv_heads = kv;
    l->wq.shape[0] = l->bq.shape[0] = heads * DIM;
    l->wq.offset = (int64_t)suite.rank * heads * DIM * WIDTH, l->bq.offset = suite.rank * heads * DIM;
    for (int n = 0; n < 2; n++) {
        kv_matrices[n]->shape[0] = kv * DIM;
        kv_matrices[n]->offset = (int64_t)suite.rank * kv * DIM * WIDTH;
    }
    l->wo.shape[1] = heads * DIM, l->wo.offset = suite.rank * heads * DIM;
    const clattn_status status = clattn_mpi_layer_run(suite.world, &p, &report);
    char text[400];
    clattn_mpi_last_error(suite.world, text, sizeof text);
    suite_check(status == CLATTN_OK, "a layer whose heads are shared", text);
    read_back(r->memory[MATRICES + 1], BATCH * ROWS * OUT, got);
    judge(got, r->want, BATCH * ROWS * OUT, "a layer whose heads are shared");
    suite_check(report.sent_bytes == BATCH * ROWS * OUT * sizeof(float), "the allreduce", "sent other bytes");
    l->out.shape[2] -= suite.rank == suite.ranks - 1 && suite.ranks > 1;
    suite_check(suite.ranks == 1 || clattn_mpi_layer_run(suite.world, &p, NULL) == CLATTN_INVALID_ARGUMENT,
                "a layer whose sizes differ", "was not refused");
    free(got);
}

static void shared_rows(room *r, shard_way strategy) {
    static shard_rows rows;
    shard_share(strategy, suite.rank, suite.ranks, ROWS, 3, &rows);
    const int64_t n = rows.count;
    float *x, *out, *got = calloc((size_t)(BATCH * n * OUT) + 1, sizeof *got),
                    *want = calloc((size_t)(BATCH * n * OUT) + 1, sizeof *want);
    cl_mem in = filled(BATCH * n * WIDTH, 1, 1, &x), to = filled(BATCH * n * OUT, 1, 1, &out);
    for (int64_t b = 0, at = 0; b < BATCH; b++)
        for (int32_t s = 0; s < rows.rows.count; s++)
            for (int64_t i = 0; i < rows.segments[s].count; i++, at++) {
                const int64_t row = b * ROWS + rows.segments[s].start + i;
                memcpy(x + at * WIDTH, r->x + row * WIDTH, WIDTH * sizeof *x);
                memcpy(want + at * OUT, r->want + row * OUT, OUT * sizeof *x);
            }
    if (n)
        harness_expect(clEnqueueWriteBuffer(harness()->queue, in, CL_TRUE, 0,
                                            (size_t)(BATCH * n * WIDTH) * sizeof *x, x, 0, NULL, NULL),
                       "clEnqueueWriteBuffer");
    clattn_mpi_layer_params p = {.layer = r->layer, .strategy = CLATTN_MPI_LAYER_ROWS, .rows = rows.rows};
    p.layer.x = dense(in, 3, BATCH, n, WIDTH), p.layer.out = dense(to, 3, BATCH, n, OUT);
    p.attention = CLATTN_MPI_RING;
    const clattn_status status = clattn_mpi_layer_run(suite.world, &p, NULL);
    char text[400];
    clattn_mpi_last_error(suite.world, text, sizeof text);
    suite_check(status == CLATTN_OK, "a layer whose rows are shared", text);
    if (n) read_back(to, BATCH * n * OUT, got);
    judge(got, want, BATCH * n * OUT, "a layer whose rows are shared");
    clReleaseMemObject(in);
    clReleaseMemObject(to);
    free(x), free(out), free(got), free(want);
}

void suite_layers(bool quick) {
    for (int kv_heads = quick ? 4 : 1; kv_heads <= HEADS; kv_heads *= quick ? HEADS : 2) {
        room r = {.kv_heads = 0};
        open_room(&r, kv_heads);
        shared_rows(&r, SHARD_ZIGZAG);
        if (!quick) shared_rows(&r, SHARD_RAGGED);
        shared_heads(&r);
        for (int n = 0; n < MATRICES + 2; n++) clReleaseMemObject(r.memory[n]);
        free(r.x), free(r.want);
    }
}
