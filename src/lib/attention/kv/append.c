// append.c: see append.h. Also clattn_append_enqueue.
#include "attention/kv/append.h"

#include <stddef.h>

#include "attention/call/views.h"
#include "attention/kv/kv.h"
#include "base/host.h"
#include "launch/entry.h"

#define GROUP 32 // work-items per row, except on a CPU

static int group_of(const append_side *s) {
    static const clattn_tensor none;
    return s->scale ? cla_kv_scale_group(s->cache, s->scale, s->zero ? s->zero : &none) : 0;
}

static knobs knobs_of(const append *a) {
    const append_side *side = a->k.rows ? &a->k : &a->v;
    const int group = group_of(side);
    knobs k = {.type_q = (int)side->rows->type,
               .type_kv = (int)side->cache->type,
               .scale_group = group,
               .type_scale = group ? (int)side->scale->type : 0,
               .zero_points = side->zero ? 1 : 0,
               .ragged = a->packed,
               .paged = a->pages != NULL,
               .past = a->behind_past,
               .hadamard = (a->k.rows && a->rotation[0]) || (a->v.rows && a->rotation[1])};
    if (!a->rope || !a->k.rows) return k;
    k.rope = a->rope->layout == CLATTN_ROPE_INTERLEAVED ? 2 : 1;
    if (a->roped.positions) k.positions = cla_rope_positions_knob(a->rope);
    return k;
}

static clattn_status get_program(clattn_context *c, const append *a, knobs *k, program **p) {
    *k = knobs_of(a);
    return cla_program_get_group(c, KERNEL_APPEND, k, GROUP, p);
}

static bool alike(const append_side *k, const append_side *v) {
    return k->cache->type == v->cache->type && group_of(k) == group_of(v) && !k->zero == !v->zero &&
           (!k->scale || k->scale->type == v->scale->type);
}

// A kernel with a Hadamard transform keeps rows of both sides in local memory, so both widths are
// limited. rope.c limits only the transformed side.
static bool fits_beside(const append *a) {
    const bool rotates = a->rotation[0] || a->rotation[1];
    return !rotates ||
           (a->k.rows->shape[3] <= HADAMARD_MOST_COLUMNS && a->v.rows->shape[3] <= HADAMARD_MOST_COLUMNS);
}

// Split into two launches if the caches differ in type or kind of scales, or if both rows do not
// fit local memory. False: one launch writes both.
static bool take_apart(const append *a, append apart[2]) {
    if (!a->k.rows || !a->v.rows || (alike(&a->k, &a->v) && fits_beside(a))) return false;
    apart[0] = apart[1] = *a;
    apart[0].v = apart[1].k = (append_side){0};
    return true;
}

clattn_status cla_append_prepare(clattn_context *c, const append *a) {
    append apart[2];
    knobs k;
    program *p = NULL;
    if (!take_apart(a, apart)) return get_program(c, a, &k, &p);
    TRY(get_program(c, &apart[0], &k, &p));
    return get_program(c, &apart[1], &k, &p);
}

static double side_flops(const append_side *s) {
    return s->rows ? PACE_MOVE_FLOPS * (s->scale ? 2.0 : 1.0) * (double)cla_tensor_count(s->rows) : 0.0;
}

double cla_append_flops(const append *a) {
    return side_flops(&a->k) + side_flops(&a->v);
}

