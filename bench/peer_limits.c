// peer_limits.c: what the device allows, as two loops that are timed like any other call: fused multiply-adds
// that stay in registers, and a sum that reads an array once. Called by
// Python through peer_shim.h.
#include <stdio.h>
#include <stdlib.h>

#include "peer_shim.h"

enum { FMA_CHAINS = 16, FMA_STEPS = 1 << 17, GROUPS_PER_UNIT = 8, GPU_GROUP = 256 };

struct peer_limit {
    peer_device *device;
    cl_kernel kernel;
    cl_mem source, sink;
    size_t global, local;
    double work;
};

// VEC is a vector that fills a register of a CPU, a scalar on a GPU. BLOCKED: a work-item reads a range of
// its own, which is what a core's prefetcher follows; else neighbours read neighbours, which is what a GPU's
// memory wants.
static const char source[] =
    "__kernel void fma_limit(__global float *sink, float a, float b, int steps) {\n"
    "    VEC x[CHAINS];\n"
    "    _Pragma(\"unroll\")\n"
    "    for (int c = 0; c < CHAINS; c++) x[c] = (VEC)(b * (float)(c + 1));\n"
    "    for (int i = 0; i < steps; i++) {\n"
    "        _Pragma(\"unroll\")\n"
    "        for (int c = 0; c < CHAINS; c++) x[c] = fma(x[c], (VEC)(a), (VEC)(b));\n"
    "    }\n"
    "    VEC sum = (VEC)(0.0f);\n"
    "    _Pragma(\"unroll\")\n"
    "    for (int c = 0; c < CHAINS; c++) sum += x[c];\n"
    "    union { VEC v; float f[WIDTH]; } u;\n"
    "    u.v = sum;\n"
    "    float total = 0.0f;\n"
    "    for (int i = 0; i < WIDTH; i++) total += u.f[i];\n"
    "    sink[get_global_id(0)] = total;\n"
    "}\n"
    "#ifdef BF16\n"
    "__kernel void bf16_limit(__global float *sink, uint pair, int steps) {\n"
    "    float16 x[CHAINS], sum = (float16)(0.0f);\n"
    "    const uint16 a = (uint16)(pair);\n"
    "    _Pragma(\"unroll\")\n"
    "    for (int c = 0; c < CHAINS; c++) x[c] = sum;\n"
    "    for (int i = 0; i < steps; i++) {\n"
    "        _Pragma(\"unroll\")\n"
    "        for (int c = 0; c < CHAINS; c++) __asm__ volatile(\"vdpbf16ps %1, %1, %0\" : \"+v\"(x[c]) : "
    "\"v\"(a));\n"
    "    }\n"
    "    _Pragma(\"unroll\")\n"
    "    for (int c = 0; c < CHAINS; c++) sum += x[c];\n"
    "    sink[get_global_id(0)] = sum.s0 + sum.sf;\n"
    "}\n"
    "#endif\n"
    "__kernel void read_limit(__global float *sink, __global const VEC *data, ulong count) {\n"
    "    const ulong id = get_global_id(0), size = get_global_size(0);\n"
    "#if BLOCKED\n"
    "    const ulong first = count * id / size, last = count * (id + 1) / size, step = 1;\n"
    "#else\n"
    "    const ulong first = id, last = count, step = size;\n"
    "#endif\n"
    "    VEC s[4] = {(VEC)(0.0f), (VEC)(0.0f), (VEC)(0.0f), (VEC)(0.0f)};\n"
    "    ulong i = first;\n"
    "    for (; i + 3 * step < last; i += 4 * step) {\n"
    "        s[0] += data[i];\n"
    "        s[1] += data[i + step];\n"
    "        s[2] += data[i + 2 * step];\n"
    "        s[3] += data[i + 3 * step];\n"
    "    }\n"
    "    for (; i < last; i += step) s[0] += data[i];\n"
    "    union { VEC v; float f[WIDTH]; } u;\n"
    "    u.v = (s[0] + s[1]) + (s[2] + s[3]);\n"
    "    float total = 0.0f;\n"
    "    for (int j = 0; j < WIDTH; j++) total += u.f[j];\n"
    "    sink[id] = total;\n"
    "}\n";

static int vector_width(const clattn_capabilities *c) {
    return !c->is_cpu ? 1 : c->float_vector_width >= 16 ? 16 : c->float_vector_width >= 8 ? 8 : 4;
}

// A compiler takes the instruction for any processor, so the processor is asked.
static bool has_bf16(const clattn_capabilities *c) {
#if defined(__x86_64__) && defined(__GNUC__)
    return c->is_cpu && __builtin_cpu_supports("avx512bf16");
#else
    (void)c;
    return false;
#endif
}

