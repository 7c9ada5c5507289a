/* decoder.c: one layer of a real decoder, token by token, like an inference engine runs it: the
 * prompt in one call, then one step a token. Each call projects the new tokens, applies RoPE to
 * queries and keys, appends keys and values to a cache, attends to the whole cache, and projects
 * the heads' result. Kernels are compiled before the first token; scratch memory is the
 * application's. Weights, input and the float64 result are those of SmolLM2-135M
 * (tests/data/README.md).
 *     cc decoder.c $(pkg-config --cflags --libs clattn OpenCL) -lm; ./a.out tests/data */
#include <clattn/clattn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 40, PROMPT = 25, WIDTH = 576, HEADS = 9, KV_HEADS = 3, SIZE = 64, MOST = 64, NO_DEVICE = 77 };
static const float rope_base = 100000; /* rope_theta of the model's config.json */

static clattn_context *context;
static cl_context opencl;
static cl_command_queue queue;

static void stop(const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

static void check(clattn_status status, const char *what) {
    char why[512] = ""; /* without a context there is only a log */
    if (status == CLATTN_OK) return;
    clattn_context_last_error(context, why, sizeof why);
    stop(what, why[0] ? why : clattn_status_name(status));
}

static cl_mem buffer(size_t bytes, const void *values) {
    cl_int code;
    cl_mem made = clCreateBuffer(opencl, CL_MEM_READ_WRITE | (values ? CL_MEM_COPY_HOST_PTR : 0), bytes,
                                 (void *)values, &code);
    if (!made) stop("clCreateBuffer", "failed");
    return made;
}

/* ---- files: only what these few need; an application has a library for them. */

static char *file_text(const char *folder, const char *name) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    if (!file) stop(path, "cannot be read");
    fseek(file, 0, SEEK_END);
    const long bytes = ftell(file);
    rewind(file);
    char *text = calloc(1, (size_t)bytes + 1);
    if (!text || fread(text, 1, (size_t)bytes, file) != (size_t)bytes) stop(path, "was not read");
    fclose(file);
    return text;
}

/* Float32 numbers of a .npy file. Bytes 8 and 9 have the header's length. */
static float *npy(const char *folder, const char *name) {
    char *text = file_text(folder, name);
    const size_t header = 10 + (unsigned char)text[8] + 256 * (size_t)(unsigned char)text[9];
    float *numbers = malloc(TOKENS * WIDTH * sizeof *numbers);
    if (!numbers) stop(name, "no memory");
    memcpy(numbers, text + header, TOKENS * WIDTH * sizeof *numbers);
    free(text);
    return numbers;
}

/* A matrix [rows, columns] of a .safetensors file: 8 bytes of length, JSON, the numbers. */
static clattn_tensor weight(const char *file, const char *name, int64_t rows, int64_t columns) {
    char key[80];
    snprintf(key, sizeof key, "\"model.layers.0.self_attn.%s.weight\"", name);
    uint64_t header;
    memcpy(&header, file, sizeof header);
    const char *at = strstr(file + 8, key), *offsets = at ? strstr(at, "\"data_offsets\"") : NULL;
    if (!offsets) stop(key, "is not in the file");
    const long long begin = strtoll(strchr(offsets, '[') + 1, NULL, 10);
    const size_t bytes = (size_t)(rows * columns) * sizeof(float);
    return (clattn_tensor){.buffer = buffer(bytes, file + 8 + header + begin),
                           .type = CLATTN_TYPE_F32,
                           .rank = 2,
                           .shape = {rows, columns},
                           .stride = {columns, 1}};
}

/* ---- the layer */

/* The number of keys in the cache, including the new ones. A call reads this host memory before
 * it returns. The positions of RoPE and causality follow from it. */
static int32_t length = MOST;