static append_args args_of(const append *a) {
    const append_side *side = a->k.rows ? &a->k : &a->v;
    const int64_t *shape = side->rows->shape;
    append_args args = {.position = a->roped.position,
                        .batch = (int)shape[0],
                        .heads = (int)shape[1],
                        .n = (int)shape[2],
                        .capacity = a->capacity ? a->capacity : (int)side->cache->shape[2],
                        .sequences = a->sequences,
                        .rotary_dim = a->roped.rotary_dim,
                        .flags = a->table ? ARGS_BATCH_ROWS : 0,
                        .start = a->start,
                        .circular = a->circular,
                        .first_side = a->k.rows ? 0 : 1,
                        .amplitude = a->roped.amplitude,
                        .block = {a->rotation[0], a->rotation[1]},
                        .scale = {cla_hadamard_scale(a->rotation[0]), cla_hadamard_scale(a->rotation[1])}};
    if (a->k.rows) {
        args.k_new = cla_tensor_view(a->k.rows), args.k = cla_tensor_view(a->k.cache);
        args.head_dim = (int)a->k.rows->shape[3];
        if (a->k.scale) args.k_scale = cla_kv_scale_view(a->k.scale, a->k.zero);
    }
    if (a->v.rows) {
        args.v_new = cla_tensor_view(a->v.rows), args.v = cla_tensor_view(a->v.cache);
        args.head_dim_v = (int)a->v.rows->shape[3];
        if (a->v.scale) args.v_scale = cla_kv_scale_view(a->v.scale, a->v.zero);
    }
    return args;
}

static void add_buffer(launch *l, const clattn_tensor *t) {
    static const cl_mem none = NULL;
    cla_launch_buffer(l, t ? &t->buffer : &none);
}

static clattn_status enqueue_sides(chain *steps, const append *a) {
    static const cl_mem none = NULL;
    const append_side *side = a->k.rows ? &a->k : &a->v;
    const append_args args = args_of(a);
    knobs k;
    launch l = {.flops = cla_append_flops(a), .cuts_first = true};
    if (cla_tensor_count(side->rows) == 0) return CLATTN_OK;
    TRY(get_program(steps->context, a, &k, &l.program));
    const rope_source_args source =
        k.positions ? cla_rope_source(a->rope, a->roped.positions) : (rope_source_args){0};
    add_buffer(&l, a->k.rows), add_buffer(&l, a->v.rows);
    add_buffer(&l, a->k.cache), add_buffer(&l, a->v.cache);
    if (side->scale) add_buffer(&l, a->k.scale), add_buffer(&l, a->v.scale);
    if (side->zero) add_buffer(&l, a->k.zero), add_buffer(&l, a->v.zero);
    if (k.rope) cla_launch_buffer(&l, &a->roped.frequencies);
    if (k.positions) add_buffer(&l, a->roped.positions);
    cla_launch_buffer(&l, a->table ? a->table : &none);
    if (a->pages) cla_launch_buffer(&l, a->block_table), cla_launch_value(&l, a->pages, sizeof *a->pages);
    cla_launch_value(&l, &args, sizeof args);
    if (k.past) cla_launch_value(&l, &a->past, sizeof a->past);
    if (k.positions) cla_launch_value(&l, &source, sizeof source);
    l.local[0] = (size_t)k.work_group, l.local[1] = l.local[2] = 1;
    l.global[0] = (size_t)args.n * l.local[0];
    l.global[1] = (size_t)args.batch * (size_t)args.heads;
    l.global[2] = a->k.rows && a->v.rows ? 2 : 1;
    return cla_launch_enqueue(steps, &l);
}

clattn_status cla_append_enqueue(chain *steps, const append *a) {
    append apart[2];
    if (!take_apart(a, apart)) return enqueue_sides(steps, a);
    TRY(enqueue_sides(steps, &apart[0]));
    return enqueue_sides(steps, &apart[1]);
}

typedef struct side_names {
    const char *rows, *cache, *scale, *zero, *rows_axes, *cache_axes;
} side_names;

