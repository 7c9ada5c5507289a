// check.c: checks one rank's arguments before ranks exchange anything. Checks that the library's
// own planning makes are left to it.
#include "mpi/gradients.h"

#include <string.h>

#define FAIL(...) cla_mpi_fail(w, CLATTN_INVALID_ARGUMENT, __VA_ARGS__)

bool cla_mpi_given(const clattn_tensor *t) {
    return t->buffer != NULL;
}

// A tensor without elements needs no buffer.
static clattn_status check_tensor(clattn_mpi *w, const clattn_tensor *t, const char *name, int rank) {
    bool empty = false;
    if (t->rank != rank) return FAIL("%s: has %d axes: must have %d", name, t->rank, rank);
    for (int axis = 0; axis < rank; axis++) {
        if (t->shape[axis] < 0) return FAIL("%s: size %lld", name, (long long)t->shape[axis]);
        empty = empty || t->shape[axis] == 0;
    }
    if (!empty && !t->buffer) return FAIL("%s: has no buffer", name);
    return CLATTN_OK;
}

static clattn_status check_shape(clattn_mpi *w, const clattn_tensor *t, const char *name, int rank,
                                 const int64_t *shape) {
    TRY(check_tensor(w, t, name, rank));
    for (int axis = 0; axis < rank; axis++)
        if (t->shape[axis] != shape[axis])
            return FAIL("%s: size %lld of axis %d: must be %lld", name, (long long)t->shape[axis], axis,
                        (long long)shape[axis]);
    return CLATTN_OK;
}

// Check what later code of this module relies on. The library checks types, groups and strides.
static clattn_status check_scales(clattn_mpi *w, const clattn_tensor *of, const clattn_tensor *scale,
                                  const clattn_tensor *zero, const char *const names[2]) {
    if (CLATTN_TYPE_IS_SCALED(of->type) != (scale->rank == 3 || scale->rank == 4) ||
        (scale->rank && !CLATTN_TYPE_IS_SCALED(of->type)))
        return FAIL("%s: must be given with i8, float8, i4 and u4, [B, Hkv, nkv] or [B, Hkv, nkv, groups], "
                    "and only then",
                    names[0]);
    if (zero->rank && zero->rank != scale->rank)
        return FAIL("%s: has %d axes: must have those of %s, %d", names[1], zero->rank, names[0],
                    scale->rank);
    const int64_t rows[] = {of->shape[0], of->shape[1], of->shape[2], scale->shape[3]};
    if (scale->rank) TRY(check_shape(w, scale, names[0], scale->rank, rows));
    return zero->rank ? check_shape(w, zero, names[1], zero->rank, rows) : CLATTN_OK;
}

static clattn_status check_tensors(clattn_mpi *w, const clattn_mpi_attention_params *p) {
    TRY(check_tensor(w, &p->q, "q", 4));
    TRY(check_tensor(w, &p->k, "k", 4));
    const int64_t *q = p->q.shape, *k = p->k.shape;
    const int of_k = clattn_type_numbers(p->k.type), of_v = clattn_type_numbers(p->v.type);
    const int64_t keys[] = {q[0], k[1], k[2], q[3] / (of_k ? of_k : 1)};
    TRY(check_shape(w, &p->k, "k", 4, keys));
    const int64_t values[] = {q[0], k[1], k[2], p->v.rank == 4 ? p->v.shape[3] : 0};
    TRY(check_shape(w, &p->v, "v", 4, values));
    const int64_t out[] = {q[0], q[1], q[2], values[3] * of_v};
    TRY(check_shape(w, &p->out, "out", 4, out));
    if (p->lse.rank) TRY(check_shape(w, &p->lse, "lse", 3, out));
    if (of_k > 2 || of_v > 2)
        return FAIL(
            "k, v: their types %s, %s: several ranks share keys and values of f32, f16, bf16, i8, i4, u4 or "
            "float8",
            clattn_type_name(p->k.type), clattn_type_name(p->v.type));
    TRY(check_scales(w, &p->k, &p->k_scale, &p->k_zero, (const char *[]){"k_scale", "k_zero"}));
    TRY(check_scales(w, &p->v, &p->v_scale, &p->v_zero, (const char *[]){"v_scale", "v_zero"}));
    if (k[1] == 0 ? q[1] != 0 : q[1] % k[1] != 0)
        return FAIL("heads: H = %lld must be a multiple of Hkv = %lld", (long long)q[1], (long long)k[1]);
    return q[3] && values[3] ? CLATTN_OK : FAIL("head size 0: must be 1 or more");
}

// Let the library check the tensors' types, strides and buffers: all_to_all and all_gather copy
// rows, and show the library only the copies. Other errors are ignored here, because a strategy may
// run the call in pieces.
static clattn_status ask_library(clattn_mpi *w, const clattn_mpi_attention_params *p) {
    const clattn_attention_params call = {.q = p->q,
                                          .kv = {.k = p->k,
                                                 .v = p->v,
                                                 .k_scale = p->k_scale,
                                                 .v_scale = p->v_scale,
                                                 .k_zero = p->k_zero,
                                                 .v_zero = p->v_zero},
                                          .out = p->out,
                                          .lse = p->lse};
    clattn_plan plan;
    const clattn_status status = clattn_attention_plan(w->context, &call, &plan);
    return status == CLATTN_INVALID_ARGUMENT ? cla_mpi_library(w, status) : CLATTN_OK;
}

