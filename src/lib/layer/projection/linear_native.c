// linear_native.c: projections by clattn's own kernels. The kernel depends on the device and the
// number of rows:
//    vector registers in each work-item   many rows: linear_lanes.cl   few: linear_few_lanes.cl
//    proven matrix engine on a GPU        many rows: linear_fragments.cl   few: linear_rows.cl
//    other devices                        many rows: linear_tiles.cl   few: linear_rows.cl
#include <string.h>

#include "launch/entry.h"
#include "layer/projection/linear.h"
#include "args/args.h"
#include "plan/families/family_fragments.h"
#include "plan/families/family_linear.h"
#include "plan/planner.h"
#include "probe/fragments.h"

#define MANY_ROWS 4096 // rows of a call for which packing weights pays

static bool joined_heads(const linear *l) {
    // The heads of a row are contiguous.
    return l->x.shape[1] == 1 || l->x.stride[1] == l->x.shape[3];
}

static int buffer_alignment(const clattn_tensor *t) {
    int elements;
    cla_buffer_alignment(t->buffer, clattn_type_size(t->type), &elements);
    return elements;
}

// Alignments of the rows of x, including those of its heads, and of the rows of W.
static void find_alignments(linear *l) {
    clattn_tensor x = l->x, w = {.rank = 4, .offset = l->w.offset};
    w.shape[2] = l->w.shape[0], w.stride[2] = l->w.stride[0];
    if (joined_heads(l)) x.shape[1] = 1;
    const int64_t heads = joined_heads(l) ? 0 : x.shape[3],
                  in_x = heads | cla_tensor_row_alignment(&x) | buffer_alignment(&l->x),
                  in_w = cla_tensor_row_alignment(&w) | buffer_alignment(&l->w);
    l->align_x = (int)(in_x & -in_x);
    // Blocks and pairs are read by bytes.
    l->align_w = clattn_type_numbers(l->w.type) > 1 ? 16 : (int)(in_w & -in_w);
}

linear cla_linear_up(const linear *l) {
    linear up = *l;
    up.w = l->epilogue.w_up, up.b = l->epilogue.b_up, up.packed = l->epilogue.packed_up;
    up.scale = l->epilogue.up_scale, up.zero = l->epilogue.up_zero;
    up.epilogue = (linear_epilogue){.given = false};
    return up;
}

static linear_problem problem_of(const linear *l) {
    return (linear_problem){.type_x = l->x.type,
                            .type_w = l->w.type,
                            .type_y = l->y.type,
                            .scale_group = cla_linear_scale_group(&l->w, &l->scale),
                            .type_scale = CLATTN_TYPE_IS_SCALED(l->w.type) ? (int)l->scale.type : 0,
                            .zero_points = cla_tensor_given(&l->zero),
                            .type_bias = cla_tensor_given(&l->b)               ? l->b.type
                                         : cla_tensor_given(&l->epilogue.b_up) ? l->epilogue.b_up.type
                                                                               : CLATTN_TYPE_F32,
                            .rows = l->x.shape[0] * l->x.shape[2],
                            .columns = l->w.shape[0],
                            .reduction = cla_tensor_width(&l->w),
                            .rope_head = l->rope.rotary_dim ? (int)l->y.shape[3] : 0,
                            .rope_interleaved = l->rope.interleaved,
                            .split = l->split,
                            .epilogue = l->epilogue.given,
                            .packed = l->packed.buffer != NULL,
                            .align_x = l->align_x,
                            .align_w = l->align_w};
}

// Probe the engines that the projection could gain from. AMX is probed only if the context
// requested it.
static plan_input input_of(clattn_context *context, const linear_problem *p) {
    plan_input in = cla_planner_linear_input(context);
    // With lanes, the plan ignores CLBlast.
    in.has_clblast = !cla_plan_has_lanes(&in) && cla_clblast_available(context);
    const bool tiles = context->engines & CLATTN_ENGINE_AMX && cla_family_linear_matrix_can(&in, p),
               dot = cla_family_linear_dot_can(&in, p);
    const bool fragments = cla_family_linear_fragments_types(p) && cla_fragments_possible(in.device),
               integers = in.device->is_cpu && cla_family_linear_integers_can(p);
    const unsigned tried = (tiles || dot || integers ? 1u << PROBE_FMA : 0) |
                           (integers ? 1u << PROBE_DOT_I8 : 0) | (tiles ? 1u << PROBE_AMX : 0) |
                           (dot ? 1u << PROBE_DOT_BF16 : 0) |
                           (fragments && in.device->compute_capability ? PROBES_MMA | 1u << PROBE_TILES : 0);
    const unsigned kept = fragments ? PROBES_FRAGMENTS | 1u << PROBE_TILES : 0, wanted = tried | kept;
    probe_results found = in.probes;
    if (tried) found = cla_probe_results(context, tried);
    if (kept) found = cla_probe_results_kept(context, kept); // see cla_planner_input
    in.probes.ran |= found.ran & wanted, in.probes.proven |= found.proven & wanted;
    in.probes.sure |= found.sure & wanted;
    for (int i = 0; i < PROBE_COUNT; i++)
        if (wanted >> i & 1u) in.probes.rate[i] = found.rate[i];
    return in;
}

