// call.c: checks one attention call against the header's contract, and turns it into kernel arguments.
// Nothing here is enqueued; every refusal names the option, what was seen and what would be accepted.
#include "attention/call.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/probe.h"

#define MAX_ROWS                                                                                             \
    (INT32_MAX - 65536) // of q and of k: kernels count rows in 32 bits, and step past the end by a tile

// Options that have a place in the header and no code yet.
static clattn_status check_unbuilt(clattn_context *c, const clattn_attention_params *p) {
    const struct {
        bool set;
        const char *name;
    } options[] = {
        {p->score_mod != NULL, "score_mod"},
        {p->mask_mod != NULL, "mask_mod"},
        {p->dropout != 0.0f, "dropout"},
        {p->cu_seqlens_q != NULL, "cu_seqlens_q"},
        {p->cu_seqlens_kv != NULL, "cu_seqlens_kv"},
        {cla_tensor_given(&p->block_table), "block_table"},
        {p->page_size != 0, "page_size"},
        {cla_tensor_given(&p->k_new), "k_new"},
        {cla_tensor_given(&p->v_new), "v_new"},
        {p->rope.positions != NULL, "rope.positions"},
        {p->rope.scaling == CLATTN_ROPE_SCALING_YARN, "rope.scaling yarn"},
        {p->rope.scaling == CLATTN_ROPE_SCALING_LLAMA3, "rope.scaling llama3"},
    };
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        if (options[i].set)
            return cla_context_fail(c, CLATTN_UNSUPPORTED, "%s: is not built yet: leave it 0",
                                    options[i].name);
    return CLATTN_OK;
}

static clattn_status check_enums(clattn_context *c, const clattn_attention_params *p) {
    if ((unsigned)p->alignment >= CLATTN_ALIGN_COUNT)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "alignment: %d is none of CLATTN_ALIGN_*",
                                (int)p->alignment);
    if ((unsigned)p->scores_at >= CLATTN_TAP_COUNT)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "scores_at: %d is none of CLATTN_TAP_*",
                                (int)p->scores_at);
    if ((unsigned)p->kernel >= CLATTN_KERNEL_COUNT)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "kernel: %d is none of CLATTN_KERNEL_*",
                                (int)p->kernel);
    if (p->splits < 0)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "splits: %d: must be 0 (the planner's choice) or more", (int)p->splits);
    return CLATTN_OK;
}

static clattn_status check_numbers(clattn_context *c, const clattn_attention_params *p) {
    if (!isfinite(p->scale))
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "scale: must be finite; 0 means 1/sqrt(D)");
    if (!isfinite(p->softcap) || p->softcap < 0.0f)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "softcap: %g: must be finite and > 0, or 0 for none", (double)p->softcap);
    if (p->window && (p->window_left < -1 || p->window_right < -1))
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "window: %d,%d: each side must be -1 (open) or more", (int)p->window_left,
                                (int)p->window_right);
    if (p->alignment != CLATTN_ALIGN_OFFSET && (p->offset != 0 || p->offsets))
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "offset: is only used with CLATTN_ALIGN_OFFSET");
    return CLATTN_OK;
}

