// limits.c: see limits.h. On a CPU device each work-item runs on one core, in groups of one, with
// native vectors and a contiguous piece of the buffer. On other devices neighbouring work-items
// read neighbouring vectors.
#include "verification/limits/limits.h"

#include <stdio.h>
#include <stdlib.h>

#include "verification/device/measure.h"
#include "verification/device/opencl.h"
#include "verification/limits/limits_share.h"

// Independent accumulators: latency times issue width on common CPUs, and fewer than 16 registers.
#define CHAINS 12

struct limit {
    struct place *place;
    cl_kernel kernel;
    cl_mem out, source;
    size_t items, group;
    double work, least_ns; // operations of a run, and the shortest run's time
    double max_ms;         // time limit for all runs of a measurement; 0: as many runs as needed
};

// Some compilers fuse only mad(), and some hardware has only fma(): both are measured. Separate
// variables are used because some compilers keep arrays in memory.
static const char fma_source[] =
    "#define CHAIN(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11)\n"
    "#define START_CHAIN(k) VEC x##k = (VEC)(b * k + get_global_id(0));\n"
    "#define STEP_CHAIN(k) x##k = OP(x##k, va, vb);\n"
    "#define ADD_CHAIN(k) sum += x##k;\n"
    "__kernel void NAME(__global float *out, float a, float b, int n) {\n"
    "  VEC va = (VEC)(a), vb = (VEC)(b), sum = (VEC)(0.0f);\n"
    "  CHAIN(START_CHAIN)\n"
    "  for (int i = 0; i < n; i++) { CHAIN(STEP_CHAIN) }\n"
    "  CHAIN(ADD_CHAIN)\n"
    "  float last[16];\n"
    "  STORE(sum, 0, last);\n"
    "  out[get_global_id(0)] = last[0];\n"
    "}\n";

// The inner loop of a matrix product: each of KEYS numbers is broadcast and multiplied with VECTORS
// vectors. All data fits the L1 cache. Every other number is negative, so that the sums stay small.
static const char loads_source[] =
    "__kernel void NAME(__global float *out, float a, float b, int n) {\n"
    "  VEC q[STEPS * VECTORS], acc[KEYS * VECTORS];\n"
    "  float k[KEYS * STEPS];\n"
    "  for (int i = 0; i < STEPS * VECTORS; i++) q[i] = (VEC)(a);\n"
    "  for (int i = 0; i < KEYS * STEPS; i++) k[i] = i % 2 ? b : -b;\n"
    "  _Pragma(\"unroll\") for (int i = 0; i < KEYS * VECTORS; i++) acc[i] = (VEC)(0.0f);\n"
    "  for (int i = 0; i < n; i++) {\n"
    "    _Pragma(\"unroll 1\") for (int d = 0; d < STEPS; d += 2) {\n"
    "      _Pragma(\"unroll\") for (int s = 0; s < 2; s++) {\n"
    "        VEC x[VECTORS];\n"
    "        _Pragma(\"unroll\") for (int v = 0; v < VECTORS; v++) x[v] = q[(d + s) * VECTORS + v];\n"
    "        _Pragma(\"unroll\") for (int j = 0; j < KEYS; j++) {\n"
    "          const VEC y = (VEC)(k[j * STEPS + d + s]);\n"
    "          _Pragma(\"unroll\") for (int v = 0; v < VECTORS; v++)\n"
    "            acc[j * VECTORS + v] = OP(y, x[v], acc[j * VECTORS + v]);\n"
    "        }\n"
    "      }\n"
    "    }\n"
    "  }\n"
    "  VEC sum = (VEC)(0.0f);\n"
    "  _Pragma(\"unroll\") for (int i = 0; i < KEYS * VECTORS; i++) sum += acc[i];\n"
    "  float last[16];\n"
    "  STORE(sum, 0, last);\n"
    "  out[get_global_id(0)] = last[0];\n"
    "}\n";
#define STEPS 64 // length of the reduction: one head

// A tile for devices with 32 vector registers, and a tile for devices with 16.
static const struct tile { int keys, vectors; } tiles[] = {{6, 4}, {4, 3}};
#define TILES ((int)(sizeof tiles / sizeof tiles[0]))
static const char *const ops[] = {"fma", "mad"};
#define OPS ((int)(sizeof ops / sizeof ops[0]))

