// kv.c: where keys and values are stored: in one pair of views, in a second pair for the past, or
// in pages of a block table. Checks them and sets the kernel arguments. cl/call/kv.clh is the
// device's part.
#include "attention/kv/kv.h"

#include <string.h>

#include "attention/call/call_kind.h"
#include "attention/call/table.h"

// Reject options that the header defines but that are not implemented.
clattn_status cla_kv_check_unsupported(clattn_context *c, const clattn_attention_params *p, bool keys_roped) {
    const clattn_kv *kv = &p->kv;
    const struct {
        bool set;
        const char *name;
    } options[] = {
        {TYPE_IS_QUANTISED(kv->k.type) && p->rope.layout != CLATTN_ROPE_NONE && !cla_kv_is_paged(kv) &&
             !cla_kv_appends(kv) && !keys_roped,
         "rope of i8 keys, float8 ones, those of 4 bits and of blocks"},
        {kv->k_rotation && p->rope.layout != CLATTN_ROPE_NONE && !cla_kv_is_paged(kv) &&
             !cla_kv_appends(kv) && !keys_roped,
         "rope of rotated keys, which already have RoPE"},
    };
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        if (options[i].set)
            return cla_context_fail(c, CLATTN_UNSUPPORTED, "%s: is not built yet: leave it 0",
                                    options[i].name);
    return CLATTN_OK;
}

// Scales are one per row, or one per group of a row's numbers.
static clattn_status check_scale_shape(clattn_context *x, const clattn_tensor *of, const kv_scales *s) {
    const clattn_tensor *t = s->scale;
    const int64_t width = cla_tensor_width(of), groups = t->rank == 4 ? t->shape[3] : 1;
    for (int i = 0; i < 3; i++)
        if (t->shape[i] != of->shape[i])
            return cla_context_fail(x, CLATTN_INVALID_ARGUMENT,
                                    "%s: size %lld of axis %d does not fit: %s has %lld", s->rule.name,
                                    (long long)t->shape[i], i, s->rule.axes, (long long)of->shape[i]);
    if (groups >= 1 && width % groups == 0 && (groups == 1 || width / groups % 32 == 0)) return CLATTN_OK;
    return cla_context_fail(x, CLATTN_INVALID_ARGUMENT,
                            "%s: %lld groups of rows of %lld numbers: each must have a multiple of 32",
                            s->rule.name, (long long)groups, (long long)width);
}

static clattn_status check_zero(clattn_context *x, const kv_scales *s) {
    const clattn_tensor *t = s->zero, *scale = s->scale;
    tensor_rule rule = s->rule;
    rule.name = s->zero_name;
    TRY(cla_tensor_check(x, t, scale->rank, &rule));
    bool same = t->type == scale->type;
    for (int i = 0; i < t->rank; i++)
        same =
            same && t->shape[i] == scale->shape[i] && (t->shape[i] <= 1 || t->stride[i] == scale->stride[i]);
    return same ? CLATTN_OK
                : cla_context_fail(x, CLATTN_INVALID_ARGUMENT,
                                   "%s: its type, shape and strides must be those of %s", s->zero_name,
                                   s->rule.name);
}

clattn_status cla_kv_check_scales(clattn_context *x, const clattn_tensor *of, const kv_scales *s) {
    const clattn_tensor *t = s->scale;
    const bool scaled = CLATTN_TYPE_IS_SCALED(of->type), zero = s->zero && cla_tensor_given(s->zero);
    tensor_rule rule = s->rule;
    if (!scaled && !cla_tensor_given(t) && !zero) return CLATTN_OK;
    if (!scaled)
        return cla_context_fail(x, CLATTN_INVALID_ARGUMENT,
                                "%s: is for i8, float8, i4 and u4 keys and values, these are %s",
                                cla_tensor_given(t) ? rule.name : s->zero_name, clattn_type_name(of->type));
    if (t->rank == 4) rule.types &= ~ANY_LAST_STRIDE;
    TRY(cla_tensor_check(x, t, t->rank == 4 ? 4 : 3, &rule));
    TRY(check_scale_shape(x, of, s));
    return zero ? check_zero(x, s) : CLATTN_OK;
}