// q, k, v and out: shapes that fit one another give the letters.
static clattn_status check_tensors(call *c, bool planning) {
    const clattn_attention_params *p = c->params;
    clattn_context *x = c->context;
    const tensor_rule q = {"q", "[B, H, Nq, D]", TYPES_FLOAT, false, planning};
    const tensor_rule k = {"k", "[B, Hkv, Nkv, D]", TYPES_FLOAT, false, planning};
    const tensor_rule v = {"v", "[B, Hkv, Nkv, Dv]", TYPES_FLOAT, false, planning};
    const tensor_rule out = {"out", "[B, H, Nq, Dv]", TYPES_FLOAT, true, planning};
    clattn_status status = cla_tensor_check(x, &p->q, 4, &q);
    if (status == CLATTN_OK) status = cla_tensor_check(x, &p->k, 4, &k);
    if (status == CLATTN_OK) status = cla_tensor_check(x, &p->v, 4, &v);
    if (status == CLATTN_OK) status = cla_tensor_check(x, &p->out, 4, &out);
    if (status != CLATTN_OK) return status;

    const int64_t *sq = p->q.shape, *sk = p->k.shape, *sv = p->v.shape;
    const int64_t q_shape[4] = {sq[0], sq[1], sq[2], sq[3]}, k_shape[4] = {sq[0], sk[1], sk[2], sq[3]};
    const int64_t v_shape[4] = {sq[0], sk[1], sk[2], sv[3]}, out_shape[4] = {sq[0], sq[1], sq[2], sv[3]};
    status = cla_tensor_check_shape(x, &p->q, q_shape, &q);
    if (status == CLATTN_OK) status = cla_tensor_check_shape(x, &p->k, k_shape, &k);
    if (status == CLATTN_OK) status = cla_tensor_check_shape(x, &p->v, v_shape, &v);
    if (status == CLATTN_OK) status = cla_tensor_check_shape(x, &p->out, out_shape, &out);
    if (status != CLATTN_OK) return status;
    if (sq[3] == 0 || sv[3] == 0)
        return cla_context_fail(x, CLATTN_INVALID_ARGUMENT, "%s: head size 0: must be 1 or more",
                                sq[3] ? "v" : "q");
    const int64_t longest = sq[2] > sk[2] ? sq[2] : sk[2];
    if (longest > MAX_ROWS)
        return cla_context_fail(x, CLATTN_INVALID_ARGUMENT, "%s: %lld rows: at most %d are possible",
                                sq[2] > sk[2] ? "q" : "k", (long long)longest, MAX_ROWS);
    if (sk[1] == 0 ? sq[1] != 0 : sq[1] % sk[1] != 0)
        return cla_context_fail(x, CLATTN_INVALID_ARGUMENT,
                                "heads: H = %lld must be a multiple of Hkv = %lld", (long long)sq[1],
                                (long long)sk[1]);
    if (sq[0] * sq[1] > INT32_MAX)
        return cla_context_fail(x, CLATTN_INVALID_ARGUMENT, "q: B * H = %lld: must be below 2^31",
                                (long long)(sq[0] * sq[1]));
    if (p->k.type != p->v.type)
        return cla_context_fail(x, CLATTN_INVALID_ARGUMENT,
                                "v: its type differs from k's: both must be stored alike");
    return CLATTN_OK;
}

static void fill_problem(call *c) {
    const clattn_attention_params *p = c->params;
    c->problem = (problem){
        .batch = (int)p->q.shape[0],
        .heads = (int)p->q.shape[1],
        .kv_heads = (int)p->k.shape[1],
        .n_q = (int)p->q.shape[2],
        .n_kv = (int)p->k.shape[2],
        .head_dim = (int)p->q.shape[3],
        .head_dim_v = (int)p->v.shape[3],
        .type_q = p->q.type,
        .type_kv = p->k.type,
        .type_out = p->out.type,
        .type_bias = cla_tensor_given(&p->bias) ? p->bias.type : CLATTN_TYPE_F32,
        .type_weights = cla_tensor_given(&p->weights) ? p->weights.type : CLATTN_TYPE_F32,
        .score_ops = (p->softcap > 0.0f ? ARGS_SOFTCAP : 0) | (cla_tensor_given(&p->bias) ? ARGS_BIAS : 0) |
                     (p->alibi_slopes ? ARGS_ALIBI : 0) | (cla_tensor_given(&p->mask) ? ARGS_MASK : 0),
        .causal = p->causal,
        .wants_weights = cla_tensor_given(&p->weights),
        .wants_scores = cla_tensor_given(&p->scores),
        .kernel = p->kernel,
        .splits = p->splits,
    };
    c->empty = c->problem.batch == 0 || c->problem.heads == 0 || c->problem.n_q == 0;
}

