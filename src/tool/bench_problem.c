// problem.c: see problem.h.
#include "tool/bench_problem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tool/bench_baseline.h"
#include "evidence/storage.h"

#define PERIOD 1048573 // the largest prime below 2^20

typedef struct input {
    clattn_tensor *view;
    int rank;
    int64_t shape[4];
    double deviation;
} input;

static double elements(int rank, const int64_t *shape) {
    double n = 1.0;
    for (int i = 0; i < rank; i++) n *= (double)shape[i];
    return n;
}

static bench_status status_of(problem *p, clattn_status status, char why[256]) {
    if (status == CLATTN_OK) return BENCH_OK;
    snprintf(why, 256, "%.255s", p->session->message[0] ? p->session->message : clattn_status_text(status));
    return status == CLATTN_UNSUPPORTED ? BENCH_UNSUPPORTED : BENCH_FAIL;
}

// A buffer that is counted. More than the device takes is no failure of the case.
static bench_status make_buffer(problem *p, double bytes, cl_mem *buffer, char why[256]) {
    const clattn_capabilities *of = p->session->capabilities;
    cl_int code = CL_SUCCESS;
    p->bytes += bytes;
    if (bytes > (double)of->max_allocation_bytes || p->bytes > (double)of->global_memory_bytes) {
        snprintf(why, 256, "a buffer of %.3g MiB, %.3g MiB in all, is more than the device takes",
                 bytes / 0x1p20, p->bytes / 0x1p20);
        return BENCH_UNSUPPORTED;
    }
    *buffer = clCreateBuffer(clattn_context_opencl(p->session->context), CL_MEM_READ_WRITE, (size_t)bytes,
                             NULL, &code);
    if (*buffer) {
        p->buffers[p->buffer_count++] = *buffer;
        return BENCH_OK;
    }
    snprintf(why, 256, "a buffer of %.3g MiB: OpenCL error %d", bytes / 0x1p20, (int)code);
    return BENCH_FAIL;
}

static bool make_values(problem_values *v, int64_t count, int64_t row, clattn_type type, double deviation) {
    uint64_t state = (uint64_t)count * 2654435761u + 12345u;
    v->period = count < PERIOD ? count : PERIOD;
    v->table = malloc((size_t)(v->period + row) * sizeof *v->table);
    for (int64_t i = 0; v->table && i < v->period + row; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const double uniform = (double)(state >> 40) / (double)(1 << 23) - 1.0;
        v->table[i] =
            i < v->period ? storage_round(type, sqrt(3.0) * deviation * uniform) : v->table[i - v->period];
    }
    return v->table != NULL;
}

// Write the table again and again until the buffer is full.
static cl_int upload(problem *p, const problem_values *v, cl_mem buffer, int64_t count) {
    const size_t size = clattn_type_size(p->c.dtype);
    void *stored = malloc((size_t)v->period * size);
    cl_int code = stored ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
    for (int64_t i = 0; stored && i < v->period; i++) storage_store(p->c.dtype, stored, i, v->table[i]);
    for (int64_t at = 0; at < count && code == CL_SUCCESS; at += v->period) {
        const int64_t n = count - at < v->period ? count - at : v->period;
        code = clEnqueueWriteBuffer(p->session->queue, buffer, CL_TRUE, (size_t)at * size, (size_t)n * size,
                                    stored, 0, NULL, NULL);
    }
    free(stored);
    return code;
}

static bench_status make_input(problem *p, int index, const input *in, char why[256]) {
    const double count = elements(in->rank, in->shape);
    const int64_t row = in->shape[in->rank - 1];
    cl_mem buffer = NULL;
    const bench_status status = make_buffer(p, count * (double)clattn_type_size(p->c.dtype), &buffer, why);
    if (status != BENCH_OK) return status;
    *in->view = clattn_tensor_dense(buffer, p->c.dtype, in->rank, in->shape);
    // The index keeps tensors of one size apart.
    if (make_values(&p->values[index], (int64_t)count, row + index, p->c.dtype, in->deviation) &&
        upload(p, &p->values[index], buffer, (int64_t)count) == CL_SUCCESS)
        return BENCH_OK;
    snprintf(why, 256, "the inputs could not be written");
    return BENCH_FAIL;
}

