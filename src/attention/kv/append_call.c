// append_call.c: clattn_append_enqueue: new rows of keys and values into a cache.
#include <stddef.h>

#include "attention/call/given.h"
#include "attention/kv/append.h"
#include "attention/call/views.h"
#include "base/bytes.h"
#include "launch/entry.h"
#include "base/host.h"

typedef struct append_job {
    clattn_context *context;
    append append;
    int32_t *words; // owned: the table of append.cl; NULL: none
    cl_mem table;
    clattn_append_params params; // a copy
} append_job;

static const clattn_tensor *given(const clattn_tensor *t) {
    return cla_tensor_given(t) ? t : NULL;
}

// A side is whole or absent.
static clattn_status take_side(clattn_context *c, append_side *to, const clattn_tensor *rows,
                               const clattn_tensor *kept, const clattn_tensor *scale, const char *name) {
    *to = (append_side){given(rows), given(kept), given(scale)};
    if (!to->rows == !to->cache && (to->rows || !to->scale)) return CLATTN_OK;
    return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "%s: is %s, and %s_new is %s: both or neither", name,
                            to->cache ? "given" : "absent", name, to->rows ? "given" : "absent");
}

static int64_t batch_of(const append *a) {
    return (a->k.rows ? a->k.rows : a->v.rows)->shape[0];
}
static int64_t rows_of(const append *a) {
    return (a->k.rows ? a->k.rows : a->v.rows)->shape[2];
}

// Where RoPE counts: the rows' positions within what float32 angles are checked for.
static clattn_status check_position(const append_job *job, int64_t start, int64_t rows) {
    const clattn_rope *r = &job->params.rope;
    if (!job->append.rope || job->append.turned.positions || rows == 0) return CLATTN_OK;
    const bool far = r->position > ROPE_MAX_POSITION || r->position < -ROPE_MAX_POSITION;
    if (!far && r->position + start >= -ROPE_MAX_POSITION && r->position + start + rows <= ROPE_MAX_POSITION)
        return CLATTN_OK;
    return cla_context_fail(job->context, CLATTN_INVALID_ARGUMENT,
                            "rope.position: %lld with start %lld and %lld rows: positions must be -2^24 to "
                            "2^24",
                            (long long)r->position, (long long)start, (long long)rows);
}

// Of each batch item. What is checked is what the kernel gets.
static clattn_status take_starts(append_job *job, bool copy) {
    const clattn_append_params *p = &job->params;
    const int64_t batch = batch_of(&job->append), n = rows_of(&job->append);
    if (copy)
        job->words = cla_host_take_zeroed(&job->context->host, (size_t)batch * APPEND_ITEM_WORDS + 1,
                                          sizeof *job->words);
    if (copy && !job->words)
        return cla_context_fail(job->context, CLATTN_OUT_OF_MEMORY, "append: no host memory for its starts");
    for (int64_t b = 0; b < batch; b++) {
        const int32_t start = p->starts ? p->starts[b] : p->start,
                      rows = p->lengths ? p->lengths[b] : (int32_t)n;
        if (rows < 0 || rows > n)
            return cla_context_fail(job->context, CLATTN_INVALID_ARGUMENT,
                                    "lengths: item %lld is %d: must be 0 to %lld", (long long)b, (int)rows,
                                    (long long)n);
        TRY(cla_append_check_start(job->context, &job->append, b, start, rows));
        TRY(check_position(job, start, rows));
        if (copy) job->words[APPEND_ITEM_WORDS * b] = start, job->words[APPEND_ITEM_WORDS * b + 1] = rows;
    }
    job->append.table = &job->table;
    return CLATTN_OK;
}

static clattn_status take_rope(append_job *job, bool planning) {
    const clattn_append_params *p = &job->params;
    const clattn_rope *r = &p->rope;
    append *a = &job->append;
    if (r->layout == CLATTN_ROPE_NONE) return cla_rope_check_numbers(job->context, r, 0);
    if (!a->k.rows)
        return cla_context_fail(job->context, CLATTN_INVALID_ARGUMENT,
                                "rope: turns keys, and k_new is absent");
    const int head_dim = (int)a->k.rows->shape[3];
    TRY(cla_rope_check_numbers(job->context, r, head_dim));
    if (cla_tensor_given(&r->k_positions))
        return cla_context_fail(
            job->context, CLATTN_INVALID_ARGUMENT,
            "rope.k_positions: are for attention: here rope.positions are those of k_new");
    a->rope = r;
    a->turned = (rope_rows){.position = r->position,
                            .rotary_dim = cla_rope_width(r, head_dim),
                            .amplitude = (float)cla_rope_amplitude(r)};
    if (!cla_tensor_given(&r->positions)) return CLATTN_OK;
    a->turned.positions = &r->positions;
    return cla_rope_check_positions(job->context, r, &r->positions, "rope.positions", batch_of(a), rows_of(a),
                                    planning);
}