int cla_kv_scale_group(const clattn_tensor *of, const clattn_tensor *scale, const clattn_tensor *zero) {
    if (!CLATTN_TYPE_IS_SCALED(of->type)) return 0;
    if (scale->rank == 4 && scale->shape[3] > 1) return (int)(cla_tensor_width(of) / scale->shape[3]);
    return scale->type != CLATTN_TYPE_F32 || clattn_type_numbers(of->type) > 1 || cla_tensor_given(zero);
}

void cla_kv_fill_groups(const clattn_kv *kv, problem *p) {
    const int of_k = cla_kv_scale_group(&kv->k, &kv->k_scale, &kv->k_zero),
              of_v = cla_kv_scale_group(&kv->v, &kv->v_scale, &kv->v_zero);
    const bool k = CLATTN_TYPE_IS_SCALED(kv->k.type), v = CLATTN_TYPE_IS_SCALED(kv->v.type);
    if (!of_k && !of_v) return;
    p->scale_group = k && !of_k ? 1 : of_k;
    p->scale_group_v = v && !of_v ? 1 : of_v;
    p->type_scale = (int)(k ? kv->k_scale.type : kv->v_scale.type);
    p->zero_points = (cla_tensor_given(&kv->k_zero) ? 1 : 0) | (cla_tensor_given(&kv->v_zero) ? 2 : 0);
}

// Check a view of the past. Its shape is that of `of`, the tensor of the newer rows, except for the
// row count. The batch may be 1.
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

// Scales of past rows must match those of newer rows. Zero points must share the offset of their
// scales: a launch has no argument for another offset.
static clattn_status check_past_scales(clattn_context *c, const clattn_kv *kv, bool keys, bool planning) {
    const clattn_tensor *own = keys ? &kv->k_scale : &kv->v_scale, *zero = keys ? &kv->k_zero : &kv->v_zero;
    const kv_scales past = {.scale = keys ? &kv->past_k_scale : &kv->past_v_scale,
                            .zero = keys ? &kv->past_k_zero : &kv->past_v_zero,
                            .rule = {keys ? "past_k_scale" : "past_v_scale",
                                     "[B or 1, Hkv, P] or [B or 1, Hkv, P, groups]", KV_SCALE_TYPES, false,
                                     planning},
                            .zero_name = keys ? "past_k_zero" : "past_v_zero"};
    const clattn_tensor *of = keys ? &kv->past_k : &kv->past_v;
    TRY(cla_kv_check_scales(c, of, &past));
    if (!CLATTN_TYPE_IS_SCALED(of->type)) return CLATTN_OK;
    if (past.scale->type != own->type || past.scale->rank != own->rank ||
        (own->rank == 4 && past.scale->shape[3] != own->shape[3]))
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "%s: must have the type and the groups of %s",
                                past.rule.name, past.rule.name + strlen("past_"));
    if (cla_tensor_given(past.zero) != cla_tensor_given(zero))
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "%s: is given with %s, and only then",
                                past.zero_name, past.zero_name + strlen("past_"));
    if (cla_tensor_given(zero) && past.zero->offset != past.scale->offset)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "%s: offset %lld: must be that of %s, %lld",
                                past.zero_name, (long long)past.zero->offset, past.rule.name,
                                (long long)past.scale->offset);
    return CLATTN_OK;
}

static clattn_status check_past(clattn_context *c, const clattn_kv *kv, int64_t batch, bool planning) {
    const unsigned types = TYPES_KV;
    const tensor_rule k = {"past_k", "[B or 1, Hkv, P, D]", types, false, planning},
                      v = {"past_v", "[B or 1, Hkv, P, Dv]", types, false, planning};
    if (!cla_kv_has_past(kv)) {
        if (cla_tensor_given(&kv->past_v)) return refuse_without(c, "past_v", "past_k");
        if (cla_tensor_given(&kv->past_k_scale) || cla_tensor_given(&kv->past_v_scale))
            return refuse_without(c, "past_k_scale, past_v_scale", "past_k");
        if (cla_tensor_given(&kv->past_k_zero) || cla_tensor_given(&kv->past_v_zero))
            return refuse_without(c, "past_k_zero, past_v_zero", "past_k");
        return kv->past_lengths ? refuse_without(c, "past_lengths", "past_k") : CLATTN_OK;
    }
    if (!cla_tensor_given(&kv->past_v)) return refuse_without(c, "past_k", "past_v");
    if (cla_kv_is_paged(kv))
        return cla_context_fail(
            c, CLATTN_UNSUPPORTED,
            "block_table: not with past_k: a prefix is pages that the block table repeats");
    TRY(check_past_view(c, &kv->past_k, &kv->k, &k, batch, -1));
    TRY(check_past_view(c, &kv->past_v, &kv->v, &v, batch, kv->past_k.shape[2]));
    TRY(check_past_scales(c, kv, true, planning));
    return check_past_scales(c, kv, false, planning);
}

