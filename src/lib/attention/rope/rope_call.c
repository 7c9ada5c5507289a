// rope_call.c: checks of clattn_rope: each error names the option, the value found and the values
// accepted. Also clattn_rope_enqueue: RoPE of one tensor, out of place or in place, optionally with
// the caller's positions, cosines and sines.
#include <math.h>
#include <stddef.h>

#include "attention/call/call_kind.h"
#include "attention/call/views.h"
#include "attention/rope/rope.h"
#include "base/host.h"
#include "launch/entry.h"

// Check a scaling parameter: at least `least`, or 0 if it has a default.
static clattn_status check_number(clattn_context *c, const char *name, double x, double least,
                                  bool defaults) {
    if ((defaults && x == 0.0) || (isfinite(x) && x >= least)) return CLATTN_OK;
    return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "rope.%s: %g: must be %g or more%s", name, x, least,
                            defaults ? ", or 0 for its default" : "");
}

static clattn_status check_range(clattn_context *c, const clattn_rope *r) {
    const bool yarn = r->scaling == CLATTN_ROPE_SCALING_YARN;
    const rope_frequency_range range = cla_rope_range(r);
    TRY(check_number(c, yarn ? "beta_slow" : "low_factor", yarn ? r->beta_slow : r->low_factor, 1e-6, true));
    TRY(check_number(c, yarn ? "beta_fast" : "high_factor", yarn ? r->beta_fast : r->high_factor, 1e-6,
                     true));
    if (range.low < range.high) return CLATTN_OK;
    return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "rope.%s: %g: must be above rope.%s, which is %g",
                            yarn ? "beta_fast" : "high_factor", range.high, yarn ? "beta_slow" : "low_factor",
                            range.low);
}

// Check pair_factors: R/2 of them. Below 0.25 a position could exceed one revolution, which the
// kernel's frequencies cannot represent.
static clattn_status check_pairs(clattn_context *c, const clattn_rope *r, int width) {
    if (!r->pair_factors)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "rope.pair_factors: is NULL: scaling pairs needs R/2");
    if (r->pairs != width / 2)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "rope.pairs: %d factors: R/2 = %d are needed",
                                r->pairs, width / 2);
    for (int d = 0; d < r->pairs; d++)
        if (!(r->pair_factors[d] >= 0.25f))
            return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                    "rope.pair_factors: %g for pair %d: must be 0.25 or more",
                                    (double)r->pair_factors[d], d);
    return check_number(c, "attention_factor", r->attention_factor, 1e-6, true);
}

static clattn_status check_scaling(clattn_context *c, const clattn_rope *r, int width) {
    const bool yarn = r->scaling == CLATTN_ROPE_SCALING_YARN,
               llama3 = r->scaling == CLATTN_ROPE_SCALING_LLAMA3,
               dynamic = r->scaling == CLATTN_ROPE_SCALING_DYNAMIC;
    if (r->scaling == CLATTN_ROPE_SCALING_PAIRS) return check_pairs(c, r, width);
    if (r->pair_factors || r->pairs)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "rope.%s: has no effect without CLATTN_ROPE_SCALING_PAIRS",
                                r->pair_factors ? "pair_factors" : "pairs");
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

// With sections, each pair uses one of three positions.
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

// Without a layout all other fields must be 0. Add every new field here.
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
                  {r->sections_interleaved, "sections_interleaved"},
                  {r->pair_factors != NULL, "pair_factors"},
                  {r->pairs != 0, "pairs"}};
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

// Check that implicit positions stay within -2^24 .. 2^24.
static clattn_status check_counted_rows(clattn_context *c, const clattn_attention_params *p) {
    const int64_t keys = cla_kv_count(&p->kv), n = p->q.shape[2] > keys ? p->q.shape[2] : keys;
    if (p->rope.position < -ROPE_MAX_POSITION || n > ROPE_MAX_POSITION ||
        p->rope.position > ROPE_MAX_POSITION - n)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "rope.position: %lld and %lld rows: positions must be within 2^24 of 0",
                                (long long)p->rope.position, (long long)n);
    return CLATTN_OK;
}

