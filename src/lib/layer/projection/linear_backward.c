// linear_backward.c: see linear_backward.h; also the public call. Both gradients are projections
// with transposed matrices. The matrices are copied to transpose them, so that CLBlast and every
// projection kernel can be used. linear_lanes reads them transposed without a copy.
#include "layer/projection/linear_backward.h"

#include "args/backward_args.h"
#include "base/host.h"
#include "launch/entry.h"
#include "launch/workspace.h"
#include "layer/projection/projector.h"
#include "plan/planner.h"
#include "program/unfit.h"

static int64_t rows_of(const clattn_tensor *t) {
    return t->rank == 2 ? t->shape[0] : t->shape[0] * t->shape[1];
}

// A transposed copy [1, columns, rows] in scratch memory.
static clattn_tensor transposed_at(const clattn_tensor *t, uint64_t *at) {
    const int64_t shape[3] = {1, t->shape[t->rank - 1], rows_of(t)};
    clattn_tensor copy = clattn_tensor_dense(NULL, t->type, 3, shape);
    copy.offset = (int64_t)(*at / clattn_type_size(t->type));
    *at = cla_workspace_add(*at, (uint64_t)cla_tensor_count(t), clattn_type_size(t->type));
    return copy;
}

static clattn_tensor matrix_of(const clattn_tensor *t) {
    clattn_tensor w = *t;
    w.rank = 2;
    for (int i = 0; i < 2; i++) w.shape[i] = t->shape[i + 1], w.stride[i] = t->stride[i + 1];
    return w;
}

static clattn_tensor one_item(const clattn_tensor *t) {
    clattn_tensor y = *t;
    y.rank = 3;
    y.shape[0] = 1, y.stride[0] = 0;
    for (int i = 0; i < 2; i++) y.shape[i + 1] = t->shape[i], y.stride[i + 1] = t->stride[i];
    return y;
}

// Transposed views without a copy: as W, and as an x in which each column is a head.
static clattn_tensor transposed_matrix(const clattn_tensor *t) {
    clattn_tensor w = *t;
    w.rank = 2;
    w.shape[0] = t->shape[t->rank - 1], w.shape[1] = rows_of(t);
    w.stride[0] = 1, w.stride[1] = t->stride[t->rank - 2];
    return w;
}
static clattn_tensor transposed_rows(const clattn_tensor *t) {
    clattn_tensor x = *t;
    x.rank = 4;
    x.shape[0] = x.shape[3] = 1, x.shape[1] = rows_of(t), x.shape[2] = t->shape[t->rank - 1];
    x.stride[0] = 0, x.stride[1] = t->stride[t->rank - 2], x.stride[2] = x.stride[3] = 1;
    return x;
}

// True if the rows of all batch items have the same stride.
static bool is_one_matrix(const clattn_tensor *t) {
    return t->rank == 2 || t->shape[0] == 1 || t->stride[0] == t->shape[1] * t->stride[1];
}

static bool is_empty(const linear_gradients *g) {
    return rows_of(&g->dout) == 0;
}

static clattn_status plan_product(clattn_context *context, linear *l, clattn_projection wanted,
                                  cl_mem scratch, uint64_t *bytes) {
    const char *why;
    l->w.buffer = scratch;
    cla_linear_choose(context, l);
    TRY(cla_projector_decide(context, l, wanted, false, &why));
    const uint64_t own = cla_linear_scratch(l);
    if (own > *bytes) *bytes = own;
    return CLATTN_OK;
}

// can_read_transposed: the kernel can read transposed matrices without a copy. reads_transposed: it
// does. `transposed`: LINEAR_TRANSPOSED_* of args.h.
static bool can_read_transposed(const clattn_context *context, const linear *l, int transposed) {
    const linear_choice *choice = &l->choice;
    knobs k = choice->knobs;
    k.transposed = transposed;
    return l->native && choice->id == KERNEL_LINEAR_LANES &&
           !cla_unfit_refusal(cla_unfit_known(context), choice->id, &k, choice->options, NULL);
}
static bool reads_transposed(const linear *l) {
    return l->choice.knobs.transposed != 0;
}

