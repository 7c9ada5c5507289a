// kv.c: where keys and values lie, as clattn_kv says: in one pair of views, behind a past of another, or in pages that a block
// table names. Their checks, what kernels see of them, and their buffers as arguments. The device's half is cl/call/kv.clh.
#include "attention/kv/kv.h"

#include <string.h>

#include "attention/call/forms.h"
#include "attention/call/table.h"

// Options that have a place in the header and no code yet.
clattn_status cla_kv_check_unbuilt(clattn_context *c, const clattn_attention_params *p, bool turned) {
    const clattn_kv *kv = &p->kv;
    const struct {
        bool set;
        const char *name;
    } options[] = {
        {TYPE_IS_QUANTISED(kv->k.type) && p->rope.layout != CLATTN_ROPE_NONE && !cla_kv_is_paged(kv) &&
             !cla_kv_appends(kv) && !turned,
         "rope of i8 keys, float8 ones and those of blocks"},
        {kv->k_rotation && p->rope.layout != CLATTN_ROPE_NONE && !cla_kv_is_paged(kv) &&
             !cla_kv_appends(kv) && !turned,
         "rope of rotated keys, which were turned before"},
    };
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        if (options[i].set)
            return cla_context_fail(c, CLATTN_UNSUPPORTED, "%s: is not built yet: leave it 0",
                                    options[i].name);
    return CLATTN_OK;
}

// Both scales with types that have them, neither without: one of each row of `of`.
clattn_status cla_kv_check_scale(clattn_context *x, const clattn_tensor *t, const clattn_tensor *of,
                                 const tensor_rule *rule) {
    if (!CLATTN_TYPE_IS_SCALED(of->type) && !cla_tensor_given(t)) return CLATTN_OK;
    if (!CLATTN_TYPE_IS_SCALED(of->type))
        return cla_context_fail(x, CLATTN_INVALID_ARGUMENT,
                                "%s: is for i8 and float8 keys and values, these are %s", rule->name,
                                clattn_type_name(of->type));
    TRY(cla_tensor_check(x, t, 3, rule));
    for (int i = 0; i < 3; i++)
        if (t->shape[i] != of->shape[i])
            return cla_context_fail(x, CLATTN_INVALID_ARGUMENT,
                                    "%s: size %lld of axis %d does not fit: %s has %lld", rule->name,
                                    (long long)t->shape[i], i, rule->axes, (long long)of->shape[i]);
    return CLATTN_OK;
}

// One of the past views: its rows in `axes`, as those of its new ones, `of`. A size of 1 repeats along the batch.
static clattn_status check_past_view(clattn_context *c, const clattn_tensor *t, const clattn_tensor *of,
                                     const tensor_rule *rule, int64_t batch, int64_t rows) {
    TRY(cla_tensor_check(c, t, of->rank, rule));
    const int64_t shape[4] = {t->shape[0] == 1 ? 1 : batch, of->shape[1], rows, of->shape[3]};
    TRY(cla_tensor_check_shape(c, t, shape, rule));
    if (t->type == of->type) return CLATTN_OK;
    return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "%s: its type is %s: %s's, %s, is needed", rule->name,
                            clattn_type_name(t->type), rule->name + strlen("past_"),
                            clattn_type_name(of->type));
}

static clattn_status refuse_without(clattn_context *c, const char *name, const char *without) {
    return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "%s: is given without %s", name, without);
}

static clattn_status check_past(clattn_context *c, const clattn_kv *kv, int64_t batch, bool planning) {
    const unsigned types = TYPES_KV;
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

// Values that are a view of k lie in its rows, which are rotated whole.
static clattn_status check_rotation(clattn_context *c, const clattn_kv *kv) {
    TRY(cla_rotation_check(c, "k_rotation", kv->k_rotation, cla_tensor_width(&kv->k)));
    TRY(cla_rotation_check(c, "v_rotation", kv->v_rotation, cla_tensor_width(&kv->v)));
    if (kv->k_rotation == kv->v_rotation || !cla_kv_is_view(&kv->k, &kv->v)) return CLATTN_OK;
    return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                            "v_rotation: %d: v is a view of k, whose k_rotation is %d: both must be alike",
                            (int)kv->v_rotation, (int)kv->k_rotation);
}

static clattn_status check_places(clattn_context *c, const clattn_kv *kv, int64_t batch, bool planning) {
    TRY(check_past(c, kv, batch, planning));
    return check_pages(c, kv, batch, planning);
}

