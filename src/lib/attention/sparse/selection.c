// selection.c: see selection.h.
#include "attention/sparse/selection.h"

#include <math.h>
#include <stdio.h>

#include "attention/kv/ragged.h"
#include "attention/score/score.h"
#include "base/host.h"

#define BLOCK_MOST 65536

int cla_selection_block(const clattn_selection *s) {
    return s->block ? s->block : 1;
}

int64_t cla_selection_items(const clattn_selection *s, int64_t batch) {
    return s->cu_seqlens_q ? s->sequences : batch;
}

bool cla_selection_is_empty(const selection *job) {
    return job->items == 0 || job->sizes.heads == 0 || job->rows_most == 0;
}

void cla_selection_given(const given_views *g, clattn_selection *s) {
    CLA_GIVEN(g, false, &s->indices);
    CLA_GIVEN(g, true, &s->counts, &s->values, &s->kv_lengths_device);
}

// -------------------------------------------------------------------------------------- checks ---
static clattn_status check_outputs(const selection *job, bool planning) {
    clattn_context *c = job->context;
    const clattn_selection *s = job->s;
    const int64_t shape[4] = {job->sizes.batch, job->sizes.rows, job->sizes.heads, s->indices.shape[3]};
    const tensor_rule indices = {"indices", "[B, Nq, Hs, K]", TYPES_I32 | ANY_LAST_STRIDE, true, planning},
                      counts = {"counts", "[B, Nq, Hs]", TYPES_I32 | ANY_LAST_STRIDE, true, planning},
                      scores = {"values", "[B, Nq, Hs, K]", TYPES_F32, true, planning},
                      lengths = {"kv_lengths_device", "[B]", TYPES_I32 | ANY_LAST_STRIDE, false, planning};
    TRY(cla_tensor_check(c, &s->indices, 4, &indices));
    TRY(cla_tensor_check_shape(c, &s->indices, shape, &indices));
    if (shape[3] < 1 || shape[3] > CLATTN_SELECTION_MOST)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "indices: K is %lld: must be 1 to %d",
                                (long long)shape[3], CLATTN_SELECTION_MOST);
    if (cla_tensor_given(&s->counts)) {
        TRY(cla_tensor_check(c, &s->counts, 3, &counts));
        TRY(cla_tensor_check_shape(c, &s->counts, shape, &counts));
    }
    if (cla_tensor_given(&s->values)) {
        TRY(cla_tensor_check(c, &s->values, 4, &scores));
        TRY(cla_tensor_check_shape(c, &s->values, shape, &scores));
    }
    if (!cla_tensor_given(&s->kv_lengths_device)) return CLATTN_OK;
    if (s->kv_lengths)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "kv_lengths_device: is passed beside kv_lengths, which it replaces");
    TRY(cla_tensor_check(c, &s->kv_lengths_device, 1, &lengths));
    return cla_tensor_check_shape(c, &s->kv_lengths_device, &job->items, &lengths);
}

static clattn_status check_forced(const selection *job) {
    clattn_context *c = job->context;
    const clattn_selection *s = job->s;
    const int64_t k = s->indices.shape[3];
    if (s->sinks < 0 || s->local < 0)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "%s: %d: must be 0 or more",
                                s->sinks < 0 ? "sinks" : "local", (int)(s->sinks < 0 ? s->sinks : s->local));
    if ((int64_t)s->sinks + s->local > k)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "sinks: %d and local: %d force more than the %lld entries of indices",
                                (int)s->sinks, (int)s->local, (long long)k);
    if (s->block < 0 || s->block > BLOCK_MOST)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "block: %d: must be 1 to %d, or 0 for 1",
                                (int)s->block, BLOCK_MOST);
    if (!s->thresholded && (s->threshold != 0.0f || s->minimum))
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "%s: has no effect without thresholded",
                                s->minimum ? "minimum" : "threshold");
    if (isnan(s->threshold))
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "threshold: is NaN: must be a number");
    if (s->minimum < 0 || s->minimum > k)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "minimum: %d: must be 0 to %lld, K",
                                (int)s->minimum, (long long)k);
    return CLATTN_OK;
}

