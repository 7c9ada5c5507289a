// limits.c: see limits.h. On a CPU device a work-item is a core's: groups of one, vectors of the native
// width, and a contiguous piece of the buffer each. Elsewhere neighbours read neighbouring vectors.
#include "evidence/limits.h"

#include <stdio.h>

#include "evidence/limits_native.h"

#define CHAINS 12 // independent accumulators: latency times issue width of what is common, below 16 registers

// Some compilers fuse mad() alone, some have hardware for fma() alone: both are tried. Variables and not an
// array, which some keep in memory.
static const char fma_source[] =
    "#define EACH(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11)\n"
    "#define START(k) VEC x##k = (VEC)(b * k + get_global_id(0));\n"
    "#define STEP(k) x##k = OP(x##k, va, vb);\n"
    "#define ADD(k) sum += x##k;\n"
    "__kernel void fma_peak(__global float *out, float a, float b, int n) {\n"
    "  VEC va = (VEC)(a), vb = (VEC)(b), sum = (VEC)(0.0f);\n"
    "  EACH(START)\n"
    "  for (int i = 0; i < n; i++) { EACH(STEP) }\n"
    "  EACH(ADD)\n"
    "  float last[16];\n"
    "  STORE(sum, 0, last);\n"
    "  out[get_global_id(0)] = last[0];\n"
    "}\n";

static const char read_source[] =
    "__kernel void read_peak(__global const float4 *x, __global float *out, int own, int jump) {\n"
    "  size_t at = own ? get_global_id(0) * (size_t)own : get_global_id(0);\n"
    "  size_t end = at + (own ? (size_t)own : (size_t)jump * ROUNDS), step = own ? 1 : (size_t)jump;\n"
    "  float4 a = 0, b = 0, c = 0, d = 0;\n"
    "  for (; at < end; at += 4 * step) {\n"
    "    a += x[at]; b += x[at + step]; c += x[at + 2 * step]; d += x[at + 3 * step];\n"
    "  }\n"
    "  a += b + c + d;\n"
    "  out[get_global_id(0)] = a.x + a.y + a.z + a.w;\n"
    "}\n";

static cl_kernel build(session *s, const char *source, const char *options, const char *name) {
    cl_int code = CL_SUCCESS;
    const cl_device_id device = s->device.device;
    cl_program program =
        clCreateProgramWithSource(clattn_context_opencl(s->context), 1, &source, NULL, &code);
    if (!program) return NULL;
    cl_kernel kernel = NULL;
    if (clBuildProgram(program, 1, &device, options, NULL, NULL) == CL_SUCCESS)
        kernel = clCreateKernel(program, name, &code);
    clReleaseProgram(program);
    return kernel;
}

// The least device time of some runs after one that is not counted; 0: it failed.
static double least_ns(session *s, cl_kernel kernel, size_t items, size_t group, int runs) {
    double least = 0.0;
    for (int i = 0; i <= runs; i++) {
        cl_event event;
        cl_ulong start = 0, end = 0;
        if (clEnqueueNDRangeKernel(s->queue, kernel, 1, NULL, &items, &group, 0, NULL, &event) != CL_SUCCESS)
            return 0.0;
        const uint64_t wall = tool_time_ns();
        const bool done = clFinish(s->queue) == CL_SUCCESS;
        clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof start, &start, NULL);
        clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof end, &end, NULL);
        clReleaseEvent(event);
        if (!done) return 0.0;
        const double ns = end > start ? (double)(end - start) : (double)(tool_time_ns() - wall);
        if (i > 0 && (least == 0.0 || ns < least)) least = ns;
    }
    return least;
}

static size_t group_of(const clattn_capabilities *c) {
    return c->is_cpu ? 1 : c->max_work_group < 256 ? (size_t)c->max_work_group : 256;
}

// Many for a core, so that cores that another program slows down get fewer of them.
static size_t items_of(const clattn_capabilities *c) {
    return c->is_cpu ? (size_t)c->compute_units * 64 : (size_t)c->compute_units * 8 * group_of(c);
}

static unsigned vector_width(const clattn_capabilities *c) {
    const unsigned width = c->float_vector_width;
    return width >= 16 ? 16 : width >= 8 ? 8 : width >= 4 ? 4 : width >= 2 ? 2 : 1;
}