static const char read_source[] =
    "__kernel void read_peak(__global const float4 *x, __global float *out, int own, int jump, int rounds) "
    "{\n"
    "  size_t at = own ? get_global_id(0) * (size_t)own : get_global_id(0);\n"
    "  size_t end = at + (own ? (size_t)own : (size_t)jump * (size_t)rounds), step = own ? 1 : "
    "(size_t)jump;\n"
    "  float4 a = 0, b = 0, c = 0, d = 0;\n"
    "  for (; at < end; at += 4 * step) {\n"
    "    a += x[at]; b += x[at + step]; c += x[at + 2 * step]; d += x[at + 3 * step];\n"
    "  }\n"
    "  a += b + c + d;\n"
    "  out[get_global_id(0)] = a.x + a.y + a.z + a.w;\n"
    "}\n";

// Inline assembly, because compilers accept the instruction without bfloat16 support in OpenCL.
static const char bf16_source[] = "__kernel void bf16_peak(__global float *out, uint pair, int n) {\n"
                                  "  float16 x[CHAINS], sum = (float16)(0.0f);\n"
                                  "  const uint16 a = (uint16)(pair);\n"
                                  "  _Pragma(\"unroll\")\n"
                                  "  for (int c = 0; c < CHAINS; c++) x[c] = sum;\n"
                                  "  for (int i = 0; i < n; i++) {\n"
                                  "    _Pragma(\"unroll\")\n"
                                  "    for (int c = 0; c < CHAINS; c++) __asm__ volatile(\"vdpbf16ps %1, %1, "
                                  "%0\" : \"+v\"(x[c]) : \"v\"(a));\n"
                                  "  }\n"
                                  "  _Pragma(\"unroll\")\n"
                                  "  for (int c = 0; c < CHAINS; c++) sum += x[c];\n"
                                  "  out[get_global_id(0)] = sum.s0 + sum.sf;\n"
                                  "}\n";

// Compilers accept the instruction for any processor, so check the processor.
static bool has_bf16(const clattn_capabilities *c) {
#if defined(__x86_64__) && defined(__GNUC__)
    return c->is_cpu && __builtin_cpu_supports("avx512bf16");
#else
    (void)c;
    return false;
#endif
}

static const clattn_capabilities *facts(const struct limit *l) {
    return clattn_context_capabilities(l->place->context);
}

// NULL: the driver's compiler rejected the program.
static cl_program build(const struct place *place, cl_uint count, const char **texts, const char *options) {
    cl_program program = clCreateProgramWithSource(place->opencl, count, texts, NULL, NULL);
    if (!program || clBuildProgram(program, 1, &place->device, options, NULL, NULL) == CL_SUCCESS)
        return program;
    clReleaseProgram(program);
    return NULL;
}

static bool take_kernel(struct limit *l, cl_program program, const char *name) {
    l->kernel = program ? clCreateKernel(program, name, NULL) : NULL;
    return l->kernel;
}

static size_t group_of(const clattn_capabilities *c) {
    return c->is_cpu ? 1 : c->max_work_group < 256 ? (size_t)c->max_work_group : 256;
}

// Many work-items for each core, so that a core that another program slows down processes fewer of
// them.
static size_t items_of(const clattn_capabilities *c) {
    return c->is_cpu ? (size_t)c->compute_units * 64 : (size_t)c->compute_units * 8 * group_of(c);
}

static unsigned vector_width(const clattn_capabilities *c) {
    const unsigned width = c->float_vector_width;
    // A width below 4 is only a hint: PoCL on aarch64 reports 1.
    if (c->is_cpu && width < 4) return 4;
    return width >= 16 ? 16 : width >= 8 ? 8 : width >= 4 ? 4 : width >= 2 ? 2 : 1;
}

bool limit_enqueue(struct limit *l, cl_event *event) {
    const cl_int code =
        clEnqueueNDRangeKernel(l->place->queue, l->kernel, 1, NULL, &l->items, &l->group, 0, NULL, event);
    if (code != CL_SUCCESS) place_broken(l->place, "a limit's kernel", code);
    return code == CL_SUCCESS;
}

