// limits_levels.c: see limits.h. Cache sizes of a CPU come from the system (Linux), otherwise from
// OpenCL, which reports one cache. On a CPU device each work-item runs on one core and reads a
// piece of its own. On other devices all work-items read one buffer, and each reads data that
// others read in the previous pass.
#include "verification/limits/limits.h"

#include <stdio.h>
#include <string.h>

#include "verification/device/measure.h"
#include "verification/words/words.h"
#include "verification/device/opencl.h"

// Independent sums hide the latency of additions.
#define SUMS 8
static const char source[] =
    "#define EACH(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7)\n"
    "#define START(k) VEC s##k = (VEC)(0.0f);\n"
    "#define STEP(k) s##k += x[at + k * JUMP];\n"
    "#define ADD(k) s0 += s##k;\n"
    "__kernel void read_level(__global const VEC *x, __global float *out, int count, int turns) {\n"
    "  const size_t items = get_global_size(0), id = get_global_id(0);\n"
    "  EACH(START)\n"
    "  for (int t = 0; t < turns; t++) {\n"
    "    size_t at = OWN ? id * (size_t)count : (id + (size_t)t * (items / 2 + 1024)) % items;\n"
    "    for (int i = 0; i < count; i += 8, at += 8 * JUMP) { EACH(STEP) }\n"
    "  }\n"
    "  EACH(ADD)\n"
    "  float last[16];\n"
    "  STORE(s0, 0, last);\n"
    "  out[id] = last[0];\n"
    "}\n";

// A buffer that is read repeatedly, and its work-items.
struct level_run {
    struct place *place;
    cl_kernel kernel;
    cl_mem from, out;
    size_t items, group, vector_bytes;
    double work; // bytes of a run
};

static bool enqueue(void *user, cl_event *event) {
    struct level_run *r = user;
    const cl_int code =
        clEnqueueNDRangeKernel(r->place->queue, r->kernel, 1, NULL, &r->items, &r->group, 0, NULL, event);
    if (code != CL_SUCCESS) place_broken(r->place, "a cache's kernel", code);
    return code == CL_SUCCESS;
}

static unsigned vector_width(const clattn_capabilities *c) {
    const unsigned hint = c->float_vector_width;
    return !c->is_cpu || hint < 8 ? 4 : hint < 16 ? 8 : 16;
}

// NULL: the driver's compiler rejected the program.
static cl_program build(const struct place *place, const clattn_capabilities *c) {
    const unsigned width = vector_width(c);
    const char *text = source;
    char options[96];
    snprintf(options, sizeof options, "-DVEC=float%u -DSTORE=vstore%u -DOWN=%d -DJUMP=%s", width, width,
             c->is_cpu, c->is_cpu ? "1" : "items");
    cl_program program = clCreateProgramWithSource(place->opencl, 1, &text, NULL, NULL);
    if (!program || clBuildProgram(program, 1, &place->device, options, NULL, NULL) == CL_SUCCESS)
        return program;
    clReleaseProgram(program);
    return NULL;
}

static bool start(struct level_run *r, cl_program program, size_t bytes) {
    const clattn_capabilities *c = clattn_context_capabilities(r->place->context);
    const cl_float zero = 0.0f;
    r->group = c->is_cpu ? 1 : c->max_work_group < 256 ? (size_t)c->max_work_group : 256;
    r->items = c->is_cpu ? (size_t)c->compute_units : (size_t)c->compute_units * 8 * r->group;
    r->vector_bytes = vector_width(c) * sizeof zero;
    const cl_int count = (cl_int)(bytes / r->vector_bytes / r->items / SUMS * SUMS);
    const size_t all = (size_t)count * r->items * r->vector_bytes;
    if (count == 0) return false;
    r->kernel = clCreateKernel(program, "read_level", NULL);
    if (!r->kernel) return false;
    r->from = clCreateBuffer(r->place->opencl, CL_MEM_READ_WRITE, all, NULL, NULL);
    r->out = clCreateBuffer(r->place->opencl, CL_MEM_READ_WRITE, r->items * sizeof zero, NULL, NULL);
    r->work = (double)all;
    return r->from && r->out &&
           clEnqueueFillBuffer(r->place->queue, r->from, &zero, sizeof zero, 0, all, 0, NULL, NULL) ==
               CL_SUCCESS &&
           clSetKernelArg(r->kernel, 0, sizeof r->from, &r->from) == CL_SUCCESS &&
           clSetKernelArg(r->kernel, 1, sizeof r->out, &r->out) == CL_SUCCESS &&
           clSetKernelArg(r->kernel, 2, sizeof count, &count) == CL_SUCCESS;
}

static void end(struct level_run *r) {
    clFinish(r->place->queue);
    if (r->kernel) clReleaseKernel(r->kernel);
    if (r->from) clReleaseMemObject(r->from);
    if (r->out) clReleaseMemObject(r->out);
}

// Bytes per nanosecond; 0: the measurement failed. The number of passes is increased until a run
// lasts 2 ms, so that start-up is negligible.
static double rate_of(struct place *place, cl_program program, size_t bytes, double max_ms) {
    struct level_run r = {.place = place};
    const measure_settings settings = {.repeat = 8, .max_ms = max_ms > 0.0 ? max_ms / 4.0 : 0.0};
    double best = 0.0, wall;
    bool ok = start(&r, program, bytes);
    for (cl_int turns = 16; ok && turns < 1 << 28; turns *= 4) {
        measure_times times;
        ok = clSetKernelArg(r.kernel, 3, sizeof turns, &turns) == CL_SUCCESS &&
             measure_once(place, enqueue, &r, &wall);
        if (!ok || (wall < 2e6 && turns < 1 << 26)) continue;
        if (measure_run(place, &settings, enqueue, &r, &times) && times.time_ns_min > 0.0)
            best = r.work * (double)turns / times.time_ns_min;
        break;
    }
    end(&r);
    return best;
}