static clattn_status check_positions(const selection *job) {
    clattn_context *c = job->context;
    const clattn_selection *s = job->s;
    TRY(cla_score_check_alignment(c, s->alignment, s->offset || s->offsets));
    if (s->alignment && !s->causal)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "alignment: has no effect without causal");
    if (s->offset && s->offsets)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "offset: is passed beside offsets, which replace it");
    if (s->sequences && !s->cu_seqlens_q)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "sequences: has no effect without cu_seqlens_q");
    if (!s->cu_seqlens_q) return CLATTN_OK;
    TRY(cla_ragged_check_count(c, s->cu_seqlens_q, s->sequences, job->sizes.rows));
    if (s->sequences < 0)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "sequences: %d: must be the count of packed sequences", (int)s->sequences);
    if (s->q_lengths) return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "q_lengths: not with cu_seqlens_q");
    if (job->sizes.batch != 1)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "%s: %lld batch items: packed rows have 1 in place of B", job->rows_name,
                                (long long)job->sizes.batch);
    return CLATTN_OK;
}

// Check a range of packed rows. Each number of the caller's array is read once.
typedef struct packed_range {
    const char *name;
    const int32_t *ends;
    int64_t last, total; // the end of the previous item; rows of the tensor
} packed_range;

static clattn_status next_range(clattn_context *c, packed_range *r, int64_t b, int32_t *first,
                                int32_t *count) {
    if (b == 0) r->last = r->ends[0];
    const int64_t end = r->ends[b + 1];
    if ((b == 0 && r->last != 0) || end < r->last || end > r->total)
        return cla_context_fail(
            c, CLATTN_INVALID_ARGUMENT,
            "%s: item %lld is %lld to %lld: must start at 0, never decrease, and end at most at %lld",
            r->name, (long long)b, (long long)r->last, (long long)end, (long long)r->total);
    *first = (int32_t)r->last, *count = (int32_t)(end - r->last);
    r->last = end;
    return CLATTN_OK;
}

static clattn_status check_length(clattn_context *c, const char *name, int64_t b, int64_t length,
                                  int64_t most) {
    if (length >= 0 && length <= most) return CLATTN_OK;
    return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "%s: item %lld is %lld: must be 0 to %lld", name,
                            (long long)b, (long long)length, (long long)most);
}

static clattn_status read_item(selection *job, int64_t b, packed_range *q, packed_range *k, int32_t *item) {
    clattn_context *c = job->context;
    const clattn_selection *s = job->s;
    const selection_sizes *sizes = &job->sizes;
    item[0] = item[4] = 0;
    item[1] = s->q_lengths ? s->q_lengths[b] : (int32_t)sizes->rows;
    item[3] = s->kv_lengths ? s->kv_lengths[b] : (int32_t)sizes->keys;
    TRY(check_length(c, "q_lengths", b, item[1], sizes->rows));
    TRY(check_length(c, "kv_lengths", b, item[3], sizes->keys));
    if (q->ends) TRY(next_range(c, q, b, &item[0], &item[1]));
    if (k->ends) TRY(next_range(c, k, b, &item[4], &item[3]));
    item[2] = ARGS_SHIFT(s, b, item[1], item[3]);
    if (item[1] > job->rows_most) job->rows_most = item[1];
    if (item[3] > job->keys_most) job->keys_most = item[3];
    return CLATTN_OK;
}

static clattn_status read_items(selection *job, bool planning) {
    clattn_context *c = job->context;
    packed_range q = {"cu_seqlens_q", job->s->cu_seqlens_q, 0, job->sizes.rows};
    packed_range k = {"cu_seqlens_kv", job->sizes.cu_seqlens_kv, 0, job->sizes.packed_keys};
    if (!planning)
        job->words =
            cla_host_take_zeroed(&c->host, (size_t)job->items * SELECT_ITEM_WORDS + 1, sizeof *job->words);
    if (!planning && !job->words)
        return cla_context_fail(c, CLATTN_OUT_OF_MEMORY, "selection: no host memory for its lengths");
    for (int64_t b = 0; b < job->items; b++) {
        int32_t item[SELECT_ITEM_WORDS];
        TRY(read_item(job, b, &q, &k, item));
        if (job->words) cla_bytes_copy(job->words + SELECT_ITEM_WORDS * b, item, sizeof item);
    }
    return CLATTN_OK;
}