// Build one program with the read kernel and each loop for fma() and mad(), so that the driver's
// compiler starts once.
static cl_program build_loops(const struct place *place) {
    const clattn_capabilities *c = clattn_context_capabilities(place->context);
    const unsigned width = vector_width(c);
    const int loops = c->is_cpu && width >= 4 ? 1 + TILES : 1;
    char options[128], heads[OPS * (1 + TILES)][160];
    const char *texts[1 + 2 * OPS * (1 + TILES)] = {read_source};
    cl_uint count = 1;
    for (int i = 0; i < OPS * loops; i++) {
        const int loop = i / OPS;
        const struct tile *t = &tiles[loop > 0 ? loop - 1 : 0];
        snprintf(heads[i], sizeof heads[i],
                 "#undef OP\n#define OP %s\n#undef NAME\n#define NAME %s_%d\n"
                 "#undef KEYS\n#define KEYS %d\n#undef VECTORS\n#define VECTORS %d\n",
                 ops[i % OPS], ops[i % OPS], loop, t->keys, t->vectors);
        texts[count++] = heads[i];
        texts[count++] = loop > 0 ? loads_source : fma_source;
    }
    if (width == 1)
        snprintf(options, sizeof options, "-DVEC=float \"-DSTORE(x,i,p)=*(p)=x\"");
    else
        snprintf(options, sizeof options, "-DVEC=float%u -DSTORE=vstore%u -DSTEPS=%d", width, width, STEPS);
    return build(place, count, texts, options);
}

static bool enqueue(void *user, cl_event *event) {
    return limit_enqueue(user, event);
}

double limit_work(const struct limit *l) {
    return l->work;
}

// Select a loop of build_loops: 0 stays in registers, 1 and up have the loads of a tile.
static bool start_fma(struct limit *l, cl_program loops, const char *op, int loop) {
    const cl_float a = 0.75f, b = 0.25f; // a fixed point of the loop, neither denormal nor infinite
    char name[16];
    snprintf(name, sizeof name, "%s_%d", op, loop);
    return take_kernel(l, loops, name) && clSetKernelArg(l->kernel, 1, sizeof a, &a) == CL_SUCCESS &&
           clSetKernelArg(l->kernel, 2, sizeof b, &b) == CL_SUCCESS;
}

static bool start_bf16(struct limit *l) {
    const cl_uint pair = 0x3a803a80; // two of 2^-10: the sums stay small
    const char *text = bf16_source;
    char options[32];
    snprintf(options, sizeof options, "-DCHAINS=%d", CHAINS);
    if (!has_bf16(facts(l))) return false;
    cl_program program = build(l->place, 1, &text, options);
    const bool there = take_kernel(l, program, "bf16_peak");
    if (program) clReleaseProgram(program);
    return there && clSetKernelArg(l->kernel, 1, sizeof pair, &pair) == CL_SUCCESS;
}

// Increase the loop count until a run lasts 4 ms, so that start-up is negligible. Runs are short,
// so that one of them is undisturbed.
#define FIRST_TURNS 16 // small, because devices differ in speed by a factor of ten thousand
static bool grow(struct limit *l, limit_kind kind, double flops) {
    const cl_uint last = kind == LIMIT_BF16 ? 2 : 3;
    for (cl_int n = FIRST_TURNS;; n *= l->least_ns < 1e6 ? 4 : 2) {
        const measure_settings settings = {.repeat = 3, .max_ms = l->max_ms > 0.0 ? l->max_ms / 8.0 : 0.0};
        measure_times times;
        if (clSetKernelArg(l->kernel, last, sizeof n, &n) != CL_SUCCESS) return false;
        if (!measure_run(l->place, &settings, enqueue, l, &times)) return false;
        l->least_ns = times.time_ns_min;
        l->work = flops * (double)n * (double)l->items;
        if (times.time_ns_min > 4e6 || n > 100000000) return true;
    }
}

