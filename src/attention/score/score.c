// score.c: the options of clattn_score: refused with the option's name, what was seen and what would be accepted, or
// turned into kernel arguments. A new option has its check, its flag and its place in the arguments here.
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "attention/call/call.h"
#include "attention/score/dropout.h"
#include "base/host.h"

clattn_status cla_score_check(clattn_context *c, const clattn_score *s) {
    TRY(cla_dropout_check(c, s->dropout));
    if ((unsigned)s->alignment >= CLATTN_ALIGN_COUNT)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "alignment: %d is none of CLATTN_ALIGN_*",
                                (int)s->alignment);
    if (!isfinite(s->scale))
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "scale: must be finite; 0 means 1/sqrt(D)");
    if (!isfinite(s->softcap) || s->softcap < 0.0f)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "softcap: %g: must be finite and > 0, or 0 for none", (double)s->softcap);
    if (s->window && (s->window_left < -1 || s->window_right < -1))
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "window: %d,%d: each side must be -1 (open) or more", (int)s->window_left,
                                (int)s->window_right);
    if (s->alignment != CLATTN_ALIGN_OFFSET && (s->offset != 0 || s->offsets))
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "offset: is only used with CLATTN_ALIGN_OFFSET");
    return CLATTN_OK;
}

// Host arrays of 32-bit numbers, [B] integers or [H] floats, and what each must hold.
typedef struct array_rule {
    const char *name;
    size_t field; // the pointer in clattn_attention_params
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
static clattn_status check_q_length(const call *c, const char *name, int i, const void *at) {
    return check_length(c, name, i, at, c->problem.n_q);
}
static clattn_status check_kv_length(const call *c, const char *name, int i, const void *at) {
    return check_length(c, name, i, at, c->ragged.packed_keys ? c->problem.n_kv : cla_kv_most(c, i));
}
static clattn_status check_past_length(const call *c, const char *name, int i, const void *at) {
    return check_length(c, name, i, at, (int)c->params.kv.past_k.shape[2]);
}
// Row positions are int32 in the kernels.
static clattn_status check_offset(const call *c, const char *name, int i, const void *at) {
    const int64_t shift = integer_at(at);
    (void)i;
    if (shift + c->problem.n_q <= INT32_MAX) return CLATTN_OK;
    return cla_context_fail(c->context, CLATTN_INVALID_ARGUMENT, "%s: %lld + Nq must be below 2^31", name,
                            (long long)shift);
}
static clattn_status check_slope(const call *c, const char *name, int i, const void *at) {
    if (isfinite(float_at(at))) return CLATTN_OK;
    return cla_context_fail(c->context, CLATTN_INVALID_ARGUMENT, "%s: item %d is not finite", name, i);
}
static clattn_status check_head_scale(const call *c, const char *name, int i, const void *at) {
    if (c->params.score.scale != 0.0f)
        return cla_context_fail(c->context, CLATTN_INVALID_ARGUMENT,
                                "%s: takes the place of scale, which is %g: leave that 0", name,
                                (double)c->params.score.scale);
    return check_slope(c, name, i, at);
}
static clattn_status check_sink(const call *c, const char *name, int i, const void *at) {
    const float x = float_at(at);
    if (!isnan(x) && x != INFINITY) return CLATTN_OK;
    return cla_context_fail(c->context, CLATTN_INVALID_ARGUMENT, "%s: item %d is NaN or +infinity", name, i);
}

static const array_rule array_rules[] = {
    {"past_lengths", offsetof(clattn_attention_params, kv.past_lengths), false,
     check_past_length}, // before kv_lengths
    {"q_lengths", offsetof(clattn_attention_params, score.q_lengths), false, check_q_length},
    {"kv_lengths", offsetof(clattn_attention_params, score.kv_lengths), false, check_kv_length},
    {"offset", offsetof(clattn_attention_params, score.offsets), false, check_offset},
    {"alibi_slopes", offsetof(clattn_attention_params, score.alibi_slopes), true, check_slope},
    {"sinks", offsetof(clattn_attention_params, score.sinks), true, check_sink},
    {"head_scales", offsetof(clattn_attention_params, score.head_scales), true, check_head_scale},
};
#define ARRAY_RULES (sizeof array_rules / sizeof array_rules[0])

static const char *array_of(const call *c, const array_rule *rule) {
    const char *data;
    memcpy(&data, (const char *)&c->params + rule->field, sizeof data);
    return data;
}

// What is checked is what the kernels will get: another thread may write to the caller's arrays meanwhile.
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
    if (!c->params.score.offsets) TRY(check_offset(c, "offset", 0, &c->params.score.offset));
    for (size_t i = 0; i < ARRAY_RULES; i++) {
        const array_rule *rule = &array_rules[i];
        const char *data = array_of(c, rule);
        const int count = rule->heads ? c->problem.heads : c->problem.batch;
        for (int n = 0; data && n < count; n++)
            TRY(rule->check(c, rule->name, n, data + (size_t)n * sizeof(int32_t)));
    }
    return CLATTN_OK;
}