// Keys get RoPE in k, or only in k_new if there is a cache or pages. In a ragged batch rows are
// packed, except those of a cache.
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
                                "rope.k_positions: are given without rope.positions: pass both or neither");
    if (!rows) return check_counted_rows(c, p);
    TRY(cla_rope_check_positions(c, r, &r->positions, "rope.positions", batch, nq, planning));
    if (cla_kv_is_paged(&p->kv) && !appends) {
        if (!keys) return CLATTN_OK;
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "rope.k_positions: have no effect on pages, whose rows already have RoPE");
    }
    if (keys)
        return cla_rope_check_positions(c, r, &r->k_positions, "rope.k_positions", k->shape[0], nkv,
                                        planning);
    if (nq == nkv && (batch == k->shape[0] || !cla_ragged_given(p))) return CLATTN_OK;
    return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                            "rope.k_positions: are absent: needed where there are %lld %s for Nq = %lld",
                            (long long)nkv, appends ? "new keys" : "keys", (long long)nq);
}

// The job of clattn_rope_enqueue.

typedef struct rope_job {
    clattn_context *context;
    rope_apply turn;
    int32_t *table; // owned shifts of the batch items; NULL: none
    cl_mem shifts;
    bool in_place;
    clattn_rope_params params;
} rope_job;

clattn_status cla_rope_check_rows(clattn_context *c, const clattn_tensor *from, const clattn_tensor *to,
                                  bool planning) {
    const tensor_rule x = {"x", "[B, H, N, D]", TYPES_FLOAT, false, planning};
    const tensor_rule y = {"y", "[B, H, N, D]", TYPES_FLOAT, true, planning};
    const int64_t *s = from->shape;
    TRY(cla_tensor_check(c, from, 4, &x));
    TRY(cla_tensor_check(c, to, 4, &y));
    TRY(cla_tensor_check_shape(c, to, s, &y));
    if (s[3] < 1 || s[3] > INT32_MAX)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "x: head size %lld: must be 1 to 2^31 - 1",
                                (long long)s[3]);
    if (s[2] > ARGS_MOST_ROWS)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "x: %lld rows: at most %d are possible",
                                (long long)s[2], ARGS_MOST_ROWS);
    if (s[0] > INT32_MAX || s[1] > INT32_MAX || s[0] * s[1] > INT32_MAX)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "x: B * H: must be below 2^31");
    return CLATTN_OK;
}

static clattn_status refuse_both(clattn_context *c, const char *name, const char *other) {
    return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "%s: is given beside %s, which takes its place", name,
                            other);
}

// Check implicit positions: N rows from position + offset on, within [least, most).
static clattn_status check_counted(const rope_job *job, int64_t offset, int64_t least, int64_t most) {
    const int64_t first = job->params.rope.position, n = job->params.x.shape[2];
    // This also rules out overflow in the sums.
    const bool far = first > INT32_MAX || first < INT32_MIN;
    if (!far && first + offset >= least && first + offset <= most - n) return CLATTN_OK;
    return cla_context_fail(job->context, CLATTN_INVALID_ARGUMENT,
                            "rope.position: %lld with offset %lld and %lld rows: positions must be %lld to "
                            "%lld",
                            (long long)first, (long long)offset, (long long)n, (long long)least,
                            (long long)most);
}

// Read the offset of each batch item into the table of args.h.
static clattn_status take_offsets(rope_job *job, int64_t least, int64_t most, bool copy) {
    const clattn_rope_params *p = &job->params;
    const int64_t batch = p->x.shape[0];
    if (copy)
        job->table = cla_host_take_zeroed(&job->context->host, (size_t)batch * ARGS_ITEM_WORDS + 1,
                                          sizeof *job->table);
    if (copy && !job->table)
        return cla_context_fail(job->context, CLATTN_OUT_OF_MEMORY, "rope: no host memory for its offsets");
    for (int64_t b = 0; b < batch; b++) {
        const int32_t offset = p->offsets[b];
        TRY(check_counted(job, offset, least, most));
        if (copy) job->table[ARGS_ITEM_WORDS * b] = offset;
    }
    return CLATTN_OK;
}

