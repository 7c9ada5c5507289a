/* threads.c: two threads on one context, each with its own queue and buffers. They share
 * compiled kernels, and their calls overlap. The error line of a failed call is logged on its
 * own thread.
 *     cc threads.c $(pkg-config --cflags --libs clattn OpenCL) -lm -lpthread */
#include <clattn/clattn.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>

enum { HEADS = 2, ROWS = 40, SIZE = 16, COUNT = HEADS * ROWS * SIZE, CALLS = 20, NO_DEVICE = 77 };

typedef struct worker {
    clattn_context *context;
    int number;
    double most; /* the largest difference that it found */
    clattn_status status;
} worker;

static void on_log(void *user, clattn_log_level level, const char *message) {
    (void)user, (void)level;
    fprintf(stderr, "%s\n", message); /* may run on any thread */
}

/* Every v is the same row, so each result is that row, with any scores. */
static void *work(void *arg) {
    worker *w = arg;
    cl_context opencl = clattn_context_opencl(w->context);
    cl_command_queue queue = clCreateCommandQueue(opencl, clattn_context_device(w->context), 0, NULL);
    float x[COUNT], y[COUNT];
    cl_mem in = clCreateBuffer(opencl, CL_MEM_READ_ONLY, sizeof x, NULL, NULL);
    cl_mem v = clCreateBuffer(opencl, CL_MEM_READ_ONLY, sizeof x, NULL, NULL);
    cl_mem out = clCreateBuffer(opencl, CL_MEM_READ_WRITE, sizeof y, NULL, NULL);
    const clattn_tensor tensor = clattn_tensor_bhsd(in, CLATTN_TYPE_F32, 1, HEADS, ROWS, SIZE);
    clattn_attention_params call = {.q = tensor, .kv = {.k = tensor, .v = tensor}, .out = tensor};
    call.kv.v.buffer = v, call.out.buffer = out;
    for (int n = 0; n < CALLS && w->status == CLATTN_OK; n++) {
        float rows[COUNT];
        for (int i = 0; i < COUNT; i++) x[i] = sinf((float)(i + n)), rows[i] = (float)(i % SIZE + w->number);
        clEnqueueWriteBuffer(queue, in, CL_TRUE, 0, sizeof x, x, 0, NULL, NULL);
        clEnqueueWriteBuffer(queue, v, CL_TRUE, 0, sizeof rows, rows, 0, NULL, NULL);
        w->status = clattn_attention_enqueue(w->context, queue, &call, 0, NULL, NULL);
        clEnqueueReadBuffer(queue, out, CL_TRUE, 0, sizeof y, y, 0, NULL, NULL);
        for (int i = 0; i < COUNT; i++) w->most = fmax(w->most, fabs((double)y[i] - (double)rows[i]));
    }
    clReleaseMemObject(in), clReleaseMemObject(v), clReleaseMemObject(out);
    clReleaseCommandQueue(queue);
    return NULL;
}

int main(void) {
    clattn_device device;
    clattn_context *context;
    size_t count;
    /* Before the threads start: some drivers initialise in the first query. */
    if (clattn_device_list(&device, 1, &count, NULL) != CLATTN_OK) return NO_DEVICE;
    const clattn_context_params setup = {.device = device.device, .log = {.fn = on_log}};
    if (clattn_context_create(&setup, &context) != CLATTN_OK) return 1;
    worker workers[2] = {{.context = context, .number = 1}, {.context = context, .number = 2}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, work, &workers[i]) != 0) return 1;
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    clattn_context_stats stats;
    clattn_context_get_stats(context, &stats);
    printf("%d calls of two threads, %u kernel(s) compiled: the largest differences are %.2g and %.2g\n",
           2 * CALLS, (unsigned)stats.programs_built, workers[0].most, workers[1].most);
    clattn_context_destroy(context); /* the threads have ended */
    const int good = workers[0].status == CLATTN_OK && workers[1].status == CLATTN_OK;
    return good && workers[0].most < 1e-4 && workers[1].most < 1e-4 ? 0 : 1;
}