int cla_score_flags(const clattn_score *s) {
    return (s->softcap > 0.0f ? ARGS_SOFTCAP : 0) | (cla_tensor_given(&s->bias) ? ARGS_BIAS : 0) |
           (s->alibi_slopes ? ARGS_ALIBI : 0) | (cla_tensor_given(&s->mask) ? ARGS_MASK : 0) |
           (cla_tensor_given(&s->block_mask) ? ARGS_BLOCKS : 0) | (s->score_mod ? ARGS_SCORE_MOD : 0) |
           (s->mask_mod ? ARGS_MASK_MOD : 0) |
           (s->sinks || cla_tensor_given(&s->sinks_device) ? ARGS_SINK : 0) |
           (s->head_scales ? ARGS_HEAD_SCALES : 0) |
           (s->q_lengths || s->kv_lengths || s->offsets ? ARGS_BATCH_ROWS : 0);
}

// Left and right bound of the keys a row sees around its position, -1: none; causality is a right bound of 0.
static int left_of(const clattn_score *s) {
    return s->window ? s->window_left : -1;
}
static int right_of(const clattn_score *s) {
    return s->causal ? 0 : s->window ? s->window_right : -1;
}

int cla_score_band(const clattn_score *s) {
    const int64_t left = left_of(s), right = right_of(s), band = left + right + 1;
    return left < 0 || right < 0 ? 0 : (int)(band < INT_MAX ? band : INT_MAX);
}

// Of the launch: what is counted from its first key on.
static int keys_of(const call *c, int b) {
    return cla_kv_length(c, b) - (c->params.score.kv_lengths ? c->first_key : 0);
}

int32_t cla_call_shift(const call *c, int b) {
    const clattn_score *s = &c->params.score;
    if (s->alignment == CLATTN_ALIGN_TOP_LEFT) return -c->first_key;
    if (s->alignment == CLATTN_ALIGN_OFFSET) return (s->offsets ? s->offsets[b] : s->offset) - c->first_key;
    return keys_of(c, b) - (s->q_lengths ? s->q_lengths[b] : c->problem.n_q);
}

void cla_score_fill(const call *c, attention_args *a) {
    const clattn_score *s = &c->params.score;
    a->scale = s->scale != 0.0f ? s->scale : (float)(1.0 / sqrt((double)c->problem.head_dim));
    a->softcap = s->softcap;
    a->shift = c->problem.batch ? cla_call_shift(c, 0) : 0;
    a->window_left = left_of(s), a->window_right = right_of(s);
    a->flags |= cla_score_flags(s);
}

// The sum over i in [0, n) of at + i, held between 0 and most.
static double held_sum(double n, double at, double most) {
    const double low = fmin(fmax(-at, 0.0), n), high = fmin(fmax(most - at, low), n);
    return (high - low) * (2.0 * at + low + high - 1.0) / 2.0 + (n - high) * most;
}

// What the rows of one batch item see of its first keys, as mask.clh has it.
static double seen_of(const call *c, int b, int first, int rows, double keys) {
    const clattn_score *s = &c->params.score;
    const attention_args *a = &c->args;
    const double last = s->q_lengths ? s->q_lengths[b] : c->problem.n_q,
                 n = fmin(fmax(last - first, 0.0), rows), at = (double)cla_call_shift(c, b) + first;
    const double ends = a->window_right < 0 ? n * keys : held_sum(n, at + a->window_right + 1.0, keys),
                 begins = a->window_left < 0 ? 0.0 : held_sum(n, at - a->window_left, keys);
    return fmax(ends - begins, 0.0);
}

