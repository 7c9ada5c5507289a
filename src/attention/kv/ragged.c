// ragged.c: see ragged.h.
#include <stdlib.h>
#include <string.h>

#include "attention/call/call.h"
#include "base/host.h"
#include "plan/families/family.h"

#define MOST_ORDERED 4096 // sequences that the device orders: it compares each with all

static bool on_device(const clattn_attention_params *p) {
    return cla_tensor_given(&p->cu_seqlens_q_device) || cla_tensor_given(&p->kv.cu_seqlens_kv_device) ||
           cla_tensor_given(&p->kv.kv_lengths_device);
}
static bool packed_keys(const clattn_attention_params *p) {
    return p->kv.cu_seqlens_kv || cla_tensor_given(&p->kv.cu_seqlens_kv_device);
}
bool cla_ragged_given(const clattn_attention_params *p) {
    return p->cu_seqlens_q || p->kv.cu_seqlens_kv || on_device(p);
}
int64_t cla_ragged_sequences(const clattn_attention_params *p) {
    return cla_ragged_given(p) ? p->sequences : p->q.shape[0];
}

// What packed keys are not beside.
static clattn_status check_keys_given(clattn_context *x, const clattn_attention_params *p) {
    const bool lengths = cla_tensor_given(&p->kv.kv_lengths_device), packed = packed_keys(p);
    if (lengths && p->score.kv_lengths)
        return cla_context_fail(x, CLATTN_INVALID_ARGUMENT,
                                "kv_lengths_device: is given beside kv_lengths, whose place it takes");
    if (lengths && packed)
        return cla_context_fail(
            x, CLATTN_INVALID_ARGUMENT,
            "kv_lengths_device: is of keys that are not packed, and cu_seqlens_kv is given");
    if (packed && cla_kv_is_paged(&p->kv))
        return cla_context_fail(x, CLATTN_INVALID_ARGUMENT,
                                "cu_seqlens_kv: keys lie in pages, not packed: kv_lengths say how many");
    if (packed && cla_kv_appends(&p->kv))
        return cla_context_fail(
            x, CLATTN_INVALID_ARGUMENT,
            "cu_seqlens_kv: k_new goes to caches, [B, Hkv, Nkv, D] or pages, not to packed keys");
    return CLATTN_OK;
}

// Numbers that need an array, and arrays that need another.
clattn_status cla_ragged_check_given(clattn_context *x, const clattn_attention_params *p) {
    const bool queries = p->cu_seqlens_q || cla_tensor_given(&p->cu_seqlens_q_device);
    if (!cla_ragged_given(p)) {
        if (p->sequences || p->max_q || p->max_kv)
            return cla_context_fail(x, CLATTN_INVALID_ARGUMENT,
                                    "%s: is of a ragged batch, and cu_seqlens_q is absent",
                                    p->sequences ? "sequences"
                                    : p->max_q   ? "max_q"
                                                 : "max_kv");
        return CLATTN_OK;
    }
    if (!queries)
        return cla_context_fail(x, CLATTN_INVALID_ARGUMENT,
                                "%s: needs cu_seqlens_q, which may say 0, 1, 2, ... of single rows",
                                packed_keys(p) ? "cu_seqlens_kv" : "kv_lengths_device");
    if (on_device(p) && (p->cu_seqlens_q || p->kv.cu_seqlens_kv))
        return cla_context_fail(x, CLATTN_INVALID_ARGUMENT,
                                "cu_seqlens_q_device: all arrays must be on the device, or none");
    if (p->q.rank == 4 && p->q.shape[0] != 1)
        return cla_context_fail(x, CLATTN_INVALID_ARGUMENT,
                                "q: %lld batch items: of a ragged batch it is packed, [1, H, T, D]",
                                (long long)p->q.shape[0]);
    if (p->sequences < 0 || p->max_q < 0 || p->max_kv < 0)
        return cla_context_fail(x, CLATTN_INVALID_ARGUMENT, "%s: is negative: must be 0 or more",
                                p->sequences < 0 ? "sequences"
                                : p->max_q < 0   ? "max_q"
                                                 : "max_kv");
    return check_keys_given(x, p);
}