// Check one side. New rows and their cache have the same shape, except for the row count, and for
// the batch if packed or paged.
static clattn_status check_side(clattn_context *c, const append *a, const append_side *s,
                                const side_names *names, bool planning) {
    static const clattn_tensor none;
    const tensor_rule rows = {names->rows, names->rows_axes, TYPES_FLOAT, false, planning};
    const tensor_rule kept = {names->cache, names->cache_axes, TYPES_KV, true, planning};
    const kv_scales scales = {
        s->scale ? s->scale : &none,
        s->zero,
        {names->scale, "[B, Hkv, capacity] or [B, Hkv, capacity, groups]", KV_SCALE_TYPES, true, planning},
        names->zero};
    const int64_t *x = s->rows->shape, batch = a->packed || a->pages ? -1 : x[0];
    TRY(cla_tensor_check(c, s->rows, 4, &rows));
    TRY(cla_tensor_check(c, s->cache, 4, &kept));
    int64_t of_cache[4] = {batch, x[1], -1};
    TRY(cla_tensor_elements(c, names->cache, s->cache->type, x[3], &of_cache[3]));
    TRY(cla_tensor_check_shape(c, s->cache, of_cache, &kept));
    if (x[3] < 1 || x[3] > INT32_MAX)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "%s: head size %lld: must be 1 to 2^31 - 1",
                                names->rows, (long long)x[3]);
    if (x[0] > INT32_MAX || x[1] > INT32_MAX || x[0] * x[1] > INT32_MAX ||
        s->cache->shape[2] > ARGS_MOST_ROWS)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "%s: B * Hkv must be below 2^31, and rows at most %d", names->cache,
                                ARGS_MOST_ROWS);
    if (s->cache->type == CLATTN_TYPE_U4 && !s->zero)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "%s: is absent: u4 has no numbers below 0 without zero points", names->zero);
    return cla_kv_check_scales(c, s->cache, &scales);
}

clattn_status cla_append_check_tensors(clattn_context *c, const append *a, bool planning) {
    static const side_names k = {"k_new",          "k",
                                 "k_scale",        "k_zero",
                                 "[B, Hkv, n, D]", "[B, Hkv, capacity, D]"},
                            v = {"v_new",           "v",
                                 "v_scale",         "v_zero",
                                 "[B, Hkv, n, Dv]", "[B, Hkv, capacity, Dv]"};
    if (a->k.rows) TRY(check_side(c, a, &a->k, &k, planning));
    if (a->v.rows) TRY(check_side(c, a, &a->v, &v, planning));
    if (!a->k.rows || !a->v.rows) return CLATTN_OK;
    for (int i = 0; i < 3; i++)
        if (a->k.rows->shape[i] != a->v.rows->shape[i] || a->k.cache->shape[i] != a->v.cache->shape[i])
            return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                    "%s: its size of axis %d differs from %s's: keys and values go together",
                                    a->k.rows->shape[i] != a->v.rows->shape[i] ? "v_new" : "v", i,
                                    a->k.rows->shape[i] != a->v.rows->shape[i] ? "k_new" : "k");
    return cla_tensor_check_alike(c, "v_new", a->v.rows, "k_new", a->k.rows);
}

clattn_status cla_append_check_start(clattn_context *c, const append *a, int64_t b, int64_t start,
                                     int64_t rows) {
    const append_side *side = a->k.rows ? &a->k : &a->v;
    const int64_t capacity = side->cache->shape[2];
    if (rows == 0 || (start >= 0 && (a->circular ? rows <= capacity : start + rows <= capacity)))
        return CLATTN_OK;
    return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                            "start: %lld of item %lld with %lld rows leaves the cache of %lld%s",
                            (long long)start, (long long)b, (long long)rows, (long long)capacity,
                            a->circular && start >= 0 ? ", which they would fill more than once" : "");
}

typedef struct append_job {
    clattn_context *context;
    append append;
    int32_t *words; // owned table of append.cl; NULL: none
    cl_mem table;
    clattn_append_params params;
} append_job;

static const clattn_tensor *if_given(const clattn_tensor *t) {
    return cla_tensor_given(t) ? t : NULL;
}

// A side has both new rows and a cache, or neither.
static clattn_status take_side(clattn_context *c, append_side *to, const append_side *from,
                               const char *name) {
    *to = (append_side){if_given(from->rows), if_given(from->cache), if_given(from->scale),
                        if_given(from->zero)};
    if (!to->rows == !to->cache && (to->rows || (!to->scale && !to->zero))) return CLATTN_OK;
    return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "%s: is %s, and %s_new is %s: both or neither", name,
                            to->cache ? "given" : "absent", name, to->rows ? "given" : "absent");
}

static int64_t batch_of(const append *a) {
    return (a->k.rows ? a->k.rows : a->v.rows)->shape[0];
}

static int64_t rows_of(const append *a) {
    return (a->k.rows ? a->k.rows : a->v.rows)->shape[2];
}