clattn_status cla_kv_check_pages(clattn_context *c, const clattn_tensor *table, int32_t page_size,
                                 const clattn_tensor *k, int64_t batch, bool planning) {
    const tensor_rule rule = {"block_table", "[B, max_blocks]", TYPES_I32 | ANY_LAST_STRIDE, false, planning};
    if (!cla_tensor_given(table))
        return page_size ? refuse_without(c, "page_size", "block_table") : CLATTN_OK;
    if (table->rank == 2 && table->type != CLATTN_TYPE_I32)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "block_table: type %s: i32 is needed",
                                clattn_type_name(table->type));
    TRY(cla_tensor_check(c, table, 2, &rule));
    if (table->shape[0] != batch)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "block_table: %lld lines: [B, max_blocks] has B = %lld",
                                (long long)table->shape[0], (long long)batch);
    if (page_size < 1)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "page_size: %d: must be 1 or more",
                                (int)page_size);
    if (k->shape[2] != page_size)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "page_size: %d: k has %lld rows a page, [pages, Hkv, page_size, D]",
                                (int)page_size, (long long)k->shape[2]);
    if (k->shape[0] == 0 && table->shape[1] > 0 && batch > 0)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "k: has no pages, and block_table names %lld",
                                (long long)table->shape[1]);
    return CLATTN_OK;
}

// If v is a view of k, a Hadamard transform of k's whole rows transforms v too.
static clattn_status check_rotation(clattn_context *c, const clattn_kv *kv) {
    TRY(cla_hadamard_check(c, "k_rotation", kv->k_rotation, cla_tensor_width(&kv->k)));
    TRY(cla_hadamard_check(c, "v_rotation", kv->v_rotation, cla_tensor_width(&kv->v)));
    if (kv->k_rotation == kv->v_rotation || !cla_kv_is_view(&kv->k, &kv->v)) return CLATTN_OK;
    return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                            "v_rotation: %d: v is a view of k, whose k_rotation is %d: both must be alike",
                            (int)kv->v_rotation, (int)kv->k_rotation);
}

static clattn_status check_places(clattn_context *c, const clattn_kv *kv, int64_t batch, bool planning) {
    TRY(check_past(c, kv, batch, planning));
    return cla_kv_check_pages(c, &kv->block_table, kv->page_size, &kv->k, batch, planning);
}

static clattn_status check_scales(clattn_context *x, const clattn_kv *kv, bool planning) {
    const char *axes = "[B, Hkv, Nkv] or [B, Hkv, Nkv, groups]";
    const kv_scales
        k = {&kv->k_scale, &kv->k_zero, {"k_scale", axes, KV_SCALE_TYPES, false, planning}, "k_zero"},
        v = {&kv->v_scale, &kv->v_zero, {"v_scale", axes, KV_SCALE_TYPES, false, planning}, "v_zero"};
    TRY(cla_kv_check_scales(x, &kv->k, &k));
    TRY(cla_kv_check_scales(x, &kv->v, &v));
    if (!CLATTN_TYPE_IS_SCALED(kv->k.type) || !CLATTN_TYPE_IS_SCALED(kv->v.type) ||
        kv->k_scale.type == kv->v_scale.type)
        return CLATTN_OK;
    return cla_context_fail(x, CLATTN_INVALID_ARGUMENT, "v_scale: type %s: that of k_scale, %s, is needed",
                            clattn_type_name(kv->v_scale.type), clattn_type_name(kv->k_scale.type));
}

