// operands.c: see operands.h.
#include "support/operands.h"

#include <stdlib.h>
#include <string.h>

enum { B = 2, H = 2, N = 3, KEYS = 5, D = 8, WIDTH = 12 };

// Small numbers that differ. They are also harmless as integers of masks and as float16.
cl_mem operands_buffer(cl_mem_flags flags, size_t bytes) {
    cl_int code;
    float *x = malloc(bytes);
    ck_assert_ptr_nonnull(x);
    for (size_t i = 0; i < bytes / sizeof *x; i++) x[i] = (float)(i * 7 % 31) / 16.0f - 1.0f;
    cl_mem buffer = clCreateBuffer(harness()->opencl, flags | CL_MEM_COPY_HOST_PTR, bytes, x, &code);
    harness_expect(code, "clCreateBuffer");
    free(x);
    return buffer;
}

static void add(struct operands *o, const char *name, clattn_tensor *view, int use, bool optional) {
    ck_assert_int_lt(o->count, OPERANDS_MOST);
    o->operand[o->count++] = (struct operand){name, view, use, optional};
}

static clattn_tensor dense(clattn_type type, int rank, int64_t a, int64_t b, int64_t c, int64_t d) {
    return clattn_tensor_dense(operands_buffer(CL_MEM_READ_WRITE, OPERAND_BYTES), type, rank,
                               (const int64_t[]){a, b, c, d});
}

// Every kernel supports f32. These are the options that have a buffer.
static void make_score(struct operands *o, clattn_score *score) {
    score->mask = dense(CLATTN_TYPE_BOOL, 2, N, KEYS, 0, 0);
    score->bias = dense(CLATTN_TYPE_F32, 4, B, H, N, KEYS);
    add(o, "mask", &score->mask, OPERAND_READ, true);
    add(o, "bias", &score->bias, OPERAND_READ, true);
}

static void make_returned(struct operands *o, clattn_tensor *lse, clattn_tensor *weights,
                          clattn_tensor *scores, clattn_kernel kernel) {
    *lse = dense(CLATTN_TYPE_F32, 3, B, H, N, 0);
    add(o, "lse", lse, OPERAND_WRITE, true);
    if (kernel != CLATTN_KERNEL_UNFUSED) return;
    *weights = dense(CLATTN_TYPE_F32, 4, B, H, N, KEYS);
    *scores = dense(CLATTN_TYPE_F32, 4, B, H, N, KEYS);
    add(o, "weights", weights, OPERAND_READ | OPERAND_WRITE, true);
    add(o, "scores", scores, OPERAND_WRITE, true);
}

static void make_attention(struct operands *o, clattn_kernel kernel) {
    clattn_attention_params *p = &o->params.attention;
    *p = (clattn_attention_params){.kernel = kernel, .rope = {.layout = CLATTN_ROPE_HALF}};
    p->q = dense(CLATTN_TYPE_F32, 4, B, H, N, D);
    p->kv.k = dense(CLATTN_TYPE_F32, 4, B, H, KEYS, D);
    p->kv.v = dense(CLATTN_TYPE_F32, 4, B, H, KEYS, D);
    p->out = dense(CLATTN_TYPE_F32, 4, B, H, N, D);
    add(o, "q", &p->q, OPERAND_READ, false);
    add(o, "k", &p->kv.k, OPERAND_READ, false);
    add(o, "v", &p->kv.v, OPERAND_READ, false);
    add(o, "out", &p->out, OPERAND_WRITE, false);
    make_returned(o, &p->lse, &p->weights, &p->scores, kernel);
    make_score(o, &p->score);
    o->workspace = &p->workspace;
    if (kernel != CLATTN_KERNEL_FLASH) return; // once with int8 keys, for which RoPE is unsupported
    p->rope.layout = CLATTN_ROPE_NONE;
    p->kv.k.type = p->kv.v.type = CLATTN_TYPE_I8;
    p->kv.k_scale = dense(CLATTN_TYPE_F32, 3, B, H, KEYS, 0);
    p->kv.v_scale = dense(CLATTN_TYPE_F32, 3, B, H, KEYS, 0);
    add(o, "k_scale", &p->kv.k_scale, OPERAND_READ, false);
    add(o, "v_scale", &p->kv.v_scale, OPERAND_READ, false);
}

static void make_matrix(struct operands *o, const char *const names[2], clattn_tensor *w, clattn_tensor *b) {
    *w = dense(CLATTN_TYPE_F32, 2, H * D, WIDTH, 0, 0);
    *b = dense(CLATTN_TYPE_F32, 1, H * D, 0, 0, 0);
    add(o, names[0], w, OPERAND_READ, false);
    add(o, names[1], b, OPERAND_READ, true);
}

static void make_layer(struct operands *o, clattn_kernel kernel) {
    clattn_layer_params *p = &o->params.layer;
    *p = (clattn_layer_params){.heads = H, .kernel = kernel, .projection = CLATTN_PROJECTION_NATIVE};
    p->x = dense(CLATTN_TYPE_F32, 3, B, N, WIDTH, 0);
    p->y = dense(CLATTN_TYPE_F32, 3, B, KEYS, WIDTH, 0);
    p->out = dense(CLATTN_TYPE_F32, 3, B, N, WIDTH, 0);
    p->wo = dense(CLATTN_TYPE_F32, 2, WIDTH, H * D, 0, 0);
    p->bo = dense(CLATTN_TYPE_F32, 1, WIDTH, 0, 0, 0);
    add(o, "x", &p->x, OPERAND_READ, false);
    // y is optional, but without y the keys differ
    add(o, "y", &p->y, OPERAND_READ, false);
    add(o, "out", &p->out, OPERAND_WRITE, false);
    add(o, "wo", &p->wo, OPERAND_READ, false);
    add(o, "bo", &p->bo, OPERAND_READ, true);
    make_matrix(o, (const char *const[]){"wq", "bq"}, &p->wq, &p->bq);
    make_matrix(o, (const char *const[]){"wk", "bk"}, &p->wk, &p->bk);
    make_matrix(o, (const char *const[]){"wv", "bv"}, &p->wv, &p->bv);
    make_returned(o, &p->lse, &p->weights, &p->scores, kernel);
    make_score(o, &p->score);
    o->workspace = &p->workspace;
}

