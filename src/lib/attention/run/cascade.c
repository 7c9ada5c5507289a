// cascade.c: see cascade.h.
#include "attention/run/cascade.h"

#include "attention/call/call_kind.h"
#include "attention/call/visible_keys.h"
#include "attention/call/table.h"
#include "attention/run/run.h"
#include "plan/families/family.h"

// Merge two axes into one. Returns false if no single stride describes both. *stride is the stride
// of the merged axis.
static bool join(int64_t outer, int64_t outer_size, int64_t inner, int64_t inner_size, int64_t *stride) {
    *stride = inner_size == 1 ? outer : inner;
    return outer_size == 1 || inner_size == 1 || outer == inner_size * inner;
}

// Convert a view [B, H, Nq, ...] to [Hkv, heads, rows, ...], where `fold` says how heads and rows
// are formed. False: not expressible.
static bool fold_view(const problem *m, cascade_fold fold, const args_view *from, args_view *to) {
    const int64_t group = m->heads / m->kv_heads, batch = m->batch, n = m->n_q;
    const bool items = fold == CASCADE_ITEMS || fold == CASCADE_ITEMS_TRANSPOSED;
    int64_t both, other = 0;
    bool joined;
    if (fold == CASCADE_ONE)
        joined =
            join(from->head, group, from->row, n, &both) && join(from->batch, batch, both, group * n, &both);
    else if (items)
        joined = join(from->head, group, from->row, n, &both), other = from->batch;
    else
        joined = join(from->batch, batch, from->row, n, &both), other = from->head;
    const bool transposed = fold == CASCADE_ITEMS_TRANSPOSED || fold == CASCADE_HEADS_TRANSPOSED;
    *to = *from;
    to->batch = group * from->head;
    to->head = transposed ? both : other, to->row = transposed ? other : both;
    return joined;
}

static unsigned folds_of(const call *c) {
    const problem *m = &c->problem;
    const int64_t n = m->n_q, d = m->head_dim;
    const args_view roped = {0, m->heads * n * d, n * d, d, 1}, *q = c->applies_rope ? &roped : &c->args.q;
    args_view unused;
    unsigned folds = 0;
    for (int f = 0; f < CASCADE_FOLDS; f++) {
        const cascade_fold fold = (cascade_fold)f;
        if (fold == CASCADE_ONE && m->kv_heads != 1) continue;
        if (!fold_view(m, fold, q, &unused)) continue;
        if (m->score_ops & ARGS_MASK && !fold_view(m, fold, &c->args.mask, &unused)) continue;
        if (m->score_ops & ARGS_BIAS && !fold_view(m, fold, &c->args.bias, &unused)) continue;
        folds |= 1u << f;
    }
    return folds;
}

// Why some row cannot see all of the first `prefix` keys, from positions and lengths. NULL: all
// rows see them.
static const char *hidden_keys(const call *c, int prefix) {
    const clattn_score *s = &c->params.score;
    const int apart = cla_call_distinct_items(c);
    for (int b = 0; b < apart; b++) {
        const int64_t rows = s->q_lengths ? s->q_lengths[b] : c->problem.n_q, first = cla_call_shift(c, b);
        if (rows == 0) continue;
        const int64_t keys = cla_kv_length(c, b), last = first + rows - 1;
        if (keys < prefix) return "an item's keys (kv_lengths) end within it";
        if (first - prefix < INT32_MIN) return "its rows are too far before the keys";
        if (ARGS_END_KEY(first, c->args.window_right, keys) < prefix)
            return "causality or the window hides some of it";
        if (ARGS_FIRST_KEY(last, c->args.window_left, keys) > 0) return "the window hides some of it";
    }
    return NULL;
}

// Why the options rule out a cascade; NULL: they permit it. They must not depend on item, head or
// row by more than a stride.
static const char *options_refusal(const call *c, int prefix) {
    const problem *m = &c->problem;
    const int64_t own = m->n_kv - (int64_t)prefix;
    const char *apart = cla_score_cascade_refusal(&c->params.score);
    if (m->kernel == CLATTN_KERNEL_UNFUSED) return "the unfused kernel is selected";
    if (m->wants_weights || m->wants_scores) return "weights or scores are returned";
    if (m->splits > 0) return "splits are set";
    if (apart) return apart;
    if (c->ragged.given) return "the items' rows are packed (cu_seqlens)";
    if (own == 0 && (c->params.score.sinks || cla_tensor_given(&c->params.score.sinks_device)))
        return "sinks belong to the items' own keys, and there are none";
    return hidden_keys(c, prefix);
}

