// shift.c: clattn_shift_enqueue: rotate the keys of a cache in place by RoPE, for every key type.
// append.c appends new rows, and rope_call.c applies RoPE outside a cache.
#include <stddef.h>

#include "attention/call/views.h"
#include "attention/kv/append.h"
#include "attention/kv/kv.h"
#include "base/host.h"
#include "launch/entry.h"

#define GROUP 32 // work-items per row, except on a CPU

typedef struct shift_job {
    clattn_context *context;
    int width;      // R, the rotary columns
    int32_t *words; // owned table of shift.cl; NULL: none
    clattn_shift_params params;
} shift_job;

static clattn_status get_program(const shift_job *job, knobs *k, program **p) {
    const clattn_shift_params *from = &job->params;
    const int group = cla_kv_scale_group(&from->k, &from->k_scale, &from->k_zero);
    *k = (knobs){.type_kv = (int)from->k.type,
                 .scale_group = group,
                 .type_scale = group ? (int)from->k_scale.type : 0,
                 .zero_points = cla_tensor_given(&from->k_zero) ? 1 : 0,
                 .rope = from->rope.layout == CLATTN_ROPE_INTERLEAVED ? 2 : 1,
                 .hadamard = from->k_rotation != 0};
    return cla_program_get_group(job->context, KERNEL_SHIFT, k, GROUP, p);
}

static clattn_status check_tensors(const shift_job *job, bool planning) {
    clattn_context *c = job->context;
    const clattn_shift_params *p = &job->params;
    const tensor_rule k = {"k", "[B, Hkv, N, D]", TYPES_KV, true, planning};
    const kv_scales scales = {
        &p->k_scale,
        &p->k_zero,
        {"k_scale", "[B, Hkv, N] or [B, Hkv, N, groups]", KV_SCALE_TYPES, true, planning},
        "k_zero"};
    const int64_t *s = p->k.shape;
    TRY(cla_tensor_check(c, &p->k, 4, &k));
    if (s[3] < 1 || cla_tensor_width(&p->k) > INT32_MAX)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "k: head size %lld: must be 1 to 2^31 - 1",
                                (long long)cla_tensor_width(&p->k));
    if (s[0] > INT32_MAX || s[1] > INT32_MAX || s[0] * s[1] > INT32_MAX || s[2] > ARGS_MOST_ROWS)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "k: B * Hkv must be below 2^31, and rows at most %d", ARGS_MOST_ROWS);
    TRY(cla_hadamard_check(c, "k_rotation", p->k_rotation, cla_tensor_width(&p->k)));
    if (p->k.type == CLATTN_TYPE_U4 && !cla_tensor_given(&p->k_zero))
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "k_zero: is absent: u4 has no numbers below 0 without zero points");
    return cla_kv_check_scales(c, &p->k, &scales);
}

// Check the RoPE options. Every pair rotates by delta, so options about positions are rejected.
static clattn_status check_rope(shift_job *job) {
    clattn_context *c = job->context;
    const clattn_rope *r = &job->params.rope;
    const struct {
        bool given;
        const char *name;
    } places[] = {{r->position != 0, "position"},
                  {cla_tensor_given(&r->positions), "positions"},
                  {cla_tensor_given(&r->k_positions), "k_positions"},
                  {cla_rope_has_sections(r), "sections"},
                  {r->sections_interleaved, "sections_interleaved"}};
    for (size_t n = 0; n < sizeof places / sizeof places[0]; n++)
        if (places[n].given)
            return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                    "rope.%s: has no effect here: all keys move by delta positions",
                                    places[n].name);
    if (r->layout == CLATTN_ROPE_NONE)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "rope.layout: is CLATTN_ROPE_NONE: the layout of the stored keys is needed");
    TRY(cla_rope_check_numbers(c, r, (int)cla_tensor_width(&job->params.k)));
    if (r->scaling == CLATTN_ROPE_SCALING_DYNAMIC && r->length > r->original_length)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "rope.length: %g: above original_length, %g, each length has frequencies of "
                                "its own: if all keys have those of one length, use NTK with its factor",
                                r->length, r->original_length);
    job->width = cla_rope_width(r, (int)cla_tensor_width(&job->params.k));
    const bool waits = clattn_type_numbers(job->params.k.type) > 1 ||
                       cla_kv_scale_group(&job->params.k, &job->params.k_scale, &job->params.k_zero);
    if (!waits || job->width <= SHIFT_MOST_BLOCK_WIDTH) return CLATTN_OK;
    return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                            "rope.rotary_dim: %d: for keys in blocks or groups it must be at most %d",
                            job->width, SHIFT_MOST_BLOCK_WIDTH);
}

static clattn_status check_delta(const shift_job *job, int64_t b, int32_t delta) {
    if (delta >= -ROPE_MAX_POSITION && delta <= ROPE_MAX_POSITION) return CLATTN_OK;
    return cla_context_fail(job->context, CLATTN_INVALID_ARGUMENT,
                            "delta: %d of item %lld: must be -2^24 to 2^24", (int)delta, (long long)b);
}

// Read the delta and the length of each batch item. Each number is read once, so that the kernel
// gets the checked value.
static clattn_status take_items(shift_job *job, bool copy) {
    const clattn_shift_params *p = &job->params;
    const int64_t batch = p->k.shape[0], n = p->k.shape[2];
    if (copy)
        job->words = cla_host_take_zeroed(&job->context->host, (size_t)batch * SHIFT_ITEM_WORDS + 1,
                                          sizeof *job->words);
    if (copy && !job->words)
        return cla_context_fail(job->context, CLATTN_OUT_OF_MEMORY, "shift: no host memory for its deltas");
    for (int64_t b = 0; b < batch; b++) {
        const int32_t delta = p->deltas ? p->deltas[b] : p->delta,
                      rows = p->lengths ? p->lengths[b] : (int32_t)n;
        TRY(check_delta(job, b, delta));
        if (rows < 0 || rows > n)
            return cla_context_fail(job->context, CLATTN_INVALID_ARGUMENT,
                                    "lengths: item %lld is %d: must be 0 to %lld", (long long)b, (int)rows,
                                    (long long)n);
        if (copy) job->words[SHIFT_ITEM_WORDS * b] = delta, job->words[SHIFT_ITEM_WORDS * b + 1] = rows;
    }
    return CLATTN_OK;
}