static clattn_status check_optional_tensors(call *c, bool planning) {
    const clattn_attention_params *p = c->params;
    const problem *m = &c->problem;
    const int64_t full[4] = {m->batch, m->heads, m->n_q, m->n_kv};
    const tensor_rule lse = {"lse", "[B, H, Nq]", TYPES_F32, true, planning};
    const tensor_rule weights = {"weights", "[B, H, Nq, Nkv]", TYPES_FLOAT, true, planning};
    const tensor_rule scores = {"scores", "[B, H, Nq, Nkv]", TYPES_F32, true, planning};
    const tensor_rule mask = {"mask", "[B, H, Nq, Nkv]", TYPES_BOOL, false, planning};
    const tensor_rule bias = {"bias", "[B, H, Nq, Nkv]", TYPES_FLOAT, false, planning};
    clattn_status status = CLATTN_OK;
    if (cla_tensor_given(&p->lse)) {
        const int64_t shape[3] = {full[0], full[1], full[2]};
        status = cla_tensor_check(c->context, &p->lse, 3, &lse);
        for (int i = 0; status == CLATTN_OK && i < 3; i++)
            if (p->lse.shape[i] != shape[i])
                status = cla_context_fail(
                    c->context, CLATTN_INVALID_ARGUMENT,
                    "lse: size %lld of axis %d does not fit: [B, H, Nq] must be [%lld,%lld,%lld]",
                    (long long)p->lse.shape[i], i, (long long)shape[0], (long long)shape[1],
                    (long long)shape[2]);
        c->args.lse = cla_tensor_view(&p->lse);
    }
    if (status == CLATTN_OK && m->wants_weights) {
        status = cla_tensor_check(c->context, &p->weights, 4, &weights);
        if (status == CLATTN_OK) status = cla_tensor_check_shape(c->context, &p->weights, full, &weights);
    }
    if (status == CLATTN_OK && m->wants_scores) {
        status = cla_tensor_check(c->context, &p->scores, 4, &scores);
        if (status == CLATTN_OK) status = cla_tensor_check_shape(c->context, &p->scores, full, &scores);
    }
    if (status == CLATTN_OK && cla_tensor_given(&p->mask))
        status = cla_tensor_check_broadcast(c->context, &p->mask, full, &mask, &c->args.mask);
    if (status == CLATTN_OK && cla_tensor_given(&p->bias))
        status = cla_tensor_check_broadcast(c->context, &p->bias, full, &bias, &c->args.bias);
    return status;
}

static clattn_status check_lengths(clattn_context *x, const char *name, const int32_t *lengths, int batch,
                                   int most) {
    for (int b = 0; lengths && b < batch; b++)
        if (lengths[b] < 0 || lengths[b] > most)
            return cla_context_fail(x, CLATTN_INVALID_ARGUMENT, "%s: item %d is %d: must be 0 to %d", name, b,
                                    (int)lengths[b], most);
    return CLATTN_OK;
}

static clattn_status check_host_arrays(call *c) {
    const clattn_attention_params *p = c->params;
    const problem *m = &c->problem;
    clattn_status status = check_lengths(c->context, "q_lengths", p->q_lengths, m->batch, m->n_q);
    if (status == CLATTN_OK)
        status = check_lengths(c->context, "kv_lengths", p->kv_lengths, m->batch, m->n_kv);
    // Row positions are int32 in the kernels.
    for (int b = 0; status == CLATTN_OK && b < (p->offsets ? m->batch : 1); b++) {
        const int64_t shift = p->offsets ? p->offsets[b] : p->offset;
        if (shift + m->n_q > INT32_MAX)
            status = cla_context_fail(c->context, CLATTN_INVALID_ARGUMENT,
                                      "offset: %lld + Nq must be below 2^31", (long long)shift);
    }
    for (int h = 0; status == CLATTN_OK && p->alibi_slopes && h < m->heads; h++)
        if (!isfinite(p->alibi_slopes[h]))
            status = cla_context_fail(c->context, CLATTN_INVALID_ARGUMENT,
                                      "alibi_slopes: item %d is not finite", h);
    for (int h = 0; status == CLATTN_OK && p->sinks && h < m->heads; h++)
        if (isnan(p->sinks[h]) || p->sinks[h] == INFINITY)
            status = cla_context_fail(c->context, CLATTN_INVALID_ARGUMENT,
                                      "sinks: item %d is NaN or +infinity", h);
    return status;
}

