// job.c: the first exchange of a call: ranks compare their arguments field by field, then exchange
// their rows. See job.h.
#include "mpi/job.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// X(field, its name in error texts): fields that must be the same on all ranks.
#define CALL_FIELDS(X)                                                                                       \
    X(operation, "the call")                                                                                 \
    X(batch, "B")                                                                                            \
    X(heads, "H")                                                                                            \
    X(kv_heads, "Hkv")                                                                                       \
    X(head_dim, "D")                                                                                         \
    X(head_dim_v, "Dv")                                                                                      \
    X(type_q, "q's type")                                                                                    \
    X(type_k, "k's type")                                                                                    \
    X(type_v, "v's type")                                                                                    \
    X(type_out, "out's type")                                                                                \
    X(groups_k, "groups of k_scale")                                                                         \
    X(groups_v, "groups of v_scale")                                                                         \
    X(type_scale, "k_scale's and v_scale's type")                                                            \
    X(zeros, "k_zero and v_zero, one and two if given")                                                      \
    X(lse, "lse")                                                                                            \
    X(strategy, "strategy")                                                                                  \
    X(piece_rows, "piece_rows")                                                                              \
    X(rows_q, "Nq")                                                                                          \
    X(score, "score, or what its host arrays hold")                                                          \
    X(gradients, "the gradients that are asked for, or a type of them")

typedef struct call_table_layout {
    world_word word;
#define FIELD(name, text) int64_t name;
    CALL_FIELDS(FIELD)
#undef FIELD
    int64_t n_q, n_kv, q_segments, kv_segments, largest;
} call_table_layout;
_Static_assert(sizeof(call_table_layout) <= WORLD_CALL_BYTES, "the world has room for the first exchange");

static int64_t groups_of(const clattn_tensor *scale) {
    return scale->rank == 4 ? scale->shape[3] : scale->rank ? 1 : 0;
}

static void fill(const job *j, call_table_layout *c) {
    clattn_mpi *w = j->w;
    const clattn_mpi_attention_params *p = j->p;
    const bool decode = j->decode;
    *c = (call_table_layout){.operation = j->b ? 2 : decode};
    c->word.status = (int32_t)cla_mpi_check(w, p, decode);
    if (c->word.status == CLATTN_OK && j->b) c->word.status = (int32_t)cla_mpi_check_gradients(w, j->b);
    if (c->word.status != CLATTN_OK) {
        snprintf(c->word.text, sizeof c->word.text, "%.*s", WORLD_LINE - 1, w->error);
        return;
    }
    c->batch = p->q.shape[0], c->heads = p->q.shape[1], c->head_dim = p->q.shape[3];
    c->kv_heads = p->k.shape[1], c->head_dim_v = p->out.shape[3];
    c->type_q = p->q.type, c->type_k = p->k.type, c->type_v = p->v.type, c->type_out = p->out.type,
    c->lse = p->lse.rank;
    c->groups_k = groups_of(&p->k_scale), c->groups_v = groups_of(&p->v_scale);
    c->type_scale = p->k_scale.rank ? p->k_scale.type : p->v_scale.rank ? p->v_scale.type : 0;
    c->zeros = (p->k_zero.rank ? 1 : 0) + (p->v_zero.rank ? 2 : 0);
    c->strategy = p->strategy, c->piece_rows = p->piece_rows, c->rows_q = decode ? p->q.shape[2] : 0;
    c->score = (int64_t)(cla_mpi_score_hash(p) >> 1);
    c->gradients = j->b ? (int64_t)(cla_mpi_gradients_hash(j->b) >> 1) : 0;
    c->n_q = p->q.shape[2], c->n_kv = p->k.shape[2];
    c->q_segments = decode ? 0 : p->q_rows.count, c->kv_segments = p->kv_rows.count;
    c->largest = (int64_t)clattn_context_capabilities(w->context)->max_allocation_bytes;
}

// Report which ranks differ from rank 0, in the first field that differs.
static clattn_status compare(clattn_mpi *w, const call_table_layout *all, const char *name, size_t offset) {
    const bool hash =
        offset == offsetof(call_table_layout, score) || offset == offsetof(call_table_layout, gradients);
    char who[160] = "";
    size_t at = 0;
    int64_t first, other;
    memcpy(&first, (const char *)all + offset, sizeof first);
    for (int r = 1; r < w->ranks; r++) {
        memcpy(&other, (const char *)&all[r] + offset, sizeof other);
        if (other == first || at + 40 > sizeof who) continue;
        at += (size_t)(hash ? snprintf(who + at, sizeof who - at, ", rank %d", r)
                            : snprintf(who + at, sizeof who - at, ", rank %d has %lld", r, (long long)other));
    }
    if (!at) return CLATTN_OK;
    if (hash)
        return cla_mpi_fail(w, CLATTN_INVALID_ARGUMENT, "%s: differs from rank 0's on%s: must be the same",
                            name, who + 1);
    return cla_mpi_fail(w, CLATTN_INVALID_ARGUMENT, "%s: rank 0 has %lld%s: must be the same", name,
                        (long long)first, who);
}

