/* decoder.c: the attention of a decoder, token by token, as an inference engine runs it: a cache of keys and values that grows, the
 * new token's key turned by RoPE and appended in the same call, kernels compiled before the first token, a workspace of the
 * application's. At the end one call over all tokens says that the steps were right.
 *     cc decoder.c $(pkg-config --cflags --libs clattn OpenCL) -lm */
#include <clattn/clattn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { HEADS = 4, KV_HEADS = 2, SIZE = 32, MOST = 48, NO_DEVICE = 77 };

static clattn_context *context;
static cl_context opencl;
static cl_command_queue queue;

static void check(clattn_status status, const char *what) {
    char why[512] = ""; /* without a context there is a log alone */
    if (status == CLATTN_OK) return;
    clattn_context_last_error(context, why, sizeof why);
    fprintf(stderr, "%s: %s: %s\n", what, clattn_status_name(status), why);
    exit(1);
}

static cl_mem buffer(size_t bytes, const void *values) {
    cl_int code;
    cl_mem made = clCreateBuffer(opencl, CL_MEM_READ_WRITE | (values ? CL_MEM_COPY_HOST_PTR : 0), bytes,
                                 (void *)values, &code);
    if (made) return made;
    fprintf(stderr, "clCreateBuffer: %d\n", (int)code);
    exit(1);
}

/* What a model would have made of MOST tokens, [B, N, heads, size] as projections leave it, and the cache [B, Hkv, MOST, D]. */
enum { Q = MOST * HEADS * SIZE, KV = MOST * KV_HEADS * SIZE };
static cl_mem q_all, k_all, v_all, out_all, k_cache, v_cache;

static void make_tokens(void) {
    static float q[Q], k[KV], v[KV];
    for (int i = 0; i < Q; i++) q[i] = sinf((float)i * 0.7f);
    for (int i = 0; i < KV; i++) k[i] = cosf((float)i * 0.3f), v[i] = sinf((float)i * 0.11f);
    q_all = buffer(sizeof q, q), k_all = buffer(sizeof k, k), v_all = buffer(sizeof v, v);
    out_all = buffer(sizeof q, NULL), k_cache = buffer(sizeof k, NULL), v_cache = buffer(sizeof v, NULL);
}

/* Token by token. The sizes of the call never change: how many keys there are is kv_lengths, host memory that is read during the
 * call, and where the token stands is the offset of its views. RoPE's position follows from both. */
static void decode(void) {
    int32_t length = MOST;
    size_t bytes = 0;
    clattn_attention_params step = {
        .q = clattn_tensor_bshd(q_all, CLATTN_TYPE_F32, 1, HEADS, 1, SIZE),
        .kv = {.k = clattn_tensor_bhsd(k_cache, CLATTN_TYPE_F32, 1, KV_HEADS, MOST, SIZE),
               .v = clattn_tensor_bhsd(v_cache, CLATTN_TYPE_F32, 1, KV_HEADS, MOST, SIZE),
               .k_new = clattn_tensor_bshd(k_all, CLATTN_TYPE_F32, 1, KV_HEADS, 1, SIZE),
               .v_new = clattn_tensor_bshd(v_all, CLATTN_TYPE_F32, 1, KV_HEADS, 1, SIZE)},
        .out = clattn_tensor_bshd(out_all, CLATTN_TYPE_F32, 1, HEADS, 1, SIZE),
        .score = {.causal = true, .alignment = CLATTN_ALIGN_BOTTOM_RIGHT, .kv_lengths = &length},
        .rope = {.layout = CLATTN_ROPE_HALF}};
    /* Before the first token: the kernels, and scratch memory for the longest cache. */
    check(clattn_attention_prepare(context, &step), "prepare");
    check(clattn_attention_workspace(context, &step, &bytes), "workspace");
    if (bytes) step.workspace = buffer(bytes, NULL);
    for (int token = 0; token < MOST; token++) {
        length = token + 1;
        step.q.offset = step.out.offset = token * HEADS * SIZE;
        step.kv.k_new.offset = step.kv.v_new.offset = token * KV_HEADS * SIZE;
        check(clattn_attention_enqueue(context, queue, &step, 0, NULL, NULL), "a token");
    }
    if (step.workspace) clReleaseMemObject(step.workspace); /* OpenCL keeps it until the commands are done */
}

/* The same tokens at once, as a prompt is: no cache. */
static void attend_at_once(void) {
    const clattn_attention_params prompt = {
        .q = clattn_tensor_bshd(q_all, CLATTN_TYPE_F32, 1, HEADS, MOST, SIZE),
        .kv = {.k = clattn_tensor_bshd(k_all, CLATTN_TYPE_F32, 1, KV_HEADS, MOST, SIZE),
               .v = clattn_tensor_bshd(v_all, CLATTN_TYPE_F32, 1, KV_HEADS, MOST, SIZE)},
        .out = clattn_tensor_bshd(out_all, CLATTN_TYPE_F32, 1, HEADS, MOST, SIZE),
        .score = {.causal = true},
        .rope = {.layout = CLATTN_ROPE_HALF}};
    check(clattn_attention_enqueue(context, queue, &prompt, 0, NULL, NULL), "the prompt");
}

int main(void) {
    static float stepped[Q], whole[Q];
    clattn_device device;
    size_t count;
    if (clattn_device_list(&device, 1, &count, NULL) != CLATTN_OK) return NO_DEVICE;
    const clattn_context_params setup = {.device = device.device};
    check(clattn_context_create(&setup, &context), "context");
    opencl = clattn_context_opencl(context);
    queue = clCreateCommandQueue(opencl, device.device, 0, NULL);
    make_tokens();
    decode();
    clEnqueueReadBuffer(queue, out_all, CL_TRUE, 0, sizeof stepped, stepped, 0, NULL, NULL);
    attend_at_once();
    clEnqueueReadBuffer(queue, out_all, CL_TRUE, 0, sizeof whole, whole, 0, NULL, NULL);
    double most = 0;
    for (int i = 0; i < Q; i++) most = fmax(most, fabs((double)stepped[i] - (double)whole[i]));
    printf("%d tokens one by one and at once: the largest difference is %.2g\n", MOST, most);
    cl_mem all[] = {q_all, k_all, v_all, out_all, k_cache, v_cache};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) clReleaseMemObject(all[i]);
    clReleaseCommandQueue(queue);
    clattn_context_destroy(context);
    return most < 1e-5 ? 0 : 1;
}