// Check k and v against q's shape [B, H, Nq, D]. `items`: B, also for packed sequences.
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
    TRY(check_scales(x, kv, planning));
    TRY(check_rotation(x, kv));
    return check_places(x, kv, items, planning);
}

// Stride 0 along the batch if the past is shared (batch size 1).
static args_rows rows_of(const clattn_tensor *t, int batch) {
    const args_view v = cla_tensor_view(t);
    return (args_rows){v.offset, t->shape[0] == 1 && batch > 1 ? 0 : v.batch, v.head, v.row};
}

// Division by page_size as a multiplication, exact for j below 2^31. The multiplier is 2^shift /
// page_size, rounded up. `shift` is large enough that the error stays below 1. [Granlund and
// Montgomery 1994, "Division by invariant integers using multiplication"]
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

// Set the arguments for pages and for the past. With past_lengths the items differ, so the call
// needs a table.
static void fill_places(call *c) {
    const clattn_kv *kv = &c->params.kv;
    if (c->problem.paged) c->pages = pages_of(kv);
    if (!c->problem.past) return;
    if (kv->past_lengths) c->args.flags |= ARGS_BATCH_ROWS;
    c->past = (past_args){.k = rows_of(&kv->past_k, c->problem.batch),
                          .v = rows_of(&kv->past_v, c->problem.batch),
                          .rows = (int)kv->past_k.shape[2],
                          .word = kv->past_lengths ? (int)cla_call_table_layout(c).before_past : -1};
    if (CLATTN_TYPE_IS_SCALED(kv->k.type)) c->past_scales.k = rows_of(&kv->past_k_scale, c->problem.batch);
    if (CLATTN_TYPE_IS_SCALED(kv->v.type)) c->past_scales.v = rows_of(&kv->past_v_scale, c->problem.batch);
}

args_view cla_kv_scale_view(const clattn_tensor *scale, const clattn_tensor *zero) {
    args_view v = cla_tensor_view(scale);
    v.column = zero && cla_tensor_given(zero) ? zero->offset - scale->offset : 0;
    return v;
}

void cla_kv_fill(call *c) {
    const clattn_kv *kv = &c->params.kv;
    c->args.k = cla_tensor_view(&kv->k);
    c->args.v = cla_tensor_view(&kv->v);
    if (c->ragged.packed_keys) c->args.k.batch = c->args.v.batch = 0;
    if (CLATTN_TYPE_IS_SCALED(kv->k.type)) c->args.k_scale = cla_kv_scale_view(&kv->k_scale, &kv->k_zero);
    if (CLATTN_TYPE_IS_SCALED(kv->v.type)) c->args.v_scale = cla_kv_scale_view(&kv->v_scale, &kv->v_zero);
    if (c->ragged.packed_keys) c->args.k_scale.batch = c->args.v_scale.batch = 0;
    c->k = kv->k.buffer;
    c->v = kv->v.buffer;
    fill_places(c);
}

// Add the buffers of rows, scales and zero points.
static void set_rows(launch *l, const cl_mem *rows, const clattn_tensor *scale, const clattn_tensor *zero) {
    cla_launch_buffer(l, rows);
    if (scale) cla_launch_buffer(l, &scale->buffer);
    if (scale && cla_tensor_given(zero)) cla_launch_buffer(l, &zero->buffer);
}

void cla_kv_key_arguments(const call *c, launch *l) {
    const clattn_kv *kv = &c->params.kv;
    const bool scaled = CLATTN_TYPE_IS_SCALED(kv->k.type);
    set_rows(l, &c->k, scaled ? &kv->k_scale : NULL, &kv->k_zero);
    if (c->problem.past) set_rows(l, &kv->past_k.buffer, scaled ? &kv->past_k_scale : NULL, &kv->past_k_zero);
}

void cla_kv_value_arguments(const call *c, const cl_mem *v, launch *l) {
    const clattn_kv *kv = &c->params.kv;
    const bool scaled = CLATTN_TYPE_IS_SCALED(kv->v.type);
    set_rows(l, v, scaled ? &kv->v_scale : NULL, &kv->v_zero);
    if (c->problem.past) set_rows(l, &kv->past_v.buffer, scaled ? &kv->past_v_scale : NULL, &kv->past_v_zero);
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
