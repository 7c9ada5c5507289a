// score.c: check the options of clattn_score, and convert them to kernel arguments. Each error
// names the option, the value found and the values accepted. A new option needs its check, flag and
// argument here.
#include "attention/score/score.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "attention/call/call_kind.h"
#include "attention/call/visible_keys.h"
#include "attention/mods/mods.h"
#include "base/host.h"

clattn_status cla_score_check_alignment(clattn_context *c, clattn_alignment alignment, bool shifted) {
    if ((unsigned)alignment >= CLATTN_ALIGN_COUNT)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "alignment: %d is none of CLATTN_ALIGN_*",
                                (int)alignment);
    if (alignment != CLATTN_ALIGN_OFFSET && shifted)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "offset: is only used with CLATTN_ALIGN_OFFSET");
    return CLATTN_OK;
}

clattn_status cla_score_check(clattn_context *c, const clattn_score *s) {
    TRY(cla_dropout_check(c, s->dropout));
    TRY(cla_score_check_alignment(c, s->alignment, s->offset != 0 || s->offsets));
    if (!isfinite(s->scale))
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "scale: must be finite; 0 means 1/sqrt(D)");
    if (!isfinite(s->softcap) || s->softcap < 0.0f)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "softcap: %g: must be finite and > 0, or 0 for none", (double)s->softcap);
    if (s->window && (s->window_left < -1 || s->window_right < -1))
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "window: %d,%d: each side must be -1 (open) or more", (int)s->window_left,
                                (int)s->window_right);
    return CLATTN_OK;
}

// Host arrays, [B] of integers or [H] of floats, and their checks.
typedef struct array_rule {
    const char *name;
    size_t field; // offset of the pointer in clattn_attention_params
    bool heads;
    clattn_status (*check)(const call *c, const char *name, int i, const void *at);
} array_rule;

static int32_t integer_at(const void *at) {
    int32_t x;
    memcpy(&x, at, sizeof x);
    return x;
}

static float float_at(const void *at) {
    float x;
    memcpy(&x, at, sizeof x);
    return x;
}

static clattn_status check_length(const call *c, const char *name, int i, const void *at, int most) {
    const int32_t x = integer_at(at);
    if (x >= 0 && x <= most) return CLATTN_OK;
    return cla_context_fail(c->context, CLATTN_INVALID_ARGUMENT, "%s: item %d is %d: must be 0 to %d", name,
                            i, (int)x, most);
}

static clattn_status check_q_lengths(const call *c, const char *name, int i, const void *at) {
    return check_length(c, name, i, at, c->problem.n_q);
}

static clattn_status check_kv_lengths(const call *c, const char *name, int i, const void *at) {
    return check_length(c, name, i, at, c->ragged.packed_keys ? c->problem.n_kv : cla_kv_max_length(c, i));
}

static clattn_status check_past_lengths(const call *c, const char *name, int i, const void *at) {
    return check_length(c, name, i, at, (int)c->params.kv.past_k.shape[2]);
}

// Row positions are int32 in the kernels.
static clattn_status check_offsets(const call *c, const char *name, int i, const void *at) {
    const int64_t shift = integer_at(at);
    (void)name, (void)i; // also checks clattn_score.offset
    if (shift + c->problem.n_q <= INT32_MAX) return CLATTN_OK;
    return cla_context_fail(c->context, CLATTN_INVALID_ARGUMENT, "offset: %lld + Nq must be below 2^31",
                            (long long)shift);
}

static clattn_status check_alibi_slopes(const call *c, const char *name, int i, const void *at) {
    if (isfinite(float_at(at))) return CLATTN_OK;
    return cla_context_fail(c->context, CLATTN_INVALID_ARGUMENT, "%s: item %d is not finite", name, i);
}

static clattn_status check_head_scales(const call *c, const char *name, int i, const void *at) {
    if (c->params.score.scale != 0.0f)
        return cla_context_fail(c->context, CLATTN_INVALID_ARGUMENT,
                                "%s: replaces scale, which is %g and must be 0", name,
                                (double)c->params.score.scale);
    return check_alibi_slopes(c, name, i, at);
}

static clattn_status check_sinks(const call *c, const char *name, int i, const void *at) {
    const float x = float_at(at);
    if (!isnan(x) && x != INFINITY) return CLATTN_OK;
    return cla_context_fail(c->context, CLATTN_INVALID_ARGUMENT, "%s: item %d is NaN or +infinity", name, i);
}