// Kernels in lanes read at any alignment. So alignments are found only if the first choice is
// another kernel.
void cla_linear_choose(clattn_context *context, linear *l) {
    linear_problem p = problem_of(l);
    const plan_input in = input_of(context, &p);
    cla_variant_choose_linear(&in, &p, true, &l->choice);
    if (l->choice.id != KERNEL_LINEAR_ROWS && l->choice.id != KERNEL_LINEAR_TILES &&
        l->choice.id != KERNEL_LINEAR_FRAGMENTS)
        return;
    find_alignments(l);
    p.align_x = l->align_x, p.align_w = l->align_w;
    cla_variant_choose_linear(&in, &p, true, &l->choice);
}

bool cla_linear_native_wins(clattn_context *context, const linear *l, const projection_answer *known) {
    const linear_problem p = problem_of(l);
    plan_input in = input_of(context, &p);
    linear_choice choice;
    memcpy(in.measured, known->of, sizeof in.measured);
    return cla_variant_choose_linear(&in, &p, false, &choice);
}

const char *cla_linear_why(clattn_context *context, const linear *l, const projection_answer *known) {
    const linear_problem p = problem_of(l);
    plan_input in = input_of(context, &p);
    memcpy(in.measured, known->of, sizeof in.measured);
    return cla_variant_linear_why(&in, &p, l->native);
}

const char *cla_linear_gone(clattn_context *context, const linear *l, const char **kernel) {
    const linear_problem p = problem_of(l);
    const plan_input in = input_of(context, &p);
    return l->native ? cla_variant_linear_gone(&in, &p, kernel) : NULL;
}

bool cla_linear_native_is_open(clattn_context *context, const linear *l) {
    const linear_problem p = problem_of(l);
    const plan_input in = input_of(context, &p);
    return cla_variant_linear_is_open(&in, &p);
}

bool cla_linear_takes_packed(const linear *l) {
    return l->native && l->choice.id == KERNEL_LINEAR_MATRIX;
}

bool cla_linear_would_take_packed(clattn_context *context, const clattn_tensor *w, bool split) {
    static const clattn_type of_x[] = {CLATTN_TYPE_BF16, CLATTN_TYPE_F32};
    linear_problem p = {.type_w = w->type,
                        .rows = MANY_ROWS,
                        .columns = w->shape[0],
                        .reduction = cla_tensor_width(w),
                        .split = split,
                        .packed = true,
                        .align_x = 1,
                        .align_w = 1};
    linear_choice choice;
    for (int i = 0; i < 2; i++) {
        p.type_x = p.type_y = of_x[i];
        const plan_input in = input_of(context, &p);
        if (cla_variant_choose_linear(&in, &p, false, &choice) && choice.id == KERNEL_LINEAR_MATRIX)
            return true;
    }
    return false;
}

clattn_status cla_linear_native_prepare(clattn_context *context, const linear *l) {
    const linear_choice *choice = &l->choice;
    program *p = NULL;
    const program_spec spec = {.id = choice->id, .knobs = choice->knobs, .options = choice->options};
    const planned_group planned = {.items = choice->work_group, .local_bytes = choice->local_bytes};
    return cla_planner_program(context, &spec, &planned, &p);
}

static size_t divide_up(int64_t n, int by) {
    return ((size_t)n + (size_t)by - 1) / (size_t)by;
}

// Set the arguments by which the kernel finds its rows' positions.
static void fill_positions(const linear *l, linear_args *a) {
    if (l->sequences > 0) a->position_batch = l->sequences, a->position_row = l->cache_rows;
    if (!l->rope.positions) return;
    const args_view at = cla_rope_positions_view(l->rope.positions);
    a->flags |= LINEAR_POSITIONS;
    a->position = at.offset;
    a->position_batch = (int32_t)at.batch, a->position_row = (int32_t)at.row;
}

bool cla_linear_applies_rope(const clattn_rope *rope, const linear *l) {
    if (cla_rope_has_sections(rope) || !l->choice.knobs.rope) return false;
    if (!l->rope.positions) return true;
    // The kernel counts these strides in 32 bits.
    const args_view at = cla_rope_positions_view(l->rope.positions);
    return at.batch <= INT32_MAX && at.row <= INT32_MAX;
}

static const cl_mem *table_of(const linear *l) {
    return l->rope.positions ? &l->rope.positions->buffer : &l->rope.table;
}

