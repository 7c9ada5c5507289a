// block_mask.c: clattn_block_mask_enqueue: summarise what a call's boolean mask and mask_mod hide,
// block by block.
#include "attention/call/table.h"
#include "attention/call/views.h"
#include "attention/mods/mods.h"
#include "attention/score/score.h"
#include "base/host.h"

#define BLOCK_GROUP 16   // work-items per block
#define ASKED_FLOPS 16.0 // estimated operations for one score

_Static_assert(CLATTN_BLOCK_ROWS == ARGS_BLOCK_ROWS && CLATTN_BLOCK_KEYS == ARGS_BLOCK_KEYS,
               "the header's blocks are the kernels'");

// Keep only the parameters that concern the mask: sizes, and what hides keys.
static void take_masks(clattn_attention_params *p) {
    for (const view_rule *rule = cla_view_rules; rule < cla_view_rules + VIEW_RULES; rule++) {
        clattn_tensor *t = cla_view_of(p, rule->field);
        if (rule->mask == MASK_NOTHING) *t = (clattn_tensor){0};
        if (rule->mask != MASK_SIZES) continue;
        t->buffer = NULL, t->svm = t->usm = NULL;
        if (t == &p->kv.block_table) continue;
        // float32 needs no scales. Block types get as many elements as the row has numbers.
        if (clattn_type_numbers(t->type) > 1 && t->rank == 4) t->shape[3] = cla_tensor_width(t);
        t->type = CLATTN_TYPE_F32;
    }
    p->rope = (clattn_rope){0};
    p->kernel = CLATTN_KERNEL_AUTO, p->splits = 0, p->cascade = CLATTN_CASCADE_NEVER;
    p->workspace = NULL, p->progress = NULL;
}

// This call writes the block mask, which attention calls only read.
static clattn_status check(clattn_context *context, const void *params, entry_purpose purpose, void *job) {
    call *c = job;
    call_views v;
    clattn_attention_params p;
    cla_bytes_copy(&p, params, sizeof p);
    take_masks(&p);
    TRY(cla_call_check(context, &p, purpose, CALL_PARTS | CALL_SIZES, c));
    const clattn_tensor *to = &c->params.score.block_mask;
    if (!cla_tensor_given(to))
        return cla_context_fail(context, CLATTN_INVALID_ARGUMENT,
                                "block_mask: is absent: it is what is written");
    const tensor_rule rule = {"block_mask", "[B or 1, H or 1, row blocks, key blocks]",
                              TYPES_BOOL | ANY_LAST_STRIDE, true, false};
    TRY(cla_tensor_check(context, to, 4, &rule));
    cla_views_begin(&v, context);
    cla_views_add(&v, "block_mask", to, VIEW_WRITE);
    cla_views_add_masks(&v, &c->params);
    return cla_views_check(&v);
}

// The largest work-group up to this size that the device and the compiled kernel allow, and that no
// launch has refused.
static clattn_status find_program(const call *c, program_spec *spec, program **p) {
    const clattn_capabilities *of = &c->context->capabilities;
    int group = BLOCK_GROUP;
    while (group > 1 && ((uint64_t)group > of->max_work_group || (uint64_t)group > of->max_work_item[0]))
        group /= 2;
    for (;; group /= 2) {
        spec->knobs.work_group = group;
        TRY(cla_program_get_spec(c->context, spec, p));
        if (group == 1 || (size_t)group <= cla_program_group(c->context, *p)) return CLATTN_OK;
    }
}

static clattn_status run(void *job, chain *steps) {
    call *c = job;
    const int ops = c->problem.score_ops & (ARGS_MASK | ARGS_MASK_MOD);
    program_spec spec = {.id = KERNEL_BLOCK_MASK,
                         .knobs = {.score_ops = ops, .ragged = c->problem.ragged},
                         .inserted = ops & ARGS_MASK_MOD ? c->mods.inserted : NULL};
    const clattn_tensor *to = &c->params.score.block_mask;
    const mod_args mods = cla_mods_arguments(&c->params.score);
    const block_args sizes = {(int32_t)to->shape[0], (int32_t)to->shape[1], (int32_t)to->shape[2],
                              (int32_t)to->shape[3]};
    launch l = {.flops =
                    ASKED_FLOPS * c->problem.n_q * c->problem.n_kv * c->problem.batch * c->problem.heads};
    if (cla_tensor_count(to) == 0 || c->problem.batch == 0 || c->problem.heads == 0) return CLATTN_OK;
    TRY(find_program(c, &spec, &l.program));
    l.local[0] = (size_t)spec.knobs.work_group, l.local[1] = l.local[2] = 1;
    l.global[0] = (size_t)sizes.columns * l.local[0];
    l.global[1] = (size_t)sizes.rows;
    l.global[2] = (size_t)sizes.batch * (size_t)sizes.heads;
    TRY(cla_call_table(c, steps));
    TRY(cla_ragged_enqueue(c, steps));
    cla_launch_buffer(&l, &to->buffer);
    cla_launch_buffer(&l, &c->table);
    cla_score_arguments(&c->params.score, ops, &mods, &l);
    cla_launch_value(&l, &c->args, sizeof c->args);
    cla_launch_value(&l, &sizes, sizeof sizes);
    return cla_launch_enqueue(steps, &l);
}

static void release(void *job) {
    cla_call_release(job);
}

static const entry block_mask_entry = {.check = check, .run = run, .release = release};

clattn_status clattn_block_mask_enqueue(clattn_context *context, cl_command_queue queue,
                                        const clattn_attention_params *params, cl_uint wait_count,
                                        const cl_event *wait_list, cl_event *event) {
    const entry_queue at = {queue, wait_count, wait_list, event};
    call c;
    return cla_entry_enqueue(&block_mask_entry, context, params, &at, &c);
}
