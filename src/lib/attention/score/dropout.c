// dropout.c: dropout of score.h, and clattn_dropout_mask_enqueue.
#include "attention/score/score.h"

#include "attention/call/views.h"
#include "launch/entry.h"
#include "device/pointer.h"

#define KEY_FLOPS 50.0 // estimated operations for one key of the mask: a quarter of ten rounds

clattn_status cla_dropout_check(clattn_context *context, float probability) {
    if (probability >= 0.0f && probability < 1.0f) return CLATTN_OK; // also rejects NaN
    return cla_context_fail(context, CLATTN_INVALID_ARGUMENT,
                            "dropout: %g: must be 0 (none) or more, and below 1", (double)probability);
}

// P has 24 significant bits, so P * 2^32 is exact.
dropout_args cla_dropout_arguments(float probability, uint64_t seed) {
    const double p = (double)probability;
    return (dropout_args){.seed = {(uint32_t)seed, (uint32_t)(seed >> 32)},
                          .threshold = (uint32_t)(p * 4294967296.0),
                          .factor = (float)(1.0 / (1.0 - p))};
}

typedef struct mask_job {
    clattn_context *context;
    clattn_dropout_mask_params params;
} mask_job;

// Kernels count rows and keys in int32. Heads of all batch items form one dimension of the grid.
static clattn_status check_sizes(const mask_job *job) {
    const int64_t *shape = job->params.mask.shape;
    const bool heads_fit = shape[0] <= INT32_MAX && shape[1] <= INT32_MAX && shape[0] * shape[1] <= INT32_MAX;
    if (!heads_fit)
        return cla_context_fail(job->context, CLATTN_INVALID_ARGUMENT,
                                "mask: [%lld,%lld,...]: B * H must be below 2^31", (long long)shape[0],
                                (long long)shape[1]);
    for (int i = 2; i < 4; i++)
        if (shape[i] > INT32_MAX)
            return cla_context_fail(job->context, CLATTN_INVALID_ARGUMENT,
                                    "mask: size %lld of axis %d: must be below 2^31", (long long)shape[i], i);
    return CLATTN_OK;
}

static clattn_status check(clattn_context *c, const void *params, entry_purpose purpose, void *to) {
    const tensor_rule rule = {"mask", "[B, H, Nq, Nkv]", TYPES_BOOL | ANY_LAST_STRIDE, true, false};
    mask_job *job = to;
    call_views v;
    (void)purpose;
    *job = (mask_job){c, *(const clattn_dropout_mask_params *)params};
    cla_pointers_take(c, (clattn_tensor *const[]){&job->params.mask}, 1, false);
    TRY(cla_tensor_check(c, &job->params.mask, 4, &rule));
    TRY(check_sizes(job));
    TRY(cla_dropout_check(c, job->params.dropout));
    cla_views_begin(&v, c);
    cla_views_add(&v, "mask", &job->params.mask, VIEW_WRITE);
    return cla_views_check(&v);
}

static clattn_status run(void *from, chain *steps) {
    const mask_job *job = from;
    const clattn_dropout_mask_params *p = &job->params;
    const int64_t *shape = p->mask.shape;
    const knobs k = {.dropout = 1};
    dropout_mask_args a = {cla_tensor_view(&p->mask), (int32_t)shape[0], (int32_t)shape[1], (int32_t)shape[2],
                           (int32_t)shape[3]};
    const dropout_args dropout = cla_dropout_arguments(p->dropout, p->dropout_seed);
    const size_t items[3] = {((size_t)shape[3] + 3) / 4, (size_t)shape[2],
                             (size_t)shape[0] * (size_t)shape[1]};
    launch l = {.flops = KEY_FLOPS * (double)cla_tensor_count(&p->mask), .cuts_first = true};
    a.mask.column = p->mask.stride[3];
    if (cla_tensor_count(&p->mask) == 0) return CLATTN_OK;
    TRY(cla_program_get(job->context, KERNEL_DROPOUT_MASK, &k, &l.program));
    cla_launch_items(&l, job->context, items, (const size_t[3]){64, 1, 1});
    cla_launch_buffer(&l, &p->mask.buffer);
    cla_launch_value(&l, &a, sizeof a);
    cla_launch_value(&l, &dropout, sizeof dropout);
    return cla_launch_enqueue(steps, &l);
}

static const entry dropout_mask_entry = {.check = check, .run = run};

clattn_status clattn_dropout_mask_enqueue(clattn_context *context, cl_command_queue queue,
                                          const clattn_dropout_mask_params *params, cl_uint wait_count,
                                          const cl_event *wait_list, cl_event *event) {
    const entry_queue at = {queue, wait_count, wait_list, event};
    mask_job job;
    return cla_entry_enqueue(&dropout_mask_entry, context, params, &at, &job);
}