// Plan the products for dx and for dw. *at is the byte where copies may start; it becomes the end
// of the copies that are needed.
static clattn_status plan_dx(clattn_context *context, linear_gradients *g, clattn_projection wanted,
                             cl_mem scratch, uint64_t *at, uint64_t *bytes) {
    uint64_t end = *at;
    linear *l = &g->of_x;
    g->w_transposed = transposed_at(&g->w, &end);
    *l = (linear){.x = cla_linear_one_head(&g->dout),
                  .w = matrix_of(&g->w_transposed),
                  .y = cla_linear_one_head(&g->dx),
                  .split = g->split};
    TRY(plan_product(context, l, wanted, scratch, bytes));
    if (!can_read_transposed(context, l, LINEAR_TRANSPOSED_W)) return *at = end, CLATTN_OK;
    l->w = transposed_matrix(&g->w), l->choice.knobs.transposed = LINEAR_TRANSPOSED_W;
    return CLATTN_OK;
}

static clattn_status plan_dw(clattn_context *context, linear_gradients *g, clattn_projection wanted,
                             cl_mem scratch, uint64_t *at, uint64_t *bytes) {
    const clattn_tensor dw = one_item(&g->dw);
    uint64_t end = *at;
    linear *l = &g->of_w;
    g->dout_transposed = transposed_at(&g->dout, &end), g->x_transposed = transposed_at(&g->x, &end);
    *l = (linear){.x = cla_linear_one_head(&g->dout_transposed),
                  .w = matrix_of(&g->x_transposed),
                  .y = cla_linear_one_head(&dw),
                  .split = g->split};
    l->x.buffer = scratch;
    TRY(plan_product(context, l, wanted, scratch, bytes));
    // Rows past a length must count as 0, which only a copy provides.
    if (!can_read_transposed(context, l, LINEAR_TRANSPOSED_W | LINEAR_TRANSPOSED_X) || g->word ||
        !is_one_matrix(&g->dout) || !is_one_matrix(&g->x))
        return *at = end, CLATTN_OK;
    l->x = transposed_rows(&g->dout), l->w = transposed_matrix(&g->x);
    l->choice.knobs.transposed = LINEAR_TRANSPOSED_W | LINEAR_TRANSPOSED_X;
    return CLATTN_OK;
}

clattn_status cla_linear_gradients_plan(clattn_context *context, linear_gradients *g,
                                        clattn_projection wanted, cl_mem scratch, uint64_t at) {
    uint64_t product = 0;
    g->scratch_bytes = at;
    if (is_empty(g)) return CLATTN_OK;
    if (cla_tensor_given(&g->dx)) TRY(plan_dx(context, g, wanted, scratch, &at, &product));
    if (cla_tensor_given(&g->dw)) TRY(plan_dw(context, g, wanted, scratch, &at, &product));
    g->scratch = at;
    g->scratch_bytes = cla_workspace_add(at, product, 1);
    if (cla_tensor_given(&g->dx)) TRY(cla_linear_check_reach(context, &g->of_x, g->scratch_bytes));
    return cla_tensor_given(&g->dw) ? cla_linear_check_reach(context, &g->of_w, g->scratch_bytes) : CLATTN_OK;
}

static clattn_status transpose_program(clattn_context *c, const clattn_tensor *t, program **p) {
    const knobs k = {.type_q = (int)t->type, .type_out = (int)t->type};
    return cla_program_get(c, KERNEL_TRANSPOSE, &k, p);
}

static clattn_status sums_program(clattn_context *c, const linear_sums *s, program **p) {
    const knobs k = {.type_q = (int)s->x.type, .type_out = (int)s->y.type, .lanes = cla_planner_lanes(c)};
    return cla_program_get(c, KERNEL_COLUMN_SUMS, &k, p);
}

clattn_status cla_linear_sums_prepare(clattn_context *context, const linear_sums *s) {
    program *p = NULL;
    return sums_program(context, s, &p);
}

// The sums for db; and sums over no rows, which write zeros to dw.
static linear_sums sums_of_bias(const linear_gradients *g) {
    return (linear_sums){.x = g->dout, .y = g->db, .word = g->word, .lengths = g->lengths};
}
static linear_sums sums_of_nothing(const linear_gradients *g) {
    linear_sums s = {.x = g->x, .y = {.type = g->dw.type}};
    s.x.shape[0] = s.x.shape[1] = 0;
    return s;
}

clattn_status cla_linear_gradients_prepare(clattn_context *context, const linear_gradients *g) {
    const linear_sums bias = sums_of_bias(g), nothing = sums_of_nothing(g);
    program *p = NULL;
    if (cla_tensor_given(&g->db)) TRY(cla_linear_sums_prepare(context, &bias));
    if (cla_tensor_given(&g->dw) && is_empty(g)) return cla_linear_sums_prepare(context, &nothing);
    if (cla_tensor_given(&g->dw) && !reads_transposed(&g->of_w)) TRY(transpose_program(context, &g->x, &p));
    if (cla_tensor_given(&g->dw) && !reads_transposed(&g->of_w))
        TRY(transpose_program(context, &g->dout, &p));
    if (cla_tensor_given(&g->dw)) TRY(cla_linear_prepare(context, &g->of_w));
    if (!cla_tensor_given(&g->dx) || is_empty(g)) return CLATTN_OK;
    if (!reads_transposed(&g->of_x)) TRY(transpose_program(context, &g->w, &p));
    return cla_linear_prepare(context, &g->of_x);
}

