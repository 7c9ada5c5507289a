// rope_check.c: what clattn_rope says, refused with the option's name, what was seen and what would be accepted.
#include <math.h>

#include "attention/call/call.h"

// A number of the scaling's: 0 where it has a default, else within its range.
static clattn_status check_number(clattn_context *c, const char *name, double x, double least,
                                  bool defaults) {
    if ((defaults && x == 0.0) || (isfinite(x) && x >= least)) return CLATTN_OK;
    return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "rope.%s: %g: must be %g or more%s", name, x, least,
                            defaults ? ", or 0 for its default" : "");
}

static clattn_status check_range(clattn_context *c, const clattn_rope *r) {
    const bool yarn = r->scaling == CLATTN_ROPE_SCALING_YARN;
    const rope_turn_range range = cla_rope_range(r);
    TRY(check_number(c, yarn ? "beta_slow" : "low_factor", yarn ? r->beta_slow : r->low_factor, 1e-6, true));
    TRY(check_number(c, yarn ? "beta_fast" : "high_factor", yarn ? r->beta_fast : r->high_factor, 1e-6,
                     true));
    if (range.low < range.high) return CLATTN_OK;
    return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "rope.%s: %g: must be above rope.%s, which is %g",
                            yarn ? "beta_fast" : "high_factor", range.high, yarn ? "beta_slow" : "low_factor",
                            range.low);
}

static clattn_status check_scaling(clattn_context *c, const clattn_rope *r, int width) {
    const bool yarn = r->scaling == CLATTN_ROPE_SCALING_YARN,
               llama3 = r->scaling == CLATTN_ROPE_SCALING_LLAMA3,
               dynamic = r->scaling == CLATTN_ROPE_SCALING_DYNAMIC;
    if (r->scaling == CLATTN_ROPE_SCALING_NONE) return CLATTN_OK;
    TRY(check_number(c, "factor", r->factor, 1.0, false));
    if (width < 4 && (dynamic || r->scaling == CLATTN_ROPE_SCALING_NTK))
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "rope.rotary_dim: %d: NTK scaling needs 4 or more", width);
    if (yarn || llama3 || dynamic) TRY(check_number(c, "original_length", r->original_length, 1.0, false));
    if (dynamic) TRY(check_number(c, "length", r->length, 1.0, false));
    if (yarn) TRY(check_number(c, "attention_factor", r->attention_factor, 1e-6, true));
    if (yarn && r->base == 1.0)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "rope.base: 1: YaRN needs more");
    return yarn || llama3 ? check_range(c, r) : CLATTN_OK;
}

// Each pair turns by one of the three positions.
static clattn_status check_sections(clattn_context *c, const clattn_rope *r, int width) {
    int64_t sum = 0;
    if (!cla_rope_has_sections(r)) {
        if (!r->sections_interleaved) return CLATTN_OK;
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "rope.sections_interleaved: has no effect without rope.sections");
    }
    for (int i = 0; i < 3; i++) {
        sum += r->sections[i];
        if (r->sections[i] < 0)
            return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "rope.sections: %d: must be 0 or more",
                                    (int)r->sections[i]);
    }
    if (sum != width / 2)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "rope.sections: %d,%d,%d: their sum must be R/2 = %d", (int)r->sections[0],
                                (int)r->sections[1], (int)r->sections[2], width / 2);
    if (cla_tensor_given(&r->positions)) return CLATTN_OK;
    return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                            "rope.sections: need rope.positions [3, B or 1, N], which are absent");
}

// Every other field, which without a layout would be without effect. A new one has its line here.
static clattn_status check_unused(clattn_context *c, const clattn_rope *r) {
    const struct {
        bool given;
        const char *name;
    } fields[] = {{r->rotary_dim != 0, "rotary_dim"},
                  {r->base != 0.0, "base"},
                  {r->position != 0, "position"},
                  {r->scaling != CLATTN_ROPE_SCALING_NONE, "scaling"},
                  {r->factor != 0.0, "factor"},
                  {r->original_length != 0.0, "original_length"},
                  {r->length != 0.0, "length"},
                  {r->low_factor != 0.0, "low_factor"},
                  {r->high_factor != 0.0, "high_factor"},
                  {r->beta_fast != 0.0, "beta_fast"},
                  {r->beta_slow != 0.0, "beta_slow"},
                  {r->attention_factor != 0.0, "attention_factor"},
                  {r->untruncated, "untruncated"},
                  {cla_tensor_given(&r->positions), "positions"},
                  {cla_tensor_given(&r->k_positions), "k_positions"},
                  {cla_rope_has_sections(r), "sections"},
                  {r->sections_interleaved, "sections_interleaved"}};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (fields[i].given)
            return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                    "rope.%s: is given, and rope.layout is NONE: half or interleaved turns, "
                                    "without one all fields are 0",
                                    fields[i].name);
    return CLATTN_OK;
}