static clattn_status check_where(rope_job *job, bool planning) {
    const clattn_rope_params *p = &job->params;
    const clattn_rope *r = &p->rope;
    const bool counted = r->position || p->offset || p->offsets;
    const bool cached = cla_tensor_given(&p->cos), by_row = cached && p->cos.rank == 3;
    if (cla_tensor_given(&r->k_positions))
        return cla_context_fail(job->context, CLATTN_INVALID_ARGUMENT,
                                "rope.k_positions: are for attention: here rope.positions are those of x");
    if (p->offset && p->offsets) return refuse_both(job->context, "offset", "offsets");
    if (cla_tensor_given(&r->positions)) {
        if (p->offset || p->offsets) return refuse_both(job->context, "offset", "rope.positions");
        if (by_row) return refuse_both(job->context, "rope.positions", "cos [B or 1, N, R/2]");
        return cla_rope_check_positions(job->context, r, &r->positions, "rope.positions", p->x.shape[0],
                                        p->x.shape[2], planning);
    }
    if (by_row && counted)
        return refuse_both(job->context, r->position ? "rope.position" : "offset", "cos [B or 1, N, R/2]");
    if (by_row || cla_tensor_count(&p->x) == 0) return CLATTN_OK;
    const int64_t least = cached ? 0 : -ROPE_MAX_POSITION,
                  most = cached ? p->cos.shape[0] : ROPE_MAX_POSITION;
    if (!p->offsets) return check_counted(job, p->offset, least, most);
    return take_offsets(job, least, most, !planning);
}

static clattn_status check_cached(rope_job *job, bool planning) {
    clattn_context *c = job->context;
    const clattn_rope_params *p = &job->params;
    const clattn_tensor *const both[2] = {&p->cos, &p->sin};
    static const char *const names[2] = {"cos", "sin"};
    const int64_t pairs = cla_rope_width(&p->rope, (int)p->x.shape[3]) / 2, *s = p->cos.shape;
    const int rank = p->cos.rank == 3 ? 3 : 2;
    if (!cla_tensor_given(&p->cos) && !cla_tensor_given(&p->sin)) return CLATTN_OK;
    if (p->rope.base != 0.0 || p->rope.scaling != CLATTN_ROPE_SCALING_NONE)
        return refuse_both(c, p->rope.base != 0.0 ? "rope.base" : "rope.scaling", "cos");
    for (int i = 0; i < 2; i++) {
        const tensor_rule rule = {names[i], rank == 3 ? "[B or 1, N, R/2]" : "[P, R/2]",
                                  TYPES_FLOAT | ANY_LAST_STRIDE, false, planning};
        TRY(cla_tensor_check(c, both[i], rank, &rule));
        bool fits = both[i]->shape[rank - 1] == pairs;
        if (rank == 3) fits = fits && (s[0] == 1 || s[0] == p->x.shape[0]) && s[1] == p->x.shape[2];
        for (int axis = 0; axis < rank; axis++) fits = fits && both[i]->shape[axis] == s[axis];
        if (rank == 2) fits = fits && s[0] >= 1 && s[0] <= INT32_MAX;
        if (!fits)
            return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                    "%s: its shape does not fit: %s with R/2 = %lld, cos and sin alike",
                                    names[i], rule.axes, (long long)pairs);
    }
    return cla_tensor_check_alike(c, "sin", &p->sin, "cos", &p->cos);
}

static clattn_status check_memory(const rope_job *job) {
    call_views v;
    const clattn_rope_params *p = &job->params;
    cla_views_begin(&v, job->context);
    cla_views_add(&v, "y", &p->y, job->in_place ? VIEW_BOTH : VIEW_WRITE);
    if (!job->in_place) cla_views_add(&v, "x", &p->x, VIEW_READ);
    cla_views_add(&v, "rope.positions", &p->rope.positions, VIEW_READ);
    cla_views_add(&v, "cos", &p->cos, VIEW_READ);
    cla_views_add(&v, "sin", &p->sin, VIEW_READ);
    return cla_views_check(&v);
}