void cla_linear_gradients_bind(linear_gradients *g, cl_mem scratch) {
    clattn_tensor *const parts[] = {&g->x, &g->dout, &g->dx, &g->of_x.x, &g->of_x.y, &g->of_w.x, &g->of_w.w};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (parts[i]->rank != 0 && !parts[i]->buffer) parts[i]->buffer = scratch;
}

static transpose_args args_of(const clattn_tensor *t) {
    const int batch = t->rank == 2 ? 1 : (int)t->shape[0];
    return (transpose_args){.x_offset = t->offset,
                            .x_batch = t->rank == 2 ? 0 : t->stride[0],
                            .x_row = t->stride[t->rank - 2],
                            .batch = batch,
                            .rows = (int)t->shape[t->rank - 2],
                            .columns = (int)t->shape[t->rank - 1]};
}

// Transpose a matrix into a copy. Rows of x and dout past a length become 0.
static clattn_status enqueue_transpose(chain *steps, const linear_gradients *g, const clattn_tensor *t,
                                       const clattn_tensor *copy, cl_mem scratch) {
    transpose_args a = args_of(t);
    a.y_offset = copy->offset, a.y_row = copy->stride[1];
    a.word = t == &g->w ? 0 : g->word;
    const size_t items[3] = {((size_t)a.columns + ARGS_TRANSPOSE - 1) / ARGS_TRANSPOSE,
                             ((size_t)a.rows + ARGS_TRANSPOSE - 1) / ARGS_TRANSPOSE, (size_t)a.batch};
    launch l = {.flops = PACE_MOVE_FLOPS * (double)cla_tensor_count(t), .cuts_first = true};
    TRY(transpose_program(steps->context, t, &l.program));
    cla_launch_items(&l, steps->context, items, (const size_t[3]){16, 4, 1});
    cla_launch_buffer(&l, &t->buffer);
    cla_launch_buffer(&l, &scratch);
    cla_launch_buffer(&l, &g->lengths);
    cla_launch_value(&l, &a, sizeof a);
    return cla_launch_enqueue(steps, &l);
}

clattn_status cla_linear_sums_enqueue(chain *steps, const linear_sums *s) {
    const clattn_tensor *y = &s->y;
    const bool parts = y->rank == 2;
    transpose_args a = args_of(&s->x);
    a.y_offset = y->offset, a.y_row = y->stride[y->rank - 1];
    a.y_part = parts ? y->stride[0] : 0;
    a.part_rows = parts ? s->part_rows : a.rows;
    a.word = s->word;
    const size_t lanes = (size_t)cla_planner_lanes(steps->context);
    const size_t items[3] = {((size_t)a.columns + lanes - 1) / lanes, parts ? (size_t)y->shape[0] : 1, 1};
    launch l = {.flops = PACE_MOVE_FLOPS * (double)cla_tensor_count(&s->x), .cuts_first = true};
    TRY(sums_program(steps->context, s, &l.program));
    cla_launch_items(&l, steps->context, items, (const size_t[3]){64, 1, 1});
    cla_launch_buffer(&l, &s->x.buffer);
    cla_launch_buffer(&l, &y->buffer);
    cla_launch_buffer(&l, &s->lengths);
    cla_launch_value(&l, &a, sizeof a);
    return cla_launch_enqueue(steps, &l);
}

// Without rows, dw is 0. It is cleared row by row, or at once if it is dense.
static clattn_status clear_weights(chain *steps, const linear_gradients *g) {
    const int64_t rows = g->dw.shape[0], columns = g->dw.shape[1];
    const bool dense = g->dw.stride[0] == columns && rows * columns <= ARGS_MOST_ROWS;
    for (int64_t row = 0; row < (dense ? 1 : rows); row++) {
        linear_sums none = sums_of_nothing(g);
        none.y = clattn_tensor_dense(g->dw.buffer, g->dw.type, 1, &columns);
        if (dense) none.x.shape[2] = rows * columns;
        none.y.offset = g->dw.offset + row * g->dw.stride[0];
        TRY(cla_linear_sums_enqueue(steps, &none));
    }
    return CLATTN_OK;
}