static clattn_status check_memory(const shift_job *job) {
    call_views v;
    cla_views_begin(&v, job->context);
    cla_views_add(&v, "k", &job->params.k, VIEW_BOTH);
    cla_views_add(&v, "k_scale", &job->params.k_scale, VIEW_BOTH);
    cla_views_add(&v, "k_zero", &job->params.k_zero, VIEW_BOTH);
    return cla_views_check(&v);
}

static clattn_status check(clattn_context *context, const void *params, entry_purpose purpose, void *to) {
    shift_job *job = to;
    const bool planning = purpose != ENTRY_ENQUEUE;
    cla_bytes_zero(job, offsetof(shift_job, params));
    job->context = context;
    cla_bytes_copy(&job->params, params, sizeof job->params);
    clattn_shift_params *p = &job->params;
    const given_views all = {context, planning, .inner = false};
    CLA_GIVEN(&all, false, &p->k);
    CLA_GIVEN(&all, true, &p->k_scale, &p->k_zero);
    cla_given_rope(&all, &p->rope);
    TRY(check_tensors(job, planning));
    TRY(check_rope(job));
    if (p->delta && p->deltas)
        return cla_context_fail(context, CLATTN_INVALID_ARGUMENT,
                                "delta: is given beside deltas, which take its place");
    TRY(p->deltas || p->lengths ? take_items(job, !planning) : check_delta(job, 0, p->delta));
    return planning ? CLATTN_OK : check_memory(job);
}

static clattn_status prepare(void *from) {
    knobs k;
    program *p = NULL;
    return get_program(from, &k, &p);
}

static double flops_of(const clattn_tensor *k) {
    return PACE_MOVE_FLOPS * (CLATTN_TYPE_IS_SCALED(k->type) ? 2.0 : 1.0) * (double)cla_tensor_count(k) *
           clattn_type_numbers(k->type);
}

static clattn_status enqueue(const shift_job *job, chain *steps, const cl_mem *frequencies,
                             const cl_mem *table) {
    const clattn_shift_params *p = &job->params;
    const bool scaled = CLATTN_TYPE_IS_SCALED(p->k.type);
    const int64_t *s = p->k.shape;
    shift_args args = {.k = cla_tensor_view(&p->k),
                       .batch = (int)s[0],
                       .heads = (int)s[1],
                       .n = (int)s[2],
                       .head_dim = (int)cla_tensor_width(&p->k),
                       .rotary_dim = job->width,
                       .flags = job->words ? ARGS_BATCH_ROWS : 0,
                       .delta = p->delta,
                       .block = p->k_rotation,
                       .scale = cla_hadamard_scale(p->k_rotation)};
    knobs k;
    launch l = {.flops = flops_of(&p->k), .cuts_first = true, .changes = true};
    TRY(get_program(job, &k, &l.program));
    cla_launch_buffer(&l, &p->k.buffer);
    if (scaled)
        args.k_scale = cla_kv_scale_view(&p->k_scale, &p->k_zero), cla_launch_buffer(&l, &p->k_scale.buffer);
    if (scaled && k.zero_points) cla_launch_buffer(&l, &p->k_zero.buffer);
    cla_launch_buffer(&l, frequencies);
    cla_launch_buffer(&l, table);
    cla_launch_value(&l, &args, sizeof args);
    l.local[0] = (size_t)k.work_group, l.local[1] = l.local[2] = 1;
    l.global[0] = (size_t)s[2] * (size_t)s[0] * l.local[0];
    l.global[1] = (size_t)s[1], l.global[2] = 1;
    return cla_launch_enqueue(steps, &l);
}

static clattn_status run(void *from, chain *steps) {
    shift_job *job = from;
    const clattn_shift_params *p = &job->params;
    const int64_t batch = p->k.shape[0];
    cl_mem frequencies = NULL, table = NULL;
    if (cla_tensor_count(&p->k) == 0 || (!job->words && p->delta == 0)) return CLATTN_OK;
    TRY(prepare(job));
    if (job->words)
        TRY(cla_chain_table(steps, job->words, (size_t)batch * SHIFT_ITEM_WORDS * sizeof *job->words,
                            &table));
    TRY(cla_rope_make_frequencies(job->context, &p->rope, job->width, steps, &frequencies));
    cla_chain_set_progress(steps, p->progress, flops_of(&p->k));
    return enqueue(job, steps, &frequencies, &table);
}

static void release(void *from) {
    shift_job *job = from;
    cla_host_release(&job->context->host, job->words);
    job->words = NULL;
}

static const entry shift_entry = {check, prepare, run, release};

clattn_status clattn_shift_prepare(clattn_context *context, const clattn_shift_params *params) {
    shift_job job;
    return cla_entry_prepare(&shift_entry, context, params, &job);
}

clattn_status clattn_shift_enqueue(clattn_context *context, cl_command_queue queue,
                                   const clattn_shift_params *params, cl_uint wait_count,
                                   const cl_event *wait_list, cl_event *event) {
    const entry_queue at = {queue, wait_count, wait_list, event};
    shift_job job;
    return cla_entry_enqueue(&shift_entry, context, params, &at, &job);
}
