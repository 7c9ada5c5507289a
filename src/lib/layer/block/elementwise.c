// elementwise.c: the operations of a transformer block on rows, apart from attention and
// projections (block.h). Each call is checked and becomes one launch.
#include <float.h>
#include <math.h>

#include "attention/call/tensor.h"
#include "attention/call/views.h"
#include "launch/entry.h"
#include "layer/block/elementwise.h"

#define ROW_TENSORS 6         // most tensors of a kernel of this file
#define ROW_GROUP 256         // work-items for each row; 1 on a CPU
#define SAMPLE_MOST (1 << 24) // counts are float32, exact up to 2^24

_Static_assert((int)CLATTN_ACTIVATION_SILU == ACTIVATE_SILU && (int)CLATTN_ACTIVATION_GELU == ACTIVATE_GELU &&
                   (int)CLATTN_ACTIVATION_GELU_TANH == ACTIVATE_GELU_TANH &&
                   (int)CLATTN_ACTIVATION_GELU_QUICK == ACTIVATE_GELU_QUICK &&
                   (int)CLATTN_ACTIVATION_RELU == ACTIVATE_RELU &&
                   (int)CLATTN_ACTIVATION_RELU_SQUARED == ACTIVATE_RELU_SQUARED &&
                   (int)CLATTN_ACTIVATION_SIGMOID == ACTIVATE_SIGMOID,
               "args.h has the numbers of clattn_activation");

// A tensor of a call, and its rules.
typedef struct row_view {
    clattn_tensor *tensor;
    const char *name, *axes;
    unsigned types;
    // VIEW_READ or VIEW_WRITE. A written view may be the same view as one that is read.
    view_use use;
    bool optional, alike; // alike: the type must be that of views[0]
    int rank;
    const int64_t *shape; // NULL: any shape
} row_view;

typedef struct row_call {
    clattn_context *context;
    const row_view *views;
    int count;
} row_call;

static clattn_status check_view(const row_call *call, const row_view *v) {
    const row_view *first = &call->views[0];
    const tensor_rule rule = {v->name, v->axes, v->types, v->use != VIEW_READ, false};
    if (v->optional && !cla_tensor_given(v->tensor)) return CLATTN_OK;
    TRY(cla_tensor_check(call->context, v->tensor, v->rank, &rule));
    if (v->shape) TRY(cla_tensor_check_shape(call->context, v->tensor, v->shape, &rule));
    for (int i = 0; i < v->rank; i++)
        if (v->tensor->shape[i] > ARGS_MOST_ROWS)
            return cla_context_fail(call->context, CLATTN_INVALID_ARGUMENT,
                                    "%s: size %lld: at most %d is possible", v->name,
                                    (long long)v->tensor->shape[i], ARGS_MOST_ROWS);
    if (!v->alike) return CLATTN_OK;
    return cla_tensor_check_alike(call->context, v->name, v->tensor, first->name, first->tensor);
}

// A written view that is the same as a read one is added once, as VIEW_BOTH.
static clattn_status check_memory(const row_call *call) {
    call_views v;
    cla_views_begin(&v, call->context);
    for (int i = 0; i < call->count; i++) {
        const row_view *at = &call->views[i];
        bool same = false;
        for (int j = 0; j < call->count; j++)
            same = same || ((call->views[j].use == VIEW_READ) != (at->use == VIEW_READ) &&
                            cla_tensor_same_view(at->tensor, call->views[j].tensor));
        if (at->use != VIEW_READ || !same)
            cla_views_add(&v, at->name, at->tensor, same ? VIEW_BOTH : at->use);
    }
    return cla_views_check(&v);
}

static clattn_status check_call(clattn_context *c, const row_view *views, int count) {
    const row_call call = {c, views, count};
    const given_views given = {.context = c};
    for (int i = 0; i < count; i++) cla_given_views(&given, views[i].optional, &views[i].tensor, 1);
    for (int i = 0; i < count; i++) TRY(check_view(&call, &views[i]));
    return check_memory(&call);
}
#define CHECK_CALL(c, views) check_call(c, views, (int)(sizeof(views) / sizeof(views)[0]))

static clattn_status check_width(clattn_context *c, const char *name, int64_t width) {
    if (width > 0) return CLATTN_OK;
    return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "%s: its last size is 0: must be 1 or more", name);
}