// An array of the host, and what bounds it.
typedef struct array_rule {
    const char *name, *most_name;
    const int32_t *cu, *used; // used: what of each sequence is looked at, as far as it is right; NULL: all
    const clattn_kv *before;  // of keys, whose past `used` counts; else NULL
    int total, *longest;      // longest: the caller's bound, or 0, and then what is the most
} array_rule;

static clattn_status check_array(const call *c, const array_rule *a) {
    const int most = *a->longest;
    if (a->cu[0] != 0)
        return cla_context_fail(c->context, CLATTN_INVALID_ARGUMENT, "%s: begins with %d: must begin with 0",
                                a->name, (int)a->cu[0]);
    for (int b = 0; b < c->ragged.sequences; b++) {
        const int from = a->cu[b], to = a->cu[b + 1];
        if (to < from || to > a->total)
            return cla_context_fail(c->context, CLATTN_INVALID_ARGUMENT,
                                    "%s: item %d is %d after %d: must not fall, nor pass the %d packed rows",
                                    a->name, b + 1, to, from, a->total);
        const int64_t used = !a->used ? INT32_MAX : a->used[b] - (a->before ? cla_kv_past(a->before, b) : 0);
        const int length = used < to - from ? (int)used : to - from;
        if (most && length > most)
            return cla_context_fail(c->context, CLATTN_INVALID_ARGUMENT,
                                    "%s: sequence %d has %d rows, more than %s, %d", a->name, b, length,
                                    a->most_name, most);
        if (!most && to - from > *a->longest) *a->longest = to - from; // whatever lengths say, step by step
    }
    return CLATTN_OK;
}

static clattn_status check_device_array(clattn_context *x, const char *name, const clattn_tensor *t,
                                        int sequences, int more, bool planning) {
    const tensor_rule rule = {name, more ? "[B + 1]" : "[B]", TYPES_I32 | ANY_LAST_STRIDE, false, planning};
    const int64_t shape = (int64_t)sequences + more;
    TRY(cla_tensor_check(x, t, 1, &rule));
    if (t->shape[0] == shape) return CLATTN_OK;
    return cla_context_fail(x, CLATTN_INVALID_ARGUMENT,
                            "%s: has %lld numbers: %lld are needed for %d sequences", name,
                            (long long)t->shape[0], (long long)shape, sequences);
}

// Another thread may write to the caller's arrays meanwhile: they are checked as they will be used.
static clattn_status copy_arrays(call *c) {
    clattn_attention_params *p = &c->params;
    ragged_batch *r = &c->ragged;
    const size_t n = (size_t)r->sequences, cu = n + 1;
    int32_t *to = r->words = cla_host_take(&c->context->host, (2 * cu + 4 * n + 2) * sizeof *to);
    if (!to)
        return cla_context_fail(c->context, CLATTN_OUT_OF_MEMORY,
                                "cu_seqlens_q: no host memory for its copy");
    memcpy(to, p->cu_seqlens_q, cu * sizeof *to);
    p->cu_seqlens_q = to;
    if (r->packed_keys) {
        memcpy(to + cu, p->kv.cu_seqlens_kv, cu * sizeof *to);
        p->kv.cu_seqlens_kv = to + cu;
    }
    r->q_length = to + 2 * cu, r->kv_length = r->q_length + n;
    r->order = r->kv_length + n, r->before = r->order + n;
    return CLATTN_OK;
}