// Left and right bound of the keys a row sees around its position; causality is a right bound of 0.
static void fill_window(const clattn_attention_params *p, attention_args *a) {
    a->window_left = p->window ? p->window_left : -1;
    a->window_right = p->window ? p->window_right : -1;
    if (p->causal && (a->window_right < 0 || a->window_right > 0)) a->window_right = 0;
}

static int32_t shift_of(const clattn_attention_params *p, const problem *m, int b) {
    if (p->alignment == CLATTN_ALIGN_TOP_LEFT) return 0;
    if (p->alignment == CLATTN_ALIGN_OFFSET) return p->offsets ? p->offsets[b] : p->offset;
    return (p->kv_lengths ? p->kv_lengths[b] : m->n_kv) - (p->q_lengths ? p->q_lengths[b] : m->n_q);
}

static void fill_args(call *c) {
    const clattn_attention_params *p = c->params;
    const problem *m = &c->problem;
    attention_args *a = &c->args;
    a->q = cla_tensor_view(&p->q);
    a->k = cla_tensor_view(&p->k);
    a->v = cla_tensor_view(&p->v);
    a->out = cla_tensor_view(&p->out);
    if (m->wants_weights) a->weights = cla_tensor_view(&p->weights);
    a->batch = m->batch, a->heads = m->heads, a->kv_heads = m->kv_heads;
    a->group = m->kv_heads ? m->heads / m->kv_heads : 1;
    a->n_q = m->n_q, a->n_kv = m->n_kv;
    a->head_dim = m->head_dim, a->head_dim_v = m->head_dim_v;
    a->scale = p->scale != 0.0f ? p->scale : (float)(1.0 / sqrt((double)m->head_dim));
    a->softcap = p->softcap;
    a->splits = 1, a->split_keys = m->n_kv;
    a->shift = m->batch ? shift_of(p, m, 0) : 0;
    fill_window(p, a);
    a->flags = m->score_ops | (p->sinks ? ARGS_SINK : 0) | (cla_tensor_given(&p->lse) ? ARGS_LSE : 0) |
               (p->q_lengths || p->kv_lengths || p->offsets ? ARGS_BATCH_ROWS : 0);
    c->q = p->q.buffer, c->k = p->k.buffer, c->v = p->v.buffer;
}

clattn_status cla_call_table(call *c) {
    const clattn_attention_params *p = c->params;
    const problem *m = &c->problem;
    const size_t rows = (c->args.flags & ARGS_BATCH_ROWS) ? 4 * (size_t)m->batch : 0;
    const size_t heads = (c->args.flags & (ARGS_ALIBI | ARGS_SINK)) ? 2 * (size_t)m->heads : 0;
    if (rows + heads == 0) return CLATTN_OK;
    int32_t *words = calloc(rows + heads, sizeof *words);
    if (!words)
        return cla_context_fail(c->context, CLATTN_OUT_OF_MEMORY, "attention: no host memory for lengths");
    for (int b = 0; rows && b < m->batch; b++) {
        words[4 * b] = shift_of(p, m, b);
        words[4 * b + 1] = p->q_lengths ? p->q_lengths[b] : m->n_q;
        words[4 * b + 2] = p->kv_lengths ? p->kv_lengths[b] : m->n_kv;
    }
    for (int h = 0; heads && h < m->heads; h++) {
        const float pair[2] = {p->alibi_slopes ? p->alibi_slopes[h] : 0.0f, p->sinks ? p->sinks[h] : 0.0f};
        memcpy(words + rows + 2 * (size_t)h, pair, sizeof pair);
    }
    cl_int code = CL_SUCCESS;
    c->table = clCreateBuffer(c->context->opencl, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR,
                              (rows + heads) * sizeof *words, words, &code);
    free(words);
    return c->table ? CLATTN_OK
                    : cla_context_fail_opencl(c->context, code, "clCreateBuffer (lengths and heads)");
}

