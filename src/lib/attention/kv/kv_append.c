// kv_append.c: append k_new and v_new of an attention call to its caches before the call reads
// them. The new rows are the last of an item's keys, so kv_lengths determine their place. Behind a
// past, row 0 of the cache is the first key after the past.
#include "attention/call/call_kind.h"
#include "attention/call/visible_keys.h"
#include "attention/kv/kv.h"
#include "base/host.h"

// First cache row of an item's new rows, and their number. With q_lengths that match the new rows,
// an item has as many new rows as query rows.
typedef struct new_rows {
    int64_t start, count;
} new_rows;

static new_rows rows_of(const call *c, int b) {
    const clattn_score *s = &c->params.score;
    const int64_t n = c->params.kv.k_new.shape[2], keys = cla_kv_length(c, b);
    int64_t count = s->q_lengths && n == c->problem.n_q ? s->q_lengths[b] : n;
    if (c->ragged.given) count = cla_ragged_rows(c, b);
    return (new_rows){keys - count, count};
}

static append_side side_of(const clattn_tensor *rows, const clattn_tensor *kept, const clattn_tensor *scale,
                           const clattn_tensor *zero) {
    return (append_side){rows, kept, cla_tensor_given(scale) ? scale : NULL,
                         cla_tensor_given(zero) ? zero : NULL};
}

// Packed new rows have the layout of q.
static clattn_status check_batch(const call *c) {
    const int64_t *s = c->params.kv.k_new.shape, batch = c->ragged.given ? 1 : c->problem.batch;
    if (s[0] != batch)
        return cla_context_fail(c->context, CLATTN_INVALID_ARGUMENT,
                                "k_new: %lld batch items: %lld are needed", (long long)s[0],
                                (long long)batch);
    if (!c->ragged.given || s[2] == c->ragged.total_q) return CLATTN_OK;
    return cla_context_fail(c->context, CLATTN_INVALID_ARGUMENT,
                            "k_new: %lld rows: of a ragged batch they lie as the rows of q, which are %d",
                            (long long)s[2], c->ragged.total_q);
}

// In a latent cache v is part of k's rows, so v_new must be the same part of k_new.
static clattn_status check_latent(const call *c) {
    const clattn_kv *kv = &c->params.kv;
    if (!cla_kv_is_view(&kv->k_new, &kv->v_new))
        return cla_context_fail(c->context, CLATTN_INVALID_ARGUMENT,
                                "v_new: v is a view of k, and v_new is then the same view of k_new");
    if (c->params.rope.layout == CLATTN_ROPE_NONE) return CLATTN_OK;
    return cla_context_fail(
        c->context, CLATTN_INVALID_ARGUMENT,
        "rope: turns new keys, and v, which is a view of k, with them: turn k_new before");
}

clattn_status cla_kv_check_new(call *c, bool planning) {
    const clattn_kv *kv = &c->params.kv;
    append *a = &c->append;
    if (cla_tensor_given(&kv->k_new) != cla_tensor_given(&kv->v_new))
        return cla_context_fail(c->context, CLATTN_INVALID_ARGUMENT,
                                "%s: is absent, and %s is given: keys and values are appended together",
                                cla_kv_appends(kv) ? "v_new" : "k_new",
                                cla_kv_appends(kv) ? "k_new" : "v_new");
    if (!cla_kv_appends(kv)) return CLATTN_OK;
    a->k = side_of(&kv->k_new, &kv->k, &kv->k_scale, &kv->k_zero);
    a->v = side_of(&kv->v_new, &kv->v, &kv->v_scale, &kv->v_zero);
    a->packed = c->ragged.given, a->sequences = c->ragged.sequences;
    if (cla_kv_is_paged(kv)) a->pages = &c->pages, a->block_table = &kv->block_table.buffer;
    a->behind_past = cla_kv_has_past(kv);
    a->capacity = (int)(a->behind_past ? kv->k.shape[2] : cla_kv_count(kv));
    TRY(cla_append_check_tensors(c->context, a, planning));
    if (cla_kv_is_latent_cache(kv)) {
        TRY(check_latent(c));
        a->v = (append_side){0};
    }
    TRY(check_batch(c));
    const int apart = c->ragged.on_device ? 0 : cla_call_distinct_items(c);
    for (int b = 0; b < apart; b++) {
        const new_rows rows = rows_of(c, b);
        if (rows.start < 0)
            return cla_context_fail(
                c->context, CLATTN_INVALID_ARGUMENT,
                "k_new: %lld rows of item %lld are more than its %lld keys, which count them",
                (long long)rows.count, (long long)b, (long long)(rows.start + rows.count));
        const int past = cla_kv_past(kv, b);
        if (rows.count > 0 && rows.start < past)
            return cla_context_fail(
                c->context, CLATTN_INVALID_ARGUMENT,
                "k_new: %lld rows of item %d are not all behind its past of %d: it has %lld keys",
                (long long)rows.count, b, past, (long long)(rows.start + rows.count));
    }
    return CLATTN_OK;
}