static linear_args args_of(const linear *l) {
    const clattn_tensor *x = &l->x, *y = &l->y;
    linear_args a = {.x_offset = x->offset,
                     .x_batch = x->stride[0],
                     .x_head = x->stride[1],
                     .x_row = x->stride[2],
                     .w_offset = l->w.offset,
                     .w_row = l->w.stride[l->choice.knobs.transposed & LINEAR_TRANSPOSED_W ? 1 : 0],
                     .bias_offset = l->b.offset,
                     .scale_offset = l->scale.offset,
                     .scale_row = l->scale.stride[0],
                     .zero_offset = l->zero.offset,
                     .y_offset = y->offset,
                     .y_batch = y->stride[0],
                     .y_head = y->stride[1],
                     .y_row = y->stride[2],
                     .position = l->rope.position,
                     .batch = (int)x->shape[0],
                     .rows = (int)x->shape[2],
                     .columns = (int)l->w.shape[0],
                     .reduction = (int)cla_tensor_width(&l->w),
                     .x_head_columns = (int)(joined_heads(l) ? cla_tensor_width(&l->w) : x->shape[3]),
                     .y_head_columns = (int)y->shape[3],
                     .flags = (cla_tensor_given(&l->b) ? ARGS_BIAS : 0) | l->rope.flags,
                     .rotary_dim = l->rope.rotary_dim,
                     .amplitude = l->rope.amplitude};
    fill_positions(l, &a);
    return a;
}

_Static_assert(3 * LAUNCH_BYTES(linear_args) + (LAUNCH_MAX_ARGS - 3) * LAUNCH_BYTES(cl_mem) <=
                   LAUNCH_MAX_BYTES,
               "the arguments of a launch fit every device");

// After the weights, append scales and zero points of `count` projections, if their type has them,
// and NULLs up to `most`.
static void add_scales(const linear *const l[], int count, int most, launch *job) {
    const cl_mem none = NULL;
    for (int i = 0; i < most && l[0]->choice.knobs.scale_group; i++) {
        cla_launch_buffer(job, i < count ? &l[i]->scale.buffer : &none);
        cla_launch_buffer(job, i < count ? &l[i]->zero.buffer : &none);
    }
}

static epilogue_args epilogue_of(const linear *l) {
    const linear_epilogue *e = &l->epilogue;
    epilogue_args a = {.how = (int)e->activation,
                       .gates = cla_tensor_given(&e->w_up),
                       .adds = cla_tensor_given(&e->residual)};
    if (a.adds) a.residual = cla_tensor_view(&e->residual);
    return a;
}

static double flops_of(const linear *l) {
    return 2.0 * (double)cla_tensor_count(&l->y) * (double)cla_tensor_width(&l->w);
}

// Enqueue `rows` rows of every batch item, from row `first` on. The kernel counts them from 0.
static clattn_status enqueue_rows(chain *c, const linear *l, launch job, int64_t first, int64_t rows) {
    const linear_choice *choice = &l->choice;
    linear_args a = args_of(l);
    a.column_tile = choice->column_tile;
    a.packed_offset = l->packed.offset;
    a.x_offset += first * a.x_row, a.y_offset += first * a.y_row;
    a.position += first * (l->rope.positions ? a.position_row : 1), a.rows = (int)rows;
    cla_launch_buffer(&job, &l->x.buffer);
    cla_launch_buffer(&job, &l->w.buffer);
    add_scales(&l, 1, 1, &job);
    if (cla_linear_takes_packed(l)) cla_launch_buffer(&job, &l->packed.buffer);
    cla_launch_buffer(&job, &l->b.buffer);
    cla_launch_buffer(&job, &l->y.buffer);
    cla_launch_buffer(&job, &l->rope.frequencies);
    cla_launch_buffer(&job, table_of(l));
    cla_launch_value(&job, &a, sizeof a);
    job.flops = flops_of(l) * (double)rows / (double)l->x.shape[2];
    job.global[0] = divide_up(l->x.shape[0] * rows, choice->row_tile) * job.local[0];
    job.global[1] = divide_up(a.columns, a.column_tile);
    return cla_launch_enqueue(c, &job);
}

// The kernels number tiles of rows by their group id, so rows are cut here. The launch cuts only
// columns.
static clattn_status enqueue_many_rows(chain *c, const linear *l, const launch *job) {
    const int64_t all = l->x.shape[2];
    const double most = cla_pace_most(c->context, &job->program->rate, c->progress != NULL),
                 each = flops_of(l) / (double)all;
    const int64_t step = cla_pace_rows(all, l->choice.row_tile, each, most);
    for (int64_t first = 0; first < all; first += step)
        TRY(enqueue_rows(c, l, *job, first, all - first < step ? all - first : step));
    return CLATTN_OK;
}

