// visible_keys.c: see visible_keys.h.
#include "attention/call/visible_keys.h"

#include <math.h>

#include "attention/call/call_kind.h"

int cla_ragged_rows(const call *c, int b) {
    const int32_t *cu = c->params.cu_seqlens_q, *used = c->params.score.q_lengths;
    return used ? used[b] : cu ? cu[b + 1] - cu[b] : c->ragged.most_q;
}

int cla_ragged_keys(const call *c, int b) {
    const int32_t *cu = c->params.kv.cu_seqlens_kv;
    const int64_t past = cla_kv_has_past(&c->params.kv) ? c->params.kv.past_k.shape[2] : 0;
    return cu ? cu[b + 1] - cu[b] : c->ragged.most_kv - (int)past;
}

int cla_kv_max_length(const call *c, int b) {
    const clattn_kv *kv = &c->params.kv;
    if (c->ragged.packed_keys) return cla_kv_past(kv, b) + cla_ragged_keys(c, b);
    return cla_kv_has_past(kv) ? cla_kv_past(kv, b) + (int)kv->k.shape[2] : (int)cla_kv_count(kv);
}

int cla_kv_length(const call *c, int b) {
    return c->params.score.kv_lengths ? c->params.score.kv_lengths[b] : cla_kv_max_length(c, b);
}

// Lengths count from the call's key 0, so subtract the keys before this launch.
int cla_call_keys(const call *c, int b) {
    return cla_kv_length(c, b) - (c->params.score.kv_lengths ? c->first_key : 0);
}

int32_t cla_call_shift(const call *c, int b) {
    const clattn_score *s = &c->params.score;
    const int rows = s->q_lengths ? s->q_lengths[b] : c->problem.n_q;
    return ARGS_SHIFT(s, b, rows, cla_call_keys(c, b) + c->first_key) - c->first_key;
}

int cla_call_distinct_items(const call *c) {
    const clattn_score *s = &c->params.score;
    const bool alike = !s->q_lengths && !s->kv_lengths && !c->params.kv.past_lengths &&
                       (!c->ragged.given || c->ragged.on_device);
    return alike && c->problem.batch > 1 ? 1 : c->problem.batch;
}

// The sum of at + i over i in [0, n), with each term clamped to [0, most].
static double held_sum(double n, double at, double most) {
    const double low = fmin(fmax(-at, 0.0), n), high = fmin(fmax(most - at, low), n);
    return (high - low) * (2.0 * at + low + high - 1.0) / 2.0 + (n - high) * most;
}

// The number of pairs of a row and a key of item b, such that the row sees the key. Only the item's
// first `keys` keys count. items.clh has the same bounds.
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
    return seen_of(c, b, first, rows, cla_call_keys(c, b));
}

double cla_call_seen_in(const call *c, int b, int first, int rows, double first_key, double end_key) {
    const double keys = cla_call_keys(c, b);
    return seen_of(c, b, first, rows, fmin(keys, end_key)) -
           seen_of(c, b, first, rows, fmin(keys, first_key));
}

double cla_call_seen(const call *c, int first, int rows) {
    double seen = 0.0;
    if (c->ragged.on_device) return c->ragged.total_q * cla_call_row_keys(c); // an upper bound
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
