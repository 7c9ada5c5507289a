// rope_call.c: clattn_rope_enqueue: rotary embedding of one tensor, out of place or in place, with positions, and cosines and
// sines, of the caller's where given.
#include <stddef.h>

#include "attention/call/given.h"
#include "attention/rope/rope.h"
#include "attention/call/views.h"
#include "base/bytes.h"
#include "launch/entry.h"
#include "base/host.h"

#define MOST_ROWS (INT32_MAX - 65536)

typedef struct rope_job {
    clattn_context *context;
    rope_turn turn;
    int32_t *table; // owned: shifts of the batch items; NULL: none
    cl_mem shifts;
    bool in_place;
    clattn_rope_params params; // a copy
} rope_job;

static bool same_view(const clattn_tensor *a, const clattn_tensor *b) {
    bool same = a->buffer && a->buffer == b->buffer && a->offset == b->offset && a->type == b->type;
    for (int i = 0; i < 4; i++) same = same && a->shape[i] == b->shape[i] && a->stride[i] == b->stride[i];
    return same;
}

static clattn_status check_tensors(rope_job *job, bool planning) {
    clattn_context *c = job->context;
    const clattn_rope_params *p = &job->params;
    const tensor_rule x = {"x", "[B, H, N, D]", TYPES_FLOAT, false, planning};
    const tensor_rule y = {"y", "[B, H, N, D]", TYPES_FLOAT, true, planning};
    const int64_t *s = p->x.shape;
    TRY(cla_tensor_check(c, &p->x, 4, &x));
    TRY(cla_tensor_check(c, &p->y, 4, &y));
    TRY(cla_tensor_check_shape(c, &p->y, s, &y));
    job->in_place = same_view(&p->x, &p->y);
    if (s[3] < 1 || s[3] > INT32_MAX)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "x: head size %lld: must be 1 to 2^31 - 1",
                                (long long)s[3]);
    if (s[2] > MOST_ROWS)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "x: %lld rows: at most %d are possible",
                                (long long)s[2], MOST_ROWS);
    if (s[0] > INT32_MAX || s[1] > INT32_MAX || s[0] * s[1] > INT32_MAX)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "x: B * H: must be below 2^31");
    return CLATTN_OK;
}

static clattn_status refuse_both(clattn_context *c, const char *name, const char *other) {
    return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "%s: is given beside %s, which takes its place", name,
                            other);
}

// Positions that are counted here: of N rows from position + offset on, within `least` and `most`.
static clattn_status check_counted(const rope_job *job, int64_t offset, int64_t least, int64_t most) {
    const int64_t first = job->params.rope.position, n = job->params.x.shape[2];
    // Neither sum can then overflow.
    const bool far = first > INT32_MAX || first < INT32_MIN;
    if (!far && first + offset >= least && first + offset <= most - n) return CLATTN_OK;
    return cla_context_fail(job->context, CLATTN_INVALID_ARGUMENT,
                            "rope.position: %lld with offset %lld and %lld rows: positions must be %lld to "
                            "%lld",
                            (long long)first, (long long)offset, (long long)n, (long long)least,
                            (long long)most);
}

// Of each batch item, in the words of args.h.
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
    if (p->cos.type == p->sin.type) return CLATTN_OK;
    return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                            "sin: its type differs from cos's: both must be stored alike");
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

static void fill_turn(rope_job *job) {
    const clattn_rope_params *p = &job->params;
    const bool cached = cla_tensor_given(&p->cos);
    job->turn = (rope_turn){.rope = &p->rope,
                            .x = &p->x,
                            .cos = cached ? &p->cos : NULL,
                            .sin = cached ? &p->sin : NULL,
                            .y = &p->y.buffer,
                            .y_type = p->y.type,
                            .y_view = cla_tensor_view(&p->y),
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
    TRY(check_tensors(job, planning));
    TRY(cla_rope_check_numbers(context, &p->rope, (int)p->x.shape[3]));
    if (p->rope.layout == CLATTN_ROPE_NONE)
        return cla_context_fail(context, CLATTN_INVALID_ARGUMENT,
                                "rope.layout: is CLATTN_ROPE_NONE: half or interleaved is needed");
    TRY(check_cached(job, planning));
    TRY(check_where(job, planning));
    fill_turn(job);
    return planning ? CLATTN_OK : check_memory(job);
}

static clattn_status prepare(void *from) {
    const rope_job *job = from;
    return cla_rope_turn_prepare(job->context, &job->turn);
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
        TRY(cla_rope_make_frequencies(job->context, &p->rope, (int)p->x.shape[3], steps, &rows->turns));
    cla_chain_hear(steps, p->progress, cla_rope_turn_flops(&p->x));
    return cla_rope_turn_enqueue(steps, &job->turn);
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