bool cla_linear_gradients_native(const linear_gradients *g) {
    return (!g->of_x.y.rank || g->of_x.native) && (!g->of_w.y.rank || g->of_w.native);
}

double cla_linear_gradients_flops(const linear_gradients *g) {
    double flops = 0.0;
    if (is_empty(g)) return 0.0;
    if (cla_tensor_given(&g->dx)) flops += cla_linear_flops(&g->of_x);
    return cla_tensor_given(&g->dw) ? flops + cla_linear_flops(&g->of_w) : flops;
}

clattn_status cla_linear_gradients_enqueue(chain *steps, linear_gradients *g, cl_mem scratch) {
    const bool dw = cla_tensor_given(&g->dw), dx = cla_tensor_given(&g->dx);
    const linear_sums bias = sums_of_bias(g);
    if (cla_tensor_given(&g->db)) TRY(cla_linear_sums_enqueue(steps, &bias));
    if (is_empty(g)) return dw ? clear_weights(steps, g) : CLATTN_OK;
    if (dx) {
        if (!reads_transposed(&g->of_x)) TRY(enqueue_transpose(steps, g, &g->w, &g->w_transposed, scratch));
        if (!reads_transposed(&g->of_x)) g->of_x.w.buffer = scratch;
        TRY(cla_linear_enqueue(steps, &g->of_x, scratch, g->scratch));
    }
    if (!dw) return CLATTN_OK;
    if (!reads_transposed(&g->of_w)) {
        g->of_w.x.buffer = g->of_w.w.buffer = scratch;
        TRY(enqueue_transpose(steps, g, &g->dout, &g->dout_transposed, scratch));
        TRY(enqueue_transpose(steps, g, &g->x, &g->x_transposed, scratch));
    }
    return cla_linear_enqueue(steps, &g->of_w, scratch, g->scratch);
}

// The public call.

typedef struct gradients_job {
    clattn_context *context;
    linear_gradients g;
    clattn_projection wanted;
    cl_mem given;
} gradients_job;

static clattn_status check_shapes(clattn_context *c, const clattn_linear_backward_params *p, bool planning) {
    const tensor_rule dout = {"dout", "[B, N, M]", TYPES_FLOAT, false, planning},
                      x = {"x", "[B, N, K]", TYPES_FLOAT, false, planning},
                      w = {"w", "[M, K]", TYPES_FLOAT, false, planning},
                      dx = {"dx", "[B, N, K]", TYPES_FLOAT, true, planning},
                      dw = {"dw", "[M, K]", TYPES_FLOAT, true, planning},
                      db = {"db", "[M]", TYPES_FLOAT | ANY_LAST_STRIDE, true, planning};
    const bool has_x = cla_tensor_given(&p->x), has_w = cla_tensor_given(&p->w);
    TRY(cla_tensor_check(c, &p->dout, 3, &dout));
    if (has_x) TRY(cla_tensor_check(c, &p->x, 3, &x));
    if (has_w) TRY(cla_tensor_check(c, &p->w, 2, &w));
    if ((cla_tensor_given(&p->dx) && !has_w) || (cla_tensor_given(&p->dw) && !has_x))
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "%s: is asked for without %s",
                                has_w ? "dw" : "dx", has_w ? "x" : "w");
    const int64_t *s = p->dout.shape, k = has_x ? p->x.shape[2] : has_w ? p->w.shape[1] : 1;
    const int64_t of_x[3] = {s[0], s[1], k}, of_w[2] = {s[2], k}, of_b[1] = {s[2]};
    if (s[2] == 0 || k == 0 || s[0] * s[1] > ARGS_MOST_ROWS || s[2] > ARGS_MOST_ROWS || k > ARGS_MOST_ROWS)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "dout: K, M and B * N must be 1, 1 and 0 to %d: here %lld, %lld and %lld",
                                ARGS_MOST_ROWS, (long long)k, (long long)s[2], (long long)(s[0] * s[1]));
    if (has_x) TRY(cla_tensor_check_shape(c, &p->x, of_x, &x));
    if (has_w) TRY(cla_tensor_check_shape(c, &p->w, of_w, &w));
    if (cla_tensor_given(&p->dx)) TRY(cla_tensor_check(c, &p->dx, 3, &dx));
    if (cla_tensor_given(&p->dx)) TRY(cla_tensor_check_shape(c, &p->dx, of_x, &dx));
    if (cla_tensor_given(&p->dw)) TRY(cla_tensor_check(c, &p->dw, 2, &dw));
    if (cla_tensor_given(&p->dw)) TRY(cla_tensor_check_shape(c, &p->dw, of_w, &dw));
    if (cla_tensor_given(&p->db)) TRY(cla_tensor_check(c, &p->db, 1, &db));
    if (cla_tensor_given(&p->db)) return cla_tensor_check_shape(c, &p->db, of_b, &db);
    if (cla_tensor_given(&p->dx) || cla_tensor_given(&p->dw)) return CLATTN_OK;
    return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                            "dx: no gradient is asked for: one of dx, dw, db is needed");
}

