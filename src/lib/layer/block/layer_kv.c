// layer_kv.c: computes a layer's keys and values into the caller's tensors: two projections, then
// norm and RoPE of the keys.
#include <stddef.h>

#include "base/host.h"
#include "launch/workspace.h"
#include "layer/block/heads.h"
#include "layer/projection/linear.h"
#include "layer/projection/packed.h"

typedef struct kv_job {
    clattn_context *context;
    bool empty; // B or Nkv is 0
    norm_options norm;
    linear k, v;
    head_norm k_norm;
    bool in_product; // the projection applies RoPE
    // describes k and its RoPE for the functions of rope.c; attention is not called
    call rope_call;
    clattn_layer_kv_params params;
} kv_job;

static clattn_status check_tensors(const kv_job *job) {
    clattn_context *c = job->context;
    const clattn_layer_kv_params *p = &job->params;
    const int64_t *y = p->y.shape, *k = p->k.shape, *v = p->v.shape;
    const tensor_rule of_y = {"y", "[B, Nkv, My]", TYPES_FLOAT, false, false};
    const tensor_rule of_k = {"k", "[B, Hkv, Nkv, D]", TYPES_FLOAT, true, false};
    const tensor_rule of_v = {"v", "[B, Hkv, Nkv, Dv]", TYPES_FLOAT, true, false};
    TRY(cla_tensor_check(c, &p->y, 3, &of_y));
    TRY(cla_tensor_check(c, &p->k, 4, &of_k));
    TRY(cla_tensor_check_shape(c, &p->k, (const int64_t[]){y[0], k[1], y[1], k[3]}, &of_k));
    TRY(cla_tensor_check(c, &p->v, 4, &of_v));
    TRY(cla_tensor_check_shape(c, &p->v, (const int64_t[]){y[0], k[1], y[1], v[3]}, &of_v));
    if (y[2] == 0 || k[1] == 0 || k[3] == 0 || v[3] == 0)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "%s: a width or a number of heads is 0: must be 1 or more",
                                y[2] == 0      ? "y"
                                : k[1] && k[3] ? "v"
                                               : "k");
    TRY(cla_tensor_check_alike(c, "k", &p->k, "y", &p->y));
    return cla_tensor_check_alike(c, "v", &p->v, "y", &p->y);
}

// Check the matrices for Hkv heads, which k has. wk and wv must have one type.
static clattn_status check_matrices(const kv_job *job) {
    clattn_context *c = job->context;
    const clattn_layer_kv_params *p = &job->params;
    const int64_t heads = p->k.shape[1], width = p->y.shape[2];
    const linear_given wk = {
        &p->wk, &p->bk, &p->wk_scale, &p->wk_zero, {heads * p->k.shape[3], width}, LINEAR_NAMES("wk", "bk")};
    const linear_given wv = {
        &p->wv, &p->bv, &p->wv_scale, &p->wv_zero, {heads * p->v.shape[3], width}, LINEAR_NAMES("wv", "bv")};
    if (p->y.shape[1] > ARGS_MOST_ROWS || heads > INT32_MAX || p->y.shape[0] > INT32_MAX)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "k: a size of B, Hkv or Nkv is above 32 bits");
    TRY(cla_linear_check_precision(c, p->precision));
    TRY(cla_linear_check_matrix(c, &wk, false));
    TRY(cla_linear_check_matrix(c, &wv, false));
    return cla_tensor_check_alike(c, "wv", &p->wv, "wk", &p->wk);
}

static clattn_status check_norm(kv_job *job) {
    const clattn_layer_kv_params *p = &job->params;
    job->norm = (norm_options){.how = p->norm, .epsilon = p->norm_epsilon, .plus_one = p->norm_plus_one};
    job->norm.names[1] = "k_norm", job->norm.w[1] = &p->k_norm;
    job->norm.heads[1] = p->k.shape[1], job->norm.head_dim = p->k.shape[3];
    return cla_norm_check(job->context, &job->norm, false);
}

// Check RoPE through an attention call that has only k.
static clattn_status check_rope(kv_job *job) {
    call *c = &job->rope_call;
    cla_bytes_zero(c, sizeof *c);
    c->context = job->context;
    c->params.q = c->params.kv.k = job->params.k;
    c->params.rope = job->params.rope;
    c->problem.head_dim = (int)job->params.k.shape[3];
    if (c->params.rope.layout != CLATTN_ROPE_NONE && cla_tensor_given(&c->params.rope.k_positions))
        return cla_context_fail(job->context, CLATTN_INVALID_ARGUMENT,
                                "rope.k_positions: are for attention: here rope.positions are those of y");
    return cla_rope_check(job->context, &c->params, c->problem.head_dim, false);
}

