// probe.c: see probe.h. A compiler that refuses is an answer here and not an error, and nobody is told.
#include "core/probe.h"

#include <stdio.h>
#include <string.h>

#include "core/identity.h"
#include "core/host.h"
#include "core/lane_widths.h"
#include "core/program.h"
#include "core/sha256.h"

#define FIRST_ROUNDS 16.0 // a compiler that makes no good of a kernel is not waited for
#define TIMED_NS 500000.0 // the timed runs aim at half a millisecond each
#define TIMED_RUNS 3
#define TIMED_RUNS_MEMORY 20 // which other cores use, too
#define MOST_ROUNDS 10000000.0

struct probe_state {
    os_mutex lock;    // guards the results, for a moment
    os_mutex running; // held while probes run; taken before the lock
    probe_results results;
    unsigned looked; // in the cache folder
};

bool cla_probe_state_create(clattn_context *context) {
    struct probe_state *s = cla_host_take_zeroed(&context->host, 1, sizeof *s);
    if (s && cla_os_mutex_init_two(&s->lock, &s->running)) {
        context->probes = s;
        return true;
    }
    cla_host_release(&context->host, s);
    return false;
}

void cla_probe_state_destroy(clattn_context *context) {
    if (!context->probes) return;
    cla_os_mutex_destroy(&context->probes->lock);
    cla_os_mutex_destroy(&context->probes->running);
    cla_host_release(&context->host, context->probes);
    context->probes = NULL;
}

// One probe on its way through the driver.
typedef struct trial {
    const clattn_context *context;
    const probe *probe;
    knobs knobs;
    size_t items;
    cl_kernel kernel;
    cl_command_queue queue;
    cl_mem in, out;
    bool answered; // by the compiler, or by what came out
} trial;

#define PROBE_OPTIONS 256

static bool print_options(const clattn_context *c, const probe *p, char text[PROBE_OPTIONS]) {
    const char *own = p->options ? p->options(&c->capabilities) : PROGRAM_OPTIONS;
    const knobs k = p->knobs(&c->capabilities);
    const int used = snprintf(text, PROBE_OPTIONS, "%s -w ", own ? own : PROGRAM_OPTIONS);
    return used > 0 && used < PROBE_OPTIONS && cla_knobs_print(&k, text + used, PROBE_OPTIONS - (size_t)used);
}

// Apart from program.c: no message, no place in the context's list.
static cl_kernel build(trial *t) {
    const struct kernel_source *source = &clattn_kernel_sources[t->probe->kernel];
    const char *text = (const char *)source->text;
    char options[PROBE_OPTIONS];
    cl_kernel kernel = NULL;
    cl_int code = CL_SUCCESS;
    if (!print_options(t->context, t->probe, options)) return NULL;
    cl_program built = clCreateProgramWithSource(t->context->opencl, 1, &text, &source->bytes, NULL);
    if (built) code = clBuildProgram(built, 1, &t->context->device, options, NULL, NULL);
    if (built && code == CL_SUCCESS) kernel = clCreateKernel(built, source->name, NULL);
    t->answered = code == CL_BUILD_PROGRAM_FAILURE;
    if (built) clReleaseProgram(built); // the kernel keeps it
    return kernel;
}

// The floats 1 to 16 over and over: memory that nobody wrote may be one page of zeros.
static bool fill_memory(const trial *t, size_t bytes) {
    const cl_float16 pattern = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}};
    return clEnqueueFillBuffer(t->queue, t->out, &pattern, sizeof pattern, 0, bytes, 0, NULL, NULL) ==
           CL_SUCCESS;
}

static bool open_trial(trial *t) {
    uint32_t words[PROBE_WORDS] = {0};
    const cl_context of = t->context->opencl;
    const size_t bytes = sizeof words + t->probe->memory;
    t->probe->fill(words);
    t->kernel = build(t);
    if (!t->kernel) return false;
    t->queue = clCreateCommandQueue(of, t->context->device, 0, NULL);
    t->in = clCreateBuffer(of, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, sizeof words, words, NULL);
    t->out = clCreateBuffer(of, CL_MEM_READ_WRITE, bytes, NULL, NULL);
    return t->queue && t->in && t->out && (!t->probe->memory || fill_memory(t, bytes)) &&
           clSetKernelArg(t->kernel, 0, sizeof t->in, &t->in) == CL_SUCCESS &&
           clSetKernelArg(t->kernel, 1, sizeof t->out, &t->out) == CL_SUCCESS;
}

static void close_trial(trial *t) {
    if (t->in) clReleaseMemObject(t->in);
    if (t->out) clReleaseMemObject(t->out);
    if (t->queue) clReleaseCommandQueue(t->queue);
    if (t->kernel) clReleaseKernel(t->kernel);
}