static const array_rule array_rules[] = {
    {"past_lengths", offsetof(clattn_attention_params, kv.past_lengths), false,
     check_past_lengths}, // must precede kv_lengths
#define OPTION_ITEMS(field, flag, differs, apart)                                                            \
    {#field, offsetof(clattn_attention_params, score.field), false, check_##field},
#define OPTION_HEADS(field, flag, differs, apart)                                                            \
    {#field, offsetof(clattn_attention_params, score.field), true, check_##field},
#include "tables/score.def"
};

#define ARRAY_RULES (sizeof array_rules / sizeof array_rules[0])

static const char *array_of(const call *c, const array_rule *rule) {
    const char *data;
    memcpy(&data, (const char *)&c->params + rule->field, sizeof data);
    return data;
}

// Copy the arrays before checking them. Another thread may write to the caller's arrays in the
// meantime.
static clattn_status copy_arrays(call *c) {
    size_t words = 0;
    for (size_t i = 0; i < ARRAY_RULES; i++)
        if (array_of(c, &array_rules[i]))
            words += (size_t)(array_rules[i].heads ? c->problem.heads : c->problem.batch);
    if (words == 0) return CLATTN_OK;
    int32_t *to = c->arrays = cla_host_take(&c->context->host, words * sizeof *to);
    if (!to)
        return cla_context_fail(c->context, CLATTN_OUT_OF_MEMORY, "attention: no host memory for lengths");
    for (size_t i = 0; i < ARRAY_RULES; i++) {
        const char *from = array_of(c, &array_rules[i]);
        const size_t count = (size_t)(array_rules[i].heads ? c->problem.heads : c->problem.batch);
        if (!from) continue;
        memcpy(to, from, count * sizeof *to);
        memcpy((char *)&c->params + array_rules[i].field, &to, sizeof to);
        to += count;
    }
    return CLATTN_OK;
}

clattn_status cla_score_take_arrays(call *c, bool copy) {
    if (copy) TRY(copy_arrays(c));
    if (!c->params.score.offsets) TRY(check_offsets(c, "offset", 0, &c->params.score.offset));
    for (size_t i = 0; i < ARRAY_RULES; i++) {
        const array_rule *rule = &array_rules[i];
        const char *data = array_of(c, rule);
        const int count = rule->heads ? c->problem.heads : c->problem.batch;
        for (int n = 0; data && n < count; n++)
            TRY(rule->check(c, rule->name, n, data + (size_t)n * sizeof(int32_t)));
    }
    return CLATTN_OK;
}

static clattn_status check_sinks_device(const call *c, bool planning) {
    const clattn_score *s = &c->params.score;
    const tensor_rule rule = {"sinks_device", "[H]", TYPES_FLOAT | ANY_LAST_STRIDE, false, planning};
    if (!cla_tensor_given(&s->sinks_device)) return CLATTN_OK;
    if (s->sinks)
        return cla_context_fail(c->context, CLATTN_INVALID_ARGUMENT,
                                "sinks_device: is given beside sinks, whose place it takes");
    TRY(cla_tensor_check(c->context, &s->sinks_device, 1, &rule));
    if (s->sinks_device.shape[0] == c->problem.heads) return CLATTN_OK;
    return cla_context_fail(c->context, CLATTN_INVALID_ARGUMENT,
                            "sinks_device: has %lld numbers: [H] has H = %d",
                            (long long)s->sinks_device.shape[0], c->problem.heads);
}

clattn_status cla_score_check_tensors(call *c, bool planning) {
    const problem *m = &c->problem;
    const clattn_score *s = &c->params.score;
    const int64_t full[4] = {m->batch, m->heads, m->n_q, m->n_kv};
    const tensor_rule mask = {"mask", "[B, H, Nq, Nkv]", TYPES_BOOL | ANY_LAST_STRIDE, false, planning};
    const tensor_rule bias = {"bias", "[B, H, Nq, Nkv]", TYPES_FLOAT | ANY_LAST_STRIDE, false, planning};
    if (cla_tensor_given(&s->mask))
        TRY(cla_tensor_check_broadcast(c->context, &s->mask, full, &mask, &c->args.mask));
    if (cla_tensor_given(&s->bias))
        TRY(cla_tensor_check_broadcast(c->context, &s->bias, full, &bias, &c->args.bias));
    return check_sinks_device(c, planning);
}

void cla_score_fill(const call *c, attention_args *a) {
    const clattn_score *s = &c->params.score;
    a->scale = s->scale != 0.0f ? s->scale : (float)(1.0 / sqrt((double)c->problem.head_dim));
    a->softcap = s->softcap;
    a->shift = c->problem.batch ? cla_call_shift(c, 0) : 0;
    a->window_left = ARGS_LEFT(s), a->window_right = ARGS_RIGHT(s);
    a->flags |= cla_score_flags(s);
}

void cla_score_arguments(const clattn_score *s, int ops, const mod_args *mods, launch *l) {
    if (ops & ARGS_MASK) cla_launch_buffer(l, &s->mask.buffer);
    if (ops & ARGS_BIAS) cla_launch_buffer(l, &s->bias.buffer);
    if (ops & ARGS_BLOCKS) cla_launch_buffer(l, &s->block_mask.buffer);
    cla_mods_set(s, ops, mods, l);
}
