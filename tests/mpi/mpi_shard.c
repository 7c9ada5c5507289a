// mpi_shard.c: see mpi_shard.h.
#include "mpi/mpi_shard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verification/reference/reference.h"
#include "verification/reference/storage.h"
#include "support/harness.h"

struct suite suite;

void suite_check(bool good, const char *what, const char *why) {
    suite.checks++;
    suite.failures += !good;
    if (!good) printf("test_mpi.c:1:F:rank %d of %d: %s: %s\n", suite.rank, suite.ranks, what, why);
}

void shard_share(shard_way strategy, int rank, int ranks, int64_t n, uint64_t seed, shard_rows *to) {
    struct random random = {seed + 77};
    int64_t cuts[65] = {0};
    to->rows.segments = to->segments;
    to->count = 0;
    if (strategy == SHARD_BLOCKS)
        to->rows.count = clattn_mpi_blocks(rank, ranks, n, to->segments, SHARD_SEGMENTS);
    if (strategy == SHARD_ZIGZAG)
        to->rows.count = clattn_mpi_zigzag(rank, ranks, n, to->segments, SHARD_SEGMENTS);
    if (strategy == SHARD_PAGES)
        to->rows.count = clattn_mpi_pages(rank, ranks, n, 5, to->segments, SHARD_SEGMENTS);
    if (strategy == SHARD_RAGGED || strategy == SHARD_LAST) {
        for (int r = 1; r < ranks; r++)
            cuts[r] = strategy == SHARD_LAST ? 0 : (int64_t)random_uniform(&random, 0, (double)n + 1);
        for (int r = 1; r < ranks; r++) // sorted
            for (int x = 1; x < r; x++)
                if (cuts[r] < cuts[x]) {
                    const int64_t swap = cuts[r];
                    cuts[r] = cuts[x], cuts[x] = swap;
                }
        cuts[ranks] = n;
        to->segments[0] = (clattn_mpi_segment){cuts[rank], cuts[rank + 1] - cuts[rank]};
        to->rows.count = 1;
    }
    for (int32_t s = 0; s < to->rows.count; s++) to->count += to->segments[s].count;
}

// Copy a rank's rows of `axis` to a new buffer, with NaN around them, an odd offset and gaps
// between heads. Tensors of rank 4 are stored as [B, N, H, D] with gaps. The last stride is
// `apart`.
static clattn_tensor gather(shard *s, const clattn_tensor *from, const uint8_t *image, int axis,
                            const shard_rows *rows, int64_t apart) {
    clattn_tensor t = *from;
    const size_t size = clattn_type_size(t.type);
    if (axis >= 0) t.shape[axis] = rows->count;
    t.offset = 3;
    int64_t step = apart, count;
    for (int a = t.rank - 1; a >= 0; a--) {
        // swap rows and heads
        const int of = axis == 2 && (a == 1 || a == 2) && t.rank >= 3 ? 3 - a : a;
        t.stride[of] = step;
        step *= t.shape[of] + (of == t.rank - 1 && t.rank == 4 ? 5 : 0);
    }
    count = step + 8;
    uint8_t *bytes = malloc((size_t)count * size);
    memset(bytes, 0xFF, (size_t)count * size);
    if (image == NULL) storage_poison(t.type, bytes, count);
    int64_t x[4] = {0}, all = 1;
    for (int a = 0; a < t.rank; a++) all *= t.shape[a];
    for (int64_t n = 0; n < all && image != NULL; n++) {
        int64_t rest = n, source = from->offset, to = t.offset;
        for (int a = t.rank - 1; a >= 0; a--) x[a] = rest % t.shape[a], rest /= t.shape[a];
        for (int a = 0; a < t.rank; a++) {
            int64_t at = x[a];
            for (int32_t g = 0, first = 0; a == axis && g < rows->rows.count; g++) {
                const clattn_mpi_segment *segment = &rows->segments[g];
                if (x[a] >= first && x[a] < first + segment->count) at = segment->start + x[a] - first;
                first += (int32_t)segment->count;
            }
            source += at * from->stride[a], to += x[a] * t.stride[a];
        }
        memcpy(bytes + (size_t)to * size, image + (size_t)source * size, size);
    }
    cl_int code;
    t.buffer = clCreateBuffer(harness()->opencl, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                              (size_t)count * size, bytes, &code);
    harness_expect(code, "clCreateBuffer");
    free(bytes);
    s->memory[s->count++] = t.buffer;
    return t;
}