// The shapes follow from q's [B, H, Nq, D] but for Hkv, Nkv and Dv. `items`: B of what is never packed.
clattn_status cla_kv_check(clattn_context *x, const clattn_kv *kv, const int64_t q[4], int64_t items,
                           bool planning) {
    const bool paged = cla_kv_is_paged(kv);
    const tensor_rule k = {"k", paged ? "[pages, Hkv, page_size, D]" : "[B, Hkv, Nkv, D]", TYPES_KV, false,
                           planning},
                      v = {"v", paged ? "[pages, Hkv, page_size, Dv]" : "[B, Hkv, Nkv, Dv]", TYPES_KV, false,
                           planning};
    TRY(cla_tensor_check(x, &kv->k, 4, &k));
    TRY(cla_tensor_check(x, &kv->v, 4, &v));
    const int64_t *sk = kv->k.shape, *sv = kv->v.shape;
    const int64_t first = paged ? sk[0] : q[0];
    int64_t k_shape[4] = {first, sk[1], sk[2]}, v_shape[4] = {first, sk[1], sk[2], sv[3]};
    TRY(cla_tensor_elements(x, "k", kv->k.type, q[3], &k_shape[3]));
    TRY(cla_tensor_check_shape(x, &kv->k, k_shape, &k));
    TRY(cla_tensor_check_shape(x, &kv->v, v_shape, &v));
    const tensor_rule k_scale = {"k_scale", "[B, Hkv, Nkv]", TYPES_F32 | ANY_LAST_STRIDE, false, planning},
                      v_scale = {"v_scale", "[B, Hkv, Nkv]", TYPES_F32 | ANY_LAST_STRIDE, false, planning};
    TRY(cla_kv_check_scale(x, &kv->k_scale, &kv->k, &k_scale));
    TRY(cla_kv_check_scale(x, &kv->v_scale, &kv->v, &v_scale));
    TRY(check_rotation(x, kv));
    return check_places(x, kv, items, planning);
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
static void fill_places(call *c) {
    const clattn_kv *kv = &c->params.kv;
    if (c->problem.paged) c->pages = pages_of(kv);
    if (!c->problem.past) return;
    if (kv->past_lengths) c->args.flags |= ARGS_BATCH_ROWS;
    c->past = (past_args){.k = rows_of(&kv->past_k, c->problem.batch),
                          .v = rows_of(&kv->past_v, c->problem.batch),
                          .rows = (int)kv->past_k.shape[2],
                          .word = kv->past_lengths ? (int)cla_call_words(c).before_past : -1};
    if (CLATTN_TYPE_IS_SCALED(kv->k.type)) c->past_scales.k = rows_of(&kv->past_k_scale, c->problem.batch);
    if (CLATTN_TYPE_IS_SCALED(kv->v.type)) c->past_scales.v = rows_of(&kv->past_v_scale, c->problem.batch);
}

void cla_kv_fill(call *c) {
    const clattn_kv *kv = &c->params.kv;
    c->args.k = cla_tensor_view(&kv->k);
    c->args.v = cla_tensor_view(&kv->v);
    if (c->ragged.packed_keys) c->args.k.batch = c->args.v.batch = 0;
    if (CLATTN_TYPE_IS_SCALED(kv->k.type)) c->args.k_scale = cla_tensor_view(&kv->k_scale);
    if (CLATTN_TYPE_IS_SCALED(kv->v.type)) c->args.v_scale = cla_tensor_view(&kv->v_scale);
    if (c->ragged.packed_keys) c->args.k_scale.batch = c->args.v_scale.batch = 0;
    c->k = kv->k.buffer;
    c->v = kv->v.buffer;
    fill_places(c);
}

// Rows, their scales, and the same of the past.
static void set_rows(const call *c, launch *l, bool scaled, const cl_mem *rows, const clattn_tensor *scale,
                     const clattn_tensor *past, const clattn_tensor *past_scale) {
    cla_launch_buffer(l, rows);
    if (scaled) cla_launch_buffer(l, &scale->buffer);
    if (c->problem.past) cla_launch_buffer(l, &past->buffer);
    if (c->problem.past && scaled) cla_launch_buffer(l, &past_scale->buffer);
}

void cla_kv_key_arguments(const call *c, launch *l) {
    const clattn_kv *kv = &c->params.kv;
    set_rows(c, l, CLATTN_TYPE_IS_SCALED(kv->k.type), &c->k, &kv->k_scale, &kv->past_k, &kv->past_k_scale);
}

void cla_kv_value_arguments(const call *c, const cl_mem *v, launch *l) {
    const clattn_kv *kv = &c->params.kv;
    set_rows(c, l, CLATTN_TYPE_IS_SCALED(kv->v.type), v, &kv->v_scale, &kv->past_v, &kv->past_v_scale);
}

void cla_kv_place_arguments(const call *c, bool keys, bool values, launch *l) {
    const clattn_kv *kv = &c->params.kv;
    if (c->problem.paged) {
        cla_launch_buffer(l, &kv->block_table.buffer);
        cla_launch_value(l, &c->pages, sizeof c->pages);
    }
    if (!c->problem.past) return;
    cla_launch_value(l, &c->past, sizeof c->past);
    if ((keys && CLATTN_TYPE_IS_SCALED(kv->k.type)) || (values && CLATTN_TYPE_IS_SCALED(kv->v.type)))
        cla_launch_value(l, &c->past_scales, sizeof c->past_scales);
}