// On a CPU a work-item uses the widest vectors. Elsewhere it uses as many lanes as one load has.
static int lanes_of(const clattn_context *c) {
    return c->capabilities.is_cpu ? 16 : 4;
}

static double flops_of(const clattn_tensor *x) {
    return PACE_MOVE_FLOPS * (double)cla_tensor_count(x);
}

// A launch with one work-group for each row of `rows` [B, N, ...].
typedef struct row_launch {
    enum kernel_id id;
    knobs knobs;
    bool changes; // see launch.changes
    // `tensors`: in the order of the kernel's arguments
    const clattn_tensor *rows, *tensors[ROW_TENSORS];
} row_launch;

static clattn_status enqueue_rows(chain *steps, const row_launch *w, launch_argument args) {
    knobs k = w->knobs;
    launch l = {.flops = flops_of(w->rows), .cuts_first = true, .changes = w->changes};
    if (cla_tensor_is_empty(w->rows)) return CLATTN_OK;
    k.lanes = lanes_of(steps->context);
    TRY(cla_program_get_group(steps->context, w->id, &k, ROW_GROUP, &l.program));
    l.local[0] = (size_t)k.work_group, l.local[1] = l.local[2] = 1;
    l.global[0] = l.local[0] * (size_t)w->rows->shape[1];
    l.global[1] = (size_t)w->rows->shape[0], l.global[2] = 1;
    for (int i = 0; i < ROW_TENSORS && w->tensors[i]; i++) cla_launch_buffer(&l, &w->tensors[i]->buffer);
    cla_launch_argument(&l, args);
    return cla_launch_enqueue(steps, &l);
}

// ---------------------------------------------------------------------------------------- norm ---
static clattn_status check_norm_numbers(clattn_context *c, const clattn_norm_params *p) {
    if ((unsigned)p->kind >= CLATTN_NORM_KIND_COUNT)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "kind: %d is none of CLATTN_NORM_KIND_*",
                                (int)p->kind);
    if (!isfinite(p->epsilon) || p->epsilon < 0.0f)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "epsilon: %g: must be 0 or more",
                                (double)p->epsilon);
    if (p->plus_one && !cla_tensor_given(&p->weight))
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "plus_one: is there for weight, which is absent");
    if (cla_tensor_given(&p->sum) && !cla_tensor_given(&p->residual))
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "sum: is that of x and residual, which is absent");
    if (cla_tensor_given(&p->weight) && cla_tensor_given(&p->bias) && p->weight.type != p->bias.type)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "bias: its type differs from weight's: both must be stored alike");
    return check_width(c, "x", p->x.shape[2]);
}

static clattn_status check_norm(clattn_context *c, const void *params, entry_purpose purpose, void *to) {
    clattn_norm_params *p = to;
    (void)purpose; // the call has no plan or prepare function
    *p = *(const clattn_norm_params *)params;
    const int64_t *s = p->x.shape, width[1] = {s[2]};
    const row_view views[] = {
        {&p->x, "x", "[B, N, M]", TYPES_FLOAT, VIEW_READ, .rank = 3},
        {&p->residual, "residual", "[B, N, M]", TYPES_FLOAT, VIEW_READ, true, false, 3, s},
        {&p->sum, "sum", "[B, N, M]", TYPES_FLOAT, VIEW_WRITE, true, true, 3, s},
        {&p->out, "out", "[B, N, M]", TYPES_FLOAT, VIEW_WRITE, false, false, 3, s},
        {&p->weight, "weight", "[M]", TYPES_FLOAT, VIEW_READ, true, false, 1, width},
        {&p->bias, "bias", "[M]", TYPES_FLOAT, VIEW_READ, true, false, 1, width}};
    TRY(CHECK_CALL(c, views));
    return check_norm_numbers(c, p);
}

static float epsilon_of(const clattn_norm_params *p) {
    if (p->epsilon > 0.0f) return p->epsilon;
    return p->kind == CLATTN_NORM_KIND_RMS ? 1e-6f : 1e-5f;
}