static clattn_status check_host(call *c, bool planning) {
    const clattn_attention_params *p = &c->params;
    ragged_batch *r = &c->ragged;
    if (!planning) TRY(copy_arrays(c));
    const array_rule q = {"cu_seqlens_q", "max_q",    p->cu_seqlens_q, p->score.q_lengths,
                          NULL,           r->total_q, &r->most_q};
    const array_rule kv = {"cu_seqlens_kv", "max_kv",    p->kv.cu_seqlens_kv, p->score.kv_lengths,
                           &p->kv,          r->total_kv, &r->most_kv};
    TRY(check_array(c, &q));
    return r->packed_keys ? check_array(c, &kv) : CLATTN_OK;
}

static clattn_status check_device(call *c, bool planning) {
    const clattn_attention_params *p = &c->params;
    const ragged_batch *r = &c->ragged;
    clattn_context *x = c->context;
    TRY(check_device_array(x, "cu_seqlens_q_device", &p->cu_seqlens_q_device, r->sequences, 1, planning));
    if (r->packed_keys)
        TRY(check_device_array(x, "cu_seqlens_kv_device", &p->kv.cu_seqlens_kv_device, r->sequences, 1,
                               planning));
    if (cla_tensor_given(&p->kv.kv_lengths_device))
        TRY(check_device_array(x, "kv_lengths_device", &p->kv.kv_lengths_device, r->sequences, 0, planning));
    if (r->sequences && ((r->most_q == 0 && r->total_q > 0) || (r->most_kv == 0 && r->total_kv > 0)))
        return cla_context_fail(x, CLATTN_INVALID_ARGUMENT,
                                "%s: is 0: with arrays on the device the longest sequence must be given",
                                r->most_q == 0 && r->total_q > 0 ? "max_q" : "max_kv");
    return CLATTN_OK;
}

clattn_status cla_ragged_check(call *c, bool planning) {
    const clattn_attention_params *p = &c->params;
    ragged_batch *r = &c->ragged;
    if (!cla_ragged_given(p)) return CLATTN_OK;
    *r = (ragged_batch){.given = true,
                        .on_device = on_device(p),
                        .packed_keys = packed_keys(p),
                        .sequences = p->sequences,
                        .from_rows = 1,
                        .to_rows = INT32_MAX,
                        .most_q = p->max_q,
                        .most_kv = p->max_kv,
                        .total_q = (int)p->q.shape[2],
                        .total_kv = (int)p->kv.k.shape[2]};
    if (!r->packed_keys && r->most_kv)
        return cla_context_fail(c->context, CLATTN_INVALID_ARGUMENT,
                                "max_kv: is of packed keys, and cu_seqlens_kv is absent");
    if (!r->packed_keys) r->most_kv = (int)cla_kv_count(&p->kv);
    TRY(r->on_device ? check_device(c, planning) : check_host(c, planning));
    if (r->packed_keys && cla_kv_has_past(&p->kv)) r->most_kv += (int)p->kv.past_k.shape[2];
    return CLATTN_OK;
}

int cla_ragged_rows(const call *c, int b) {
    const int32_t *cu = c->params.cu_seqlens_q, *used = c->params.score.q_lengths;
    return used ? used[b] : cu ? cu[b + 1] - cu[b] : c->ragged.most_q;
}
int cla_ragged_keys(const call *c, int b) {
    const int32_t *cu = c->params.kv.cu_seqlens_kv;
    const int64_t past = cla_kv_has_past(&c->params.kv) ? c->params.kv.past_k.shape[2] : 0;
    return cu ? cu[b + 1] - cu[b] : c->ragged.most_kv - (int)past;
}

static clattn_status check_used(const call *c, const char *name, int b, int used, int most) {
    if (used <= most) return CLATTN_OK;
    return cla_context_fail(c->context, CLATTN_INVALID_ARGUMENT,
                            "%s: item %d is %d: its sequence has %d rows", name, b, used, most);
}

