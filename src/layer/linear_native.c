// linear_native.c: projections by clattn's own kernels, for devices whose work-item owns vector registers:
// many rows by linear_lanes.cl, few rows by linear_few_lanes.cl.
#include <string.h>

#include "layer/linear.h"
#include "linear_args.h"
#include "plan/planner.h"

static linear_problem problem_of(const linear *l) {
    return (linear_problem){l->x.type,
                            l->w.type,
                            l->y.type,
                            cla_tensor_given(&l->b) ? l->b.type : CLATTN_TYPE_F32,
                            l->x.shape[0] * l->x.shape[2],
                            l->w.shape[0],
                            l->w.shape[1],
                            l->rope.rotary_dim ? (int)l->y.shape[3] : 0,
                            l->rope.interleaved};
}

void cla_linear_choose(const clattn_context *context, linear *l) {
    const linear_problem p = problem_of(l);
    cla_variant_choose_linear(cla_planner_linear_input(context), &p, true, &l->choice);
}

bool cla_linear_native_wins(const clattn_context *context, const linear *l, const projection_answer *known) {
    const linear_problem p = problem_of(l);
    plan_input in = *cla_planner_linear_input(context);
    linear_choice choice;
    memcpy(in.measured, known->of, sizeof in.measured);
    return cla_variant_choose_linear(&in, &p, false, &choice);
}

bool cla_linear_native_is_open(const clattn_context *context, const linear *l) {
    const linear_problem p = problem_of(l);
    return cla_variant_linear_is_open(cla_planner_linear_input(context), &p);
}

clattn_status cla_linear_native_prepare(clattn_context *context, const linear *l) {
    program *p = NULL;
    return cla_program_get(context, l->choice.id, &l->choice.knobs, &p);
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
                         .flags = (cla_tensor_given(&l->b) ? ARGS_BIAS : 0) | l->rope.flags,
                         .rotary_dim = l->rope.rotary_dim};
}

_Static_assert(3 * sizeof(linear_args) + (LAUNCH_MAX_ARGS - 3) * sizeof(cl_mem) <= LAUNCH_MAX_BYTES,
               "the arguments of a launch fit every device");

static clattn_status enqueue_many_rows(chain *c, const linear *l, launch *job) {
    const knobs *k = &l->choice.knobs;
    linear_args a = args_of(l);
    a.column_tile = l->choice.column_tile;
    cla_launch_buffer(job, &l->x.buffer);
    cla_launch_buffer(job, &l->w.buffer);
    cla_launch_buffer(job, &l->b.buffer);
    cla_launch_buffer(job, &l->y.buffer);
    cla_launch_buffer(job, &l->rope.turns);
    cla_launch_buffer(job, &l->rope.table);
    cla_launch_value(job, &a, sizeof a);
    job->global[0] = divide_up(l->x.shape[0] * l->x.shape[2], k->lanes * k->row_vectors * k->row_panels);
    job->global[1] = divide_up(a.columns, a.column_tile);
    return cla_launch_enqueue(c, job);
}

// Up to three projections in one launch; the first one's kernel and RoPE buffers serve all.
static clattn_status enqueue_few_rows(chain *c, const linear *const l[], int count, launch *job) {
    linear_args a[3] = {{0}};
    const cl_mem none = NULL;
    job->global[0] = 0;
    cla_launch_buffer(job, &l[0]->x.buffer);
    for (int i = 0; i < 3; i++) cla_launch_buffer(job, i < count ? &l[i]->w.buffer : &none);
    for (int i = 0; i < 3; i++) cla_launch_buffer(job, i < count ? &l[i]->b.buffer : &none);
    cla_launch_buffer(job, &l[0]->y.buffer);
    cla_launch_buffer(job, &l[0]->rope.turns);
    cla_launch_buffer(job, &l[0]->rope.table);
    for (int i = 0; i < 3; i++) {
        if (i < count) a[i] = args_of(l[i]);
        cla_launch_value(job, &a[i], sizeof a[i]);
        job->global[0] += divide_up(a[i].columns, l[0]->choice.column_tile);
    }
    return cla_launch_enqueue(c, job);
}

static clattn_status enqueue(chain *c, const linear *const l[], int count) {
    const linear_choice *choice = &l[0]->choice;
    launch job = {.local = {1, 1, 1}, .global = {1, 1, 1}};
    TRY(cla_program_get(c->context, choice->id, &choice->knobs, &job.program));
    return choice->id == KERNEL_LINEAR_LANES ? enqueue_many_rows(c, l[0], &job)
                                             : enqueue_few_rows(c, l, count, &job);
}

clattn_status cla_linear_native_enqueue(chain *c, const linear *l) {
    return enqueue(c, &l, 1);
}

// The same rows, kernel, knobs and result buffer. A projection without RoPE may go with one that has it.
static bool can_share(const linear *first, const linear *l) {
    knobs k = l->choice.knobs;
    if (!l->rope.rotary_dim) k.rope = first->choice.knobs.rope;
    return l->choice.id == KERNEL_LINEAR_FEW_LANES && cla_knobs_equal(&k, &first->choice.knobs) &&
           memcmp(&l->x, &first->x, sizeof l->x) == 0 && l->y.buffer == first->y.buffer;
}

bool cla_linear_native_shares_launch(const linear *const l[3]) {
    const int64_t columns = l[0]->w.shape[0] + l[1]->w.shape[0] + l[2]->w.shape[0];
    if (columns > INT32_MAX) return false; // the kernel counts the tiles of all three in 32 bits
    return l[0]->choice.id == KERNEL_LINEAR_FEW_LANES && can_share(l[0], l[1]) && can_share(l[0], l[2]);
}

clattn_status cla_linear_native_enqueue_three(chain *c, const linear *const l[3]) {
    return enqueue(c, l, 3);
}