double cla_call_seen_of(const call *c, int b, int first, int rows) {
    return seen_of(c, b, first, rows, keys_of(c, b));
}

double cla_call_seen_in(const call *c, int b, int first, int rows, double first_key, double end_key) {
    const double keys = keys_of(c, b);
    return seen_of(c, b, first, rows, fmin(keys, end_key)) -
           seen_of(c, b, first, rows, fmin(keys, first_key));
}

double cla_call_seen(const call *c, int first, int rows) {
    double seen = 0.0;
    if (c->ragged.on_device) return c->ragged.total_q * cla_call_row_keys(c); // at most
    if (!(c->args.flags & ARGS_BATCH_ROWS)) return c->problem.batch * cla_call_seen_of(c, 0, first, rows);
    for (int b = 0; b < c->problem.batch; b++) seen += cla_call_seen_of(c, b, first, rows);
    return seen;
}

double cla_call_row_keys(const call *c) {
    const attention_args *a = &c->args;
    const double span =
        a->window_left < 0 || a->window_right < 0 ? INFINITY : (double)a->window_left + a->window_right + 1.0;
    return fmin(c->problem.n_kv, span);
}

static int within(int x, int most) {
    return x < 0 ? 0 : x < most ? x : most;
}

// The words of args.h's table, for the query rows from `first` on.
static void fill_table(const call *c, int32_t *words, const call_words *of, int first, int rows) {
    const clattn_score *s = &c->params.score;
    const problem *m = &c->problem;
    const bool has_rows = of->before_heads > 0, has_heads = of->before_past > of->before_heads;
    for (int b = 0; has_rows && b < m->batch; b++) {
        int32_t *item = words + cla_ragged_item_words(c) * (size_t)b;
        item[0] = cla_call_shift(c, b) + first;
        item[1] = within((s->q_lengths ? s->q_lengths[b] : m->n_q) - first, rows);
        item[2] = keys_of(c, b);
        item[3] = s->q_lengths ? s->q_lengths[b] : m->n_q;
    }
    if (has_rows) cla_ragged_fill_table(c, words);
    for (int h = 0; has_heads && h < m->heads; h++) {
        const float head[ARGS_HEAD_WORDS] = {[ARGS_HEAD_SLOPE] = s->alibi_slopes ? s->alibi_slopes[h] : 0.0f,
                                             [ARGS_HEAD_SINK] = s->sinks ? s->sinks[h] : 0.0f,
                                             [ARGS_HEAD_SCALE] = s->head_scales ? s->head_scales[h] : 0.0f};
        memcpy(words + of->before_heads + ARGS_HEAD_WORDS * (size_t)h, head, sizeof head);
    }
}

call_words cla_call_words(const call *c) {
    const size_t batch = (size_t)c->problem.batch, heads = (size_t)c->problem.heads;
    call_words w = {.before_heads = (c->args.flags & ARGS_BATCH_ROWS) ? cla_ragged_item_words(c) * batch : 0};
    w.before_past = w.before_heads + ((c->args.flags & ARGS_HEAD_FLAGS) ? ARGS_HEAD_WORDS * heads : 0);
    w.all = w.before_past + (c->params.kv.past_lengths ? batch : 0);
    return w;
}

clattn_status cla_call_table_of(const call *c, chain *steps, int first, int rows, cl_mem *table) {
    const call_words w = cla_call_words(c);
    if (w.all == 0) return CLATTN_OK;
    int32_t *words = cla_host_take_zeroed(&c->context->host, w.all, sizeof *words);
    if (!words)
        return cla_context_fail(c->context, CLATTN_OUT_OF_MEMORY, "attention: no host memory for lengths");
    fill_table(c, words, &w, first, rows);
    cla_kv_fill_past(c, words);
    const clattn_status status = cla_chain_table(steps, words, w.all * sizeof *words, table);
    cla_host_release(&c->context->host, words);
    return status;
}

clattn_status cla_call_table(call *c, chain *steps) {
    if (c->table) return CLATTN_OK;
    TRY(cla_ragged_order(c));
    TRY(cla_call_table_of(c, steps, 0, c->problem.n_q, &c->table));
    TRY(cla_ragged_table(c, steps));
    return cla_sinks_borrow(c, steps, &c->with_sinks);
}