static clattn_status check_rows(clattn_mpi *w, const clattn_mpi_rows *rows, const char *name, int64_t have) {
    int64_t all = 0;
    if (rows->count < 0 || (rows->count && !rows->segments))
        return FAIL("%s: %d segments%s", name, (int)rows->count, rows->segments ? "" : " at NULL");
    for (int32_t n = 0; n < rows->count; n++) {
        const clattn_mpi_segment *s = &rows->segments[n];
        if (s->start < 0 || s->count < 0 || s->start > INT32_MAX || s->count > INT32_MAX - s->start)
            return FAIL("%s: segment %d is of rows %lld, %lld of them", name, (int)n, (long long)s->start,
                        (long long)s->count);
        all += s->count;
    }
    if (rows->count && all != have)
        return FAIL("%s: segments have %lld rows, the tensor %lld", name, (long long)all, (long long)have);
    return CLATTN_OK;
}

clattn_status cla_mpi_check(clattn_mpi *w, const clattn_mpi_attention_params *p, bool decode) {
    if (!p) return FAIL("params: is NULL");
    TRY(check_tensors(w, p));
    if (!decode) TRY(ask_library(w, p));
    TRY(check_rows(w, &p->kv_rows, "kv_rows", p->k.shape[2]));
    if (!decode) TRY(check_rows(w, &p->q_rows, "q_rows", p->q.shape[2]));
    if (decode && (p->q_rows.count || p->strategy || p->piece_rows))
        return FAIL(
            "q_rows, strategy, piece_rows: must be zero, since decode has its query rows on all ranks");
    if ((unsigned)p->strategy >= CLATTN_MPI_STRATEGY_COUNT)
        return FAIL("strategy: %d is none of CLATTN_MPI_*", (int)p->strategy);
    if (p->piece_rows < 0) return FAIL("piece_rows: %lld", (long long)p->piece_rows);
    if ((unsigned)p->score.alignment >= CLATTN_ALIGN_COUNT)
        return FAIL("alignment: %d is none of CLATTN_ALIGN_*", (int)p->score.alignment);
    for (int64_t b = 0; b < p->q.shape[0]; b++) {
        const clattn_score *s = &p->score;
        if ((s->q_lengths && s->q_lengths[b] < 0) || (s->kv_lengths && s->kv_lengths[b] < 0))
            return FAIL("lengths: of batch item %lld: must be 0 or more", (long long)b);
    }
    if (p->score.dropout != 0)
        return cla_mpi_fail(w, CLATTN_UNSUPPORTED, "dropout: is not built for rows that are shared");
    return CLATTN_OK;
}

static clattn_status check_like(clattn_mpi *w, const clattn_tensor *t, const char *name,
                                const clattn_tensor *like, const char *of) {
    bool empty = false;
    if (!t->rank) return CLATTN_OK;
    if (!like->rank) return FAIL("%s: is asked for without %s", name, of);
    if (t->rank != like->rank)
        return FAIL("%s: has %d axes: must have those of %s, %d", name, t->rank, of, like->rank);
    for (int axis = 0; axis < t->rank; axis++) {
        if (t->shape[axis] != like->shape[axis])
            return FAIL("%s: size %lld of axis %d: %s has %lld there", name, (long long)t->shape[axis], axis,
                        of, (long long)like->shape[axis]);
        empty = empty || t->shape[axis] == 0;
    }
    return empty || t->buffer ? CLATTN_OK : FAIL("%s: has no buffer", name);
}

static clattn_status check_of_heads(clattn_mpi *w, const clattn_mpi_attention_backward_params *b) {
    const clattn_score *s = &b->forward.score;
    const clattn_tensor heads = {.rank = 1, .shape = {b->forward.q.shape[1]}}, none = {.rank = 0};
    const struct {
        const clattn_tensor *t;
        const char *name, *of;
        bool given;
    } all[] = {{&b->dsinks, "dsinks", "sinks", s->sinks || cla_mpi_given(&s->sinks_device)},
               {&b->dalibi_slopes, "dalibi_slopes", "alibi_slopes", s->alibi_slopes != NULL},
               {&b->dhead_scales, "dhead_scales", "head_scales", s->head_scales != NULL}};
    for (size_t n = 0; n < sizeof all / sizeof *all; n++) {
        TRY(check_like(w, all[n].t, all[n].name, all[n].given ? &heads : &none, all[n].of));
        if (all[n].t->rank && all[n].t->type != CLATTN_TYPE_F32)
            return FAIL("%s: its type must be f32", all[n].name);
    }
    return CLATTN_OK;
}

