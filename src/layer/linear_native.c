// linear_native.c: projections by clattn's own kernels, for devices whose work-item owns vector registers:
// many rows by linear_lanes.cl, few rows by linear_few_lanes.cl.
#include <string.h>

#include "layer/linear.h"
#include "linear_args.h"

static linear_problem problem_of(const linear *l) {
    return (linear_problem){l->x.type,
                            l->w.type,
                            l->y.type,
                            tensor_given(&l->b) ? l->b.type : CLATTN_TYPE_F32,
                            l->x.shape[0] * l->x.shape[2],
                            l->w.shape[0],
                            l->w.shape[1],
                            l->rope.rotary_dim ? (int)l->y.shape[3] : 0,
                            l->rope.interleaved};
}

bool linear_native_choose(const clattn_context *context, const linear *l, bool forced,
                          linear_choice *choice) {
    const linear_problem p = problem_of(l);
    return variant_choose_linear(&context->planner, &p, forced, choice);
}

static linear_choice choose(const clattn_context *context, const linear *l) {
    linear_choice choice;
    linear_native_choose(context, l, true, &choice);
    return choice;
}

bool linear_native_is_open(const clattn_context *context, const linear *l) {
    const linear_problem p = problem_of(l);
    return variant_linear_is_open(&context->planner, &p);
}

// With few rows a part of the reduction is a loop of its own, which a short head does not pay for.
bool linear_reads_joined_heads(const clattn_context *context, const linear *l) {
    return choose(context, l).id == KERNEL_LINEAR_FEW_LANES;
}

bool linear_can_turn(const clattn_context *context, const linear *l) {
    return choose(context, l).knobs.rope != 0;
}

clattn_status linear_native_prepare(clattn_context *context, const linear *l) {
    const linear_choice choice = choose(context, l);
    program *p = NULL;
    return program_get(context, choice.id, &choice.knobs, &p);
}

static size_t divide_up(int64_t n, int by) {
    return ((size_t)n + (size_t)by - 1) / (size_t)by;
}

static linear_args args_of(const linear *l) {
    const clattn_tensor *x = &l->x, *y = &l->y;
    const bool one_piece = x->stride[1] == x->shape[3]; // the heads of a row follow one another
    return (linear_args){.x_offset = x->offset,
                         .x_batch = x->stride[0],
                         .x_head = x->stride[1],
                         .x_row = x->stride[2],
                         .w_offset = l->w.offset,
                         .w_row = l->w.stride[0],
                         .bias_offset = l->b.offset,
                         .y_offset = y->offset,
                         .y_batch = y->stride[0],
                         .y_head = y->stride[1],
                         .y_row = y->stride[2],
                         .position = l->rope.position,
                         .batch = (int)x->shape[0],
                         .rows = (int)x->shape[2],
                         .columns = (int)l->w.shape[0],
                         .reduction = (int)l->w.shape[1],
                         .x_head_columns = (int)(one_piece ? l->w.shape[1] : x->shape[3]),
                         .y_head_columns = (int)y->shape[3],
                         .flags = (tensor_given(&l->b) ? ARGS_BIAS : 0) | l->rope.flags,
                         .rotary_dim = l->rope.rotary_dim};
}

static clattn_status enqueue_many_rows(chain *c, const linear *l, const linear_choice *choice, launch *job) {
    const knobs *k = &choice->knobs;
    linear_args a = args_of(l);
    a.column_tile = choice->column_tile;
    launch_buffer(job, &l->x.buffer);
    launch_buffer(job, &l->w.buffer);
    launch_buffer(job, &l->b.buffer);
    launch_buffer(job, &l->y.buffer);
    launch_buffer(job, &l->rope.turns);
    launch_buffer(job, &l->rope.table);
    launch_value(job, &a, sizeof a);
    job->global[0] = divide_up(l->x.shape[0] * l->x.shape[2], k->lanes * k->row_vectors * k->row_panels);
    job->global[1] = divide_up(a.columns, choice->column_tile);
    return launch_enqueue(c, job);
}

// Up to three projections in one launch; the first one's RoPE buffers serve all.
static clattn_status enqueue_few_rows(chain *c, const linear *const l[], int count,
                                      const linear_choice *choice, launch *job) {
    linear_args a[3] = {{0}};
    const cl_mem none = NULL;
    job->global[0] = 0;
    launch_buffer(job, &l[0]->x.buffer);
    for (int i = 0; i < 3; i++) launch_buffer(job, i < count ? &l[i]->w.buffer : &none);
    for (int i = 0; i < 3; i++) launch_buffer(job, i < count ? &l[i]->b.buffer : &none);
    launch_buffer(job, &l[0]->y.buffer);
    launch_buffer(job, &l[0]->rope.turns);
    launch_buffer(job, &l[0]->rope.table);
    for (int i = 0; i < 3; i++) {
        if (i < count) a[i] = args_of(l[i]);
        launch_value(job, &a[i], sizeof a[i]);
        job->global[0] += divide_up(a[i].columns, choice->column_tile);
    }
    return launch_enqueue(c, job);
}

clattn_status linear_native_enqueue(chain *c, const linear *l) {
    const linear_choice choice = choose(c->context, l);
    launch job = {.local = {1, 1, 1}, .global = {1, 1, 1}};
    const clattn_status status = program_get(c->context, choice.id, &choice.knobs, &job.program);
    if (status != CLATTN_OK) return status;
    return choice.id == KERNEL_LINEAR_LANES ? enqueue_many_rows(c, l, &choice, &job)
                                            : enqueue_few_rows(c, &l, 1, &choice, &job);
}

// The same rows, kernel, knobs and result buffer. A projection without RoPE may go with one that has it.
static bool can_share(const clattn_context *context, const linear *first, const linear *l,
                      const linear_choice *choice) {
    linear_choice other = choose(context, l);
    if (!l->rope.rotary_dim) other.knobs.rope = choice->knobs.rope;
    return other.id == KERNEL_LINEAR_FEW_LANES && knobs_equal(&other.knobs, &choice->knobs) &&
           memcmp(&l->x, &first->x, sizeof l->x) == 0 && l->y.buffer == first->y.buffer;
}

bool linear_native_shares_launch(const clattn_context *context, const linear *const l[3]) {
    const linear_choice choice = choose(context, l[0]);
    return choice.id == KERNEL_LINEAR_FEW_LANES && can_share(context, l[0], l[1], &choice) &&
           can_share(context, l[0], l[2], &choice);
}

clattn_status linear_native_enqueue_three(chain *c, const linear *const l[3]) {
    const linear_choice choice = choose(c->context, l[0]);
    launch job = {.local = {1, 1, 1}, .global = {1, 1, 1}};
    const clattn_status status = program_get(c->context, choice.id, &choice.knobs, &job.program);
    return status == CLATTN_OK ? enqueue_few_rows(c, l, 3, &choice, &job) : status;
}