static clattn_tensor map_rows(shard *s, const struct guarded *map, const shard_rows *q, int rank) {
    const clattn_tensor *t = &map->view;
    if (t->rank < 2 || t->shape[t->rank - 2] == 1) return *t;
    return gather(s, t, map->image, t->rank - 2, q, 1 + rank % 2); // strides differ between ranks
}

static const clattn_tensor *gradient_of(const shard *s, int g) {
    const clattn_mpi_attention_backward_params *b = &s->backward;
    const clattn_tensor *const all[GRADIENTS] = {
        &b->dq, &b->dk, &b->dv, &b->dbias, &b->dsinks, &b->dalibi_slopes, &b->dhead_scales};
    return all[g];
}

// Returns the axis of a gradient that counts distributed rows or keys. -1: none.
static int shared_axis(int g, const clattn_tensor *t) {
    const int row = t->rank - 2;
    return g < GRADIENT_BIAS ? 2 : g == GRADIENT_BIAS && row >= 0 && t->shape[row] != 1 ? row : -1;
}

static void open_gradients(shard *s, int rank) {
    const struct case_arrays *a = &s->whole;
    clattn_mpi_attention_backward_params *b = &s->backward;
    *b = (clattn_mpi_attention_backward_params){.forward = s->params,
                                                .score_mod_gradient = a->backward.score_mod_gradient};
    b->dout = gather(s, &a->dout.view, a->dout.image, 2, &s->q, 1);
    if (a->dlse.view.rank) b->dlse = gather(s, &a->dlse.view, a->dlse.image, 2, &s->q, 1);
    for (int g = 0; g < GRADIENTS; g++) {
        const clattn_tensor *from = &a->gradient[g].view;
        const bool keys = g == GRADIENT_K || g == GRADIENT_V;
        const int axis = shared_axis(g, from);
        if (from->buffer)
            *(clattn_tensor *)(uintptr_t)gradient_of(s, g) =
                gather(s, from, NULL, axis, keys ? &s->kv : &s->q, g < GRADIENT_BIAS ? 1 : 1 + rank % 2);
    }
}

void shard_open(shard *s, const shard_call *call, int rank, int ranks) {
    struct test_case test;
    char why[256];
    memset(s, 0, sizeof *s);
    if (!case_read(call->name, &test, why)) {
        fprintf(stderr, "%s: %s\n", call->name, why);
        exit(EXIT_FAILURE);
    }
    s->data = case_make(&test);
    const struct test_case *t = &s->data->test;
    case_bind(s->data, harness_place(), &s->whole);
    shard_share(call->decode ? SHARD_LAST : call->q, call->decode ? 0 : rank, call->decode ? 1 : ranks,
                t->n_q, t->seed, &s->q);
    shard_share(call->kv, rank, ranks, t->n_kv, t->seed + 1, &s->kv);
    const clattn_attention_params *p = &s->whole.params;
    clattn_mpi_attention_params *to = &s->params;
    *to = (clattn_mpi_attention_params){.score = p->score, .kernel = p->kernel, .strategy = call->strategy};
    to->piece_rows = call->piece_rows;
    to->q = gather(s, &p->q, s->whole.q.image, 2, &s->q, 1);
    to->k = gather(s, &p->kv.k, s->whole.k.image, 2, &s->kv, 1);
    to->v = gather(s, &p->kv.v, s->whole.v.image, 2, &s->kv, 1);
    if (p->kv.k_scale.rank)
        to->k_scale = gather(s, &p->kv.k_scale, s->whole.kv_scales[0].image, 2, &s->kv, 1);
    if (p->kv.v_scale.rank)
        to->v_scale = gather(s, &p->kv.v_scale, s->whole.kv_scales[1].image, 2, &s->kv, 1);
    if (p->kv.k_zero.rank) to->k_zero = gather(s, &p->kv.k_zero, s->whole.kv_zeros[0].image, 2, &s->kv, 1);
    if (p->kv.v_zero.rank) to->v_zero = gather(s, &p->kv.v_zero, s->whole.kv_zeros[1].image, 2, &s->kv, 1);
    const bool gradients = t->op == CASE_BACKWARD; // gradients read forward's results
    to->out = gather(s, &p->out, gradients ? s->whole.out.image : NULL, 2, &s->q, 1);
    if (p->lse.rank) to->lse = gather(s, &p->lse, gradients ? s->whole.lse.image : NULL, 2, &s->q, 1);
    if (p->score.mask.rank) to->score.mask = map_rows(s, &s->whole.mask, &s->q, rank);
    if (p->score.bias.rank) to->score.bias = map_rows(s, &s->whole.bias, &s->q, rank);
    if (!call->decode) to->q_rows = s->q.rows;
    to->kv_rows = s->kv.rows;
    if (gradients) open_gradients(s, rank);
}