// Nanoseconds of one work-group; 0: it failed.
static double run(const trial *t, cl_int rounds) {
    const uint64_t start = cla_os_time_ns();
    if (clSetKernelArg(t->kernel, 2, sizeof rounds, &rounds) != CL_SUCCESS ||
        clEnqueueNDRangeKernel(t->queue, t->kernel, 1, NULL, &t->items, &t->items, 0, NULL, NULL) !=
            CL_SUCCESS ||
        clFinish(t->queue) != CL_SUCCESS)
        return 0.0;
    return (double)(cla_os_time_ns() - start) + 1.0;
}

static bool is_right(trial *t) {
    uint32_t want[PROBE_WORDS] = {0}, got[PROBE_WORDS] = {0};
    t->probe->expect(&t->knobs, want);
    size_t words = PROBE_WORDS;
    while (words && want[words - 1] == 0) words--; // the rest is not compared
    t->answered = run(t, 0) > 0.0 && clEnqueueReadBuffer(t->queue, t->out, CL_TRUE, 0, sizeof got, got, 0,
                                                         NULL, NULL) == CL_SUCCESS;
    return t->answered && memcmp(got, want, words * sizeof *got) == 0;
}

// The best of `runs`; 0: one failed.
static double best_run(const trial *t, double rounds, int runs) {
    double least = 0.0;
    for (int i = 0; i < runs; i++) {
        const double time = run(t, (cl_int)rounds);
        if (time <= 0.0) return 0.0;
        if (least == 0.0 || time < least) least = time;
    }
    return least;
}

// The best of a few runs less the best launch of nothing: another use of the machine only ever slows one, and would make
// much of a difference of two that it slowed alike. More and more rounds are tried until they are not most of all a launch: a
// compiler that makes no good of a kernel is not waited for.
static float rate_of(const trial *t) {
    double rounds = FIRST_ROUNDS, launch = best_run(t, 0, TIMED_RUNS), time = best_run(t, rounds, 2);
    while (launch > 0.0 && time > 0.0 && time - launch < TIMED_NS / 4 && rounds < MOST_ROUNDS) {
        rounds *= 8;
        time = best_run(t, rounds, 2);
    }
    if (launch <= 0.0 || time <= 0.0) return 0.0f;
    if (time > launch) rounds = (double)(cl_int)(1.0 + rounds * (TIMED_NS / (time - launch)));
    if (rounds > MOST_ROUNDS) rounds = MOST_ROUNDS;
    const double least = best_run(t, rounds, t->probe->memory ? TIMED_RUNS_MEMORY : TIMED_RUNS),
                 again = best_run(t, 0, TIMED_RUNS);
    if (again > 0.0 && again < launch) launch = again;
    const double best = least > launch ? least - launch : least;
    return best > 0.0 ? (float)(t->probe->round_flops(&t->knobs) * rounds / best) : 0.0f;
}

float cla_probe_run(const clattn_context *c, const probe *p, bool *answered) {
    trial t = {
        .context = c, .probe = p, .knobs = p->knobs(&c->capabilities), .items = p->items ? p->items : 1};
    const bool right = open_trial(&t) && is_right(&t);
    const float rate = right ? rate_of(&t) : 0.0f;
    *answered = t.answered && right == (rate > 0.0f);
    close_trial(&t);
    return rate;
}

void cla_probe_key(const clattn_context *c, const probe *p, const char *library,
                   uint8_t key[CACHE_KEY_BYTES]) {
    static const char what[] = "probe with rate";
    const struct kernel_source *source = &clattn_kernel_sources[p->kernel];
    char options[PROBE_OPTIONS] = "";
    print_options(c, p, options);
    sha256_state h;
    cla_sha256_begin(&h);
    cla_sha256_add(&h, source->text, source->bytes);
    cla_sha256_add(&h, what, sizeof what);
    cla_sha256_add(&h, options, strlen(options) + 1);
    cla_identity_add(&h, &c->capabilities, c->cpu_model, library);
    cla_sha256_end(&h, key);
}
static void probe_key(const clattn_context *c, const probe *p, uint8_t key[CACHE_KEY_BYTES]) {
    cla_probe_key(c, p, CLATTN_VERSION_STRING, key);
}

// An answer of the cache folder.
static bool load_rate(const clattn_context *c, const uint8_t key[CACHE_KEY_BYTES], float *rate) {
    unsigned char *kept = NULL;
    size_t count = 0;
    if (!cla_cache_load(c->cache, key, &kept, &count)) return false;
    const bool whole = count == sizeof *rate;
    if (whole) memcpy(rate, kept, sizeof *rate);
    cla_host_release(&c->host, kept);
    return whole && *rate >= 0.0f && *rate < 1e9f;
}