// Enqueue up to three projections in one launch, with the first one's kernel and RoPE buffers. A
// block of rows reads W once, which is never slow, so the launch is cut only between blocks.
static clattn_status enqueue_few_rows(chain *c, const linear *const l[], int count, launch *job) {
    linear_args a[3] = {{0}};
    const linear_choice *choice = &l[0]->choice;
    const cl_mem none = NULL;
    job->global[0] = 0;
    cla_launch_buffer(job, &l[0]->x.buffer);
    for (int i = 0; i < 3; i++) cla_launch_buffer(job, i < count ? &l[i]->w.buffer : &none);
    add_scales(l, count, 3, job);
    for (int i = 0; i < 3; i++) cla_launch_buffer(job, i < count ? &l[i]->b.buffer : &none);
    for (int i = 0; i < 3; i++) cla_launch_buffer(job, i < count ? &l[i]->y.buffer : &none);
    cla_launch_buffer(job, &l[0]->rope.frequencies);
    cla_launch_buffer(job, table_of(l[0]));
    const epilogue_args epilogue = epilogue_of(l[0]);
    const bool gated = choice->knobs.epilogue; // the same groups compute both projections
    if (gated) cla_launch_buffer(job, &l[0]->epilogue.residual.buffer);
    if (gated) cla_launch_value(job, &epilogue, sizeof epilogue);
    for (int i = 0; i < 3; i++) {
        if (i < count) a[i] = args_of(l[i]);
        if (i < count) job->flops += flops_of(l[i]);
        cla_launch_value(job, &a[i], sizeof a[i]);
        if (i == 0 || !gated) job->global[0] += divide_up(a[i].columns, choice->column_tile);
    }
    job->global[0] *= job->local[0];
    if (choice->row_tile > 0)
        job->global[1] = divide_up(l[0]->x.shape[0] * l[0]->x.shape[2], choice->row_tile);
    return cla_launch_enqueue(c, job);
}

static clattn_status enqueue(chain *c, const linear *const l[], int count) {
    const linear_choice *choice = &l[0]->choice;
    const size_t group = choice->work_group > 1 ? (size_t)choice->work_group : 1;
    const cl_mem residual = choice->knobs.epilogue ? l[0]->epilogue.residual.buffer : NULL;
    launch job = {
        .local = {group, 1, 1}, .global = {1, 1, 1}, .changes = residual && residual == l[0]->y.buffer};
    const program_spec spec = {.id = choice->id, .knobs = choice->knobs, .options = choice->options};
    TRY(cla_program_get_spec(c->context, &spec, &job.program));
    return cla_linear_is_of_few_rows(l[0]) ? enqueue_few_rows(c, l, count, &job)
                                           : enqueue_many_rows(c, l[0], &job);
}

clattn_status cla_linear_native_enqueue(chain *c, const linear *l) {
    if (!l->choice.knobs.epilogue || !cla_tensor_given(&l->epilogue.w_up)) return enqueue(c, &l, 1);
    const linear up = cla_linear_up(l);
    return enqueue(c, (const linear *const[]){l, &up}, 2);
}

bool cla_linear_is_of_few_rows(const linear *l) {
    return cla_variant_linear_measure(l->choice.id) == PLAN_FEW_ROWS;
}

// True if both projections have the same rows, kernel, knobs and positions. A projection without
// RoPE may share a launch with a projection that has RoPE.
static bool can_share(const linear *first, const linear *l) {
    knobs k = l->choice.knobs;
    if (!l->rope.rotary_dim) k.rope = first->choice.knobs.rope;
    if (l->rope.positions && l->rope.positions != first->rope.positions) return false;
    return cla_linear_is_of_few_rows(l) && l->choice.id == first->choice.id &&
           cla_knobs_equal(&k, &first->choice.knobs) && memcmp(&l->x, &first->x, sizeof l->x) == 0;
}

bool cla_linear_native_shares_launch(const linear *const l[3]) {
    const int64_t columns = l[0]->w.shape[0] + l[1]->w.shape[0] + l[2]->w.shape[0];
    if (columns > INT32_MAX) return false; // the kernel counts the tiles of all three in 32 bits
    return cla_linear_is_of_few_rows(l[0]) && can_share(l[0], l[1]) && can_share(l[0], l[2]);
}

clattn_status cla_linear_native_enqueue_three(chain *c, const linear *const l[3]) {
    return enqueue(c, l, 3);
}

bool cla_linear_native_small(const linear *l, knobs *k, linear_args *a) {
    if (!l->native || l->choice.id != KERNEL_LINEAR_FEW_LANES || l->has_lengths) return false;
    *k = l->choice.knobs;
    *a = args_of(l);
    return k->type_q == k->type_kv && k->type_q == k->type_out;
}

const cl_mem *cla_linear_native_positions(const linear *l) {
    return table_of(l);
}
