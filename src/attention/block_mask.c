// block_mask.c: clattn_block_mask_enqueue: what a call's boolean mask and mask_mod hide, block by block.
#include "attention/attention.h"
#include "attention/mods.h"
#include "core/bytes.h"

#define BLOCK_GROUP 16 // work-items that share a block

_Static_assert(CLATTN_BLOCK_ROWS == ARGS_BLOCK_ROWS && CLATTN_BLOCK_KEYS == ARGS_BLOCK_KEYS,
               "the header's blocks are the kernels'");

static program_spec spec_of(const call *c) {
    const int ops = c->problem.score_ops & (ARGS_MASK | ARGS_MASK_MOD);
    return (program_spec){.id = KERNEL_BLOCK_MASK,
                          .knobs = {.score_ops = ops, .work_group = BLOCK_GROUP},
                          .inserted = ops & ARGS_MASK_MOD ? c->inserted : NULL};
}

// What is written is the one thing that an attention call only reads.
static clattn_status check(clattn_context *context, const void *params, entry_purpose purpose, void *job) {
    call *c = job;
    call_views v;
    clattn_attention_params p;
    cla_bytes_copy(&p, params, sizeof p);
    p.kernel = CLATTN_KERNEL_AUTO, p.splits = 0; // who will take the call does not matter
    p.lse = p.weights = p.scores = (clattn_tensor){0};
    p.rope = (clattn_rope){0};
    p.progress = NULL;
    TRY(cla_call_check(context, &p, purpose, true, c));
    const clattn_score *s = &c->params.score;
    if (!cla_tensor_given(&s->block_mask))
        return cla_context_fail(context, CLATTN_INVALID_ARGUMENT,
                                "block_mask: is absent: it is what is written");
    const tensor_rule rule = {"block_mask", "[B or 1, H or 1, row blocks, key blocks]", TYPES_BOOL, true,
                              false};
    TRY(cla_tensor_check(context, &s->block_mask, 4, &rule));
    cla_views_begin(&v, context);
    cla_views_add(&v, "block_mask", &s->block_mask, VIEW_WRITE);
    cla_views_add(&v, "mask", &s->mask, VIEW_READ);
    cla_views_add(&v, "mod_buffers[0]", &s->mod_buffers[0], VIEW_READ);
    cla_views_add(&v, "mod_buffers[1]", &s->mod_buffers[1], VIEW_READ);
    cla_views_add(&v, "mod_buffers[2]", &s->mod_buffers[2], VIEW_READ);
    cla_views_add(&v, "mod_buffers[3]", &s->mod_buffers[3], VIEW_READ);
    return cla_views_check(&v);
}

static clattn_status prepare(void *job) {
    program *p = NULL;
    const program_spec spec = spec_of(job);
    return cla_program_get_spec(((call *)job)->context, &spec, &p);
}

static clattn_status run(void *job, chain *steps) {
    call *c = job;
    const program_spec spec = spec_of(c);
    const clattn_tensor *to = &c->params.score.block_mask;
    const mod_args mods = cla_mods_arguments(&c->params.score);
    const block_args sizes = {(int32_t)to->shape[0], (int32_t)to->shape[1], (int32_t)to->shape[2],
                              (int32_t)to->shape[3]};
    launch l = {.global = {(size_t)sizes.columns * BLOCK_GROUP, (size_t)sizes.rows,
                           (size_t)sizes.batch * (size_t)sizes.heads},
                .local = {BLOCK_GROUP, 1, 1}};
    if (cla_tensor_count(to) == 0 || c->problem.batch == 0 || c->problem.heads == 0) return CLATTN_OK;
    TRY(cla_program_get_spec(c->context, &spec, &l.program));
    TRY(cla_call_table(c, steps));
    cla_launch_buffer(&l, &to->buffer);
    cla_launch_buffer(&l, &c->table);
    if (spec.knobs.score_ops & ARGS_MASK) cla_launch_buffer(&l, &c->params.score.mask.buffer);
    cla_mods_set(&c->params.score, spec.knobs.score_ops, &mods, &l);
    cla_launch_value(&l, &c->args, sizeof c->args);
    cla_launch_value(&l, &sizes, sizeof sizes);
    return cla_launch_enqueue(steps, &l);
}

static void release(void *job) {
    cla_call_release(job);
}

static const entry block_mask_entry = {check, prepare, run, release};

clattn_status clattn_block_mask_enqueue(clattn_context *context, cl_command_queue queue,
                                        const clattn_attention_params *params, cl_uint wait_count,
                                        const cl_event *wait_list, cl_event *event) {
    const entry_queue at = {queue, wait_count, wait_list, event};
    call c;
    return cla_entry_enqueue(&block_mask_entry, context, params, &at, &c);
}
