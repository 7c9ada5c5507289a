// attend_turn.c: RoPE for attend --mpi: each rank turns its rows of q and of the new keys in place, where they stand in the whole. Past
// rows, and rows of pages, were turned before they were stored.
#include <stdlib.h>

#include "tool/attend/attend.h"

// `count` rows from `local` on of some batch items.
static clattn_tensor part_of(clattn_tensor t, int64_t item, int64_t items, int64_t local, int64_t count) {
    t.offset += count ? item * t.stride[0] + local * t.stride[2] : 0;
    t.shape[0] = items, t.shape[2] = count;
    return t;
}

// The same of positions, [B or 1, N] or [3, B or 1, N].
static clattn_tensor positions_of(clattn_tensor t, int64_t item, int64_t items, int64_t row, int64_t count) {
    const int rows = t.rank - 1, batch = t.rank - 2;
    t.offset += count ? row * t.stride[rows] : 0;
    t.shape[rows] = count;
    if (t.shape[batch] == 1) return t;
    t.offset += count ? item * t.stride[batch] : 0;
    t.shape[batch] = items;
    return t;
}

typedef struct turn {
    attend *a;
    session *s;
    clattn_tensor positions; // rank 0: they are counted
    int64_t row, item;       // of the positions, that of the sequence's first row
} turn;

// Rows [start, start + count) of the whole, of items from `item` on, which stand at `shift`[items] more.
static int turn_rows(const turn *t, const clattn_tensor *x, int64_t item, int64_t items, int64_t local,
                     int64_t start, int64_t count, int32_t *shift) {
    clattn_rope_params p = {.x = part_of(*x, item, items, local, count), .rope = t->a->params.rope};
    if (count <= 0) return -1;
    p.y = p.x;
    p.rope.k_positions = (clattn_tensor){0};
    p.rope.positions = t->positions;
    if (t->positions.rank)
        p.rope.positions = positions_of(t->positions, t->item + item, items, t->row + start, count);
    else
        p.rope.position += start, p.offsets = shift;
    const clattn_status done = clattn_rope_enqueue(t->s->context, t->s->queue, &p, 0, NULL, NULL);
    return done == CLATTN_OK ? -1 : session_status(t->s, done);
}

static int64_t shift_of(const clattn_score *s, int64_t b, int64_t rows, int64_t keys) {
    if (s->alignment == CLATTN_ALIGN_OFFSET) return s->offsets ? s->offsets[b] : s->offset;
    if (s->alignment != CLATTN_ALIGN_BOTTOM_RIGHT) return 0;
    return (s->kv_lengths ? s->kv_lengths[b] : keys) - (s->q_lengths ? s->q_lengths[b] : rows);
}

static int turn_queries(const turn *t, const attend_part *part) {
    const clattn_attention_params *p = &t->a->params;
    const int64_t items = p->q.shape[0];
    int32_t *shift = calloc((size_t)items + 1, sizeof *shift);
    int status = shift ? -1 : tool_failed("no memory");
    for (int64_t b = 0; b < items && shift; b++)
        shift[b] = (int32_t)shift_of(&p->score, b, part->q.whole, part->kv.whole);
    for (int64_t c = 0, local = 0; c < part->q.count && status < 0; local += part->q.chunks[c++].count)
        status =
            turn_rows(t, &p->q, 0, items, local, part->q.chunks[c].start, part->q.chunks[c].count, shift);
    free(shift);
    return status;
}

// Item by item where each has a past of its own.
static int turn_keys(const turn *t, const attend_part *part, int64_t item) {
    const clattn_tensor *k = &t->a->params.kv.k;
    const ranks_keys *keys = &t->a->shared.keys;
    const int64_t all = k->shape[0], step = keys->past_lengths ? 1 : all;
    int status = -1;
    for (int64_t b = 0; b < all && status < 0; b += step)
        for (int64_t c = 0, local = 0; c < part->kv.count && status < 0;
             local += part->kv.chunks[c++].count) {
            const int64_t start = part->kv.chunks[c].start, end = start + part->kv.chunks[c].count;
            const int64_t past = ranks_keys_past(keys, item + b), from = past > start ? past : start;
            const int64_t last = past + ranks_keys_new(keys, item + b), to = last < end ? last : end;
            turn now = *t;
            if (now.positions.rank) now.row -= past; // which they do not count
            status = turn_rows(&now, k, b, step, local + from - start, from, to - from, NULL);
        }
    return status;
}

int attend_turn(attend *a, session *s, const attend_part *part, int64_t item) {
    const clattn_rope *rope = &a->params.rope;
    const ranks_keys *keys = &a->shared.keys;
    turn t = {.a = a, .s = s, .positions = rope->positions, .row = part->q.first, .item = item};
    int status = turn_queries(&t, part);
    if (status >= 0 || keys->paged) return status;
    if (rope->k_positions.rank) t.positions = rope->k_positions, t.row = keys->cu ? keys->cu[item] : 0;
    return turn_keys(&t, part, item);
}