static clattn_status check_memory(const kv_job *job) {
    const clattn_layer_kv_params *p = &job->params;
    const bool norms = p->norm != CLATTN_NORM_NONE || p->rope.layout != CLATTN_ROPE_NONE;
    call_views v;
    cla_views_begin(&v, job->context);
    cla_views_add(&v, "y", &p->y, VIEW_READ);
    cla_views_add(&v, "wk", &p->wk, VIEW_READ);
    cla_views_add(&v, "wv", &p->wv, VIEW_READ);
    cla_views_add(&v, "wk_scale", &p->wk_scale, VIEW_READ);
    cla_views_add(&v, "wv_scale", &p->wv_scale, VIEW_READ);
    cla_views_add(&v, "wk_zero", &p->wk_zero, VIEW_READ);
    cla_views_add(&v, "wv_zero", &p->wv_zero, VIEW_READ);
    cla_views_add(&v, "bk", &p->bk, VIEW_READ);
    cla_views_add(&v, "bv", &p->bv, VIEW_READ);
    cla_views_add(&v, "k_norm", &p->k_norm, VIEW_READ);
    cla_views_add(&v, "rope.positions", &p->rope.positions, VIEW_READ);
    cla_views_add(&v, "packed_wk", &job->k.packed, VIEW_READ);
    cla_views_add(&v, "packed_wv", &job->v.packed, VIEW_READ);
    cla_views_add(&v, "k", &p->k, norms ? VIEW_BOTH : VIEW_WRITE);
    cla_views_add(&v, "v", &p->v, VIEW_WRITE);
    return cla_views_check(&v);
}

// The projection applies RoPE if it can and there is no norm in between. Otherwise the norm's pass
// does.
static void choose(kv_job *job) {
    const clattn_layer_kv_params *p = &job->params;
    const float amplitude = (float)cla_rope_amplitude(&p->rope);
    cla_linear_choose(job->context, &job->k);
    cla_linear_choose(job->context, &job->v);
    job->k_norm = cla_norm_of(&job->norm, 1, &job->k);
    job->k_norm.amplitude = amplitude;
    if (p->rope.layout == CLATTN_ROPE_NONE) return;
    linear roped = job->k;
    roped.rope = cla_rope_rows_of(&job->rope_call, false);
    cla_linear_choose(job->context, &roped);
    job->in_product = p->norm == CLATTN_NORM_NONE && cla_linear_applies_rope(&p->rope, &roped);
    job->k_norm.rope_params = &job->rope_call.params.rope;
    if (job->in_product)
        job->k = roped;
    else
        job->k_norm.rope = roped.rope;
}

static clattn_status check(clattn_context *context, const void *params, entry_purpose purpose, void *to) {
    kv_job *job = to;
    (void)purpose; // the call has no plan or prepare function
    cla_bytes_zero(job, offsetof(kv_job, params));
    cla_bytes_copy(&job->params, params, sizeof job->params);
    clattn_layer_kv_params *p = &job->params;
    job->context = context;
    const given_views all = {context, .planning = false, .inner = false};
    CLA_GIVEN(&all, false, &p->y, &p->wk, &p->wv, &p->k, &p->v);
    CLA_GIVEN(&all, true, &p->bk, &p->bv, &p->k_norm, &p->wk_scale, &p->wv_scale, &p->wk_zero, &p->wv_zero);
    cla_given_rope(&all, &p->rope);
    TRY(check_tensors(job));
    TRY(check_matrices(job));
    TRY(check_norm(job));
    TRY(check_rope(job));
    const clattn_tensor y = cla_linear_one_head(&p->y);
    const bool split = p->precision == CLATTN_PRECISION_SPLIT;
    job->k = (linear){.x = y, .w = p->wk, .b = p->bk, .y = p->k, .native = true, .split = split};
    job->v = (linear){.x = y, .w = p->wv, .b = p->bv, .y = p->v, .native = true, .split = split};
    job->k.scale = p->wk_scale, job->k.zero = p->wk_zero;
    job->v.scale = p->wv_scale, job->v.zero = p->wv_zero;
    TRY(cla_packed_check(context, "packed_wk", &p->packed_wk, &p->wk, &job->k.packed));
    TRY(cla_packed_check(context, "packed_wv", &p->packed_wv, &p->wv, &job->v.packed));
    TRY(check_memory(job));
    job->empty = p->y.shape[0] == 0 || p->y.shape[1] == 0;
    if (!job->empty) choose(job);
    return CLATTN_OK;
}

static clattn_status prepare(kv_job *job) {
    TRY(cla_linear_prepare(job->context, &job->k));
    TRY(cla_linear_prepare(job->context, &job->v));
    return cla_norm_prepare(job->context, &job->k_norm, job->params.k.type);
}

// Steps that can fail come first.
static clattn_status run(void *from, chain *steps) {
    kv_job *job = from;
    cl_mem scratch = NULL;
    if (job->empty) return CLATTN_OK;
    const uint64_t k = cla_linear_scratch(&job->k), v = cla_linear_scratch(&job->v);
    TRY(prepare(job));
    TRY(cla_workspace_fits(job->context, NULL, k > v ? k : v));
    TRY(cla_workspace_take(steps, NULL, k > v ? k : v, &scratch));
    if (job->params.rope.layout != CLATTN_ROPE_NONE) TRY(cla_rope_frequencies(&job->rope_call, steps));
    job->k.rope.frequencies = job->k_norm.rope.frequencies = job->rope_call.frequencies;
    TRY(cla_linear_enqueue(steps, &job->k, scratch, 0));
    TRY(cla_linear_enqueue(steps, &job->v, scratch, 0));
    return cla_norm_enqueue(steps, &job->k_norm, &job->params.k);
}

static const entry kv_entry = {.check = check, .run = run};

clattn_status clattn_layer_kv_enqueue(clattn_context *context, cl_command_queue queue,
                                      const clattn_layer_kv_params *params, cl_uint wait_count,
                                      const cl_event *wait_list, cl_event *event) {
    const entry_queue at = {queue, wait_count, wait_list, event};
    kv_job job;
    return cla_entry_enqueue(&kv_entry, context, params, &at, &job);
}
