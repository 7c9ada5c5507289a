/* record.c: the attention layers of a decoder's step, as calls, and recorded and replayed: equal
 * numbers, and the host's time for each. Thirty layers of SmolLM2-135M's sizes, one row, a cache
 * that grows by a key a step. The number of keys is in a buffer, so no launch changes from one
 * step to the next.
 *     cc record.c $(pkg-config --cflags --libs clattn OpenCL) -lm; ./a.out */
#include <clattn/clattn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
    NO_DEVICE = 77,
    LAYERS = 30,
    WIDTH = 576,
    HEADS = 9,
    KV_HEADS = 3,
    SIZE = 64,
    FIRST = 100,
    STEPS = 200
};
enum { CAPACITY = FIRST + STEPS };

static clattn_context *context;
static cl_command_queue queue;
static cl_mem made[8 * LAYERS + 16];
static size_t made_count;

static void check(clattn_status status) {
    char why[512] = "";
    if (status == CLATTN_OK) return;
    clattn_context_last_error(context, why, sizeof why);
    fprintf(stderr, "%s: %s\n", clattn_status_name(status), why);
    exit(1);
}

/* A tensor in a buffer of its own, with numbers of about this size. */
static clattn_tensor tensor(clattn_type type, int rank, const int64_t *shape, float size) {
    clattn_tensor t = clattn_tensor_dense(NULL, type, rank, shape);
    size_t count = 1;
    for (int i = 0; i < rank; i++) count *= (size_t)shape[i];
    float *values = malloc(count * sizeof *values);
    if (!values) exit(1);
    for (size_t n = 0; n < count; n++) values[n] = size * ((float)(rand() % 2001) / 1000.0f - 1.0f);
    t.buffer = made[made_count++] = clCreateBuffer(clattn_context_opencl(context), CL_MEM_COPY_HOST_PTR,
                                                   count * sizeof *values, values, NULL);
    free(values);
    return t;
}

static clattn_tensor matrix(int64_t rows, int64_t columns) {
    return tensor(CLATTN_TYPE_F32, 2, (const int64_t[]){rows, columns}, 0.05f);
}

static void write(clattn_tensor to, const int32_t *numbers, size_t count) {
    clEnqueueWriteBuffer(queue, to.buffer, CL_TRUE, 0, count * sizeof *numbers, numbers, 0, NULL, NULL);
}

/* Layer n reads the result of the previous one. The last result is in stream[LAYERS % 2]. */
static void make_layers(clattn_layer_params *layers, const clattn_tensor stream[2], clattn_tensor ends,
                        clattn_tensor keys) {
    const int64_t cache[] = {1, KV_HEADS, CAPACITY, SIZE};
    for (int n = 0; n < LAYERS; n++)
        layers[n] = (clattn_layer_params){.x = stream[n % 2],
                                          .out = stream[(n + 1) % 2],
                                          .wq = matrix(HEADS * SIZE, WIDTH),
                                          .wk = matrix(KV_HEADS * SIZE, WIDTH),
                                          .wv = matrix(KV_HEADS * SIZE, WIDTH),
                                          .wo = matrix(WIDTH, HEADS * SIZE),
                                          .heads = HEADS,
                                          .kv_heads = KV_HEADS,
                                          .score = {.causal = true, .alignment = CLATTN_ALIGN_BOTTOM_RIGHT},
                                          .rope = {.layout = CLATTN_ROPE_HALF},
                                          .kv = {.k = tensor(CLATTN_TYPE_F32, 4, cache, 1.0f),
                                                 .v = tensor(CLATTN_TYPE_F32, 4, cache, 1.0f),
                                                 .kv_lengths_device = keys},
                                          .append = true,
                                          /* one sequence of one row: cu_seqlens are 0 and 1 */
                                          .sequences = 1,
                                          .max_q = 1,
                                          .cu_seqlens_q_device = ends,
                                          .projection = CLATTN_PROJECTION_NATIVE};
}

static void call(const clattn_layer_params *layers) {
    for (int n = 0; n < LAYERS; n++) check(clattn_layer_enqueue(context, queue, &layers[n], 0, NULL, NULL));
}

static double milliseconds(void) {
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return 1e3 * (double)(now.tv_sec % 100000) + 1e-6 * (double)now.tv_nsec;
}

/* All steps, starting with the numbers in x. Returns the result of the last step. */
static void run(const char *name, const clattn_layer_params *layers, clattn_recording *step,
                clattn_tensor keys, const float *x, float *out) {
    double host = 0, all = 0;
    clEnqueueWriteBuffer(queue, layers[0].x.buffer, CL_TRUE, 0, WIDTH * sizeof *x, x, 0, NULL, NULL);
    for (int32_t length = FIRST; length < CAPACITY; length++) {
        write(keys, &length, 1);
        const double start = milliseconds();
        step ? check(clattn_recording_enqueue(step, queue, 0, NULL, NULL)) : call(layers);
        host += milliseconds() - start;
        clFinish(queue);
        all += milliseconds() - start;
    }
    clEnqueueReadBuffer(queue, layers[0].x.buffer, CL_TRUE, 0, WIDTH * sizeof *out, out, 0, NULL, NULL);
    printf("%-9s a step takes %.3f ms, of which the host's calls take %.3f ms\n", name, all / STEPS,
           host / STEPS);
}

int main(void) {
    clattn_device device;
    size_t devices;
    if (clattn_device_list(&device, 1, &devices, NULL) != CLATTN_OK) return NO_DEVICE;
    check(clattn_context_create(&(clattn_context_params){.device = device.device}, &context));
    queue = clCreateCommandQueue(clattn_context_opencl(context), device.device, 0, NULL);

    const int64_t row[] = {1, 1, WIDTH}, two[] = {2}, one[] = {1};
    const clattn_tensor stream[] = {tensor(CLATTN_TYPE_F32, 3, row, 1.0f),
                                    tensor(CLATTN_TYPE_F32, 3, row, 1.0f)};
    const clattn_tensor ends = tensor(CLATTN_TYPE_I32, 1, two, 0.0f),
                        keys = tensor(CLATTN_TYPE_I32, 1, one, 0.0f);
    static clattn_layer_params layers[LAYERS];
    make_layers(layers, stream, ends, keys);
    write(ends, (const int32_t[]){0, 1}, 2);

    clattn_recording *step;
    check(clattn_recording_begin(context, queue, &step));
    call(layers); /* nothing runs */
    check(clattn_recording_end(step));
    printf("%d layers, %zu launches\n", LAYERS, clattn_recording_launches(step));

    float x[WIDTH], called[WIDTH], replayed[WIDTH], fused[WIDTH];
    double most = 0;
    for (int i = 0; i < WIDTH; i++) x[i] = sinf((float)i);
    run("called:", layers, NULL, keys, x, called);
    run("replayed:", layers, step, keys, x, replayed);
    check(clattn_recording_fuse(step)); /* fuses on a CPU only; the first time needs seconds */
    printf("fused: %zu launches\n", clattn_recording_launches(step));
    run("replayed:", layers, step, keys, x, fused);
    for (int i = 0; i < WIDTH; i++)
        most = fmax(most, fmax(fabs((double)called[i] - (double)replayed[i]),
                               fabs((double)called[i] - (double)fused[i])));
    printf("largest difference: %g of numbers such as %g\n", most, (double)called[0]);

    clattn_recording_destroy(step);
    for (size_t n = 0; n < made_count; n++) clReleaseMemObject(made[n]);
    clReleaseCommandQueue(queue);
    clattn_context_destroy(context);
    return most == 0 ? 0 : 1;
}