void shard_close(shard *s) {
    for (int n = 0; n < s->count; n++) clReleaseMemObject(s->memory[n]);
    case_unbind(&s->whole);
    case_free(s->data);
}

// Extend to four axes, with a row's numbers last. An lse has one number per row.
static clattn_tensor padded(clattn_tensor t, bool behind) {
    for (; t.rank < 4; t.rank++) {
        for (int a = t.rank; a > 0 && !behind; a--)
            t.shape[a] = t.shape[a - 1], t.stride[a] = t.stride[a - 1];
        t.shape[behind ? t.rank : 0] = 1, t.stride[behind ? t.rank : 0] = 0;
    }
    return t;
}

// Add a view's elements to their rows of `whole`. With `shared`, rows are distributed over the
// ranks. Sets *intact to false if memory around the elements changed.
static void scatter(clattn_tensor t, double *whole, const shard_rows *shared, int64_t rows, bool *intact) {
    const size_t size = clattn_type_size(t.type);
    const clattn_mpi_segment all = {0, t.shape[2]};
    const clattn_mpi_segment *segments = shared ? shared->segments : &all;
    size_t bytes = 0;
    clGetMemObjectInfo(t.buffer, CL_MEM_SIZE, sizeof bytes, &bytes, NULL);
    uint8_t *memory = malloc(bytes);
    harness_expect(clEnqueueReadBuffer(harness()->queue, t.buffer, CL_TRUE, 0, bytes, memory, 0, NULL, NULL),
                   "clEnqueueReadBuffer");
    for (int64_t h = 0; h < t.shape[0] * t.shape[1]; h++)
        for (int32_t g = 0, local = 0; g < (shared ? shared->rows.count : 1); g++)
            for (int64_t n = 0; n < segments[g].count; n++, local++)
                for (int64_t d = 0; d < t.shape[3]; d++) {
                    const int64_t at = t.offset + h / t.shape[1] * t.stride[0] +
                                       h % t.shape[1] * t.stride[1] + local * t.stride[2] + d * t.stride[3],
                                  row = h * rows + segments[g].start + n;
                    whole[row * t.shape[3] + d] += storage_load(t.type, memory, at);
                    storage_poison(t.type, memory + (size_t)at * size, 1);
                }
    uint8_t *poison = malloc(bytes);
    storage_poison(t.type, poison, (int64_t)(bytes / size));
    *intact = *intact && memcmp(memory, poison, bytes) == 0;
    free(poison);
    free(memory);
}

