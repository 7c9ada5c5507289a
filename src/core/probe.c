// probe.c: see probe.h. The host's own CPU is asked first: a CPU device runs on it, and a compiler that meets
// an instruction its target lacks may end the whole process instead of failing the build.
#include "core/probe.h"

#include <stdlib.h>
#include <string.h>

#include "core/kernels.h"
#include "core/sha256.h"

#define WORDS 16

typedef struct probe_data {
    uint32_t a[WORDS], b[WORDS], x[WORDS], y[WORDS], out[2 * WORDS];
} probe_data;

static uint32_t float_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static uint32_t bf16_pair(float low, float high) {
    return float_bits(low) >> 16 | (float_bits(high) & 0xffff0000u);
}

// Small whole numbers: every product and sum is exact, so the answer is known to the bit.
static void fill(probe_data *d, probe_data *want) {
    for (int i = 0; i < WORDS; i++) {
        const float n = (float)i;
        d->a[i] = bf16_pair(n + 1, n + 2);
        d->b[i] = bf16_pair(2 - n, 3);
        d->x[i] = float_bits(n - 5);
        d->y[i] = float_bits(7 * n);
        want->out[i] = float_bits((n + 1) * (2 - n) + (n + 2) * 3);
        want->out[WORDS + i] = bf16_pair(n - 5, 7 * n);
    }
}

static cl_mem make_buffer(clattn_context *c, uint32_t *words, size_t count, cl_mem_flags flags) {
    return clCreateBuffer(c->opencl, flags, count * sizeof *words,
                          flags & CL_MEM_COPY_HOST_PTR ? words : NULL, NULL);
}

static bool run(clattn_context *c, cl_command_queue queue, cl_kernel kernel, probe_data *d) {
    const size_t one = 1;
    uint32_t *const words[] = {d->a, d->b, d->x, d->y, d->out};
    cl_mem buffers[5] = {NULL};
    bool ok = true;
    for (cl_uint i = 0; i < 5; i++) {
        const bool result = i == 4;
        buffers[i] = make_buffer(c, words[i], result ? 2 * WORDS : WORDS,
                                 result ? CL_MEM_READ_WRITE : CL_MEM_COPY_HOST_PTR);
        ok = ok && buffers[i] && clSetKernelArg(kernel, i, sizeof buffers[i], &buffers[i]) == CL_SUCCESS;
    }
    ok = ok && clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, &one, 0, NULL, NULL) == CL_SUCCESS &&
         clEnqueueReadBuffer(queue, buffers[4], CL_TRUE, 0, sizeof d->out, d->out, 0, NULL, NULL) ==
             CL_SUCCESS;
    for (int i = 0; i < 5; i++)
        if (buffers[i]) clReleaseMemObject(buffers[i]);
    return ok;
}

// Apart from program.c: a compiler that refuses is an answer here and not an error, and nobody is told.
static cl_kernel build(clattn_context *c) {
    const struct kernel_source *source = &clattn_kernel_sources[KERNEL_PROBE_DOT_BF16];
    const char *text = (const char *)source->text;
    cl_kernel kernel = NULL;
    cl_program built = clCreateProgramWithSource(c->opencl, 1, &text, &source->bytes, NULL);
    if (built && clBuildProgram(built, 1, &c->device, "-cl-std=CL1.2 -w", NULL, NULL) == CL_SUCCESS)
        kernel = clCreateKernel(built, source->name, NULL);
    if (built) clReleaseProgram(built); // the kernel keeps it
    return kernel;
}

static bool build_and_run(clattn_context *c) {
    probe_data d = {0}, want = {0};
    fill(&d, &want);
    cl_kernel kernel = build(c);
    cl_command_queue queue = kernel ? clCreateCommandQueue(c->opencl, c->device, 0, NULL) : NULL;
    const bool ran = queue && run(c, queue, kernel, &d);
    if (queue) clReleaseCommandQueue(queue);
    if (kernel) clReleaseKernel(kernel);
    return ran && memcmp(d.out, want.out, sizeof d.out) == 0;
}

static void probe_key(const clattn_context *c, uint8_t key[CACHE_KEY_BYTES]) {
    const struct kernel_source *source = &clattn_kernel_sources[KERNEL_PROBE_DOT_BF16];
    const char *const parts[] = {"probe",
                                 c->capabilities.name,
                                 c->capabilities.driver,
                                 c->capabilities.version,
                                 c->capabilities.platform,
                                 CLATTN_VERSION_STRING};
    sha256_state h;
    cla_sha256_begin(&h);
    cla_sha256_add(&h, source->text, source->bytes);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        cla_sha256_add(&h, parts[i], strlen(parts[i]) + 1);
    cla_sha256_end(&h, key);
}

// The caller holds program_lock.
static bool find_answer(clattn_context *c) {
    uint8_t key[CACHE_KEY_BYTES];
    unsigned char *kept = NULL;
    size_t count = 0;
    if (!c->capabilities.is_cpu || c->capabilities.float_vector_width < WORDS || !cla_os_cpu_has_dot_bf16())
        return false;
    probe_key(c, key);
    if (cla_cache_load(c->cache, key, &kept, &count)) {
        const bool answer = count == 1 && kept[0] == 1;
        free(kept);
        return answer;
    }
    const unsigned char answer = build_and_run(c);
    cla_cache_store(c->cache, key, &answer, 1);
    return answer;
}

bool cla_probe_dot_bf16(clattn_context *context) {
    cla_os_mutex_lock(&context->program_lock);
    if (!context->probed) {
        context->probed = true;
        context->planner.dot_bf16 = find_answer(context);
        cla_log_send(&context->log, CLATTN_LOG_INFO, "bfloat16 dot product in kernels: %s",
                     context->planner.dot_bf16 ? "works" : "not used");
    }
    const bool answer = context->planner.dot_bf16;
    cla_os_mutex_unlock(&context->program_lock);
    return answer;
}
