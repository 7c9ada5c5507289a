// ring_lay.c: cuts keys into pieces; see ring.h. If a rank has several segments, such as the two
// chunks of a balanced causal sequence, its cuts are paired from both ends. Then every round is
// balanced between ranks as the whole is.
#include "mpi/ring.h"

#define MOST_BYTES ((int64_t)1 << 30) // limit of a message: MPI counts in int

bool cla_mpi_ring_sees(const job *j, int rank, const span *keys) {
    return cla_mpi_any_sees(j, j->q[rank].spans, j->q[rank].count, keys);
}

// How many ranks behind the owner the last rank is that sees these keys.
static int hops_of(const job *j, int owner, const span *keys) {
    const int ranks = j->w->ranks;
    for (int hop = ranks - 1; hop > 0; hop--)
        if (cla_mpi_ring_sees(j, (owner + hop) % ranks, keys)) return hop;
    return 0;
}

// Bytes of a key in a message: as stored, or as a share of gradients if that is larger.
static int64_t row_bytes(const job *j) {
    const int64_t stored = (int64_t)cla_mpi_piece_layout(j, 64).bytes / 64 + 1,
                  share =
                      j->b ? j->batch * j->kv_heads * (j->head_dim + j->head_dim_v) * (int64_t)sizeof(float)
                           : 0;
    return stored > share ? stored : share;
}

static int64_t cuts_of(const span_list *list, int64_t rows) {
    int64_t cuts = 0;
    for (int n = 0; n < list->count; n++) cuts += (list->spans[n].count + rows - 1) / rows;
    return cuts;
}

// Rows in each cut of a rank, and how many cuts a piece has (lanes).
static int64_t cut_rows(const span_list *list, int64_t rows, int *lanes) {
    *lanes = list->count > 1 && rows > 1 ? RING_LANES : 1;
    return rows / *lanes;
}

// Store the n-th cut of a rank: the first half in lane 0, the others in lane 1 in reverse order.
static void put(ring_pieces *p, int owner, int64_t n, int64_t cuts, int lanes, span cut) {
    const int64_t first = (cuts + lanes - 1) / lanes, c = n < first ? n : cuts - 1 - n;
    p->spans[(owner * p->most + c) * RING_LANES + (n >= first)] = cut;
}

static void cut_rank(const job *j, ring_pieces *p, int owner, int64_t rows) {
    const span_list *list = &j->kv[owner];
    int lanes;
    const int64_t most = cut_rows(list, rows, &lanes), all = cuts_of(list, most);
    int64_t at = 0;
    for (int n = 0; n < list->count; n++) {
        const span *s = &list->spans[n];
        const int64_t cuts = (s->count + most - 1) / most;
        for (int64_t x = 0; x < cuts; x++, at++) {
            const int64_t first = s->count * x / cuts, end = s->count * (x + 1) / cuts;
            put(p, owner, at, all, lanes, (span){s->start + first, end - first, s->local + first});
        }
    }
}

clattn_status cla_mpi_ring_lay(const job *j, ring_pieces *p) {
    const int64_t row = row_bytes(j), room = (int64_t)32 << 20;
    const int ranks = j->w->ranks;
    int64_t rows = j->p->piece_rows ? j->p->piece_rows : room / row;
    if (rows > MOST_BYTES / row) rows = MOST_BYTES / row;
    if (!j->p->piece_rows && rows > 128) rows -= rows % 128;
    if (rows < 1) rows = 1;
    *p = (ring_pieces){.most = 0};
    for (int r = 0; r < ranks; r++) {
        int lanes;
        const int64_t cuts = cuts_of(&j->kv[r], cut_rows(&j->kv[r], rows, &lanes));
        if ((cuts + lanes - 1) / lanes > p->most) p->most = (int)((cuts + lanes - 1) / lanes);
    }
    const size_t count = (size_t)p->most * (size_t)ranks * RING_LANES + 1;
    p->spans = cla_mpi_zeroed(j->w, count, sizeof *p->spans);
    p->hops = cla_mpi_zeroed(j->w, count, sizeof *p->hops);
    p->unsent = cla_mpi_zeroed(j->w, (size_t)ranks, sizeof *p->unsent);
    if (!p->spans || !p->hops || !p->unsent) return cla_mpi_fail(j->w, CLATTN_OUT_OF_MEMORY, "host memory");
    for (int r = 0; r < ranks; r++) cut_rank(j, p, r, rows);
    for (int r = 0; r < ranks; r++)
        for (int n = 0; n < p->most * RING_LANES; n++) {
            const int at = r * p->most * RING_LANES + n;
            if (p->spans[at].count) p->hops[at] = hops_of(j, r, &p->spans[at]);
            for (int hop = p->hops[at]; p->spans[at].count && hop < ranks - 1; hop++)
                p->unsent[(r + hop) % ranks]++;
        }
    for (int r = 0; r < ranks; r++)
        for (int c = 0; c < p->most; c++) {
            const ring_load load = cla_mpi_ring_load(j, p, r, c, 0);
            if (load.rows > p->rows) p->rows = load.rows;
            if (load.bytes > p->bytes) p->bytes = load.bytes;
        }
    return CLATTN_OK;
}

ring_load cla_mpi_ring_load(const job *j, const ring_pieces *p, int owner, int c, int step) {
    ring_load load = {.bytes = 0};
    if (c >= p->most || step >= j->w->ranks) return load;
    for (int lane = 0; lane < RING_LANES; lane++) {
        const int at = (owner * p->most + c) * RING_LANES + lane;
        if (!p->spans[at].count || step > p->hops[at]) continue;
        load.lanes[lane] = &p->spans[at];
        load.at[lane] = load.bytes;
        load.bytes += cla_mpi_piece_layout(j, p->spans[at].count).bytes;
        load.rows += p->spans[at].count;
    }
    return load;
}

void cla_mpi_ring_free(const job *j, ring_pieces *p) {
    cla_mpi_free(j->w, p->spans);
    cla_mpi_free(j->w, p->hops);
    cla_mpi_free(j->w, p->unsent);
    *p = (ring_pieces){0};
}