static clattn_status run_norm(void *from, chain *steps) {
    const clattn_norm_params *p = from;
    const bool adds = cla_tensor_given(&p->residual), stores = cla_tensor_given(&p->sum),
               weighs = cla_tensor_given(&p->weight), shifts = cla_tensor_given(&p->bias);
    row_norm_args a = {.x = cla_tensor_view(&p->x),
                       .out = cla_tensor_view(&p->out),
                       .weight_offset = p->weight.offset,
                       .bias_offset = p->bias.offset,
                       .width = (int)p->x.shape[2],
                       .flags = (adds ? ROW_NORM_ADDS : 0) | (stores ? ROW_NORM_STORES : 0) |
                                (p->kind == CLATTN_NORM_KIND_LAYER ? ROW_NORM_CENTERS : 0) |
                                (weighs ? ROW_NORM_WEIGHS : 0) | (shifts ? ROW_NORM_SHIFTS : 0),
                       .epsilon = epsilon_of(p),
                       .more = p->plus_one ? 1.0f : 0.0f};
    if (adds) a.residual = cla_tensor_view(&p->residual);
    if (stores) a.sum = cla_tensor_view(&p->sum);
    const knobs types = {.type_q = (int)p->x.type,
                         .type_bias = (int)(adds ? p->residual.type : p->x.type),
                         .type_kv = (int)(weighs   ? p->weight.type
                                          : shifts ? p->bias.type
                                                   : p->x.type),
                         .type_out = (int)p->out.type};
    const clattn_tensor *const read[] = {&p->x, &p->residual}, *const written[] = {&p->sum, &p->out};
    bool writes_over = false;
    for (int i = 0; i < 4; i++) writes_over |= cla_tensor_same_view(read[i / 2], written[i % 2]);
    const row_launch w = {KERNEL_ROW_NORM,
                          types,
                          writes_over,
                          &p->x,
                          {&p->x, &p->residual, &p->sum, &p->out, &p->weight, &p->bias}};
    return enqueue_rows(steps, &w, LAUNCH_VALUE(&a, sizeof a));
}

static const entry norm_entry = {.check = check_norm, .run = run_norm};

clattn_status clattn_norm_enqueue(clattn_context *context, cl_command_queue queue,
                                  const clattn_norm_params *params, cl_uint wait_count,
                                  const cl_event *wait_list, cl_event *event) {
    const entry_queue at = {queue, wait_count, wait_list, event};
    clattn_norm_params job;
    return cla_entry_enqueue(&norm_entry, context, params, &at, &job);
}

// ---------------------------------------------------------------------------------- activation ---
static clattn_status check_activation(clattn_context *c, const void *params, entry_purpose purpose,
                                      void *to) {
    clattn_activation_params *p = to;
    (void)purpose; // the call has no plan or prepare function
    *p = *(const clattn_activation_params *)params;
    const int64_t *s = p->x.shape;
    const row_view views[] = {{&p->x, "x", "[B, N, M]", TYPES_FLOAT, VIEW_READ, .rank = 3},
                              {&p->up, "up", "[B, N, M]", TYPES_FLOAT, VIEW_READ, true, true, 3, s},
                              {&p->out, "out", "[B, N, M]", TYPES_FLOAT, VIEW_WRITE, false, false, 3, s}};
    if ((unsigned)p->activation >= CLATTN_ACTIVATION_COUNT)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "activation: %d is none of CLATTN_ACTIVATION_*",
                                (int)p->activation);
    TRY(CHECK_CALL(c, views));
    if (p->activation == CLATTN_ACTIVATION_NONE && !cla_tensor_given(&p->up))
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "activation: is NONE, and up is absent: nothing would be done to x");
    return check_width(c, "x", s[2]);
}

clattn_status cla_activate_prepare(clattn_context *context, clattn_type x, clattn_type out) {
    knobs k = {.type_q = (int)x, .type_out = (int)out, .lanes = lanes_of(context)};
    program *p = NULL;
    return cla_program_get_group(context, KERNEL_ACTIVATE, &k, ROW_GROUP, &p);
}

clattn_status cla_activate_enqueue(chain *steps, const activate_rows *rows) {
    static const clattn_tensor none;
    const clattn_tensor *up = rows->up ? rows->up : &none;
    activate_args a = {.x = cla_tensor_view(rows->x),
                       .out = cla_tensor_view(rows->out),
                       .width = (int)rows->x->shape[2],
                       .how = (int)rows->how,
                       .gates = cla_tensor_given(up),
                       .adds = cla_tensor_given(rows->residual)};
    const knobs types = {.type_q = (int)rows->x->type, .type_out = (int)rows->out->type};
    if (a.gates) a.up = cla_tensor_view(up);
    if (a.adds) a.residual = cla_tensor_view(rows->residual);
    const row_launch w = {
        KERNEL_ACTIVATE, types, rows->in_place, rows->x, {rows->x, up, rows->residual, rows->out}};
    return enqueue_rows(steps, &w, LAUNCH_VALUE(&a, sizeof a));
}