void cla_kv_fill_new(call *c) {
    append *a = &c->append;
    const clattn_rope *r = &c->params.rope;
    if (!cla_kv_appends(&c->params.kv)) return;
    a->rotation[0] = c->params.kv.k_rotation, a->rotation[1] = c->params.kv.v_rotation;
    a->start = c->problem.batch ? (int32_t)rows_of(c, 0).start : 0;
    a->table = c->params.score.kv_lengths || c->params.score.q_lengths ? &c->append_table : NULL;
    if (c->params.kv.past_lengths) a->table = &c->append_table;
    if (c->ragged.given) a->table = &c->table;
    a->past = (append_past_args){c->past.rows, -1};
    if (c->params.kv.past_lengths) // after the item entries of the table
        a->past.word = c->ragged.given ? c->past.word : c->problem.batch * APPEND_ITEM_WORDS;
    if (r->layout == CLATTN_ROPE_NONE) return;
    a->rope = r;
    a->roped = cla_rope_rows_of(c, false);
    a->roped.position = r->position; // a new row's place includes the past
}

bool cla_kv_new_views(const call *c, clattn_tensor *k, clattn_tensor *v, rope_rows *roped) {
    const clattn_kv *kv = &c->params.kv;
    const clattn_score *s = &c->params.score;
    if (cla_kv_is_paged(kv) || cla_kv_has_past(kv) || cla_kv_is_latent_cache(kv) || kv->k_rotation ||
        kv->v_rotation || c->append.roped.positions || c->empty || (s->q_lengths && !c->ragged.given))
        return false;
    const int apart = c->ragged.given ? 0 : cla_call_distinct_items(c);
    const new_rows first = c->ragged.given ? (new_rows){0, c->ragged.total_q} : rows_of(c, 0);
    for (int b = 1; b < apart; b++)
        if (rows_of(c, b).start != first.start) return false;
    // With bottom-right alignment a sequence's queries have the positions of its new keys.
    if (c->ragged.given && c->append.roped.rotary_dim > 0 && s->alignment != CLATTN_ALIGN_BOTTOM_RIGHT)
        return false;
    *k = kv->k, *v = kv->v, *roped = c->append.roped;
    if (c->ragged.given) k->shape[0] = v->shape[0] = 1;
    k->offset += first.start * k->stride[2], v->offset += first.start * v->stride[2];
    k->shape[2] = v->shape[2] = first.count;
    roped->position += first.start;
    return true;
}

static bool is_to_do(const call *c) {
    return cla_kv_appends(&c->params.kv) && !c->appended;
}

clattn_status cla_kv_append_prepare(const call *c) {
    return is_to_do(c) ? cla_append_prepare(c->context, &c->append) : CLATTN_OK;
}

double cla_kv_append_flops(const call *c) {
    return is_to_do(c) ? cla_append_flops(&c->append) : 0.0;
}

clattn_status cla_kv_append_table(call *c, chain *steps) {
    const size_t batch = (size_t)c->problem.batch, count = batch * (APPEND_ITEM_WORDS + 1);
    if (!c->append.table || c->ragged.given || c->appended) return CLATTN_OK;
    int32_t *words = cla_host_take_zeroed(&c->context->host, count, sizeof *words);
    if (!words)
        return cla_context_fail(c->context, CLATTN_OUT_OF_MEMORY, "k_new: no host memory for its places");
    for (int b = 0; b < c->problem.batch; b++) {
        const new_rows rows = rows_of(c, b);
        words[APPEND_ITEM_WORDS * b] = (int32_t)rows.start;
        words[APPEND_ITEM_WORDS * b + 1] = (int32_t)rows.count;
        words[APPEND_ITEM_WORDS * c->problem.batch + b] = cla_kv_past(&c->params.kv, b);
    }
    const clattn_status status = cla_chain_table(steps, words, count * sizeof *words, &c->append_table);
    cla_host_release(&c->context->host, words);
    return status;
}

clattn_status cla_kv_append_enqueue(call *c, chain *steps) {
    c->append.roped.frequencies = c->frequencies;
    return is_to_do(c) ? cla_append_enqueue(steps, &c->append) : CLATTN_OK;
}