clattn_status cla_ragged_take_lengths(call *c, bool planning) {
    clattn_attention_params *p = &c->params;
    clattn_score *s = &p->score;
    const ragged_batch *r = &c->ragged;
    if (!r->given || r->on_device) return CLATTN_OK;
    for (int b = 0; b < r->sequences; b++) {
        const int rows = cla_ragged_rows(c, b), keys = cla_kv_most(c, b);
        TRY(check_used(c, "q_lengths", b, rows, p->cu_seqlens_q[b + 1] - p->cu_seqlens_q[b]));
        if (s->kv_lengths) TRY(check_used(c, "kv_lengths", b, s->kv_lengths[b], keys));
        if (planning) continue;
        r->q_length[b] = rows;
        if (r->packed_keys) r->kv_length[b] = s->kv_lengths ? s->kv_lengths[b] : keys;
    }
    if (planning) return CLATTN_OK;
    s->q_lengths = r->q_length;
    if (r->packed_keys) s->kv_lengths = r->kv_length;
    return CLATTN_OK;
}

size_t cla_ragged_item_words(const call *c) {
    return c->ragged.given ? ARGS_SEQUENCE_WORDS : ARGS_ITEM_WORDS;
}

static bool has_work(const ragged_batch *r, int b) {
    return r->q_length[b] >= r->from_rows && r->q_length[b] <= r->to_rows;
}

void cla_ragged_fill_table(const call *c, int32_t *words) {
    const clattn_attention_params *p = &c->params;
    const ragged_batch *r = &c->ragged;
    if (!r->given || r->on_device) return;
    for (int n = 0; n < r->sequences; n++, words += ARGS_SEQUENCE_WORDS) {
        if (!has_work(r, n)) words[1] = 0; // of this launch; the call's stays
        words[4] = p->cu_seqlens_q[n];
        words[5] = r->packed_keys ? p->kv.cu_seqlens_kv[n] : 0;
        words[6] = n < r->working ? r->before[n] : ARGS_NO_SEQUENCE;
        words[7] = n < r->working ? r->order[n] : 0;
    }
}

// Query heads whose rows share a unit of work, and units of so many rows.
static int unit_heads(const call *c) {
    return c->variant.family->shares_heads ? c->args.group : 1;
}
static int64_t units_of(const call *c, int64_t rows) {
    const int each = c->variant.rows_per_group > 0 ? c->variant.rows_per_group : 1;
    return (rows * unit_heads(c) + each - 1) / each;
}
static int64_t groups_of(const call *c, int64_t units) {
    return units * (c->problem.heads / unit_heads(c)) * c->variant.splits;
}

// A sequence and what a unit of its rows costs.
typedef struct sequence_cost {
    int b;
    double cost;
} sequence_cost;

static int compare_costs(const void *a, const void *b) {
    const sequence_cost *x = a, *y = b;
    return x->cost != y->cost ? (x->cost < y->cost ? 1 : -1) : x->b < y->b ? -1 : 1;
}

static double cost_of(const call *c, int b) {
    const int rows = c->ragged.q_length[b];
    return cla_call_seen_of(c, b, 0, rows) / (double)units_of(c, rows);
}

clattn_status cla_ragged_order(call *c) {
    ragged_batch *r = &c->ragged;
    int64_t before = 0;
    if (!r->given || r->on_device || r->sequences == 0) return CLATTN_OK;
    sequence_cost *costs = cla_host_take(&c->context->host, (size_t)r->sequences * sizeof *costs);
    if (!costs)
        return cla_context_fail(c->context, CLATTN_OUT_OF_MEMORY,
                                "cu_seqlens_q: no host memory for its order");
    r->working = 0;
    for (int b = 0; b < r->sequences; b++)
        if (has_work(r, b)) costs[r->working++] = (sequence_cost){b, cost_of(c, b)};
    qsort(costs, (size_t)r->working, sizeof *costs, compare_costs);
    for (int n = 0; n < r->working; n++) {
        r->order[n] = costs[n].b, r->before[n] = (int32_t)before;
        before += units_of(c, r->q_length[costs[n].b]);
    }
    r->before[r->working] = (int32_t)before; // below 2^31: the planner saw that the groups are
    cla_host_release(&c->context->host, costs);
    return CLATTN_OK;
}