static clattn_status run_activation(void *from, chain *steps) {
    static const clattn_tensor none;
    const clattn_activation_params *p = from;
    const bool in_place = cla_tensor_same_view(&p->x, &p->out) || cla_tensor_same_view(&p->up, &p->out);
    const activate_rows rows = {&p->x, &p->up, &none, &p->out, p->activation, in_place};
    return cla_activate_enqueue(steps, &rows);
}

static const entry activation_entry = {.check = check_activation, .run = run_activation};

clattn_status clattn_activation_enqueue(clattn_context *context, cl_command_queue queue,
                                        const clattn_activation_params *params, cl_uint wait_count,
                                        const cl_event *wait_list, cl_event *event) {
    const entry_queue at = {queue, wait_count, wait_list, event};
    clattn_activation_params job;
    return cla_entry_enqueue(&activation_entry, context, params, &at, &job);
}

// ----------------------------------------------------------------------------------- embedding ---
static clattn_status check_embedding(clattn_context *c, const void *params, entry_purpose purpose, void *to) {
    clattn_embedding_params *p = to;
    (void)purpose; // the call has no plan or prepare function
    *p = *(const clattn_embedding_params *)params;
    const int64_t width = p->table.rank == 2 ? cla_tensor_width(&p->table) : 0;
    const int64_t shape[3] = {p->ids.shape[0], p->ids.shape[1], width};
    const row_view views[] = {{&p->ids, "ids", "[B, N]", TYPES_I32 | ANY_LAST_STRIDE, VIEW_READ, .rank = 2},
                              {&p->table, "table", "[V, M]", TYPES_TABLE, VIEW_READ, .rank = 2},
                              {&p->out, "out", "[B, N, M]", TYPES_FLOAT, VIEW_WRITE, false, false, 3, shape}};
    TRY(CHECK_CALL(c, views));
    if (!isfinite(p->scale))
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "scale: %g: must be finite", (double)p->scale);
    return check_width(c, "table", width);
}

static clattn_status run_embedding(void *from, chain *steps) {
    const clattn_embedding_params *p = from;
    const embed_args a = {.ids = cla_tensor_view(&p->ids),
                          .out = cla_tensor_view(&p->out),
                          .table_offset = p->table.offset,
                          .table_row = p->table.stride[0],
                          .width = (int)p->out.shape[2],
                          .rows = (int)p->table.shape[0],
                          .scale = p->scale != 0.0f ? p->scale : 1.0f};
    const knobs types = {.type_kv = (int)p->table.type, .type_out = (int)p->out.type};
    const row_launch w = {KERNEL_EMBED, types, false, &p->out, {&p->ids, &p->table, &p->out}};
    return enqueue_rows(steps, &w, LAUNCH_VALUE(&a, sizeof a));
}

static const entry embedding_entry = {.check = check_embedding, .run = run_embedding};

clattn_status clattn_embedding_enqueue(clattn_context *context, cl_command_queue queue,
                                       const clattn_embedding_params *params, cl_uint wait_count,
                                       const cl_event *wait_list, cl_event *event) {
    const entry_queue at = {queue, wait_count, wait_list, event};
    clattn_embedding_params job;
    return cla_entry_enqueue(&embedding_entry, context, params, &at, &job);
}

// -------------------------------------------------------------------------------------- argmax ---
// Check logits [B, N, V] and the index chosen in each row. `lengths` are optional.
static clattn_status check_choice(clattn_context *c, clattn_tensor *x, clattn_tensor *out,
                                  clattn_tensor *lengths) {
    const unsigned numbers = TYPES_I32 | ANY_LAST_STRIDE;
    const row_view views[] = {{x, "x", "[B, N, V]", TYPES_FLOAT, VIEW_READ, .rank = 3},
                              {out, "out", "[B, N]", numbers, VIEW_WRITE, false, false, 2, x->shape},
                              {lengths, "lengths", "[B, N]", numbers, VIEW_WRITE, true, false, 2, x->shape}};
    TRY(CHECK_CALL(c, views));
    return check_width(c, "x", x->shape[2]);
}