static clattn_status check(clattn_context *context, const void *params, entry_purpose purpose, void *to) {
    clattn_linear_backward_params p = *(const clattn_linear_backward_params *)params;
    gradients_job *job = to;
    call_views v;
    const given_views all = {context, .planning = purpose != ENTRY_ENQUEUE, .inner = false};
    CLA_GIVEN(&all, false, &p.dout);
    CLA_GIVEN(&all, true, &p.x, &p.w, &p.dx, &p.dw, &p.db);
    TRY(cla_linear_check_projection(context, p.projection));
    TRY(cla_linear_check_precision(context, p.precision));
    TRY(check_shapes(context, &p, all.planning));
    *job = (gradients_job){.context = context, .wanted = p.projection, .given = p.workspace};
    job->g = (linear_gradients){.x = p.x,
                                .w = p.w,
                                .dout = p.dout,
                                .dx = p.dx,
                                .dw = p.dw,
                                .db = p.db,
                                .split = p.precision == CLATTN_PRECISION_SPLIT};
    TRY(cla_linear_gradients_plan(context, &job->g, p.projection, p.workspace, 0));
    const view_use use = cla_linear_output_use(p.projection);
    cla_views_begin(&v, context);
    cla_views_add(&v, "x", &p.x, VIEW_READ);
    cla_views_add(&v, "w", &p.w, VIEW_READ);
    cla_views_add(&v, "dout", &p.dout, VIEW_READ);
    cla_views_add(&v, "dx", &p.dx, use);
    cla_views_add(&v, "dw", &p.dw, use);
    cla_views_add(&v, "db", &p.db, VIEW_WRITE);
    TRY(cla_views_check(&v));
    if (purpose == ENTRY_ENQUEUE) TRY(cla_views_check_workspace(&v, &job->given, job->g.scratch_bytes));
    return cla_workspace_fits(context, job->given, job->g.scratch_bytes);
}

static clattn_status prepare(void *from) {
    const gradients_job *job = from;
    return cla_linear_gradients_prepare(job->context, &job->g);
}

static clattn_status run_once(gradients_job *job, chain *steps) {
    cl_mem scratch = NULL;
    TRY(prepare(job));
    TRY(cla_workspace_take(steps, job->given, job->g.scratch_bytes, &scratch));
    return cla_linear_gradients_enqueue(steps, &job->g, scratch);
}

// If CLBlast fails and the caller left the choice open, repeat the whole call without CLBlast.
static clattn_status run(void *from, chain *steps) {
    gradients_job *job = from;
    const clattn_status status = run_once(job, steps);
    const bool native = cla_linear_gradients_native(&job->g);
    if (status == CLATTN_OK || !cla_projector_falls_back(job->context, job->wanted, native)) return status;
    TRY(cla_linear_gradients_plan(job->context, &job->g, job->wanted, job->given, 0));
    return run_once(job, steps);
}

static const entry gradients_entry = {.check = check, .prepare = prepare, .run = run};

clattn_status clattn_linear_backward_workspace(clattn_context *context,
                                               const clattn_linear_backward_params *params, size_t *bytes) {
    gradients_job job;
    TRY(cla_entry_plan(&gradients_entry, context, params, bytes, "bytes", &job));
    *bytes = (size_t)job.g.scratch_bytes;
    return CLATTN_OK;
}

clattn_status clattn_linear_backward_prepare(clattn_context *context,
                                             const clattn_linear_backward_params *params) {
    gradients_job job;
    return cla_entry_prepare(&gradients_entry, context, params, &job);
}

clattn_status clattn_linear_backward_enqueue(clattn_context *context, cl_command_queue queue,
                                             const clattn_linear_backward_params *params, cl_uint wait_count,
                                             const cl_event *wait_list, cl_event *event) {
    const entry_queue at = {queue, wait_count, wait_list, event};
    gradients_job job;
    return cla_entry_enqueue(&gradients_entry, context, params, &at, &job);
}
