/* train.c: a layer learns to copy. Each row has a token and its position, one number each, and
 * the layer must output the token of the previous row. Attention has to find that row by its
 * position. Plain gradient descent on any OpenCL device: one call forward, one call for all
 * gradients; the host updates the weights.
 *     cc train.c $(pkg-config --cflags --libs clattn OpenCL) -lm */
#include <clattn/clattn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum {
    BATCH = 16,
    ROWS = 8,
    TOKENS = 8,
    WIDTH = TOKENS + ROWS,
    HEADS = 2,
    INNER = 32,
    STEPS = 400,
    MATRICES = 4,
    NO_DEVICE = 77
};
static const float rate = 1.0f;

static void on_log(void *user, clattn_log_level level, const char *message) {
    (void)user, (void)level;
    fprintf(stderr, "%s\n", message);
}

static uint64_t state = 1;
static double uniform(void) { /* SplitMix64, [0, 1) */
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

/* One weight matrix on the host, on the device, and its gradient. */
typedef struct matrix {
    float host[INNER * WIDTH], gradient[INNER * WIDTH];
    clattn_tensor view, d;
    size_t bytes;
} matrix;

static clattn_tensor tensor(cl_context opencl, int rank, int64_t a, int64_t b, int64_t c) {
    const int64_t shape[3] = {a, b, c};
    const size_t count = (size_t)(a * b * (rank > 2 ? c : 1));
    cl_mem buffer = clCreateBuffer(opencl, CL_MEM_READ_WRITE, count * sizeof(float), NULL, NULL);
    return clattn_tensor_dense(buffer, CLATTN_TYPE_F32, rank, shape);
}

static void make_matrix(matrix *m, cl_context opencl, int rows, int columns) {
    m->bytes = (size_t)(rows * columns) * sizeof(float);
    m->view = tensor(opencl, 2, rows, columns, 0), m->d = tensor(opencl, 2, rows, columns, 0);
    for (int n = 0; n < rows * columns; n++) /* nearly normal: a sum of uniform numbers */
        m->host[n] = (float)(0.3 * sqrt(12.0 / 4) * (uniform() + uniform() + uniform() + uniform() - 2.0));
}

/* Rows, and the token before each; the first row copies itself. */
static void make_batch(float *x, float *wanted) {
    memset(x, 0, sizeof(float) * BATCH * ROWS * WIDTH);
    memset(wanted, 0, sizeof(float) * BATCH * ROWS * TOKENS);
    for (int b = 0; b < BATCH; b++) {
        int before = -1;
        for (int i = 0; i < ROWS; i++) {
            const int row = b * ROWS + i, token = (int)(uniform() * TOKENS);
            x[row * WIDTH + token] = x[row * WIDTH + TOKENS + i] = 1.0f;
            wanted[row * TOKENS + (before < 0 ? token : before)] = 1.0f;
            before = token;
        }
    }
}

typedef struct learner {
    clattn_context *context;
    cl_command_queue queue;
    matrix m[MATRICES]; /* Wq, Wk, Wv, Wo */
    clattn_layer_params layer;
    clattn_layer_backward_params backward;
    float x[BATCH * ROWS * WIDTH], wanted[BATCH * ROWS * TOKENS], out[BATCH * ROWS * TOKENS];
} learner;

static clattn_status step(learner *l, double *loss) {
    float *wrong = l->out;
    make_batch(l->x, l->wanted);
    clEnqueueWriteBuffer(l->queue, l->layer.x.buffer, CL_TRUE, 0, sizeof l->x, l->x, 0, NULL, NULL);
    for (int n = 0; n < MATRICES; n++)
        clEnqueueWriteBuffer(l->queue, l->m[n].view.buffer, CL_TRUE, 0, l->m[n].bytes, l->m[n].host, 0, NULL,
                             NULL);
    clattn_status status = clattn_layer_forward_enqueue(l->context, l->queue, &l->backward, 0, NULL, NULL);
    if (status != CLATTN_OK) return status;
    clEnqueueReadBuffer(l->queue, l->layer.out.buffer, CL_TRUE, 0, sizeof l->out, l->out, 0, NULL, NULL);
    *loss = 0.0;
    for (int n = 0; n < BATCH * ROWS * TOKENS; n++) { /* half the mean square; its derivative */
        const double difference = (double)l->out[n] - (double)l->wanted[n];
        *loss += difference * difference / (2 * BATCH * ROWS);
        wrong[n] = (float)(difference / (BATCH * ROWS));
    }
    clEnqueueWriteBuffer(l->queue, l->backward.dout.buffer, CL_TRUE, 0, sizeof l->out, wrong, 0, NULL, NULL);
    status = clattn_layer_backward_enqueue(l->context, l->queue, &l->backward, 0, NULL, NULL);
    for (int n = 0; n < MATRICES && status == CLATTN_OK; n++) {
        matrix *m = &l->m[n];
        clEnqueueReadBuffer(l->queue, m->d.buffer, CL_TRUE, 0, m->bytes, m->gradient, 0, NULL, NULL);
        for (size_t i = 0; i < m->bytes / sizeof(float); i++) m->host[i] -= rate * m->gradient[i];
    }
    return status;
}

static clattn_status make_learner(learner *l, const clattn_device *device) {
    cl_context opencl = clattn_context_opencl(l->context);
    l->queue = clCreateCommandQueue(opencl, device->device, 0, NULL);
    make_matrix(&l->m[0], opencl, INNER, WIDTH), make_matrix(&l->m[1], opencl, INNER, WIDTH);
    make_matrix(&l->m[2], opencl, INNER, WIDTH), make_matrix(&l->m[3], opencl, TOKENS, INNER);
    l->layer = (clattn_layer_params){.x = tensor(opencl, 3, BATCH, ROWS, WIDTH),
                                     .out = tensor(opencl, 3, BATCH, ROWS, TOKENS),
                                     .wq = l->m[0].view,
                                     .wk = l->m[1].view,
                                     .wv = l->m[2].view,
                                     .wo = l->m[3].view,
                                     .heads = HEADS,
                                     .score = {.causal = true}};
    l->backward = (clattn_layer_backward_params){.forward = l->layer,
                                                 .dout = tensor(opencl, 3, BATCH, ROWS, TOKENS),
                                                 .dwq = l->m[0].d,
                                                 .dwk = l->m[1].d,
                                                 .dwv = l->m[2].d,
                                                 .dwo = l->m[3].d};
    int64_t kept = 0; /* results that the forward call keeps for the gradients */
    clattn_status status = clattn_layer_kept(l->context, &l->backward, &kept);
    if (status == CLATTN_OK) l->backward.kept = tensor(opencl, 1, kept, 1, 1);
    return status;
}

static void release(learner *l) {
    for (int n = 0; n < MATRICES; n++)
        clReleaseMemObject(l->m[n].view.buffer), clReleaseMemObject(l->m[n].d.buffer);
    clReleaseMemObject(l->layer.x.buffer), clReleaseMemObject(l->layer.out.buffer);
    clReleaseMemObject(l->backward.dout.buffer), clReleaseMemObject(l->backward.kept.buffer);
    clReleaseCommandQueue(l->queue);
    clattn_context_destroy(l->context);
}

int main(void) {
    static learner l;
    clattn_device device;
    size_t count;
    double first = 0.0, loss = 0.0;
    if (clattn_device_list(&device, 1, &count, NULL) != CLATTN_OK) return NO_DEVICE;
    const clattn_context_params setup = {.device = device.device, .log = {.fn = on_log}};
    if (clattn_context_create(&setup, &l.context) != CLATTN_OK) return 1;
    clattn_status status = make_learner(&l, &device);
    for (int n = 0; n < STEPS && status == CLATTN_OK; n++) {
        status = step(&l, &loss);
        if (n == 0) first = loss;
        if (n % 80 == 0 || n == STEPS - 1) printf("step %d: loss %.4f\n", n, loss);
    }
    /* `out` has the error of the last batch, by its rows */
    double most = 0.0;
    for (int n = 0; n < BATCH * ROWS * TOKENS; n++) most = fmax(most, fabs((double)l.out[n]) * BATCH * ROWS);
    printf("train.c: the loss fell from %.4f to %.4f; largest difference of the last batch %.3f\n", first,
           loss, most);
    release(&l);
    return status == CLATTN_OK && loss < 0.1 * first ? 0 : 1;
}