clattn_status cla_selection_check(selection *job, bool planning) {
    const clattn_capabilities *device = &job->context->capabilities;
    job->items = cla_selection_items(job->s, job->sizes.batch);
    if (job->sizes.keys > ARGS_MOST_ROWS)
        return cla_context_fail(job->context, CLATTN_INVALID_ARGUMENT,
                                "%s: %lld keys: at most %d are possible", job->keys_name,
                                (long long)job->sizes.keys, ARGS_MOST_ROWS);
    TRY(check_positions(job));
    TRY(check_outputs(job, planning));
    TRY(check_forced(job));
    TRY(read_items(job, planning));
    const int block = cla_selection_block(job->s);
    const int64_t entries = (job->keys_most + block - 1) / block;
    if (entries < job->sizes.entries) job->sizes.entries = entries;
    const selection_problem of = {.cpu = device->is_cpu,
                                  .compute_units = (int)device->compute_units,
                                  .vector = (int)device->float_vector_width,
                                  .units = job->items * job->sizes.heads * job->rows_most,
                                  .entries = job->sizes.entries,
                                  .k = (int)job->s->indices.shape[3]};
    job->shares = cla_selection_plan(&of);
    return CLATTN_OK;
}

void cla_selection_add_views(call_views *v, const clattn_selection *s) {
    cla_views_add(v, "kv_lengths_device", &s->kv_lengths_device, VIEW_READ);
    cla_views_add(v, "indices", &s->indices, VIEW_WRITE);
    cla_views_add(v, "counts", &s->counts, VIEW_WRITE);
    cla_views_add(v, "values", &s->values, VIEW_WRITE);
}

void cla_selection_release(selection *job) {
    cla_host_release(&job->context->host, job->words);
    job->words = NULL;
}

void cla_selection_describe(const selection *job, const char *kernel, clattn_selection_plan *plan) {
    const selection_shares *s = &job->shares;
    *plan = (clattn_selection_plan){.work_group = s->work_group,
                                    .segments = s->segments,
                                    .launches = cla_selection_is_empty(job) ? 0 : s->launches,
                                    .workspace_bytes = cla_selection_is_empty(job) ? 0 : (size_t)s->bytes};
    snprintf(plan->kernel_name, sizeof plan->kernel_name, "%s", kernel);
    snprintf(plan->why, sizeof plan->why, "%s", s->why);
}

// ------------------------------------------------------------------------------------ launches ---
static select_args arguments(const selection *job) {
    const clattn_selection *s = job->s;
    const bool device_lengths = cla_tensor_given(&s->kv_lengths_device);
    select_args a = {.indices = cla_tensor_view(&s->indices),
                     .counts = cla_tensor_view(&s->counts),
                     .scores = cla_tensor_view(&s->values),
                     .lengths = cla_tensor_view(&s->kv_lengths_device),
                     .rows = (int)job->rows_most,
                     .heads = (int)job->sizes.heads,
                     .entries = (int)job->sizes.entries,
                     .k = (int)s->indices.shape[3],
                     .sinks = s->sinks,
                     .newest = s->local,
                     .block = cla_selection_block(s),
                     .segments = job->shares.segments,
                     .span = job->shares.span,
                     .capacity = job->shares.capacity,
                     .flags = job->flags | (s->causal ? SELECT_CAUSAL : 0) |
                              (s->alignment == CLATTN_ALIGN_BOTTOM_RIGHT ? SELECT_BOTTOM_RIGHT : 0) |
                              (device_lengths ? SELECT_DEVICE_LENGTHS : 0) |
                              (s->cu_seqlens_q ? SELECT_RAGGED : 0) |
                              (cla_tensor_given(&s->counts) ? SELECT_COUNTS : 0) |
                              (cla_tensor_given(&s->values) ? SELECT_SCORES : 0) |
                              (s->thresholded ? SELECT_THRESHOLD : 0) |
                              (job->sizes.cu_seqlens_kv ? SELECT_PACKED_KEYS : 0),
                     .minimum = s->minimum,
                     .threshold = s->threshold};
    a.indices.column = s->indices.stride[3]; // any stride, unlike other tensors of rank 4
    return a;
}