static void make_linear(struct operands *o) {
    clattn_linear_params *p = &o->params.linear;
    *p = (clattn_linear_params){.projection = CLATTN_PROJECTION_NATIVE};
    p->x = dense(CLATTN_TYPE_F32, 3, B, N, WIDTH, 0);
    p->out = dense(CLATTN_TYPE_F32, 3, B, N, H * D, 0);
    add(o, "x", &p->x, OPERAND_READ, false);
    add(o, "out", &p->out, OPERAND_WRITE, false);
    make_matrix(o, (const char *const[]){"w", "b"}, &p->w, &p->b);
    o->workspace = &p->workspace;
}

static void make_merge(struct operands *o) {
    clattn_merge_params *p = &o->params.merge;
    p->out_a = dense(CLATTN_TYPE_F32, 4, B, H, N, D);
    p->out_b = dense(CLATTN_TYPE_F32, 4, B, H, N, D);
    p->lse_a = dense(CLATTN_TYPE_F32, 3, B, H, N, 0);
    p->lse_b = dense(CLATTN_TYPE_F32, 3, B, H, N, 0);
    add(o, "out_a", &p->out_a, OPERAND_READ | OPERAND_WRITE, false);
    add(o, "lse_a", &p->lse_a, OPERAND_READ | OPERAND_WRITE, false);
    add(o, "out_b", &p->out_b, OPERAND_READ, false);
    add(o, "lse_b", &p->lse_b, OPERAND_READ, false);
}

void operands_make(struct operands *o, enum operation operation, clattn_kernel kernel) {
    memset(o, 0, sizeof *o);
    o->operation = operation;
    if (operation == OPERATION_ATTENTION) make_attention(o, kernel);
    if (operation == OPERATION_LAYER) make_layer(o, kernel);
    if (operation == OPERATION_LINEAR) make_linear(o);
    if (operation == OPERATION_MERGE) make_merge(o);
}

void operands_release(struct operands *o) {
    harness_finish(harness()->queue);
    for (int i = 0; i < o->count; i++)
        if (o->operand[i].view->buffer) clReleaseMemObject(o->operand[i].view->buffer);
}

clattn_status operands_enqueue(struct operands *o, cl_event *event) {
    clattn_context *c = harness()->context;
    cl_command_queue queue = harness()->queue;
    switch (o->operation) {
    case OPERATION_ATTENTION:
        return clattn_attention_enqueue(c, queue, &o->params.attention, 0, NULL, event);
    case OPERATION_LAYER:
        return clattn_layer_enqueue(c, queue, &o->params.layer, 0, NULL, event);
    case OPERATION_LINEAR:
        return clattn_linear_enqueue(c, queue, &o->params.linear, 0, NULL, event);
    default:
        return clattn_merge_enqueue(c, queue, &o->params.merge, 0, NULL, event);
    }
}

size_t operands_workspace(struct operands *o) {
    size_t bytes = 0;
    clattn_status status = CLATTN_OK;
    clattn_context *c = harness()->context;
    if (o->operation == OPERATION_ATTENTION)
        status = clattn_attention_workspace(c, &o->params.attention, &bytes);
    if (o->operation == OPERATION_LAYER) status = clattn_layer_workspace(c, &o->params.layer, &bytes);
    if (o->operation == OPERATION_LINEAR) status = clattn_linear_workspace(c, &o->params.linear, &bytes);
    ck_assert_int_eq(status, CLATTN_OK);
    return bytes;
}

int64_t operands_end(const clattn_tensor *view) {
    int64_t end = view->offset + 1;
    for (int i = 0; i < view->rank; i++) end += (view->shape[i] - 1) * view->stride[i];
    return end * (int64_t)clattn_type_size(view->type);
}

// Views are dense, as they were created.
unsigned char *operands_written(const struct operands *o, size_t *bytes) {
    unsigned char *all = malloc(OPERANDS_MOST * OPERAND_BYTES);
    ck_assert_ptr_nonnull(all);
    *bytes = 0;
    for (int i = 0; i < o->count; i++) {
        const clattn_tensor *t = o->operand[i].view;
        const size_t first = (size_t)t->offset * clattn_type_size(t->type),
                     size = (size_t)operands_end(t) - first;
        if (!(o->operand[i].use & OPERAND_WRITE) || !t->buffer) continue;
        harness_expect(clEnqueueReadBuffer(harness()->queue, t->buffer, CL_TRUE, first, size, all + *bytes, 0,
                                           NULL, NULL),
                       "read");
        *bytes += size;
    }
    return all;
}

unsigned char *operands_results(struct operands *o, size_t *bytes) {
    char why[256];
    const clattn_status status = operands_enqueue(o, NULL);
    clattn_context_last_error(harness()->context, why, sizeof why);
    ck_assert_msg(status == CLATTN_OK, "%s", why);
    return operands_written(o, bytes);
}
