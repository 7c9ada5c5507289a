// linear.c: y = x W^T + b through CLBlast, in float32 whatever the storage: its half-precision product
// accumulates in half, which the error budget does not allow. What is not a plain float32 matrix is converted
// in scratch memory.
#include "layer/linear.h"

#include "attention/call.h"

// Batch items that follow one another make one tall matrix.
static bool is_plain(const clattn_tensor *t) {
    return t->type == CLATTN_TYPE_F32 &&
           (t->rank == 2 || t->shape[0] <= 1 || t->stride[0] == t->shape[1] * t->stride[1]) &&
           t->stride[t->rank - 2] >= t->shape[t->rank - 1];
}

static size_t plain_bytes(const clattn_tensor *t) {
    return is_plain(t) ? 0 : workspace_round((size_t)tensor_count(t) * sizeof(float));
}

size_t linear_scratch(const linear *l) {
    return plain_bytes(&l->x) + plain_bytes(&l->w) + plain_bytes(&l->y);
}

static knobs convert_knobs(clattn_type from, clattn_type to, const clattn_tensor *bias) {
    return (knobs){
        .type_q = (int)from, .type_out = (int)to, .type_bias = tensor_given(bias) ? (int)bias->type : 0};
}

static const clattn_tensor no_bias;

// y = x (+ bias) with conversion; x and y have one shape, rank 2 or 3.
static clattn_status enqueue_convert(chain *c, const clattn_tensor *x, const clattn_tensor *y,
                                     const clattn_tensor *bias) {
    const int row = x->rank - 2;
    const knobs k = convert_knobs(x->type, y->type, bias);
    const convert_args a = {.x_offset = x->offset,
                            .x_batch = row ? x->stride[0] : 0,
                            .x_row = x->stride[row],
                            .y_offset = y->offset,
                            .y_batch = row ? y->stride[0] : 0,
                            .y_row = y->stride[row],
                            .bias_offset = bias->offset,
                            .rows = x->shape[row],
                            .batch = row ? (int)x->shape[0] : 1,
                            .columns = (int)x->shape[row + 1],
                            .flags = tensor_given(bias) ? ARGS_BIAS : 0};
    launch l = {.global = {(size_t)a.columns, (size_t)a.rows, (size_t)a.batch}};
    const clattn_status status = program_get(c->context, KERNEL_CONVERT, &k, &l.program);
    if (status != CLATTN_OK) return status;
    launch_buffer(&l, &x->buffer);
    launch_buffer(&l, &y->buffer);
    launch_buffer(&l, &bias->buffer);
    launch_value(&l, &a, sizeof a);
    return launch_enqueue(c, &l);
}

clattn_status linear_prepare(clattn_context *context, const linear *l) {
    program *p = NULL;
    clattn_status status = CLATTN_OK;
    const knobs x = convert_knobs(l->x.type, CLATTN_TYPE_F32, &no_bias);
    const knobs w = convert_knobs(l->w.type, CLATTN_TYPE_F32, &no_bias);
    const knobs y = convert_knobs(CLATTN_TYPE_F32, l->y.type, &l->b);
    if (!is_plain(&l->x)) status = program_get(context, KERNEL_CONVERT, &x, &p);
    if (status == CLATTN_OK && !is_plain(&l->w)) status = program_get(context, KERNEL_CONVERT, &w, &p);
    if (status == CLATTN_OK && (!is_plain(&l->y) || tensor_given(&l->b)))
        status = program_get(context, KERNEL_CONVERT, &y, &p);
    return status;
}

// The tensor itself where it is plain, else a dense float32 view of scratch memory.
static clattn_tensor plain_view(const clattn_tensor *t, cl_mem scratch, size_t *at) {
    if (is_plain(t)) return *t;
    clattn_tensor s = clattn_tensor_dense(scratch, CLATTN_TYPE_F32, t->rank, t->shape);
    s.offset = (int64_t)(*at / sizeof(float));
    *at += plain_bytes(t);
    return s;
}

static matrix matrix_of(const clattn_tensor *t) {
    return (matrix){t->buffer, t->offset,
                    t->stride[t->rank - 2] ? t->stride[t->rank - 2] : t->shape[t->rank - 1]};
}

clattn_status linear_enqueue(chain *c, const linear *l, cl_mem scratch, size_t at) {
    const clattn_tensor x = plain_view(&l->x, scratch, &at), w = plain_view(&l->w, scratch, &at);
    const clattn_tensor y = plain_view(&l->y, scratch, &at);
    const int64_t size[3] = {l->x.shape[0] * l->x.shape[1], l->w.shape[0], l->w.shape[1]};
    const matrix mx = matrix_of(&x), mw = matrix_of(&w), my = matrix_of(&y);
    clattn_status status = CLATTN_OK;
    if (size[0] == 0) return CLATTN_OK;
    if (!is_plain(&l->x)) status = enqueue_convert(c, &l->x, &x, &no_bias);
    if (status == CLATTN_OK && !is_plain(&l->w)) status = enqueue_convert(c, &l->w, &w, &no_bias);
    if (status == CLATTN_OK) status = clblast_multiply(c, &mx, &mw, &my, size);
    if (status == CLATTN_OK && (!is_plain(&l->y) || tensor_given(&l->b)))
        status = enqueue_convert(c, &y, &l->y, &l->b);
    return status;
}