// Filled with NaN, so that an element nobody writes is an error.
static bench_status make_output(problem *p, clattn_tensor *view, int rank, const int64_t *shape,
                                char why[256]) {
    static const cl_uchar nan = 0xFF;
    const double bytes = elements(rank, shape) * (double)clattn_type_size(p->c.dtype);
    const bench_status status = make_buffer(p, bytes, &p->out, why);
    if (status != BENCH_OK) return status;
    *view = clattn_tensor_dense(p->out, p->c.dtype, rank, shape);
    if (clEnqueueFillBuffer(p->session->queue, p->out, &nan, 1, 0, (size_t)bytes, 0, NULL, NULL) ==
        CL_SUCCESS)
        return BENCH_OK;
    snprintf(why, 256, "the output could not be filled");
    return BENCH_FAIL;
}

static void set_options(clattn_score *score, const bench_case *c) {
    score->causal = c->causal;
    score->alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
}

static bench_status create_attention(problem *p, char why[256]) {
    const bench_case *c = &p->c;
    clattn_attention_params *a = &p->attention;
    const input all[] = {{&a->q, 4, {c->b, c->heads, c->n, c->d}, 1.0},
                         {&a->kv.k, 4, {c->b, c->kv_heads, c->n_kv, c->d}, 1.0},
                         {&a->kv.v, 4, {c->b, c->kv_heads, c->n_kv, c->dv}, 1.0}};
    const int64_t out[4] = {c->b, c->heads, c->n, c->dv};
    bench_status status = BENCH_OK;
    set_options(&a->score, c);
    a->kernel = c->kernel;
    for (int i = 0; i < 3 && status == BENCH_OK; i++) status = make_input(p, i, &all[i], why);
    return status == BENCH_OK ? make_output(p, &a->out, 4, out, why) : status;
}

static bench_status create_layer(problem *p, char why[256]) {
    const bench_case *c = &p->c;
    clattn_layer_params *l = &p->layer;
    const double weight = 1.0 / sqrt((double)c->model), last = 1.0 / sqrt((double)(c->heads * c->dv));
    const input all[] = {{&l->x, 3, {c->b, c->n, c->model, 0}, 1.0},
                         {&l->y, 3, {c->b, c->n_kv, c->model, 0}, 1.0},
                         {&l->wq, 2, {c->heads * c->d, c->model, 0, 0}, weight},
                         {&l->wk, 2, {c->kv_heads * c->d, c->model, 0, 0}, weight},
                         {&l->wv, 2, {c->kv_heads * c->dv, c->model, 0, 0}, weight},
                         {&l->wo, 2, {c->model, c->heads * c->dv, 0, 0}, last}};
    const int64_t out[3] = {c->b, c->n, c->model};
    bench_status status = BENCH_OK;
    set_options(&l->score, c);
    l->kernel = c->kernel;
    l->heads = (int32_t)c->heads;
    l->kv_heads = (int32_t)c->kv_heads;
    l->projection = c->projection;
    for (int i = 0; i < PROBLEM_INPUTS && status == BENCH_OK; i++)
        if (i != PROBLEM_Y || c->n_kv != c->n) status = make_input(p, i, &all[i], why);
    return status == BENCH_OK ? make_output(p, &l->out, 3, out, why) : status;
}

static bench_status create_linear(problem *p, char why[256]) {
    const bench_case *c = &p->c;
    const int64_t columns = c->heads * c->d, out[3] = {c->b, c->n, columns};
    const input x = {&p->linear.x, 3, {c->b, c->n, c->model, 0}, 1.0};
    const input w = {&p->linear.w, 2, {columns, c->model, 0, 0}, 1.0 / sqrt((double)c->model)};
    p->linear.projection = c->projection;
    bench_status status = make_input(p, PROBLEM_X, &x, why);
    if (status == BENCH_OK) status = make_input(p, PROBLEM_WQ, &w, why);
    return status == BENCH_OK ? make_output(p, &p->linear.out, 3, out, why) : status;
}

static bench_status plan_problem(problem *p, char kernel[32], char why[256]) {
    clattn_context *context = p->session->context;
    clattn_plan plan = {0};
    clattn_linear_choice choice = {0};
    if (p->c.baseline == BENCH_CLBLAST) return BENCH_OK;
    const bench_status status =
        status_of(p,
                  p->c.op == BENCH_LINEAR  ? clattn_linear_plan(context, &p->linear, &choice)
                  : p->c.op == BENCH_LAYER ? clattn_layer_plan(context, &p->layer, &plan)
                                           : clattn_attention_plan(context, &p->attention, &plan),
                  why);
    snprintf(kernel, 32, "%s", p->c.op == BENCH_LINEAR ? choice.kernel_name : plan.kernel_name);
    return status;
}