// Number of past rows that every item has; 0 if the items differ or have none.
static int prefix_of(const call *c) {
    const int prefix = cla_kv_past(&c->params.kv, 0), apart = cla_call_distinct_items(c);
    for (int b = 1; b < apart; b++)
        if (cla_kv_past(&c->params.kv, b) != prefix) return 0;
    return prefix;
}

static clattn_kv of_past(const clattn_kv *kv, int prefix) {
    clattn_kv past = {.k = kv->past_k,
                      .v = kv->past_v,
                      .k_scale = kv->past_k_scale,
                      .v_scale = kv->past_v_scale,
                      .k_zero = kv->past_k_zero,
                      .v_zero = kv->past_v_zero};
    past.k.shape[2] = past.v.shape[2] = prefix;
    return past;
}
static clattn_kv without_past(const clattn_kv *kv) {
    clattn_kv own = *kv;
    own.past_k = own.past_v = own.past_k_scale = own.past_v_scale = own.past_k_zero = own.past_v_zero =
        (clattn_tensor){0};
    own.past_lengths = NULL;
    return own;
}

static cascade_input input_of(const call *c) {
    const clattn_kv *kv = &c->params.kv, past = of_past(kv, 0), own = without_past(kv);
    const bool roped = c->params.rope.layout != CLATTN_ROPE_NONE;
    cascade_input in = {.asked = c->params.cascade, .prefix = prefix_of(c)};
    in.shared_kv = cla_kv_is_shared(&past), in.own_shared_kv = !roped && cla_kv_is_shared(&own);
    in.folds = folds_of(c);
    in.refusal =
        in.prefix == 0 ? "items have differently many past rows, or none" : options_refusal(c, in.prefix);
    return in;
}

clattn_status cla_cascade_plan(call *c, const plan_input *in) {
    const bool shared =
                   c->problem.past && c->params.kv.past_k.shape[0] == 1 && c->params.kv.past_v.shape[0] == 1,
               asked = c->params.cascade == CLATTN_CASCADE_ALWAYS;
    c->cascade = (cascade_plan){0};
    if (c->empty || c->params.cascade == CLATTN_CASCADE_NEVER) return CLATTN_OK;
    if (!shared || c->problem.batch < 2) {
        if (!asked || shared) return CLATTN_OK; // one item reads its past once anyway
        return cla_context_fail(c->context, CLATTN_UNSUPPORTED,
                                "cascade: needs a past that items share: past_k and past_v of 1 in B");
    }
    const cascade_input from = input_of(c);
    const clattn_status status = cla_cascade_choose(in, &c->problem, &from, &c->variant, &c->cascade);
    if (status != CLATTN_OK)
        return cla_context_fail(c->context, CLATTN_UNSUPPORTED, "cascade: the past cannot be read once: %s",
                                c->cascade.why);
    if (c->cascade.on) c->variant = c->cascade.has_suffix ? c->cascade.of_suffix : c->cascade.of_prefix;
    return CLATTN_OK;
}

// View of the partial results from byte `from` of the workspace on, for all rows of the call. The
// axes are laid out such that fold_view can merge them.
static args_view partial_view(const call *c, int64_t width, uint64_t from) {
    const problem *m = &c->problem;
    const int64_t n = m->n_q * width, heads = m->heads, batch = m->batch,
                  start = (int64_t)((c->variant_workspace + from) / sizeof(float));
    if (c->cascade.fold == CASCADE_HEADS || c->cascade.fold == CASCADE_HEADS_TRANSPOSED)
        return (args_view){start, n, batch * n, width, 1};
    return (args_view){start, heads * n, n, width, 1};
}
static call_partial partials_of(const call *c, int range) {
    const problem *m = &c->problem;
    const int64_t rows = (int64_t)m->batch * m->heads * m->n_q;
    call_partial p = {.on = true,
                      .out = partial_view(c, m->head_dim_v, 0),
                      .lse = partial_view(c, 2, c->cascade.partial_lse),
                      .split_out = rows * m->head_dim_v,
                      .split_lse = rows * 2};
    p.out.offset += range * p.split_out, p.lse.offset += range * p.split_lse;
    return p;
}

static void begin_part(const call *c, const variant *v, int range, call *part) {
    *part = *c;
    part->variant = *v;
    part->cascade.on = false;
    part->partial = partials_of(c, range);
    part->variant_workspace = c->variant_workspace + (c->cascade.partial_bytes + 255) / 256 * 256;
    part->table = part->with_sinks = NULL;
}

static args_view rows_view(const args_rows *rows) {
    return (args_view){rows->offset, rows->head, 0, rows->row, 1};
}