// Bytes to read from memory: 256 MiB on a CPU and 1 GiB otherwise, but at least three times the
// last-level cache (300 MiB on some CPUs). At most an eighth of the memory.
static size_t read_bytes(const struct place *place, const clattn_capabilities *c) {
    uint64_t bytes = c->is_cpu ? (uint64_t)256 << 20 : (uint64_t)1 << 30;
    const uint64_t cache = limits_largest_cache(place);
    if (bytes < 3 * cache) bytes = 3 * cache;
    if (bytes > c->global_memory_bytes / 8) bytes = c->global_memory_bytes / 8;
    return (size_t)(bytes < c->max_allocation_bytes ? bytes : c->max_allocation_bytes);
}

static bool start_read(struct limit *l, cl_program loops, size_t wanted) {
    const clattn_capabilities *c = facts(l);
    const size_t rounds = (wanted ? wanted : read_bytes(l->place, c)) / 16 / l->items / 4 * 4,
                 bytes = rounds * l->items * 16;
    const cl_int own = c->is_cpu ? (cl_int)rounds : 0, jump = (cl_int)l->items;
    const cl_int turns = (cl_int)rounds;
    const cl_float one = 1.0f;
    if (!rounds || rounds > INT32_MAX || !take_kernel(l, loops, "read_peak")) return false;
    l->source = clCreateBuffer(l->place->opencl, CL_MEM_READ_WRITE, bytes, NULL, NULL);
    l->work = (double)bytes;
    return l->source &&
           clEnqueueFillBuffer(l->place->queue, l->source, &one, sizeof one, 0, bytes, 0, NULL, NULL) ==
               CL_SUCCESS &&
           clSetKernelArg(l->kernel, 0, sizeof l->source, &l->source) == CL_SUCCESS &&
           clSetKernelArg(l->kernel, 1, sizeof l->out, &l->out) == CL_SUCCESS &&
           clSetKernelArg(l->kernel, 2, sizeof own, &own) == CL_SUCCESS &&
           clSetKernelArg(l->kernel, 3, sizeof jump, &jump) == CL_SUCCESS &&
           clSetKernelArg(l->kernel, 4, sizeof turns, &turns) == CL_SUCCESS;
}

// Operations of a work-item in one iteration of a loop.
static double turn_flops(const struct limit *l, limit_kind kind, int loop) {
    const double width = (double)vector_width(facts(l));
    if (kind == LIMIT_BF16) return 64.0 * CHAINS;
    return 2.0 * width * (loop == 0 ? CHAINS : STEPS * tiles[loop - 1].keys * tiles[loop - 1].vectors);
}

// The limit to create, without its loop.
struct wanted {
    limit_kind kind;
    cl_program loops;
    size_t bytes;
    double max_ms;
};

static struct limit *create(struct place *place, const struct wanted *wanted, const char *op, int loop) {
    const limit_kind kind = wanted->kind;
    struct limit *l = calloc(1, sizeof *l);
    if (!l) return NULL;
    l->place = place;
    l->max_ms = wanted->max_ms;
    l->items = items_of(facts(l));
    l->group = group_of(facts(l));
    l->out = clCreateBuffer(place->opencl, CL_MEM_READ_WRITE, l->items * sizeof(float), NULL, NULL);
    bool ok = l->out != NULL;
    if (kind == LIMIT_READ) {
        ok = ok && start_read(l, wanted->loops, wanted->bytes);
    } else {
        ok = ok && (kind == LIMIT_BF16 ? start_bf16(l) : start_fma(l, wanted->loops, op, loop));
        ok = ok && clSetKernelArg(l->kernel, 0, sizeof l->out, &l->out) == CL_SUCCESS &&
             grow(l, kind, turn_flops(l, kind, loop));
    }
    if (ok) return l;
    limit_destroy(l);
    return NULL;
}

// Destroy the slower of two limits, either of which may be NULL, and return the other.
static struct limit *faster(struct limit *a, struct limit *b) {
    const bool take_a = a && (!b || a->work * b->least_ns >= b->work * a->least_ns);
    limit_destroy(take_a ? b : a);
    return take_a ? a : b;
}

static struct limit *create_best(struct place *place, const struct wanted *wanted) {
    const int first = wanted->kind == LIMIT_FMA_LOADS ? 1 : 0, end = first ? 1 + TILES : 1;
    struct limit *best = NULL;
    if (wanted->kind == LIMIT_READ || wanted->kind == LIMIT_BF16) return create(place, wanted, NULL, 0);
    for (int i = first * OPS; i < end * OPS; i++)
        best = faster(best, create(place, wanted, ops[i % OPS], i / OPS));
    return best;
}

