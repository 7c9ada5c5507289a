// ragged.c: the checks of ragged.h.
#include "attention/kv/ragged.h"

#include <string.h>

#include "attention/call/call_kind.h"
#include "attention/call/visible_keys.h"
#include "base/host.h"

// Reject options that do not go with packed keys.
static clattn_status check_keys_given(clattn_context *x, const clattn_attention_params *p) {
    const bool lengths = cla_tensor_given(&p->kv.kv_lengths_device), packed = cla_ragged_packs_keys(p);
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

clattn_status cla_ragged_check_count(clattn_context *x, const int32_t *cu_seqlens_q, int32_t sequences,
                                     int64_t rows) {
    if (!cu_seqlens_q || sequences || rows == 0) return CLATTN_OK;
    return cla_context_fail(
        x, CLATTN_INVALID_ARGUMENT,
        "sequences: is 0 beside cu_seqlens_q, and %lld rows are packed: must be the number "
        "of sequences, 1 or more",
        (long long)rows);
}

// Reject counts without their array, and arrays without cu_seqlens_q.
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
                                "%s: needs cu_seqlens_q, which is 0, 1, 2, ... for single rows",
                                cla_ragged_packs_keys(p) ? "cu_seqlens_kv" : "kv_lengths_device");
    if (cla_ragged_on_device(p) && (p->cu_seqlens_q || p->kv.cu_seqlens_kv))
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
    if (p->q.rank == 4) TRY(cla_ragged_check_count(x, p->cu_seqlens_q, p->sequences, p->q.shape[2]));
    return check_keys_given(x, p);
}

// One host array, and its limits.
typedef struct array_rule {
    const char *name, *most_name;
    // `used`: the lengths in use per sequence; NULL: all rows.
    const int32_t *cu, *used;
    const clattn_kv *before; // for keys: their past, which `used` includes; else NULL
    // `total`: rows of the packed tensor. `longest`: the caller's bound; 0: receives the longest
    // length.
    int total, *longest;
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
        // count all packed rows, because the lengths in use may change from call to call
        if (!most && to - from > *a->longest) *a->longest = to - from;
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

// Another thread may write to the caller's arrays. Copying first makes sure that the checked values
// are the ones in use.
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
                        .on_device = cla_ragged_on_device(p),
                        .packed_keys = cla_ragged_packs_keys(p),
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
        const int rows = cla_ragged_rows(c, b), keys = cla_kv_max_length(c, b);
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