static clattn_layer_params make_layer(const char *folder) {
    char *file = file_text(folder, "smollm2_layer0.safetensors");
    float *x = npy(folder, "smollm2_layer0_x.npy");
    const size_t rows = TOKENS * WIDTH * sizeof(float), cache = KV_HEADS * MOST * SIZE * sizeof(float);
    const clattn_tensor all = {.type = CLATTN_TYPE_F32,
                               .rank = 3,
                               .shape = {1, TOKENS, WIDTH},
                               .stride = {TOKENS * WIDTH, WIDTH, 1}};
    clattn_layer_params layer = {
        .x = all,
        .out = all,
        .wq = weight(file, "q_proj", HEADS * SIZE, WIDTH),
        .wk = weight(file, "k_proj", KV_HEADS * SIZE, WIDTH),
        .wv = weight(file, "v_proj", KV_HEADS * SIZE, WIDTH),
        .wo = weight(file, "o_proj", WIDTH, HEADS * SIZE),
        .heads = HEADS,
        .kv_heads = KV_HEADS,
        /* The last query row has the position of the last key that kv_lengths counts. */
        .score = {.causal = true, .alignment = CLATTN_ALIGN_BOTTOM_RIGHT, .kv_lengths = &length},
        .rope = {.layout = CLATTN_ROPE_HALF, .base = rope_base},
        .kv = {.k = clattn_tensor_bhsd(buffer(cache, NULL), CLATTN_TYPE_F32, 1, KV_HEADS, MOST, SIZE),
               .v = clattn_tensor_bhsd(buffer(cache, NULL), CLATTN_TYPE_F32, 1, KV_HEADS, MOST, SIZE)},
        .append = true};
    layer.x.buffer = buffer(rows, x), layer.out.buffer = buffer(rows, NULL);
    free(x), free(file);
    return layer;
}

/* The next `count` tokens. Only the first row and the number of keys change from call to call. */
static void feed(clattn_layer_params *layer, int first, int count) {
    length = first + count;
    layer->x.shape[1] = layer->out.shape[1] = count;
    layer->x.offset = layer->out.offset = (int64_t)first * WIDTH;
    check(clattn_layer_enqueue(context, queue, layer, 0, NULL, NULL), "a layer");
}

/* Before the first token: compile the kernels of prompts and of steps, and find the larger of
 * the two workspaces. */
static void prepare(clattn_layer_params *layer) {
    const int32_t counts[] = {PROMPT, 1};
    size_t most = 0;
    for (int i = 0; i < 2; i++) {
        size_t bytes = 0;
        layer->x.shape[1] = layer->out.shape[1] = counts[i];
        check(clattn_layer_prepare(context, layer), "prepare");
        check(clattn_layer_workspace(context, layer, &bytes), "workspace");
        if (bytes > most) most = bytes;
    }
    if (most) layer->workspace = buffer(most, NULL);
}

int main(int count, char **words) {
    const char *folder = count > 1 ? words[1] : "tests/data";
    static float got[TOKENS * WIDTH];
    clattn_device device;
    size_t devices;
    if (clattn_device_list(&device, 1, &devices, NULL) != CLATTN_OK) return NO_DEVICE;
    const clattn_context_params setup = {.device = device.device};
    check(clattn_context_create(&setup, &context), "context");
    opencl = clattn_context_opencl(context);
    queue = clCreateCommandQueue(opencl, device.device, 0, NULL);

    clattn_layer_params layer = make_layer(folder);
    prepare(&layer);
    feed(&layer, 0, PROMPT);
    for (int token = PROMPT; token < TOKENS; token++) feed(&layer, token, 1);
    clEnqueueReadBuffer(queue, layer.out.buffer, CL_TRUE, 0, sizeof got, got, 0, NULL, NULL);

    float *exact = npy(folder, "smollm2_layer0_out.npy");
    double most = 0;
    for (int i = 0; i < TOKENS * WIDTH; i++) most = fmax(most, fabs((double)got[i] - (double)exact[i]));
    printf("a prompt of %d tokens and %d steps of SmolLM2's first layer: the largest difference is %.2g\n",
           PROMPT, TOKENS - PROMPT, most);
    free(exact);
    const cl_mem all[] = {layer.x.buffer,    layer.out.buffer,  layer.wq.buffer,
                          layer.wk.buffer,   layer.wv.buffer,   layer.wo.buffer,
                          layer.kv.k.buffer, layer.kv.v.buffer, layer.workspace};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i]) clReleaseMemObject(all[i]);
    clReleaseCommandQueue(queue);
    clattn_context_destroy(context);
    return most < 1e-5 ? 0 : 1;
}