// Check that RoPE positions are in the range for which float32 angles are accurate.
static clattn_status check_position(const append_job *job, int64_t start, int64_t rows) {
    const clattn_rope *r = &job->params.rope;
    if (!job->append.rope || job->append.roped.positions || rows == 0) return CLATTN_OK;
    const bool far = r->position > ROPE_MAX_POSITION || r->position < -ROPE_MAX_POSITION;
    if (!far && r->position + start >= -ROPE_MAX_POSITION && r->position + start + rows <= ROPE_MAX_POSITION)
        return CLATTN_OK;
    return cla_context_fail(job->context, CLATTN_INVALID_ARGUMENT,
                            "rope.position: %lld with start %lld and %lld rows: positions must be -2^24 to "
                            "2^24",
                            (long long)r->position, (long long)start, (long long)rows);
}

// Read the start and the length of each batch item. Each number is read once, so that the kernel
// gets the checked value.
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
                                "rope: is for keys, and k_new is absent");
    const int head_dim = (int)a->k.rows->shape[3];
    TRY(cla_rope_check_numbers(job->context, r, head_dim));
    if (cla_tensor_given(&r->k_positions))
        return cla_context_fail(
            job->context, CLATTN_INVALID_ARGUMENT,
            "rope.k_positions: are for attention: here rope.positions are those of k_new");
    a->rope = r;
    a->roped = (rope_rows){.position = r->position,
                           .rotary_dim = cla_rope_width(r, head_dim),
                           .amplitude = (float)cla_rope_amplitude(r)};
    if (!cla_tensor_given(&r->positions)) return CLATTN_OK;
    a->roped.positions = &r->positions;
    return cla_rope_check_positions(job->context, r, &r->positions, "rope.positions", batch_of(a), rows_of(a),
                                    planning);
}

static clattn_status take_rotation(append_job *job) {
    const clattn_append_params *p = &job->params;
    append *a = &job->append;
    if ((p->k_rotation && !a->k.rows) || (p->v_rotation && !a->v.rows))
        return cla_context_fail(job->context, CLATTN_INVALID_ARGUMENT, "%s: is given, and %s is absent",
                                a->k.rows ? "v_rotation" : "k_rotation", a->k.rows ? "v_new" : "k_new");
    a->rotation[0] = p->k_rotation, a->rotation[1] = p->v_rotation;
    if (a->k.rows) TRY(cla_hadamard_check(job->context, "k_rotation", p->k_rotation, a->k.rows->shape[3]));
    return a->v.rows ? cla_hadamard_check(job->context, "v_rotation", p->v_rotation, a->v.rows->shape[3])
                     : CLATTN_OK;
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
    cla_views_add(&v, "k_zero", &p->k_zero, VIEW_WRITE);
    cla_views_add(&v, "v_zero", &p->v_zero, VIEW_WRITE);
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
    CLA_GIVEN(&all, !cla_tensor_is_empty(&p->k_new), &p->k_new);
    CLA_GIVEN(&all, !cla_tensor_is_empty(&p->v_new), &p->v_new);
    CLA_GIVEN(&all, true, &p->k, &p->v, &p->k_scale, &p->v_scale, &p->k_zero, &p->v_zero);
    cla_given_rope(&all, &p->rope);
    TRY(take_side(context, &a->k, &(append_side){&p->k_new, &p->k, &p->k_scale, &p->k_zero}, "k"));
    TRY(take_side(context, &a->v, &(append_side){&p->v_new, &p->v, &p->v_scale, &p->v_zero}, "v"));
    if (!a->k.rows && !a->v.rows)
        return cla_context_fail(context, CLATTN_INVALID_ARGUMENT,
                                "k_new, v_new: both are absent: there is nothing to append");
    TRY(cla_append_check_tensors(context, a, planning));
    TRY(take_rope(job, planning));
    TRY(take_rotation(job));
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
        TRY(cla_rope_make_frequencies(job->context, a->rope, (int)rows->shape[3], steps,
                                      &a->roped.frequencies));
    cla_chain_set_progress(steps, job->params.progress, cla_append_flops(a));
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