static bool is_asked(const clattn_context *c, const probe *p) {
    return !(p->engine & ~c->engines) && p->applies(&c->capabilities);
}

static float find_rate(const clattn_context *c, const probe *p, const probe_results *known) {
    uint8_t key[CACHE_KEY_BYTES];
    float rate = 0.0f;
    bool answered = false;
    if (!is_asked(c, p) || (p->worth && !p->worth(&c->capabilities, known))) return 0.0f;
    probe_key(c, p, key);
    if (load_rate(c, key, &rate)) return rate;
    rate = cla_probe_run(c, p, &answered);
    if (answered) cla_cache_store(c->cache, key, &rate, sizeof rate);
    return rate;
}

static probe_results known_results(struct probe_state *s) {
    cla_os_mutex_lock(&s->lock);
    const probe_results results = s->results;
    cla_os_mutex_unlock(&s->lock);
    return results;
}

static void keep_result(const clattn_context *context, int id, float rate) {
    struct probe_state *s = context->probes;
    cla_os_mutex_lock(&s->lock);
    s->results.ran |= 1u << id;
    s->results.proven |= rate > 0.0f ? 1u << id : 0;
    s->results.rate[id] = rate;
    cla_os_mutex_unlock(&s->lock);
    cla_log_send(&context->log, CLATTN_LOG_INFO, "probe: %s: %s, %.4g GFLOP/s a work-item",
                 cla_probes[id].name, rate > 0.0f ? "works" : "not used", (double)rate);
}

// A thread whose answers are known never waits for one that probes.
probe_results cla_probe_results(const clattn_context *context, unsigned wanted) {
    struct probe_state *s = context->probes;
    probe_results results = known_results(s);
    wanted = cla_lanes_wanted(wanted);
    if (!(wanted & ~results.ran)) return results;
    cla_os_mutex_lock(&s->running);
    for (int id = PROBE_NONE + 1; id < PROBE_COUNT; id++) {
        results = known_results(s); // others may have run meanwhile
        if ((wanted & ~results.ran) >> id & 1u)
            keep_result(context, id, find_rate(context, &cla_probes[id], &results));
    }
    results = known_results(s);
    cla_os_mutex_unlock(&s->running);
    return results;
}

// What the folder has of these; one thread looks, and others wait for it, so that all plan alike.
static void look(const clattn_context *context, unsigned wanted) {
    struct probe_state *s = context->probes;
    uint8_t key[CACHE_KEY_BYTES];
    float rate;
    cla_os_mutex_lock(&s->running);
    const unsigned ran = known_results(s).ran;
    for (int id = PROBE_NONE + 1; id < PROBE_COUNT; id++) {
        if (!((wanted & ~ran) >> id & 1u) || !is_asked(context, &cla_probes[id])) continue;
        probe_key(context, &cla_probes[id], key);
        if (load_rate(context, key, &rate)) keep_result(context, id, rate);
    }
    cla_os_mutex_lock(&s->lock);
    s->looked |= wanted;
    cla_os_mutex_unlock(&s->lock);
    cla_os_mutex_unlock(&s->running);
}

probe_results cla_probe_results_kept(const clattn_context *context, unsigned wanted) {
    struct probe_state *s = context->probes;
    cla_os_mutex_lock(&s->lock);
    const probe_results results = s->results;
    const unsigned open = wanted & ~results.ran & ~s->looked;
    cla_os_mutex_unlock(&s->lock);
    if (!open) return results;
    look(context, open);
    return known_results(s);
}

clattn_status clattn_context_engines(clattn_context *context, clattn_engine *engines, size_t capacity,
                                     size_t *count) {
    if (!context) return CLATTN_INVALID_ARGUMENT;
    if (!count) return cla_context_fail(context, CLATTN_INVALID_ARGUMENT, "count: is NULL");
    if (capacity && !engines)
        return cla_context_fail(context, CLATTN_INVALID_ARGUMENT, "engines: is NULL with a capacity");
    TRY(cla_context_check(context));
    *count = PROBE_COUNT - 1;
    if (!capacity) return CLATTN_OK;
    const probe_results found = cla_probe_results(context, ~0u);
    for (size_t i = 0; i < *count && i < capacity; i++) {
        const size_t id = i + 1;
        engines[i] = (clattn_engine){.works = found.proven >> id & 1u, .gflops = found.rate[id]};
        snprintf(engines[i].name, sizeof engines[i].name, "%s", cla_probes[id].name);
    }
    return CLATTN_OK;
}