// Runs are made longer until one takes 4 ms, where start-up no longer counts; short and many, so that one
// runs undisturbed.
static double fma_gflops(session *s, const char *op) {
    const clattn_capabilities *c = s->capabilities;
    const unsigned width = vector_width(c);
    const size_t items = items_of(c);
    const cl_float a = 0.75f, b = 0.25f;
    char options[128];
    cl_mem out = NULL;
    double best = 0.0;
    if (width == 1)
        snprintf(options, sizeof options, "-DVEC=float -DOP=%s \"-DSTORE(x,i,p)=*(p)=x\"", op);
    else
        snprintf(options, sizeof options, "-DVEC=float%u -DOP=%s -DSTORE=vstore%u", width, op, width);
    cl_kernel kernel = build(s, fma_source, options, "fma_peak");
    out = clCreateBuffer(clattn_context_opencl(s->context), CL_MEM_READ_WRITE, items * sizeof(float), NULL,
                         NULL);
    for (cl_int n = 1000; kernel && out; n *= 4) {
        clSetKernelArg(kernel, 0, sizeof out, &out);
        clSetKernelArg(kernel, 1, sizeof a, &a);
        clSetKernelArg(kernel, 2, sizeof b, &b);
        clSetKernelArg(kernel, 3, sizeof n, &n);
        const double ns = least_ns(s, kernel, items, group_of(c), 20);
        if (ns > 0.0) best = 2.0 * CHAINS * (double)width * (double)n * (double)items / ns;
        if (ns <= 0.0 || ns > 4e6 || n > 100000000) break;
    }
    if (kernel) clReleaseKernel(kernel);
    if (out) clReleaseMemObject(out);
    return best;
}

// An eighth of the memory at most, and 256 MiB: above every last-level cache but a few, of which a GPU gets 1
// GiB.
static size_t read_bytes(const clattn_capabilities *c) {
    uint64_t bytes = c->is_cpu ? (uint64_t)256 << 20 : (uint64_t)1 << 30;
    if (bytes > c->global_memory_bytes / 8) bytes = c->global_memory_bytes / 8;
    return (size_t)(bytes < c->max_allocation_bytes ? bytes : c->max_allocation_bytes);
}

static double read_gbytes_per_s(session *s) {
    const clattn_capabilities *c = s->capabilities;
    const size_t items = items_of(c), rounds = read_bytes(c) / 16 / items / 4 * 4,
                 bytes = rounds * items * 16;
    const cl_int own = c->is_cpu ? (cl_int)rounds : 0, jump = (cl_int)items;
    const cl_float one = 1.0f;
    char options[64];
    snprintf(options, sizeof options, "-DROUNDS=%zu", rounds);
    cl_kernel kernel = rounds ? build(s, read_source, options, "read_peak") : NULL;
    cl_mem x = NULL, out = NULL;
    double ns = 0.0;
    if (kernel) {
        cl_context context = clattn_context_opencl(s->context);
        x = clCreateBuffer(context, CL_MEM_READ_WRITE, bytes, NULL, NULL);
        out = clCreateBuffer(context, CL_MEM_READ_WRITE, items * sizeof(float), NULL, NULL);
    }
    if (x && out &&
        clEnqueueFillBuffer(s->queue, x, &one, sizeof one, 0, bytes, 0, NULL, NULL) == CL_SUCCESS) {
        clSetKernelArg(kernel, 0, sizeof x, &x);
        clSetKernelArg(kernel, 1, sizeof out, &out);
        clSetKernelArg(kernel, 2, sizeof own, &own);
        clSetKernelArg(kernel, 3, sizeof jump, &jump);
        ns = least_ns(s, kernel, items, group_of(c), 15);
    }
    if (x) clReleaseMemObject(x);
    if (out) clReleaseMemObject(out);
    if (kernel) clReleaseKernel(kernel);
    return ns > 0.0 ? (double)bytes / ns : 0.0;
}

static void raise_to(double *limit, double found) {
    if (found > *limit) *limit = found;
}

void bench_limits_measure(session *s, bench_limits *limits) {
    raise_to(&limits->fma_gflops, fma_gflops(s, "fma"));
    raise_to(&limits->fma_gflops, fma_gflops(s, "mad"));
    raise_to(&limits->read_gbytes_per_s, read_gbytes_per_s(s));
    if (s->capabilities->is_cpu)
        raise_to(&limits->native_fma_gflops, bench_native_fma_gflops(s->capabilities->compute_units));
}