clattn_status cla_rope_check_numbers(clattn_context *c, const clattn_rope *r, int head_dim) {
    if ((unsigned)r->layout >= CLATTN_ROPE_COUNT)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "rope.layout: %d is none of CLATTN_ROPE_*",
                                (int)r->layout);
    if ((unsigned)r->scaling >= CLATTN_ROPE_SCALING_COUNT)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "rope.scaling: %d is none of CLATTN_ROPE_SCALING_*", (int)r->scaling);
    if (r->layout == CLATTN_ROPE_NONE) return check_unused(c, r);
    const int width = cla_rope_width(r, head_dim);
    if (width < 2 || width % 2 || width > head_dim)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "rope.rotary_dim: %d: must be even, at least 2 and at most the head size %d",
                                width, head_dim);
    if (!isfinite(r->base) || r->base < 0.0 || (r->base > 0.0 && r->base < 1.0))
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "rope.base: %g: must be 1 or more; 0 means 10000",
                                r->base);
    TRY(check_scaling(c, r, width));
    return check_sections(c, r, width);
}

clattn_status cla_rope_check_positions(clattn_context *c, const clattn_rope *r, const clattn_tensor *t,
                                       const char *name, int64_t batch, int64_t rows, bool planning) {
    const bool sections = cla_rope_has_sections(r);
    if (r->position != 0)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "rope.position: %lld: must be 0 where rope.positions are given",
                                (long long)r->position);
    const tensor_rule rule = {name, sections ? "[3, B or 1, N] (rope.sections)" : "[B or 1, N]",
                              TYPES_I32 | ANY_LAST_STRIDE, false, planning};
    TRY(cla_tensor_check(c, t, sections ? 3 : 2, &rule));
    const int64_t *items = t->shape + sections;
    if ((!sections || t->shape[0] == 3) && (items[0] == 1 || items[0] == batch) && items[1] == rows)
        return CLATTN_OK;
    return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                            "%s: its shape %s%lld,%lld] does not fit: %s with B = %lld, N = %lld", name,
                            !sections          ? "["
                            : t->shape[0] == 3 ? "[3,"
                                               : "[not 3,",
                            (long long)items[0], (long long)items[1], rule.axes, (long long)batch,
                            (long long)rows);
}

// Rows and keys that are counted from `position` on: all within -2^24 .. 2^24.
static clattn_status check_counted(clattn_context *c, const clattn_attention_params *p) {
    const int64_t keys = cla_kv_count(&p->kv), n = p->q.shape[2] > keys ? p->q.shape[2] : keys;
    if (p->rope.position < -ROPE_MAX_POSITION || n > ROPE_MAX_POSITION ||
        p->rope.position > ROPE_MAX_POSITION - n)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "rope.position: %lld and %lld rows: positions must be within 2^24 of 0",
                                (long long)p->rope.position, (long long)n);
    return CLATTN_OK;
}

// Rows of keys that are turned: those of k, or of a cache, or pages, the new ones alone. Of a ragged batch rows are packed but
// for those of a cache, and q is one item.
clattn_status cla_rope_check(clattn_context *c, const clattn_attention_params *p, int head_dim,
                             bool planning) {
    const clattn_rope *r = &p->rope;
    TRY(cla_rope_check_numbers(c, r, head_dim));
    if (r->layout == CLATTN_ROPE_NONE) return CLATTN_OK;
    const bool appends = cla_kv_appends(&p->kv);
    const clattn_tensor *k = appends ? &p->kv.k_new : &p->kv.k;
    const int64_t batch = p->q.shape[0], nq = p->q.shape[2], nkv = k->shape[2];
    const bool rows = cla_tensor_given(&r->positions), keys = cla_tensor_given(&r->k_positions);
    if (!rows && keys)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "rope.k_positions: are given without rope.positions: both count or neither");
    if (!rows) return check_counted(c, p);
    TRY(cla_rope_check_positions(c, r, &r->positions, "rope.positions", batch, nq, planning));
    if (cla_kv_is_paged(&p->kv) && !appends) {
        if (!keys) return CLATTN_OK;
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "rope.k_positions: have no effect on pages, whose rows were turned before");
    }
    if (keys)
        return cla_rope_check_positions(c, r, &r->k_positions, "rope.k_positions", k->shape[0], nkv,
                                        planning);
    if (nq == nkv && (batch == k->shape[0] || !cla_ragged_given(p))) return CLATTN_OK;
    return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                            "rope.k_positions: are absent: needed where there are %lld %s for Nq = %lld",
                            (long long)nkv, appends ? "new keys" : "keys", (long long)nq);
}