static clattn_status get_program(const selection *job, enum kernel_id id, knobs *k, program **p) {
    k->lanes = job->shares.lanes;
    return cla_program_get_group(job->context, id, k, job->shares.work_group, p);
}

clattn_status cla_selection_prepare(const selection *job, const selection_kernel *kernel) {
    knobs k = kernel->knobs, merge = {0};
    program *p = NULL;
    TRY(get_program(job, kernel->id, &k, &p));
    return get_program(job, KERNEL_TOPK_MERGE, &merge, &p);
}

// The memory of a selection's launches.
typedef struct selection_memory {
    cl_mem table, scratch;
} selection_memory;

static void add_memory(launch *l, const selection *job, const selection_memory *m) {
    cla_launch_buffer(l, &m->table);
    cla_launch_buffer(l, &job->s->kv_lengths_device.buffer);
    cla_launch_buffer(l, &m->scratch);
}

static void set_grid(launch *l, int work_group, int64_t groups) {
    l->local[0] = (size_t)work_group, l->local[1] = l->local[2] = 1;
    l->global[0] = (size_t)groups * l->local[0];
    l->global[1] = l->global[2] = 1;
}

static clattn_status enqueue_units(const selection *job, chain *steps, const selection_kernel *kernel,
                                   const select_args *select, int64_t units, const selection_memory *m) {
    knobs k = kernel->knobs, merge = {0};
    launch l = {.flops = kernel->flops * (double)units, .cuts_first = true}, then = {.cuts_first = true};
    TRY(get_program(job, kernel->id, &k, &l.program));
    for (int i = 0; i < kernel->count; i++) cla_launch_buffer(&l, kernel->tensors[i]);
    add_memory(&l, job, m);
    cla_launch_argument(&l, kernel->args);
    set_grid(&l, k.work_group, units * job->shares.segments);
    TRY(cla_launch_enqueue(steps, &l));
    TRY(get_program(job, KERNEL_TOPK_MERGE, &merge, &then.program));
    add_memory(&then, job, m);
    cla_launch_buffer(&then, &job->s->indices.buffer);
    cla_launch_buffer(&then, &job->s->counts.buffer);
    cla_launch_buffer(&then, &job->s->values.buffer);
    cla_launch_value(&then, select, sizeof *select);
    set_grid(&then, merge.work_group, units);
    return cla_launch_enqueue(steps, &then);
}

clattn_status cla_selection_enqueue(const selection *job, chain *steps, const selection_kernel *kernel,
                                    select_args *select, const clattn_progress *progress) {
    const int64_t units = job->items * job->sizes.heads * job->rows_most;
    selection_memory m = {NULL, NULL};
    TRY(cla_selection_prepare(job, kernel));
    TRY(cla_chain_table(steps, job->words, (size_t)job->items * SELECT_ITEM_WORDS * sizeof *job->words,
                        &m.table));
    TRY(cla_chain_scratch(steps, job->shares.bytes, &m.scratch));
    cla_chain_set_progress(steps, progress, kernel->flops * (double)units);
    *select = arguments(job);
    for (; select->unit < units; select->unit += job->shares.units) {
        const int64_t left = units - select->unit;
        TRY(enqueue_units(job, steps, kernel, select, left < job->shares.units ? left : job->shares.units,
                          &m));
    }
    return CLATTN_OK;
}
