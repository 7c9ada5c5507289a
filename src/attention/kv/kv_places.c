// kv_places.c: keys and values that lie elsewhere than in one pair of views: past rows before the new ones, and pages that a
// block table names. Their checks, what kernels see of them, and how many keys that makes. The device's half is cl/call/kv.clh.

#include "base/host.h"

#include "attention/call/call.h"

bool cla_kv_is_paged(const clattn_kv *kv) {
    return cla_tensor_given(&kv->block_table);
}
bool cla_kv_has_past(const clattn_kv *kv) {
    return cla_tensor_given(&kv->past_k);
}

int64_t cla_kv_count(const clattn_kv *kv) {
    if (cla_kv_is_paged(kv)) return kv->block_table.shape[1] * kv->page_size;
    return kv->k.shape[2] + (cla_kv_has_past(kv) ? kv->past_k.shape[2] : 0);
}
int cla_kv_past(const clattn_kv *kv, int b) {
    if (!cla_kv_has_past(kv)) return 0;
    return kv->past_lengths ? kv->past_lengths[b] : (int)kv->past_k.shape[2];
}
int cla_kv_most(const call *c, int b) {
    const clattn_kv *kv = &c->params.kv;
    if (c->ragged.packed_keys) return cla_kv_past(kv, b) + cla_ragged_keys(c, b);
    return cla_kv_has_past(kv) ? cla_kv_past(kv, b) + (int)kv->k.shape[2] : (int)cla_kv_count(kv);
}
int cla_kv_length(const call *c, int b) {
    return c->params.score.kv_lengths ? c->params.score.kv_lengths[b] : cla_kv_most(c, b);
}

// One of the past views: its rows in `axes`, as those of its new ones, `of`. A size of 1 repeats along the batch.
static clattn_status check_past_view(clattn_context *c, const clattn_tensor *t, const clattn_tensor *of,
                                     const tensor_rule *rule, int64_t batch, int64_t rows) {
    TRY(cla_tensor_check(c, t, of->rank, rule));
    const int64_t shape[4] = {t->shape[0] == 1 ? 1 : batch, of->shape[1], rows, of->shape[3]};
    TRY(cla_tensor_check_shape(c, t, shape, rule));
    if (t->type == of->type) return CLATTN_OK;
    return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "%s: its type is %s: k's, %s, is needed", rule->name,
                            clattn_type_name(t->type), clattn_type_name(of->type));
}

static clattn_status refuse_without(clattn_context *c, const char *name, const char *without) {
    return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "%s: is given without %s", name, without);
}

static clattn_status check_past(clattn_context *c, const clattn_kv *kv, int64_t batch, bool planning) {
    const unsigned types = TYPES_FLOAT | 1u << CLATTN_TYPE_I8;
    const tensor_rule k = {"past_k", "[B or 1, Hkv, P, D]", types, false, planning},
                      v = {"past_v", "[B or 1, Hkv, P, Dv]", types, false, planning};
    if (!cla_kv_has_past(kv)) {
        if (cla_tensor_given(&kv->past_v)) return refuse_without(c, "past_v", "past_k");
        if (cla_tensor_given(&kv->past_k_scale) || cla_tensor_given(&kv->past_v_scale))
            return refuse_without(c, "past_k_scale, past_v_scale", "past_k");
        return kv->past_lengths ? refuse_without(c, "past_lengths", "past_k") : CLATTN_OK;
    }
    if (!cla_tensor_given(&kv->past_v)) return refuse_without(c, "past_k", "past_v");
    if (cla_kv_is_paged(kv))
        return cla_context_fail(
            c, CLATTN_UNSUPPORTED,
            "block_table: not with past_k: a prefix is pages that the block table repeats");
    TRY(check_past_view(c, &kv->past_k, &kv->k, &k, batch, -1));
    TRY(check_past_view(c, &kv->past_v, &kv->v, &v, batch, kv->past_k.shape[2]));
    const tensor_rule k_scale = {"past_k_scale", "[B or 1, Hkv, P]", TYPES_F32 | ANY_LAST_STRIDE, false,
                                 planning},
                      v_scale = {"past_v_scale", "[B or 1, Hkv, P]", TYPES_F32 | ANY_LAST_STRIDE, false,
                                 planning};
    TRY(cla_kv_check_scale(c, &kv->past_k_scale, &kv->past_k, &k_scale));
    return cla_kv_check_scale(c, &kv->past_v_scale, &kv->past_v, &v_scale);
}