struct limit *limit_create(struct place *place, limit_kind kind, size_t bytes) {
    cl_program loops = build_loops(place);
    struct limit *l = create_best(place, &(struct wanted){kind, loops, bytes, 0.0});
    if (loops) clReleaseProgram(loops);
    return l;
}

void limit_destroy(struct limit *l) {
    if (!l) return;
    clFinish(l->place->queue);
    if (l->kernel) clReleaseKernel(l->kernel);
    if (l->out) clReleaseMemObject(l->out);
    if (l->source) clReleaseMemObject(l->source);
    free(l);
}

// Work per nanosecond in the fastest run; 0: the measurement failed. *disturbed is the median time
// divided by the minimum.
static double best_rate(struct place *place, limit_kind kind, cl_program loops, double max_ms,
                        double *disturbed) {
    const measure_settings settings = {.repeat = kind == LIMIT_READ  ? 15
                                                 : kind == LIMIT_FMA ? 20
                                                                     : 8,
                                       .max_ms = max_ms};
    struct limit *l = create_best(place, &(struct wanted){kind, loops, 0, max_ms});
    measure_times times;
    double rate = 0.0, wall = 0.0;
    *disturbed = 0.0;
    if (l && measure_once(place, enqueue, l, &wall) && measure_run(place, &settings, enqueue, l, &times)) {
        const bool earlier = l->least_ns > 0.0 && l->least_ns < times.time_ns_min;
        const double least = earlier ? l->least_ns : times.time_ns_min;
        rate = l->work / least;
        *disturbed = times.time_ns / least;
    }
    limit_destroy(l);
    return rate;
}

static void raise_to(double *most, double found) {
    if (found > *most) *most = found;
}

static void measure_all(struct place *place, cl_program loops, double max_ms, struct limits *found) {
    const clattn_capabilities *c = clattn_context_capabilities(place->context);
    double disturbed, unused, share;
    raise_to(&found->fma_gflops, best_rate(place, LIMIT_FMA, loops, max_ms, &disturbed));
    if (disturbed > 0.0 && (found->disturbed == 0.0 || disturbed < found->disturbed))
        found->disturbed = disturbed;
    raise_to(&found->read_gbytes_per_s, best_rate(place, LIMIT_READ, loops, max_ms, &unused));
    limits_levels(place, max_ms, found);
    if (!c->is_cpu) return;
    raise_to(&found->fma_loads_gflops, best_rate(place, LIMIT_FMA_LOADS, loops, max_ms, &unused));
    raise_to(&found->engine_gflops[LIMIT_ENGINE_DOT_BF16],
             best_rate(place, LIMIT_BF16, loops, max_ms, &unused));
    raise_to(&found->native_fma_gflops, limits_native_fma_gflops(c->compute_units, max_ms, &share));
    if (share > 0.0 && (found->cores_share == 0.0 || share < found->cores_share)) found->cores_share = share;
    raise_to(&found->instructions, limits_native_instructions(c->compute_units));
}

void limits_measure(struct place *place, double max_ms, struct limits *found) {
    char line[LIMIT_LINE];
    cl_program loops = build_loops(place);
    measure_all(place, loops, max_ms, found);
    if (*limits_contradiction(found, line)) measure_all(place, loops, max_ms, found);
    if (loops) clReleaseProgram(loops);
}

double limits_read(struct place *place, size_t bytes, double max_ms) {
    struct place own = *place; // errors here must not appear as the case's errors
    const measure_settings settings = {.repeat = 12, .max_ms = max_ms};
    struct limit *l = limit_create(&own, LIMIT_READ, bytes);
    measure_times times;
    double rate = 0.0, wall = 0.0;
    if (l && measure_once(&own, enqueue, l, &wall) && measure_run(&own, &settings, enqueue, l, &times) &&
        times.time_ns_min > 0.0)
        rate = l->work / times.time_ns_min;
    limit_destroy(l);
    return rate;
}