static void fill_rope(rope_job *job) {
    const clattn_rope_params *p = &job->params;
    const bool cached = cla_tensor_given(&p->cos);
    job->turn = (rope_apply){.rope = &p->rope,
                             .x = &p->x,
                             .cos = cached ? &p->cos : NULL,
                             .sin = cached ? &p->sin : NULL,
                             .y = &p->y.buffer,
                             .y_type = p->y.type,
                             .y_view = cla_tensor_view(&p->y),
                             .in_place = job->in_place,
                             .rows = {.position = p->rope.position + p->offset,
                                      .rotary_dim = cla_rope_width(&p->rope, (int)p->x.shape[3]),
                                      .flags = p->offsets ? ARGS_BATCH_ROWS : 0,
                                      .amplitude = (float)cla_rope_amplitude(&p->rope),
                                      .interleaved = p->rope.layout == CLATTN_ROPE_INTERLEAVED}};
    if (cla_tensor_given(&p->rope.positions)) job->turn.rows.positions = &p->rope.positions;
}

static clattn_status check(clattn_context *context, const void *params, entry_purpose purpose, void *to) {
    rope_job *job = to;
    const bool planning = purpose != ENTRY_ENQUEUE;
    cla_bytes_zero(job, offsetof(rope_job, params));
    job->context = context;
    cla_bytes_copy(&job->params, params, sizeof job->params);
    clattn_rope_params *p = &job->params;
    const given_views all = {context, planning, .inner = false};
    CLA_GIVEN(&all, false, &p->x, &p->y);
    CLA_GIVEN(&all, true, &p->cos, &p->sin);
    cla_given_rope(&all, &p->rope);
    TRY(cla_rope_check_rows(context, &p->x, &p->y, planning));
    job->in_place = cla_tensor_same_view(&p->x, &p->y);
    TRY(cla_rope_check_numbers(context, &p->rope, (int)p->x.shape[3]));
    if (p->rope.layout == CLATTN_ROPE_NONE)
        return cla_context_fail(context, CLATTN_INVALID_ARGUMENT,
                                "rope.layout: is CLATTN_ROPE_NONE: half or interleaved is needed");
    TRY(check_cached(job, planning));
    TRY(check_where(job, planning));
    fill_rope(job);
    return planning ? CLATTN_OK : check_memory(job);
}

static clattn_status prepare(void *from) {
    const rope_job *job = from;
    return cla_rope_apply_prepare(job->context, &job->turn);
}

static clattn_status run(void *from, chain *steps) {
    rope_job *job = from;
    const clattn_rope_params *p = &job->params;
    rope_rows *rows = &job->turn.rows;
    if (cla_tensor_count(&p->x) == 0) return CLATTN_OK;
    TRY(prepare(job));
    if (job->table)
        TRY(cla_chain_table(steps, job->table, (size_t)p->x.shape[0] * ARGS_ITEM_WORDS * sizeof *job->table,
                            &rows->table));
    if (!job->turn.cos)
        TRY(cla_rope_make_frequencies(job->context, &p->rope, (int)p->x.shape[3], steps, &rows->frequencies));
    cla_chain_set_progress(steps, p->progress, cla_rope_apply_flops(&p->x));
    return cla_rope_apply_enqueue(steps, &job->turn);
}

static void release(void *from) {
    rope_job *job = from;
    cla_host_release(&job->context->host, job->table);
    job->table = NULL;
}

static const entry rope_entry = {check, prepare, run, release};

clattn_status clattn_rope_prepare(clattn_context *context, const clattn_rope_params *params) {
    rope_job job;
    return cla_entry_prepare(&rope_entry, context, params, &job);
}

clattn_status clattn_rope_enqueue(clattn_context *context, cl_command_queue queue,
                                  const clattn_rope_params *params, cl_uint wait_count,
                                  const cl_event *wait_list, cl_event *event) {
    const entry_queue at = {queue, wait_count, wait_list, event};
    rope_job job;
    return cla_entry_enqueue(&rope_entry, context, params, &at, &job);
}