size_t cla_workspace_round(size_t bytes) {
    return (bytes + 255) / 256 * 256;
}

clattn_status cla_workspace_take(clattn_context *context, cl_mem given, size_t bytes, cl_mem *workspace) {
    *workspace = NULL;
    if (given) {
        size_t have = 0;
        cl_context of = NULL;
        if (clGetMemObjectInfo(given, CL_MEM_SIZE, sizeof have, &have, NULL) != CL_SUCCESS ||
            clGetMemObjectInfo(given, CL_MEM_CONTEXT, sizeof of, &of, NULL) != CL_SUCCESS ||
            of != context->opencl)
            return cla_context_fail(context, CLATTN_INVALID_ARGUMENT,
                                    "workspace: is not a buffer of the context's cl_context");
        if (have < bytes)
            return cla_context_fail(context, CLATTN_INVALID_ARGUMENT,
                                    "workspace: has %llu bytes, %llu are needed", (unsigned long long)have,
                                    (unsigned long long)bytes);
        if (bytes == 0) return CLATTN_OK;
        clRetainMemObject(given);
        *workspace = given;
        return CLATTN_OK;
    }
    if (bytes == 0) return CLATTN_OK;
    // Drivers promise memory that they do not have: hold to the limits they state.
    if (bytes > context->capabilities.max_allocation_bytes)
        return cla_context_fail(
            context, CLATTN_OUT_OF_MEMORY,
            "workspace: %llu bytes are more than the device's largest buffer of %llu bytes",
            (unsigned long long)bytes, (unsigned long long)context->capabilities.max_allocation_bytes);
    cl_int code = CL_SUCCESS;
    *workspace = clCreateBuffer(context->opencl, CL_MEM_READ_WRITE, bytes, NULL, &code);
    return *workspace ? CLATTN_OK : cla_context_fail_opencl(context, code, "clCreateBuffer (workspace)");
}

// RoPE's copies come first, then the variant's own scratch.
static void lay_out_workspace(call *c) {
    const problem *m = &c->problem;
    size_t at = 0;
    if (c->turns) {
        c->q_turned = at;
        at += cla_workspace_round((size_t)cla_tensor_count(&c->params->q) * clattn_type_size(m->type_q));
        c->k_turned = at;
        at += cla_workspace_round((size_t)cla_tensor_count(&c->params->k) * clattn_type_size(m->type_kv));
    }
    c->variant_workspace = at;
    c->workspace_bytes = at + c->variant.workspace_bytes;
}

void cla_call_leave_rope(call *c) {
    c->turns = false;
    lay_out_workspace(c);
}

clattn_status cla_call_check(clattn_context *context, const clattn_attention_params *params, bool planning,
                             call *c) {
    *c = (call){.context = context, .params = params};
    if (!params) return cla_context_fail(context, CLATTN_INVALID_ARGUMENT, "params: is NULL");
    clattn_status status = cla_context_check(context);
    if (status == CLATTN_OK) status = check_unbuilt(context, params);
    if (status == CLATTN_OK) status = check_enums(context, params);
    if (status == CLATTN_OK) status = check_numbers(context, params);
    if (status == CLATTN_OK) status = check_tensors(c, planning);
    if (status != CLATTN_OK) return status;
    fill_problem(c);
    status = check_optional_tensors(c, planning);
    if (status == CLATTN_OK) status = check_host_arrays(c);
    if (status == CLATTN_OK) status = cla_rope_check(context, params, c->problem.head_dim);
    if (status != CLATTN_OK) return status;
    fill_args(c);
    if (c->problem.type_q == CLATTN_TYPE_BF16 && c->problem.type_kv == CLATTN_TYPE_BF16)
        cla_probe_dot_bf16(context);
    if (cla_variant_choose(&context->planner, &c->problem, &c->variant) != CLATTN_OK)
        return cla_context_fail(context, CLATTN_UNSUPPORTED, "%s", c->variant.refusal);
    c->turns = params->rope.layout != CLATTN_ROPE_NONE;
    lay_out_workspace(c);
    return CLATTN_OK;
}