// Arguments of the launch over the past: every row sees the whole past, except for the boolean
// mask. It has no sinks.
static void prefix_arguments(const call *c, call *part) {
    const problem *m = &part->problem;
    attention_args *a = &part->args;
    args_view *const folded[] = {&a->q, &a->mask, &a->bias, &part->partial.out, &part->partial.lse};
    for (size_t i = 0; i < sizeof folded / sizeof folded[0]; i++) {
        const args_view from = *folded[i];
        (void)fold_view(&c->problem, c->cascade.fold, &from, folded[i]);
    }
    a->k = rows_view(&c->past.k), a->v = rows_view(&c->past.v);
    a->k_scale = rows_view(&c->past_scales.k), a->v_scale = rows_view(&c->past_scales.v);
    a->k_scale.column = a->v_scale.column = 0; // zero points have the offsets of their scales
    a->batch = m->batch, a->heads = a->group = m->heads, a->kv_heads = 1;
    a->n_q = a->call_rows = m->n_q, a->n_kv = a->split_keys = m->n_kv;
    a->shift = 0, a->window_left = a->window_right = -1;
    a->flags &= ARGS_SOFTCAP | ARGS_BIAS | ARGS_MASK;
}

static void begin_prefix(const call *c, call *part) {
    const clattn_kv *kv = &c->params.kv;
    const cascade_input in = {.prefix = c->cascade.prefix, .shared_kv = c->cascade.of_prefix.knobs.shared_kv};
    begin_part(c, &c->cascade.of_prefix, 0, part);
    part->problem = cla_cascade_prefix(&c->problem, &in, c->cascade.fold);
    part->params.kv = of_past(kv, c->cascade.prefix);
    part->k = kv->past_k.buffer, part->v = kv->past_v.buffer;
    clattn_score *s = &part->params.score;
    s->alignment = CLATTN_ALIGN_TOP_LEFT;
    s->q_lengths = s->kv_lengths = s->offsets = NULL;
    s->sinks = NULL, s->sinks_device = (clattn_tensor){0};
    prefix_arguments(c, part);
}

// Set up the launch over the items' own keys. The launch counts keys from 0, so shift, mask and
// bias move by `prefix`.
static void begin_own(const call *c, call *part) {
    const int prefix = c->cascade.prefix;
    const cascade_input in = {.prefix = prefix, .own_shared_kv = c->cascade.of_suffix.knobs.shared_kv};
    attention_args *a = &part->args;
    begin_part(c, &c->cascade.of_suffix, c->cascade.of_prefix.splits, part);
    part->problem = cla_cascade_suffix(&c->problem, &in);
    part->params.kv = without_past(&c->params.kv);
    part->first_key = prefix;
    // The past may be shorter than its tensor, and then the items have fewer own rows than planned.
    // A kernel may read a hidden row, but never one beyond the tensor.
    const int64_t rows = cla_kv_count(&part->params.kv);
    a->n_kv = rows < part->problem.n_kv ? (int)rows : part->problem.n_kv;
    a->split_keys = part->problem.n_kv;
    a->shift -= prefix;
    a->mask.offset += prefix * a->mask.column;
    a->bias.offset += prefix * a->bias.column;
}

static int splits_of(const call *c) {
    return c->cascade.of_prefix.splits + (c->cascade.has_suffix ? c->cascade.of_suffix.splits : 0);
}

clattn_status cla_cascade_prepare(const call *c) {
    call part;
    begin_prefix(c, &part);
    TRY(cla_flash_prepare(&part));
    if (c->cascade.has_suffix) {
        begin_own(c, &part);
        TRY(cla_flash_prepare(&part));
    }
    return cla_flash_prepare_combine(c);
}

double cla_cascade_flops(const call *c) {
    call part;
    begin_prefix(c, &part);
    double flops = cla_flash_flops(&part) + cla_flash_combine_flops(c, splits_of(c));
    if (!c->cascade.has_suffix) return flops;
    begin_own(c, &part);
    return flops + cla_flash_flops(&part);
}

clattn_status cla_cascade_begin(const call *c, call *own, chain *steps) {
    begin_own(c, own);
    return c->cascade.has_suffix ? cla_call_table(own, steps) : CLATTN_OK;
}

clattn_status cla_cascade_enqueue(const call *c, call *own, chain *steps) {
    call part;
    cl_mem const table = own->table, with_sinks = own->with_sinks;
    begin_prefix(c, &part); // reads q after RoPE
    TRY(cla_flash_enqueue(&part, steps));
    if (c->cascade.has_suffix) {
        begin_own(c, own);
        own->table = table;
        TRY(cla_sinks_enqueue(own, steps, with_sinks, &own->table));
        TRY(cla_flash_enqueue(own, steps));
    }
    part = *c;
    part.partial = partials_of(c, 0);
    return cla_flash_combine(&part, steps, splits_of(c));
}
