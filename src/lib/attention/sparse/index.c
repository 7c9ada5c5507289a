// index.c: clattn_index_enqueue: index scores of keys, and the best K entries of each row by them.
#include "attention/sparse/selection.h"

#include <math.h>

#include "attention/kv/kv.h"
#include "launch/entry.h"

#define HEAD_DIM_MOST 576
// On a CPU the kernel keeps all rows of q of a list head in private memory.
#define Q_MOST_NUMBERS (1 << 16)

typedef struct index_job {
    clattn_index_params params;
    selection selection;
} index_job;

static bool is_paged(const clattn_index_params *p) {
    return cla_tensor_given(&p->block_table);
}

static clattn_status check_packed(clattn_context *c, const clattn_index_params *p) {
    if (!p->cu_seqlens_kv) return CLATTN_OK;
    if (!p->selection.cu_seqlens_q)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "cu_seqlens_kv: needs cu_seqlens_q");
    if (is_paged(p))
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "cu_seqlens_kv: not with block_table");
    if (p->selection.kv_lengths || cla_tensor_given(&p->selection.kv_lengths_device))
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "kv_lengths: not with cu_seqlens_kv");
    return CLATTN_OK;
}

static clattn_status check_keys(clattn_context *c, const clattn_index_params *p, bool planning) {
    const unsigned types = (TYPES_FLOAT | TYPES_SCALED) & ~(1u << CLATTN_TYPE_I4 | 1u << CLATTN_TYPE_U4);
    const int64_t items = cla_selection_items(&p->selection, p->q.shape[0]);
    const tensor_rule k = {"k",
                           is_paged(p)        ? "[pages, Hs, page_size, D]"
                           : p->cu_seqlens_kv ? "[1, Hs, T, D]"
                                              : "[B, Hs, N, D]",
                           types, false, planning};
    const kv_scales scales = {
        &p->k_scale, NULL, {"k_scale", "[B, Hs, N]", KV_SCALE_TYPES, false, planning}, ""};
    const int64_t shape[4] = {is_paged(p) ? -1 : p->cu_seqlens_kv ? 1 : items, -1, -1, p->q.shape[3]};
    TRY(cla_tensor_check(c, &p->k, 4, &k));
    TRY(cla_tensor_check_shape(c, &p->k, shape, &k));
    TRY(cla_kv_check_pages(c, &p->block_table, p->page_size, &p->k, items, planning));
    if (p->k.shape[1] == 0 ? p->q.shape[1] > 0 : p->q.shape[1] % p->k.shape[1] != 0)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "q: %lld index heads: must be a multiple of k's %lld heads",
                                (long long)p->q.shape[1], (long long)p->k.shape[1]);
    TRY(cla_kv_check_scales(c, &p->k, &scales));
    if (!CLATTN_TYPE_IS_SCALED(p->k.type) || p->k_scale.rank == 3) return CLATTN_OK;
    return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "k_scale: rank %d: a scale a row is needed",
                            p->k_scale.rank);
}

static clattn_status check_tensors(clattn_context *c, const clattn_index_params *p, bool planning) {
    const tensor_rule q = {"q", "[B, H, Nq, D]", TYPES_FLOAT, false, planning},
                      weights = {"weights", "[B, Nq, H]", TYPES_FLOAT | ANY_LAST_STRIDE, false, planning};
    const int64_t *s = p->q.shape, shape[3] = {s[0], s[2], s[1]};
    TRY(cla_tensor_check(c, &p->q, 4, &q));
    if (s[3] < 1 || s[3] > HEAD_DIM_MOST)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "q: head size %lld: must be 1 to %d",
                                (long long)s[3], HEAD_DIM_MOST);
    TRY(check_packed(c, p));
    TRY(check_keys(c, p, planning));
    if (!cla_tensor_given(&p->weights)) return CLATTN_OK;
    TRY(cla_tensor_check(c, &p->weights, 3, &weights));
    return cla_tensor_check_shape(c, &p->weights, shape, &weights);
}

static clattn_status check_numbers(clattn_context *c, const clattn_index_params *p) {
    if (!isfinite(p->scale))
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "scale: %g: must be finite", (double)p->scale);
    if ((unsigned)p->reduction >= CLATTN_INDEX_REDUCTION_COUNT)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "reduction: %d is none of CLATTN_INDEX_*",
                                (int)p->reduction);
    if (p->reduction && p->selection.block < 2)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "reduction: has no effect on entries of one key");
    return CLATTN_OK;
}

static int flags_of(const clattn_index_params *p) {
    return (cla_tensor_given(&p->weights) ? SELECT_WEIGHTS : 0) | (p->linear ? SELECT_LINEAR : 0) |
           (p->reduction == CLATTN_INDEX_MEAN ? SELECT_MEAN : 0);
}

static clattn_status check_memory(clattn_context *context, const clattn_index_params *p) {
    call_views v;
    cla_views_begin(&v, context);
    cla_views_add(&v, "q", &p->q, VIEW_READ);
    cla_views_add(&v, "k", &p->k, VIEW_READ);
    cla_views_add(&v, "k_scale", &p->k_scale, VIEW_READ);
    cla_views_add(&v, "weights", &p->weights, VIEW_READ);
    cla_views_add(&v, "block_table", &p->block_table, VIEW_READ);
    cla_selection_add_views(&v, &p->selection);
    return cla_views_check(&v);
}

