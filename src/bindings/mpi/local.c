// local.c: which keys a local call sees, and its arguments. Offsets and lengths for each part
// express positions, because only the difference between the positions of a row and a key matters.
#include "mpi/local.h"

bool cla_mpi_sees(const job *j, const span *q, const span *k) {
    const clattn_score *s = &j->p->score;
    for (int64_t b = 0; b < j->batch; b++) {
        const int64_t rows = ARGS_HELD((s->q_lengths ? s->q_lengths[b] : j->n_q) - q->start, q->count),
                      keys = s->kv_lengths ? s->kv_lengths[b] : j->n_kv, end = k->start + k->count;
        const int64_t first = q->start + j->shift[b], last = first + rows - 1;
        const int64_t from = ARGS_FIRST_KEY(first, ARGS_LEFT(s), keys),
                      to = ARGS_END_KEY(last, ARGS_RIGHT(s), keys);
        if (rows > 0 && (from > k->start ? from : k->start) < (to < end ? to : end)) return j->heads > 0;
    }
    return false;
}

bool cla_mpi_any_sees(const job *j, const span *q, int count, const span *k) {
    for (int n = 0; n < count; n++)
        if (cla_mpi_sees(j, &q[n], k)) return true;
    return false;
}

clattn_tensor cla_mpi_rows_of(clattn_tensor t, int64_t first, int64_t count) {
    if (t.rank < 3) return t;
    t.offset += count ? first * t.stride[2] : 0;
    t.shape[2] = count;
    return t;
}

// The part of a mask or bias for these keys, and with BY_ROW for these rows. Axes of 1 stay.
static clattn_tensor map_of(clattn_tensor t, const local_call *c, unsigned differs) {
    if (t.rank >= 1 && t.shape[t.rank - 1] != 1) {
        t.offset += c->k.count ? c->k.start * t.stride[t.rank - 1] : 0;
        t.shape[t.rank - 1] = c->k.count;
    }
    if (differs & BY_ROW && t.rank >= 2 && t.shape[t.rank - 2] != 1) {
        t.offset += c->q.count ? c->q.local * t.stride[t.rank - 2] : 0;
        t.shape[t.rank - 2] = c->q.count;
    }
    return t;
}

static void fill_positions(const job *j, const local_call *c, clattn_score *s, int32_t *arrays) {
    const clattn_score *whole = &j->p->score;
    int32_t *offsets = arrays, *rows = arrays + j->batch, *keys = rows + j->batch;
    bool alike = true;
    for (int64_t b = 0; b < j->batch; b++) {
        const int64_t shift = j->shift[b] + c->q.start - c->k.start;
        offsets[b] = (int32_t)(shift < INT32_MIN / 2   ? INT32_MIN / 2
                               : shift > INT32_MAX / 2 ? INT32_MAX / 2
                                                       : shift);
        alike = alike && offsets[b] == offsets[0];
        rows[b] = (int32_t)(whole->q_lengths ? ARGS_HELD(whole->q_lengths[b] - c->q.start, c->q.count) : 0);
        keys[b] = (int32_t)(whole->kv_lengths ? ARGS_HELD(whole->kv_lengths[b] - c->k.start, c->k.count) : 0);
    }
    s->alignment = CLATTN_ALIGN_OFFSET;
    s->offset = alike && j->batch ? offsets[0] : 0;
    s->offsets = alike ? NULL : offsets;
    s->q_lengths = whole->q_lengths ? rows : NULL;
    s->kv_lengths = whole->kv_lengths ? keys : NULL;
}

// The part of an option's tensor for the call's rows and keys, or for its heads. A sink is part of
// one call. A call without keys has no other options.
static clattn_tensor view_of(clattn_tensor t, const local_call *c, unsigned differs) {
    const bool none = differs & BY_KEY ? c->k.count == 0 : differs & ONCE ? !c->sinks : true;
    if (none || !t.rank) return (clattn_tensor){0};
    if (differs & BY_KEY) return map_of(t, c, differs);
    t.offset += c->first_head * t.stride[0];
    t.shape[0] = c->heads;
    return t;
}

static void fill_options(const local_call *c, clattn_score *s) {
    const bool empty = c->k.count == 0;
#define OPTION_VIEW(field, flag, differs, apart) s->field = view_of(s->field, c, differs);
#define OPTION_HEADS(field, flag, differs, apart)                                                            \
    if (s->field) s->field = ((differs)&ONCE) && !c->sinks ? NULL : s->field + c->first_head;
#define OPTION_TEXT(field, flag, differs, apart)                                                             \
    if (empty) s->field = NULL;
#define OPTION_BUFFER(field, flag, differs, apart)                                                           \
    if (empty) s->field = (clattn_tensor){0};
#include "tables/score.def"
}

void cla_mpi_local(const job *j, const local_call *c, clattn_attention_params *to, int32_t *arrays) {
    *to = (clattn_attention_params){.score = j->p->score, .kernel = j->p->kernel};
    to->q = cla_mpi_rows_of(j->p->q, c->q.local, c->q.count);
    to->kv = (clattn_kv){.k = c->kv[PIECE_K],
                         .v = c->kv[PIECE_V],
                         .k_scale = c->kv[PIECE_K_SCALE],
                         .v_scale = c->kv[PIECE_V_SCALE],
                         .k_zero = c->kv[PIECE_K_ZERO],
                         .v_zero = c->kv[PIECE_V_ZERO]};
    to->out = c->out, to->lse = c->lse;
    clattn_score *s = &to->score;
    fill_positions(j, c, s, arrays);
    fill_options(c, s);
    if (c->k.count == 0) { // an empty part: zeros, and the sinks
        to->kv = (clattn_kv){.k = c->kv[PIECE_K], .v = c->kv[PIECE_V]};
        to->kv.k.type = to->kv.v.type = j->p->q.type;
        to->kv.k.shape[3] = j->head_dim, to->kv.v.shape[3] = j->head_dim_v;
    }
    if (c->mods < 0 || c->k.count == 0) return;
    if (s->score_mod) s->score_mod = j->score_mod;
    if (s->mask_mod) s->mask_mod = j->mask_mod;
    s->mod_buffers[j->mod_slot] = cla_mpi_mods_view(j, c->mods);
}