struct cache {
    char name[16];
    uint64_t bytes;
    unsigned sharers; // cores that share the cache
};

#ifdef __linux__
static bool read_word(int index, const char *name, char word[256]) {
    char path[128];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/%s", index, name);
    FILE *file = fopen(path, "r");
    const bool ok = file && fgets(word, 256, file);
    if (file) fclose(file);
    return ok;
}

// The number of CPUs in a list such as 0-3,8.
static unsigned count_of(const char *list) {
    unsigned count = 0;
    int64_t first, last;
    while (number_whole_at(&list, &first)) {
        last = first;
        if (*list == '-') list++, number_whole_at(&list, &last);
        count += last >= first ? (unsigned)(last - first + 1) : 0;
        if (*list++ != ',') break;
    }
    return count;
}

static int caches_of_system(struct cache to[LIMIT_LEVELS]) {
    char type[256], size[256], level[256], shared[256];
    int count = 0;
    for (int i = 0; count < LIMIT_LEVELS && read_word(i, "type", type); i++) {
        const char *at = size, *number_at = level;
        int64_t kib, number;
        if (!strncmp(type, "Instruction", 11) || !read_word(i, "size", size) ||
            !read_word(i, "level", level) || !number_whole_at(&at, &kib) || *at != 'K' || kib <= 0 ||
            !number_whole_at(&number_at, &number))
            continue;
        struct cache *c = &to[count++];
        snprintf(c->name, sizeof c->name, "L%d", (int)(number & 15));
        c->bytes = (uint64_t)kib << 10;
        c->sharers = read_word(i, "shared_cpu_list", shared) ? count_of(shared) : 1;
    }
    return count;
}
#else
static int caches_of_system(struct cache to[LIMIT_LEVELS]) {
    (void)to;
    return 0;
}
#endif

static int caches_of(const struct place *place, const clattn_capabilities *c, struct cache to[LIMIT_LEVELS]) {
    cl_ulong bytes = 0;
    const int count = c->is_cpu ? caches_of_system(to) : 0;
    if (count > 0) return count;
    if (clGetDeviceInfo(place->device, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE, sizeof bytes, &bytes, NULL) !=
            CL_SUCCESS ||
        !bytes)
        return 0;
    to[0] = (struct cache){"cache", bytes, c->compute_units};
    return 1;
}

// The capacity of this cache for all cores together.
static double capacity_of(const struct cache *cache, unsigned cores) {
    const unsigned sharers = cache->sharers > cores ? cores : cache->sharers < 1 ? 1 : cache->sharers;
    return (double)cache->bytes / sharers * cores;
}

uint64_t limits_largest_cache(const struct place *place) {
    const clattn_capabilities *c = clattn_context_capabilities(place->context);
    struct cache caches[LIMIT_LEVELS];
    double most = 0.0;
    for (int i = caches_of(place, c, caches) - 1; i >= 0; i--)
        if (capacity_of(&caches[i], c->compute_units) > most)
            most = capacity_of(&caches[i], c->compute_units);
    return (uint64_t)most;
}

// The number of bytes to read: half of the cache's capacity, or twice the inner cache's capacity if
// that is more. 0: the cache is too small for this.
static double bytes_read(const struct cache *cache, double inner, unsigned cores) {
    const double own = capacity_of(cache, cores), half = own / 2.0;
    const double least = 2.0 * inner;
    return half >= least ? half : own >= 1.5 * least ? least : 0.0;
}

// The level of this name, appended if new. A level that cannot be measured this time keeps its
// earlier rate.
static struct limit_level *level_named(struct limits *found, const struct cache *cache) {
    int i = 0;
    while (i < found->level_count && strcmp(found->levels[i].name, cache->name) != 0) i++;
    if (i == LIMIT_LEVELS) return NULL;
    struct limit_level *l = &found->levels[i];
    if (i == found->level_count) {
        memcpy(l->name, cache->name, sizeof l->name);
        l->bytes = cache->bytes;
        found->level_count++;
    }
    return l;
}

void limits_levels(struct place *place, double max_ms, struct limits *found) {
    const clattn_capabilities *c = clattn_context_capabilities(place->context);
    struct cache caches[LIMIT_LEVELS];
    const int count = caches_of(place, c, caches);
    cl_program program = count > 0 ? build(place, c) : NULL;
    double inner = 0.0;
    for (int i = 0; program && i < count; i++) {
        const double bytes = bytes_read(&caches[i], inner, c->compute_units);
        const bool fits = bytes > 0.0 && bytes <= (double)c->max_allocation_bytes &&
                          bytes <= (double)c->global_memory_bytes / 8.0;
        const double rate = fits ? rate_of(place, program, (size_t)bytes, max_ms) : 0.0;
        if (rate <= 0.0) continue;
        struct limit_level *l = level_named(found, &caches[i]);
        if (l && rate > l->gbytes_per_s) l->gbytes_per_s = rate;
        if (l)
            l->capacity = (uint64_t)capacity_of(&caches[i], c->compute_units),
            l->read_bytes = (uint64_t)bytes;
        inner = bytes;
    }
    if (program) clReleaseProgram(program);
}