static int by_start(const void *a, const void *b) {
    const span *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

// Host memory for the exchange of rows. It is allocated before, so that a rank without memory can
// report it.
typedef struct rows_room {
    int *counts, *starts;         // [ranks]: bytes and offsets of the ranks' segments
    clattn_mpi_segment *segments; // all ranks' segments as received
    span *sorted;
} rows_room;

// Check that the segments cover each row of [0, n) exactly once.
static clattn_status check_cover(clattn_mpi *w, const span *spans, span *sorted, int64_t count, int64_t rows,
                                 const char *name) {
    memcpy(sorted, spans, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, by_start);
    int64_t next = 0, bad = -1;
    for (int64_t n = 0; n < count && bad < 0; n++) {
        if (sorted[n].count == 0) continue;
        if (sorted[n].start != next) bad = sorted[n].start < next ? sorted[n].start : next;
        next = sorted[n].start + sorted[n].count;
    }
    if (bad < 0 && next != rows) bad = next;
    if (bad < 0 && next <= INT32_MAX) return CLATTN_OK;
    return cla_mpi_fail(w, CLATTN_INVALID_ARGUMENT,
                        "%s: row %lld is not in one segment of one rank: must be, each below the last", name,
                        (long long)bad);
}

// Exchange all ranks' segments. If no rank has any, the rows are consecutive blocks in the order of
// the ranks.
static clattn_status exchange_rows(job *j, const call_table_layout *all, bool of_q, const rows_room *room,
                                   span *spans, span_list *lists) {
    clattn_mpi *w = j->w;
    const clattn_mpi_rows *mine = of_q ? &j->p->q_rows : &j->p->kv_rows;
    const int each = (int)sizeof(clattn_mpi_segment);
    int64_t total = 0, row = 0;
    for (int r = 0; r < w->ranks; r++) {
        const int64_t segments = of_q ? all[r].q_segments : all[r].kv_segments;
        room->counts[r] = (int)segments * each, room->starts[r] = (int)total * each;
        total += segments;
    }
    if (total)
        TRY(cla_mpi_try(w,
                        MPI_Allgatherv(mine->segments, room->counts[w->rank], MPI_BYTE, room->segments,
                                       room->counts, room->starts, MPI_BYTE, w->comm),
                        "MPI_Allgatherv"));
    const clattn_mpi_segment *s = room->segments;
    for (int r = 0, at = 0; r < w->ranks; r++) {
        const int64_t rows = of_q ? all[r].n_q : all[r].n_kv;
        lists[r] = (span_list){spans + at, total ? room->counts[r] / each : 1, rows};
        if (!total) spans[at++] = (span){row, rows, 0};
        for (int64_t n = 0, local = 0; total && n < lists[r].count; n++, s++) {
            spans[at++] = (span){s->start, s->count, local};
            local += s->count;
        }
        row += rows;
    }
    if (of_q)
        j->n_q = row;
    else
        j->n_kv = row;
    return check_cover(w, spans, room->sorted, total ? total : w->ranks, row, of_q ? "q_rows" : "kv_rows");
}

static void fill_shift(job *j) {
    const clattn_score *s = &j->p->score;
    j->positional = cla_mpi_score_differs(s) & PLACE;
    for (int64_t b = 0; b < j->batch; b++) {
        const int64_t rows = s->q_lengths ? s->q_lengths[b] : j->n_q,
                      keys = s->kv_lengths ? s->kv_lengths[b] : j->n_kv;
        j->shift[b] = ARGS_SHIFT(s, b, rows, keys);
    }
}

static clattn_status share_rows(job *j, const call_table_layout *all, const rows_room *room, span *of_kv) {
    j->kv = j->q + j->w->ranks;
    TRY(exchange_rows(j, all, false, room, of_kv, j->kv));
    if (!j->decode) return exchange_rows(j, all, true, room, j->memory, j->q);
    j->n_q = j->p->q.shape[2];
    j->memory[0] = (span){0, j->n_q, 0};
    for (int r = 0; r < j->w->ranks; r++) j->q[r] = (span_list){j->memory, 1, j->n_q};
    return CLATTN_OK;
}

static clattn_status learn_rows(job *j, const call_table_layout *all) {
    clattn_mpi *w = j->w;
    size_t ranks = (size_t)w->ranks, q = ranks, kv = ranks;
    for (int r = 0; r < w->ranks; r++) q += (size_t)all[r].q_segments, kv += (size_t)all[r].kv_segments;
    const size_t most = q > kv ? q : kv;
    rows_room room;
    j->memory = cla_mpi_zeroed(w, q + kv, sizeof *j->memory);
    j->q = cla_mpi_zeroed(w, 2 * ranks, sizeof *j->q);
    j->shift = cla_mpi_zeroed(w, (size_t)j->batch + 1, sizeof *j->shift);
    room.counts = cla_mpi_zeroed(w, ranks, sizeof *room.counts);
    room.starts = cla_mpi_zeroed(w, ranks, sizeof *room.starts);
    room.segments = cla_mpi_zeroed(w, most, sizeof *room.segments);
    room.sorted = cla_mpi_zeroed(w, most, sizeof *room.sorted);
    const bool whole =
        j->memory && j->q && j->shift && room.counts && room.starts && room.segments && room.sorted;
    clattn_status status = whole ? CLATTN_OK : cla_mpi_fail(w, CLATTN_OUT_OF_MEMORY, "host memory");
    status = cla_mpi_agree(w, status);
    if (status == CLATTN_OK) status = share_rows(j, all, &room, j->memory + q);
    cla_mpi_free(w, room.counts);
    cla_mpi_free(w, room.starts);
    cla_mpi_free(w, room.segments);
    cla_mpi_free(w, room.sorted);
    return status;
}

static clattn_status check_lengths(job *j) {
    const clattn_score *s = &j->p->score;
    for (int64_t b = 0; b < j->batch; b++)
        if ((s->q_lengths && s->q_lengths[b] > j->n_q) || (s->kv_lengths && s->kv_lengths[b] > j->n_kv))
            return cla_mpi_fail(j->w, CLATTN_INVALID_ARGUMENT,
                                "lengths: of batch item %lld: at most Nq = %lld and Nkv = %lld", (long long)b,
                                (long long)j->n_q, (long long)j->n_kv);
    return CLATTN_OK;
}

static clattn_status open_job(job *j) {
    clattn_mpi *w = j->w;
    call_table_layout mine, *all = w->calls;
    w->error[0] = '\0';
    fill(j, &mine);
    const int bytes = (int)sizeof mine;
    clattn_status status =
        cla_mpi_try(w, MPI_Allgather(&mine, bytes, MPI_BYTE, all, bytes, MPI_BYTE, w->comm), "MPI_Allgather");
    if (status == CLATTN_OK) status = cla_mpi_first_failed(w, &all->word, sizeof *all);
#define FIELD(name, text)                                                                                    \
    if (status == CLATTN_OK) status = compare(w, all, text, offsetof(call_table_layout, name));
    CALL_FIELDS(FIELD)
#undef FIELD
    j->batch = mine.batch, j->heads = mine.heads, j->kv_heads = mine.kv_heads;
    j->head_dim = mine.head_dim, j->head_dim_v = mine.head_dim_v;
    j->largest = (size_t)mine.largest;
    for (int r = 0; r < w->ranks; r++)
        if ((size_t)all[r].largest < j->largest) j->largest = (size_t)all[r].largest;
    if (status == CLATTN_OK) status = learn_rows(j, all);
    if (status == CLATTN_OK) status = check_lengths(j);
    if (status == CLATTN_OK) fill_shift(j);
    return status;
}

clattn_status cla_mpi_job_open(clattn_mpi *w, const clattn_mpi_attention_params *p, bool decode, job *j) {
    *j = (job){.w = w, .p = p, .decode = decode, .mod_slot = -1};
    return open_job(j);
}

clattn_status cla_mpi_job_open_backward(clattn_mpi *w, const clattn_mpi_attention_backward_params *b,
                                        job *j) {
    *j = (job){.w = w, .p = b ? &b->forward : NULL, .b = b, .mod_slot = -1};
    return open_job(j);
}

void cla_mpi_job_close(job *j) {
    cla_mpi_release(&j->mod_buffer);
    void *const taken[] = {j->mod_rows, j->score_mod, j->score_mod_gradient, j->mask_mod, j->memory,
                           j->q,        j->shift};
    for (size_t n = 0; n < sizeof taken / sizeof *taken; n++) cla_mpi_free(j->w, taken[n]);
    *j = (job){0};
}