static clattn_status check_pages(clattn_context *c, const clattn_kv *kv, int64_t batch, bool planning) {
    const clattn_tensor *t = &kv->block_table;
    const tensor_rule rule = {"block_table", "[B, max_blocks]", TYPES_I32 | ANY_LAST_STRIDE, false, planning};
    if (!cla_kv_is_paged(kv))
        return kv->page_size ? refuse_without(c, "page_size", "block_table") : CLATTN_OK;
    if (t->rank == 2 && t->type != CLATTN_TYPE_I32)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "block_table: type %s: i32 is needed",
                                clattn_type_name(t->type));
    TRY(cla_tensor_check(c, t, 2, &rule));
    if (t->shape[0] != batch)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "block_table: %lld lines: [B, max_blocks] has B = %lld",
                                (long long)t->shape[0], (long long)batch);
    if (kv->page_size < 1)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "page_size: %d: must be 1 or more",
                                (int)kv->page_size);
    if (kv->k.shape[2] != kv->page_size)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "page_size: %d: k has %lld rows a page, [pages, Hkv, page_size, D]",
                                (int)kv->page_size, (long long)kv->k.shape[2]);
    if (kv->k.shape[0] == 0 && t->shape[1] > 0 && batch > 0)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "k: has no pages, and block_table names %lld",
                                (long long)t->shape[1]);
    return CLATTN_OK;
}

clattn_status cla_kv_check_places(clattn_context *c, const clattn_kv *kv, int64_t batch, bool planning) {
    TRY(check_past(c, kv, batch, planning));
    return check_pages(c, kv, batch, planning);
}

// A batch of one repeats.
static args_rows rows_of(const clattn_tensor *t, int batch) {
    const args_view v = cla_tensor_view(t);
    return (args_rows){v.offset, t->shape[0] == 1 && batch > 1 ? 0 : v.batch, v.head, v.row};
}

// j / page_size for j below 2^31: the multiplier is 2^shift / page_size rounded up, with so many bits that its error stays
// below one [Granlund and Montgomery 1994, "Division by invariant integers using multiplication"].
static page_args pages_of(const clattn_kv *kv) {
    page_args a = {.offset = kv->block_table.offset,
                   .batch = kv->block_table.stride[0],
                   .column = kv->block_table.stride[1],
                   .shift = 31,
                   .page_size = kv->page_size,
                   .pages = (int)kv->k.shape[0]};
    while ((int64_t)1 << (a.shift - 31) < kv->page_size) a.shift++;
    a.multiplier =
        (int64_t)((((uint64_t)1 << a.shift) + (uint64_t)kv->page_size - 1) / (uint64_t)kv->page_size);
    return a;
}

// The keys of items differ with past_lengths, so that there is a table.
void cla_kv_fill_places(call *c) {
    const clattn_kv *kv = &c->params.kv;
    if (c->problem.paged) c->pages = pages_of(kv);
    if (!c->problem.past) return;
    if (kv->past_lengths) c->args.flags |= ARGS_BATCH_ROWS;
    c->past = (past_args){.k = rows_of(&kv->past_k, c->problem.batch),
                          .v = rows_of(&kv->past_v, c->problem.batch),
                          .rows = (int)kv->past_k.shape[2],
                          .word = kv->past_lengths ? (int)cla_call_words(c).before_past : -1};
    if (c->problem.type_kv == CLATTN_TYPE_I8)
        c->past_scales = (past_scale_args){rows_of(&kv->past_k_scale, c->problem.batch),
                                           rows_of(&kv->past_v_scale, c->problem.batch)};
}

void cla_kv_fill_past(const call *c, int32_t *words) {
    for (int b = 0; c->params.kv.past_lengths && b < c->problem.batch; b++)
        words[cla_call_words(c).before_past + (size_t)b] = c->params.kv.past_lengths[b];
}

clattn_status cla_kv_past_table(call *c, chain *steps) {
    const size_t count = ARGS_ITEM_WORDS * (size_t)c->problem.batch;
    if (!c->params.kv.past_lengths || c->ragged.packed_keys || c->past_table || count == 0) return CLATTN_OK;
    int32_t *words = cla_host_take_zeroed(&c->context->host, count, sizeof *words);
    if (!words)
        return cla_context_fail(c->context, CLATTN_OUT_OF_MEMORY, "rope: no host memory for past_lengths");
    for (int b = 0; b < c->problem.batch; b++)
        words[ARGS_ITEM_WORDS * (size_t)b] = c->params.kv.past_lengths[b];
    const clattn_status status = cla_chain_table(steps, words, count * sizeof *words, &c->past_table);
    cla_host_release(&c->context->host, words);
    return status;
}

void cla_kv_place_arguments(const call *c, launch *l) {
    if (c->problem.paged) {
        cla_launch_buffer(l, &c->params.kv.block_table.buffer);
        cla_launch_value(l, &c->pages, sizeof c->pages);
    }
    if (!c->problem.past) return;
    cla_launch_value(l, &c->past, sizeof c->past);
    if (c->problem.type_kv == CLATTN_TYPE_I8) cla_launch_value(l, &c->past_scales, sizeof c->past_scales);
}