static clattn_status check(clattn_context *context, const void *params, entry_purpose purpose, void *to) {
    index_job *job = to;
    const bool planning = purpose != ENTRY_ENQUEUE;
    *job = (index_job){.params = *(const clattn_index_params *)params};
    clattn_index_params *p = &job->params;
    const given_views all = {context, planning, .inner = false};
    CLA_GIVEN(&all, false, &p->q, &p->k);
    CLA_GIVEN(&all, true, &p->k_scale, &p->weights, &p->block_table);
    cla_selection_given(&all, &p->selection);
    job->selection = (selection){
        .context = context, .rows_name = "q", .keys_name = "k", .s = &p->selection, .flags = flags_of(p)};
    TRY(check_tensors(context, p, planning));
    TRY(check_numbers(context, p));
    const int64_t keys = is_paged(p) ? p->block_table.shape[1] * p->page_size : p->k.shape[2];
    const int64_t block = cla_selection_block(&p->selection);
    job->selection.sizes = (selection_sizes){.batch = p->q.shape[0],
                                             .heads = p->k.shape[1],
                                             .rows = p->q.shape[2],
                                             .entries = block > 0 ? (keys + block - 1) / block : 0,
                                             .keys = keys,
                                             .cu_seqlens_kv = p->cu_seqlens_kv,
                                             .packed_keys = keys};
    TRY(cla_selection_check(&job->selection, planning));
    return planning ? CLATTN_OK : check_memory(context, p);
}

static selection_kernel kernel_of(const index_job *job, index_args *args) {
    const clattn_index_params *p = &job->params;
    const int group = p->k.shape[1] ? (int)(p->q.shape[1] / p->k.shape[1]) : 0;
    const bool in_registers =
        job->selection.shares.work_group == 1 && group * p->q.shape[3] <= Q_MOST_NUMBERS;
    *args = (index_args){.q = cla_tensor_view(&p->q),
                         .k = cla_tensor_view(&p->k),
                         .k_scale = cla_tensor_view(&p->k_scale),
                         .weights = {.offset = p->weights.offset,
                                     .batch = p->weights.stride[0],
                                     .head = p->weights.stride[1],
                                     .row = p->weights.stride[2]},
                         .table_offset = p->block_table.offset,
                         .table_batch = p->block_table.stride[0],
                         .table_column = p->block_table.stride[1],
                         .head_dim = (int)p->q.shape[3],
                         .group = group,
                         .page_size = p->page_size,
                         .pages = (int)p->k.shape[0],
                         .scale = p->scale != 0.0f ? p->scale : 1.0f};
    const knobs k = {.type_q = (int)p->q.type,
                     .type_kv = (int)p->k.type,
                     .type_scale =
                         (int)(CLATTN_TYPE_IS_SCALED(p->k.type) ? p->k_scale.type : CLATTN_TYPE_F32),
                     .type_bias = (int)(cla_tensor_given(&p->weights) ? p->weights.type : CLATTN_TYPE_F32),
                     .paged = is_paged(p),
                     .head_dim = in_registers ? (int)p->q.shape[3] : 0,
                     .index_heads = in_registers ? group : 0};
    return (selection_kernel){.id = KERNEL_TOPK_INDEX,
                              .knobs = k,
                              .tensors = {&p->q.buffer, &p->k.buffer, &p->k_scale.buffer, &p->weights.buffer,
                                          &p->block_table.buffer},
                              .count = 5,
                              .args = LAUNCH_VALUE(args, sizeof *args),
                              .flops =
                                  2.0 * (double)job->selection.sizes.keys * group * (double)p->q.shape[3]};
}

static clattn_status prepare(void *from) {
    index_args args;
    const selection_kernel kernel = kernel_of(from, &args);
    return cla_selection_prepare(&((index_job *)from)->selection, &kernel);
}

static clattn_status run(void *from, chain *steps) {
    const index_job *job = from;
    index_args args;
    const selection_kernel kernel = kernel_of(job, &args);
    if (cla_selection_is_empty(&job->selection)) return CLATTN_OK;
    return cla_selection_enqueue(&job->selection, steps, &kernel, &args.select, job->params.progress);
}

static void release(void *from) {
    cla_selection_release(&((index_job *)from)->selection);
}

static const entry index_entry = {check, prepare, run, release};

clattn_status clattn_index_plan(clattn_context *context, const clattn_index_params *params,
                                clattn_selection_plan *plan) {
    index_job job;
    TRY(cla_entry_plan(&index_entry, context, params, plan, "plan", &job));
    cla_selection_describe(&job.selection, "topk_index", plan);
    return CLATTN_OK;
}

clattn_status clattn_index_prepare(clattn_context *context, const clattn_index_params *params) {
    index_job job;
    return cla_entry_prepare(&index_entry, context, params, &job);
}

clattn_status clattn_index_enqueue(clattn_context *context, cl_command_queue queue,
                                   const clattn_index_params *params, cl_uint wait_count,
                                   const cl_event *wait_list, cl_event *event) {
    const entry_queue at = {queue, wait_count, wait_list, event};
    index_job job;
    return cla_entry_enqueue(&index_entry, context, params, &at, &job);
}