// Let the library check the gradients' tensors.
static clattn_status ask_of_gradients(clattn_mpi *w, const clattn_mpi_attention_backward_params *b) {
    const clattn_mpi_attention_params *p = &b->forward;
    const clattn_attention_backward_params call = {.forward = {.q = p->q,
                                                               .kv = {.k = p->k, .v = p->v},
                                                               .out = p->out,
                                                               .lse = p->lse,
                                                               .kernel = p->kernel},
                                                   .dout = b->dout,
                                                   .dlse = b->dlse,
                                                   .dq = b->dq,
                                                   .dk = b->dk,
                                                   .dv = b->dv};
    clattn_plan plan;
    if (!b->dq.rank && !b->dk.rank && !b->dv.rank) return CLATTN_OK;
    return cla_mpi_library(w, clattn_attention_backward_plan(w->context, &call, &plan));
}

clattn_status cla_mpi_check_gradients(clattn_mpi *w, const clattn_mpi_attention_backward_params *b) {
    const clattn_mpi_attention_params *p = &b->forward;
    bool any = false;
    if (CLATTN_TYPE_IS_SCALED(p->k.type))
        return cla_mpi_fail(w, CLATTN_UNSUPPORTED,
                            "k: its type %s has no gradient: it must be f32, f16 or bf16",
                            clattn_type_name(p->k.type));
    if (!p->lse.rank) return FAIL("lse: is absent: gradients need what the run wrote there");
    if (!b->dout.rank) return FAIL("dout: is absent: [B, H, nq, Dv] is needed");
    TRY(check_like(w, &b->dout, "dout", &p->out, "out"));
    TRY(check_like(w, &b->dlse, "dlse", &p->lse, "lse"));
    TRY(check_like(w, &b->dq, "dq", &p->q, "q"));
    TRY(check_like(w, &b->dk, "dk", &p->k, "k"));
    TRY(check_like(w, &b->dv, "dv", &p->v, "v"));
    TRY(check_like(w, &b->dbias, "dbias", &p->score.bias, "bias"));
    if (b->dbias.rank && b->dbias.type != CLATTN_TYPE_F32) return FAIL("dbias: its type must be f32");
    TRY(check_of_heads(w, b));
    for (int n = 0; n < GRADIENTS; n++) any = any || cla_mpi_gradient(b, n)->rank;
    if (!any) return FAIL("dq: no gradient is asked for");
    return ask_of_gradients(w, b);
}

// Add bytes to an FNV-1a hash.
static void add(uint64_t *hash, const void *bytes, size_t count) {
    const unsigned char *b = bytes;
    for (size_t n = 0; n < count; n++) *hash = (*hash ^ b[n]) * 0x100000001b3u;
}

static void add_array(uint64_t *hash, const void *bytes, size_t count) {
    const unsigned char there = bytes != NULL;
    add(hash, &there, 1);
    if (bytes) add(hash, bytes, count);
}

// Add a view to the hash: its rank, and with `typed` also its type.
static void add_view(uint64_t *hash, const clattn_tensor *t, bool typed) {
    const int32_t kind[] = {t->rank, t->rank && typed ? t->type : 0};
    add(hash, kind, sizeof kind);
}

uint64_t cla_mpi_score_hash(const clattn_mpi_attention_params *p) {
    const clattn_score *s = &p->score;
    const size_t heads = (size_t)p->q.shape[1] * sizeof(float),
                 items = (size_t)p->q.shape[0] * sizeof(int32_t);
    uint64_t hash = 0xcbf29ce484222325u;
    add(&hash, &p->kernel, sizeof p->kernel);
#define OPTION_NUMBER(field, flag, differs, apart) add(&hash, &s->field, sizeof s->field);
#define OPTION_HEADS(field, flag, differs, apart) add_array(&hash, s->field, heads);
#define OPTION_ITEMS(field, flag, differs, apart) add_array(&hash, s->field, items);
#define OPTION_TEXT(field, flag, differs, apart) add_array(&hash, s->field, s->field ? strlen(s->field) : 0);
#define OPTION_BUFFER(field, flag, differs, apart) add_view(&hash, &s->field, true);
#define OPTION_VIEW(field, flag, differs, apart)                                                             \
    if (differs) add_view(&hash, &s->field, (differs)&BY_KEY);
#include "tables/score.def"
    return hash;
}

uint64_t cla_mpi_gradients_hash(const clattn_mpi_attention_backward_params *b) {
    uint64_t hash = 0xcbf29ce484222325u;
    const char *text = b->score_mod_gradient;
    for (int n = 0; n < GRADIENTS; n++) add_view(&hash, cla_mpi_gradient(b, n), true);
    add_view(&hash, &b->dout, true);
    add_view(&hash, &b->dlse, true);
    add_array(&hash, text, text ? strlen(text) : 0);
    return hash;
}

unsigned cla_mpi_score_differs(const clattn_score *s) {
    unsigned by = 0;
#define OPTION(field, kind, flag, differs, apart) by |= GIVEN_##kind(s->field) ? (differs) : 0u;
#include "tables/score.def"
    return by;
}