bench_status problem_create(problem *p, session *s, const bench_case *c, char kernel[32], char why[256]) {
    *p = (problem){.session = s, .c = *c};
    const bool composed = c->baseline == BENCH_CLBLAST;
    snprintf(kernel, 32, "%s", composed ? "clblast" : "");
    if (composed && !composition_can(c, why)) return BENCH_UNSUPPORTED;
    const bench_status status = c->op == BENCH_LAYER    ? create_layer(p, why)
                                : c->op == BENCH_LINEAR ? create_linear(p, why)
                                                        : create_attention(p, why);
    return status == BENCH_OK ? plan_problem(p, kernel, why) : status;
}

void problem_destroy(problem *p) {
    if (p->session->queue) clFinish(p->session->queue);
    composition_destroy(p->composition);
    for (int i = 0; i < p->buffer_count; i++) clReleaseMemObject(p->buffers[i]);
    for (int i = 0; i < PROBLEM_INPUTS; i++) free(p->values[i].table);
    p->buffer_count = 0;
    p->composition = NULL;
}

static bench_status prepare_composition(problem *p, char why[256]) {
    const bench_case *c = &p->c;
    const double scores = (double)c->b * (double)c->heads * (double)c->n * (double)c->n_kv;
    composition_buffers buffers = {p->attention.q.buffer, p->attention.kv.k.buffer, p->attention.kv.v.buffer,
                                   NULL, p->out};
    const bench_status status = make_buffer(p, scores * sizeof(float), &buffers.scores, why);
    if (status != BENCH_OK) return status;
    const uint64_t start = tool_time_ns();
    p->composition = composition_create(p->session, c, &buffers, why);
    p->build_ns = (double)(tool_time_ns() - start);
    return p->composition ? BENCH_OK : BENCH_FAIL;
}

static clattn_status ask_workspace(problem *p, size_t *bytes, cl_mem **workspace) {
    clattn_context *context = p->session->context;
    if (p->c.op == BENCH_LINEAR) {
        *workspace = &p->linear.workspace;
        return clattn_linear_workspace(context, &p->linear, bytes);
    }
    *workspace = p->c.op == BENCH_LAYER ? &p->layer.workspace : &p->attention.workspace;
    return p->c.op == BENCH_LAYER ? clattn_layer_workspace(context, &p->layer, bytes)
                                  : clattn_attention_workspace(context, &p->attention, bytes);
}

bench_status problem_prepare(problem *p, char why[256]) {
    clattn_context *context = p->session->context;
    cl_mem *workspace = NULL;
    size_t bytes = 0;
    if (p->c.baseline == BENCH_CLBLAST) return prepare_composition(p, why);
    bench_status status = status_of(p, ask_workspace(p, &bytes, &workspace), why);
    if (status == BENCH_OK && bytes) status = make_buffer(p, (double)bytes, workspace, why);
    if (status != BENCH_OK) return status;
    return status_of(p,
                     p->c.op == BENCH_LINEAR  ? clattn_linear_prepare(context, &p->linear)
                     : p->c.op == BENCH_LAYER ? clattn_layer_prepare(context, &p->layer)
                                              : clattn_attention_prepare(context, &p->attention),
                     why);
}

bench_status problem_enqueue(problem *p, cl_event *event, char why[256]) {
    clattn_context *context = p->session->context;
    cl_command_queue queue = p->session->queue;
    if (p->composition) return composition_enqueue(p->composition, event, why) ? BENCH_OK : BENCH_FAIL;
    return status_of(
        p,
        p->c.op == BENCH_LINEAR  ? clattn_linear_enqueue(context, queue, &p->linear, 0, NULL, event)
        : p->c.op == BENCH_LAYER ? clattn_layer_enqueue(context, queue, &p->layer, 0, NULL, event)
                                 : clattn_attention_enqueue(context, queue, &p->attention, 0, NULL, event),
        why);
}

const double *problem_input(const problem *p, int index, int64_t first) {
    const problem_values *v = &p->values[index];
    return v->table + first % v->period;
}

bool problem_output(problem *p, int64_t first, int64_t count, double *x) {
    const size_t size = clattn_type_size(p->c.dtype);
    void *stored = malloc((size_t)count * size);
    const bool ok = stored && clEnqueueReadBuffer(p->session->queue, p->out, CL_TRUE, (size_t)first * size,
                                                  (size_t)count * size, stored, 0, NULL, NULL) == CL_SUCCESS;
    for (int64_t i = 0; ok && i < count; i++) x[i] = storage_load(p->c.dtype, stored, i);
    free(stored);
    return ok;
}