static clattn_status check_memory(const append_job *job) {
    call_views v;
    const clattn_append_params *p = &job->params;
    cla_views_begin(&v, job->context);
    cla_views_add(&v, "k_new", &p->k_new, VIEW_READ);
    cla_views_add(&v, "v_new", &p->v_new, VIEW_READ);
    cla_views_add(&v, "k", &p->k, VIEW_WRITE);
    cla_views_add(&v, "v", &p->v, VIEW_WRITE);
    cla_views_add(&v, "k_scale", &p->k_scale, VIEW_WRITE);
    cla_views_add(&v, "v_scale", &p->v_scale, VIEW_WRITE);
    if (job->append.rope) cla_views_add(&v, "rope.positions", &p->rope.positions, VIEW_READ);
    return cla_views_check(&v);
}

static clattn_status check(clattn_context *context, const void *params, entry_purpose purpose, void *to) {
    append_job *job = to;
    const bool planning = purpose != ENTRY_ENQUEUE;
    cla_bytes_zero(job, offsetof(append_job, params));
    job->context = context;
    cla_bytes_copy(&job->params, params, sizeof job->params);
    clattn_append_params *p = &job->params;
    append *a = &job->append;
    const given_views all = {context, planning, .inner = false};
    cla_given_new(&all, &p->k_new, &p->v_new);
    CLA_GIVEN(&all, true, &p->k, &p->v, &p->k_scale, &p->v_scale);
    cla_given_rope(&all, &p->rope);
    TRY(take_side(context, &a->k, &p->k_new, &p->k, &p->k_scale, "k"));
    TRY(take_side(context, &a->v, &p->v_new, &p->v, &p->v_scale, "v"));
    if (!a->k.rows && !a->v.rows)
        return cla_context_fail(context, CLATTN_INVALID_ARGUMENT,
                                "k_new, v_new: both are absent: there is nothing to append");
    TRY(cla_append_check_tensors(context, a, planning));
    TRY(take_rope(job, planning));
    if (p->start && p->starts)
        return cla_context_fail(context, CLATTN_INVALID_ARGUMENT,
                                "start: is given beside starts, which take its place");
    a->circular = p->circular, a->start = p->start;
    if (p->starts || p->lengths) {
        TRY(take_starts(job, !planning));
    } else {
        TRY(cla_append_check_start(context, a, 0, p->start, rows_of(a)));
        TRY(check_position(job, p->start, rows_of(a)));
    }
    return planning ? CLATTN_OK : check_memory(job);
}

static clattn_status prepare(void *from) {
    const append_job *job = from;
    return cla_append_prepare(job->context, &job->append);
}

static clattn_status run(void *from, chain *steps) {
    append_job *job = from;
    append *a = &job->append;
    const clattn_tensor *rows = a->k.rows ? a->k.rows : a->v.rows;
    if (cla_tensor_count(rows) == 0) return CLATTN_OK;
    TRY(prepare(job));
    if (job->words)
        TRY(cla_chain_table(steps, job->words,
                            (size_t)rows->shape[0] * APPEND_ITEM_WORDS * sizeof *job->words, &job->table));
    if (a->rope)
        TRY(cla_rope_make_frequencies(job->context, a->rope, (int)rows->shape[3], steps, &a->turned.turns));
    cla_chain_hear(steps, job->params.progress, cla_append_flops(a));
    return cla_append_enqueue(steps, a);
}

static void release(void *from) {
    append_job *job = from;
    cla_host_release(&job->context->host, job->words);
    job->words = NULL;
}

static const entry append_entry = {check, prepare, run, release};

clattn_status clattn_append_prepare(clattn_context *context, const clattn_append_params *params) {
    append_job job;
    return cla_entry_prepare(&append_entry, context, params, &job);
}

clattn_status clattn_append_enqueue(clattn_context *context, cl_command_queue queue,
                                    const clattn_append_params *params, cl_uint wait_count,
                                    const cl_event *wait_list, cl_event *event) {
    const entry_queue at = {queue, wait_count, wait_list, event};
    append_job job;
    return cla_entry_enqueue(&append_entry, context, params, &at, &job);
}