static cl_program build_with(peer_device *d, const char *more) {
    const clattn_capabilities *c = peer_capabilities(d);
    const char *text = source;
    const int width = vector_width(c);
    cl_device_id device = clattn_context_device(d->context);
    char vec[16] = "float", options[128];
    if (width > 1) snprintf(vec, sizeof vec, "float%d", width);
    snprintf(options, sizeof options, "-DVEC=%s -DWIDTH=%d -DCHAINS=%d -DBLOCKED=%d %s", vec, width,
             FMA_CHAINS, c->is_cpu, more);
    cl_program program = clCreateProgramWithSource(clattn_context_opencl(d->context), 1, &text, NULL, NULL);
    if (program && clBuildProgram(program, 1, &device, options, NULL, NULL) == CL_SUCCESS) return program;
    if (program) clReleaseProgram(program);
    return NULL;
}

static cl_program build(peer_device *d) {
    if (!d->limits && has_bf16(peer_capabilities(d))) d->limits = build_with(d, "-DBF16");
    if (!d->limits) d->limits = build_with(d, "");
    return d->limits ? d->limits : peer_fail(d, "the limits' kernels did not build");
}

static peer_limit *create(peer_device *d, const char *name) {
    const clattn_capabilities *c = peer_capabilities(d);
    cl_program program = build(d);
    peer_limit *l = program ? calloc(1, sizeof *l) : NULL;
    if (!l) return NULL;
    l->device = d;
    l->local = c->is_cpu ? 1 : GPU_GROUP;
    l->global = l->local * c->compute_units * GROUPS_PER_UNIT;
    l->kernel = clCreateKernel(program, name, NULL);
    l->sink = peer_buffer(d, NULL, l->global * sizeof(float));
    if (l->kernel && l->sink && clSetKernelArg(l->kernel, 0, sizeof l->sink, &l->sink) == CL_SUCCESS)
        return l;
    peer_limit_destroy(l);
    return peer_fail(d, "%s: no kernel", name);
}

peer_limit *peer_fma_create(peer_device *device) {
    // A fixed point of x*a + b that is neither denormal nor infinite, and that the compiler cannot see.
    const cl_float a = 0.75f, b = 0.25f;
    const cl_int steps = FMA_STEPS;
    peer_limit *l = create(device, "fma_limit");
    if (!l) return NULL;
    clSetKernelArg(l->kernel, 1, sizeof a, &a);
    clSetKernelArg(l->kernel, 2, sizeof b, &b);
    clSetKernelArg(l->kernel, 3, sizeof steps, &steps);
    l->work = 2.0 * FMA_CHAINS * FMA_STEPS * vector_width(peer_capabilities(device)) * (double)l->global;
    return l;
}

peer_limit *peer_bf16_create(peer_device *device) {
    const cl_uint pair = 0x3a803a80; // two of 2^-10: the sums stay small
    const cl_int steps = FMA_STEPS;
    peer_limit *l = create(device, "bf16_limit");
    if (!l) return NULL;
    clSetKernelArg(l->kernel, 1, sizeof pair, &pair);
    clSetKernelArg(l->kernel, 2, sizeof steps, &steps);
    l->work = 64.0 * FMA_CHAINS * FMA_STEPS * (double)l->global;
    return l;
}

peer_limit *peer_read_create(peer_device *device, size_t bytes) {
    peer_limit *l = create(device, "read_limit");
    if (!l) return NULL;
    const size_t step = sizeof(float) * (size_t)vector_width(peer_capabilities(device));
    const cl_ulong count = bytes / step;
    float *zeros = calloc(count, step);
    l->source = zeros ? peer_buffer(device, zeros, count * step) : NULL;
    free(zeros);
    if (!l->source) {
        peer_limit_destroy(l);
        return NULL;
    }
    clSetKernelArg(l->kernel, 1, sizeof l->source, &l->source);
    clSetKernelArg(l->kernel, 2, sizeof count, &count);
    l->work = (double)(count * step);
    return l;
}

void peer_limit_destroy(peer_limit *l) {
    if (!l) return;
    if (l->source) clReleaseMemObject(l->source);
    if (l->sink) clReleaseMemObject(l->sink);
    if (l->kernel) clReleaseKernel(l->kernel);
    free(l);
}

int peer_limit_run(peer_limit *l) {
    cl_command_queue queue = l->device->queue;
    cl_int code = clEnqueueNDRangeKernel(queue, l->kernel, 1, NULL, &l->global, &l->local, 0, NULL, NULL);
    if (code == CL_SUCCESS) code = clFinish(queue);
    if (code == CL_SUCCESS) return 0;
    peer_fail(l->device, "a limit's kernel: OpenCL error %d", (int)code);
    return CLATTN_DRIVER;
}

double peer_limit_work(const peer_limit *limit) {
    return limit->work;
}