// Sum over all ranks, on rank 0. Frees `mine`.
static double *sum_of(double *mine, int64_t count) {
    double *all = calloc((size_t)count + 1, sizeof *all);
    MPI_Reduce(mine, all, (int)count, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    free(mine);
    return all;
}

static bool all_true(bool mine) {
    int one = mine, all = 0;
    MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    return all;
}

struct case_result shard_collect(const shard *s, bool decode) {
    const struct test_case *t = &s->data->test;
    const int64_t rows = t->batch * t->heads * t->n_q, count = rows * (t->head_dim_v + 1);
    struct case_result got = {.status = CLATTN_OK, .intact = true};
    double *mine = calloc((size_t)count + 1, sizeof *mine);
    got.out = reference_alloc(rows * t->head_dim_v);
    scatter(s->params.out, mine, &s->q, t->n_q, &got.intact);
    if (s->params.lse.rank) got.lse = reference_alloc(rows);
    if (s->params.lse.rank)
        scatter(padded(s->params.lse, true), mine + rows * t->head_dim_v, &s->q, t->n_q, &got.intact);
    if (!decode) mine = sum_of(mine, count);
    memcpy(got.out, mine, (size_t)(rows * t->head_dim_v) * sizeof *mine);
    if (got.lse) memcpy(got.lse, mine + rows * t->head_dim_v, (size_t)rows * sizeof *mine);
    free(mine);
    got.intact = all_true(got.intact);
    return got;
}

// Collect the gradients on rank 0, beside the whole out and lse. Per-head gradients are the same on
// all ranks. For a bias that broadcasts over rows, each rank has the part of its rows.
static struct case_result collect_gradients(const shard *s) {
    struct case_result got = case_collect(&s->whole, harness()->queue, NULL);
    for (int g = 0; g < GRADIENTS; g++) {
        const clattn_tensor *t = gradient_of(s, g);
        const int64_t count = got.gradient[g] ? guarded_count(&s->whole.gradient[g].view) : 0;
        const bool keys = g == GRADIENT_K || g == GRADIENT_V,
                   shared = t->rank && shared_axis(g, &s->whole.gradient[g].view) >= 0;
        if (got.gradient[g] == NULL) continue;
        double *mine = calloc((size_t)count + 1, sizeof *mine),
               *first = calloc((size_t)count + 1, sizeof *first);
        const clattn_tensor view = padded(*t, false);
        scatter(view, mine, shared ? (keys ? &s->kv : &s->q) : NULL,
                !shared ? view.shape[2]
                : keys  ? s->data->test.n_kv
                        : s->data->test.n_q,
                &got.intact);
        memcpy(first, mine, (size_t)count * sizeof *mine);
        MPI_Bcast(first, (int)count, MPI_DOUBLE, 0, MPI_COMM_WORLD);
        if (g >= GRADIENT_SINKS)
            got.intact = got.intact && !memcmp(first, mine, (size_t)count * sizeof *mine);
        if (g < GRADIENT_SINKS) mine = sum_of(mine, count);
        memcpy(got.gradient[g], mine, (size_t)count * sizeof *mine);
        free(mine);
        free(first);
    }
    got.intact = all_true(got.intact);
    return got;
}

clattn_status shard_run(clattn_mpi *world, const shard *s, bool decode, clattn_mpi_report *report) {
    if (s->whole.op == CASE_BACKWARD) return clattn_mpi_attention_backward_run(world, &s->backward, report);
    return decode ? clattn_mpi_decode_run(world, &s->params, report)
                  : clattn_mpi_attention_run(world, &s->params, report);
}

bool shard_holds(clattn_mpi *world, const shard_call *call, clattn_mpi_report *report, char why[256]) {
    int rank, ranks, good = 0;
    shard s;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    shard_open(&s, call, rank, ranks);
    const clattn_status status = shard_run(world, &s, call->decode, report);
    struct case_result got =
        s.whole.op == CASE_BACKWARD ? collect_gradients(&s) : shard_collect(&s, call->decode);
    got.status = status;
    clattn_mpi_last_error(world, got.message, sizeof got.message);
    // Rank 0 has the result of all ranks, and with decode each rank has it. Otherwise errors are
    // reported first.
    if (rank > 0 && !call->decode) {
        good = status == CLATTN_OK;
        if (!good) snprintf(why, 256, "rank %d: %.200s", rank, got.message);
    } else {
        good = case_agrees(s.data, &got, why, 256);
    }
    const int mine = good ? -1 : rank;
    int last = -1;
    MPI_Allreduce(&mine, &last, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (last >= 0) MPI_Bcast(why, 256, MPI_CHAR, last, MPI_COMM_WORLD);
    case_result_free(&got);
    shard_close(&s);
    return last < 0;
}

bool shard_repeats(clattn_mpi *world, const shard_call *call, char why[256]) {
    int rank, ranks;
    shard s;
    uint8_t *bits[2] = {NULL, NULL};
    size_t bytes = 0;
    bool same = true;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    shard_open(&s, call, rank, ranks);
    const cl_mem out = s.whole.op == CASE_BACKWARD ? s.backward.dk.buffer : s.params.out.buffer;
    clGetMemObjectInfo(out, CL_MEM_SIZE, sizeof bytes, &bytes, NULL);
    for (int n = 0; n < 10; n++) {
        const int at = n > 0;
        if (!bits[at]) bits[at] = malloc(bytes);
        const clattn_status status = shard_run(world, &s, call->decode, NULL);
        harness_expect(clEnqueueReadBuffer(harness()->queue, out, CL_TRUE, 0, bytes, bits[at], 0, NULL, NULL),
                       "clEnqueueReadBuffer");
        same = same && status == CLATTN_OK && (n == 0 || memcmp(bits[0], bits[1], bytes) == 0);
    }
    snprintf(why, 256, "a repeated call failed or has other bits");
    free(bits[0]);
    free(bits[1]);
    shard_close(&s);
    return same;
}