static clattn_status check_argmax(clattn_context *c, const void *params, entry_purpose purpose, void *to) {
    clattn_argmax_params *p = to;
    (void)purpose; // the call has no plan or prepare function
    *p = *(const clattn_argmax_params *)params;
    return check_choice(c, &p->x, &p->out, &p->lengths);
}

static clattn_status run_argmax(void *from, chain *steps) {
    const clattn_argmax_params *p = from;
    const argmax_args a = {.x = cla_tensor_view(&p->x),
                           .out = cla_tensor_view(&p->out),
                           .lengths = cla_tensor_view(&p->lengths),
                           .width = (int)p->x.shape[2],
                           .counts = cla_tensor_given(&p->lengths)};
    const row_launch w = {KERNEL_ARGMAX,
                          {.type_q = (int)p->x.type},
                          cla_tensor_given(&p->lengths),
                          &p->x,
                          {&p->x, &p->out, &p->lengths}};
    return enqueue_rows(steps, &w, LAUNCH_VALUE(&a, sizeof a));
}

static const entry argmax_entry = {.check = check_argmax, .run = run_argmax};

clattn_status clattn_argmax_enqueue(clattn_context *context, cl_command_queue queue,
                                    const clattn_argmax_params *params, cl_uint wait_count,
                                    const cl_event *wait_list, cl_event *event) {
    const entry_queue at = {queue, wait_count, wait_list, event};
    clattn_argmax_params job;
    return cla_entry_enqueue(&argmax_entry, context, params, &at, &job);
}

// -------------------------------------------------------------------------------------- sample ---
static clattn_status check_fraction(clattn_context *c, const char *name, float x) {
    if (x >= 0.0f && x <= 1.0f) return CLATTN_OK;
    return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "%s: %g: must be 0 to 1", name, (double)x);
}

static clattn_status check_sample(clattn_context *c, const void *params, entry_purpose purpose, void *to) {
    clattn_sample_params *p = to;
    (void)purpose; // the call has no plan or prepare function
    *p = *(const clattn_sample_params *)params;
    clattn_tensor none = {0};
    TRY(check_choice(c, &p->x, &p->out, &none));
    if (!(p->temperature > 0.0f) || isinf(p->temperature))
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "temperature: %g: must be above 0 and finite",
                                (double)p->temperature);
    if (p->top_k < 0)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "top_k: %d: must be 0 or more", (int)p->top_k);
    TRY(check_fraction(c, "top_p", p->top_p));
    TRY(check_fraction(c, "min_p", p->min_p));
    if (p->x.shape[2] > SAMPLE_MOST)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "x: its last size is %lld: at most %d is possible", (long long)p->x.shape[2],
                                SAMPLE_MOST);
    return CLATTN_OK;
}

static clattn_status run_sample(void *from, chain *steps) {
    const clattn_sample_params *p = from;
    const double by = 1.0 / (double)p->temperature;
    const sample_args a = {.x = cla_tensor_view(&p->x),
                           .out = cla_tensor_view(&p->out),
                           .width = (int)p->x.shape[2],
                           .top_k = p->top_k < p->x.shape[2] ? p->top_k : 0,
                           .by = (float)fmin(by, FLT_MAX),
                           .to_exp2 = (float)fmin(by * 1.4426950408889634, FLT_MAX),
                           .top_p = p->top_p > 0.0f ? p->top_p : 1.0f,
                           .margin = p->min_p > 0.0f ? (float)(-log((double)p->min_p) / by) : INFINITY,
                           .seed = {(uint32_t)p->seed, (uint32_t)(p->seed >> 32)}};
    const row_launch w = {KERNEL_SAMPLE, {.type_q = (int)p->x.type}, false, &p->x, {&p->x, &p->out}};
    return enqueue_rows(steps, &w, LAUNCH_VALUE(&a, sizeof a));
}

static const entry sample_entry = {.check = check_sample, .run = run_sample};

clattn_status clattn_sample_enqueue(clattn_context *context, cl_command_queue queue,
                                    const clattn_sample_params *params, cl_uint wait_count,
                                    const cl_event *wait_list, cl_event *event) {
    const entry_queue at = {queue, wait_count, wait_list, event};
    clattn_sample_params job;
    return cla_entry_enqueue(&sample_entry, context, params, &at, &job);
}