bool cla_ragged_next(const call *c, bool apart, ragged_part *part) {
    const ragged_batch *r = &c->ragged;
    if (r->on_device) {
        if (part->groups) return false;
        *part = (ragged_part){.groups = groups_of(c, units_of(c, r->total_q) + r->sequences),
                              .seen = cla_call_seen(c, 0, c->problem.n_q)};
        return part->groups > 0;
    }
    const int from = part->to;
    if (from >= r->working) return false;
    const double cost = cost_of(c, r->order[from]);
    *part = (ragged_part){.from = from, .to = from};
    do {
        part->seen += cla_call_seen_of(c, r->order[part->to], 0, c->problem.n_q);
        part->to++;
    } while (part->to < r->working && (!apart || cost_of(c, r->order[part->to]) >= cost / 2));
    part->first_group = groups_of(c, r->before[from]);
    part->groups = groups_of(c, r->before[part->to]) - part->first_group;
    return true;
}

clattn_status cla_ragged_table(call *c, chain *steps) {
    if (!c->ragged.on_device || !c->table || c->ragged.limits) return CLATTN_OK;
    c->ragged.limits = c->table;
    return cla_chain_scratch(steps, cla_call_words(c).all * sizeof(int32_t), &c->table);
}

// What of the keys lies in a buffer: where they begin, or how many they are, or nothing.
static const clattn_tensor *keys_array(const call *c) {
    const clattn_kv *kv = &c->params.kv;
    return c->ragged.packed_keys                      ? &kv->cu_seqlens_kv_device
           : cla_tensor_given(&kv->kv_lengths_device) ? &kv->kv_lengths_device
                                                      : NULL;
}

clattn_status cla_ragged_enqueue(call *c, chain *steps) {
    const clattn_attention_params *p = &c->params;
    const ragged_batch *r = &c->ragged;
    const clattn_tensor *q = &p->cu_seqlens_q_device, *array = keys_array(c), *kv = array ? array : q;
    const call_words words = cla_call_words(c);
    const knobs k = {.ragged = 1};
    const ragged_args a = {.q_offset = q->offset,
                           .q_stride = q->stride[0],
                           .kv_offset = kv->offset,
                           .kv_stride = kv->stride[0],
                           .keys = r->packed_keys ? RAGGED_KEYS_PACKED
                                   : array        ? RAGGED_KEYS_COUNTED
                                                  : RAGGED_KEYS_ALL,
                           .batch = r->sequences,
                           .more_words = (int)(words.all - words.before_heads),
                           .past_word = c->problem.past ? c->past.word : -1,
                           .past_rows = c->problem.past ? c->past.rows : 0,
                           .total_q = r->total_q,
                           .total_kv = r->total_kv,
                           .bottom_right = p->score.alignment == CLATTN_ALIGN_BOTTOM_RIGHT,
                           .unit_rows = c->variant.rows_per_group > 0 ? c->variant.rows_per_group : 1,
                           .unit_heads = unit_heads(c),
                           .ordered = r->sequences <= MOST_ORDERED};
    const size_t items[3] = {(size_t)(a.batch > a.more_words ? a.batch : a.more_words), 1, 1};
    launch l = {.flops = 0.0};
    if (!r->limits) return CLATTN_OK;
    TRY(cla_program_get(c->context, KERNEL_RAGGED, &k, &l.program));
    cla_launch_items(&l, c->context, items, (const size_t[3]){64, 1, 1});
    cla_launch_buffer(&l, &q->buffer);
    cla_launch_buffer(&l, &kv->buffer);
    cla_launch_buffer(&l, &r->limits);
    cla_launch_buffer(&l, &c->table);
    cla_launch_value(&l, &a, sizeof a);
    return cla_launch_enqueue(steps, &l);
}
