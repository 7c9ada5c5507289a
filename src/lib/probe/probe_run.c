// probe_run.c: builds, runs and times probes. A compiler error is a result here, and is not logged.
#include "probe/probe.h"

#include <stdio.h>
#include <string.h>

#include "base/cache.h"
#include "base/sha256.h"
#include "program/binary.h"
#include "program/program.h"

#define FIRST_ROUNDS 16.0 // few rounds at first, so that a slow kernel does not delay the caller
#define TIMED_NS 500000.0 // target time of a timed run: half a millisecond
#define LEAST_TURNS 3
#define LEAST_TURNS_MEMORY 20 // other cores share the memory, so more runs are needed
#define MORE_TURNS 12         // extra runs while a probe's two best times differ
#define MOST_ROUNDS 10000000.0

typedef struct trial {
    const clattn_context *context;
    const probe *probe;
    knobs knobs;
    size_t items;
    cl_kernel kernel;
    cl_command_queue queue;
    cl_mem in, out;
    bool answered; // true: the kernel ran, or the compiler rejected it
    bool right;
    bool died;     // ended an earlier process, so it does not run
    bool borrows;  // `out` is the buffer of another trial
    double rounds; // rounds of a timed run; 0: not timed
    rate_times launches, times;
} trial;

bool cla_probe_options(const clattn_context *c, const probe *p, char text[PROBE_OPTIONS]) {
    const char *own = p->options ? p->options(&c->capabilities) : PROGRAM_OPTIONS;
    const knobs k = p->knobs(&c->capabilities);
    const int used =
        snprintf(text, PROBE_OPTIONS, "%s%s -w ", own ? own : PROGRAM_OPTIONS, cla_program_device_options(c));
    return used > 0 && used < PROBE_OPTIONS && cla_knobs_print(&k, text + used, PROBE_OPTIONS - (size_t)used);
}

void cla_probe_key(const clattn_context *c, const probe *p, const char *library,
                   uint8_t key[CACHE_KEY_BYTES]) {
    static const char what[] = "probe with rate, spread and date";
    const struct kernel_source *source = &clattn_kernel_sources[p->kernel];
    char options[PROBE_OPTIONS] = "";
    cla_probe_options(c, p, options);
    sha256_state h;
    cla_sha256_begin(&h);
    cla_sha256_add(&h, source->text, source->bytes);
    cla_sha256_add(&h, what, sizeof what);
    cla_sha256_add(&h, options, strlen(options) + 1);
    cla_identity_add(&h, &c->capabilities, c->cpu_model, library);
    cla_sha256_end(&h, key);
}

// Build a probe without program.c: no log message, no entry in the context's list.
static cl_kernel build(trial *t) {
    const struct kernel_source *source = &clattn_kernel_sources[t->probe->kernel];
    const char *text = (const char *)source->text;
    char options[PROBE_OPTIONS];
    cl_kernel kernel = NULL;
    cl_int code = CL_SUCCESS;
    if (!cla_probe_options(t->context, t->probe, options)) return NULL;
    cl_program built = clCreateProgramWithSource(t->context->opencl, 1, &text, &source->bytes, NULL);
    if (built) code = cla_binary_build(t->context, built, options);
    if (built && code == CL_SUCCESS) code = cla_ptx_enable_wgmma(t->context, options, &built);
    if (built && code == CL_SUCCESS) kernel = clCreateKernel(built, source->name, NULL);
    t->answered = code == CL_BUILD_PROGRAM_FAILURE;
    if (built) clReleaseProgram(built); // the kernel retains the program
    return kernel;
}

// Fill the memory with the floats 1 to 16. Untouched memory may be one shared page of zeros.
static bool fill_memory(const trial *t, size_t bytes) {
    const cl_float16 pattern = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}};
    return clEnqueueFillBuffer(t->queue, t->out, &pattern, sizeof pattern, 0, bytes, 0, NULL, NULL) ==
           CL_SUCCESS;
}

// True if the compiled kernel allows the probe's work-group. If it does not, the device has
// answered.
static bool takes_group(trial *t) {
    size_t most = 0;
    const bool asked = clGetKernelWorkGroupInfo(t->kernel, t->context->device, CL_KERNEL_WORK_GROUP_SIZE,
                                                sizeof most, &most, NULL) == CL_SUCCESS;
    t->answered = asked && t->items > most;
    return asked && t->items <= most;
}

// `out`: a buffer of another trial, or NULL.
static bool open_trial(trial *t, cl_mem out) {
    uint32_t words[PROBE_WORDS] = {0};
    const cl_context of = t->context->opencl;
    const size_t bytes = sizeof words + t->probe->memory;
    t->probe->fill(words);
    t->kernel = build(t);
    if (!t->kernel || !takes_group(t)) return false;
    t->queue = clCreateCommandQueue(of, t->context->device, 0, NULL);
    t->in = clCreateBuffer(of, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, sizeof words, words, NULL);
    t->borrows = out != NULL;
    t->out = out ? out : clCreateBuffer(of, CL_MEM_READ_WRITE, bytes, NULL, NULL);
    return t->queue && t->in && t->out && (!t->probe->memory || fill_memory(t, bytes)) &&
           clSetKernelArg(t->kernel, 0, sizeof t->in, &t->in) == CL_SUCCESS &&
           clSetKernelArg(t->kernel, 1, sizeof t->out, &t->out) == CL_SUCCESS;
}

static void close_trial(trial *t) {
    if (t->in) clReleaseMemObject(t->in);
    if (t->out && !t->borrows) clReleaseMemObject(t->out);
    if (t->queue) clReleaseCommandQueue(t->queue);
    if (t->kernel) clReleaseKernel(t->kernel);
}

// Time one work-group in nanoseconds. 0: it failed.
static double run(const trial *t, double count) {
    const cl_int rounds = (cl_int)count;
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
    while (words && want[words - 1] == 0) words--; // trailing zeros are not compared
    t->answered = run(t, 0) > 0.0 && clEnqueueReadBuffer(t->queue, t->out, CL_TRUE, 0, sizeof got, got, 0,
                                                         NULL, NULL) == CL_SUCCESS;
    return t->answered && memcmp(got, want, words * sizeof *got) == 0;
}

// Add some timed runs. Returns false if one failed.
static bool add_runs(const trial *t, double rounds, int runs, rate_times *times) {
    for (int i = 0; i < runs; i++) {
        const double time = run(t, rounds);
        if (time <= 0.0) return false;
        cla_rates_time(times, time);
    }
    return true;
}

// Choose the rounds of a timed run: TIMED_NS, and several times a launch's overhead, which load on
// the machine increases. The rounds grow until the work outweighs the overhead, so a slow kernel
// does not run for long.
static void choose_rounds(trial *t) {
    double rounds = FIRST_ROUNDS;
    rate_times first = {0};
    bool ok = add_runs(t, 0, 3, &t->launches) && add_runs(t, rounds, 2, &first);
    while (ok && first.least - t->launches.least < TIMED_NS / 4 && rounds < MOST_ROUNDS) {
        rounds *= 8;
        first = (rate_times){0};
        ok = add_runs(t, rounds, 2, &first);
    }
    if (!ok) return;
    const double work = first.least - t->launches.least, several = 4.0 * t->launches.least;
    if (work > 0.0) rounds = 1.0 + rounds * ((several > TIMED_NS ? several : TIMED_NS) / work);
    t->rounds = rounds > MOST_ROUNDS ? MOST_ROUNDS : (double)(cl_int)rounds;
}

// The result is the best time minus the best time of an empty launch. Other load only slows runs,
// so the best times are the least disturbed. Probes that are compared run interleaved. Runs are
// added while a probe's two best times differ.
static void time_interleaved(trial trials[], int count) {
    int turns = LEAST_TURNS, more = MORE_TURNS;
    for (int i = 0; i < count; i++)
        if (trials[i].probe->memory) turns = LEAST_TURNS_MEMORY;
    for (int turn = 0; turn < turns; turn++) {
        bool alike = true;
        for (int i = 0; i < count; i++) {
            trial *t = &trials[i];
            if (t->rounds == 0.0) continue;
            if (!add_runs(t, t->rounds, 1, &t->times) || !add_runs(t, 0, 1, &t->launches))
                t->rounds = 0;
            else
                alike = alike && cla_rates_spread(&t->times, t->launches.least) <= RATES_ALIKE;
        }
        if (turn + 1 == turns && !alike && more-- > 0) turns++;
    }
}

// Compute the rate. *answered is false after a failure, and for a correct probe without a rate.
static probe_rate rate_of(const trial *t, bool *answered) {
    const double launch = t->launches.least, least = t->times.least,
                 work = least > launch ? least - launch : least;
    probe_rate rate = {.measured = t->died ? 0 : cla_os_date_s(), .died = t->died};
    if (t->right && t->rounds > 0.0 && work > 0.0) {
        rate.gflops = (float)(t->probe->round_flops(&t->knobs) * t->rounds / work);
        rate.spread = cla_rates_spread(&t->times, launch), rate.runs = t->times.runs;
    }
    *answered = t->answered && t->right == (rate.gflops > 0.0f);
    rate.sure = *answered && rate.spread <= RATES_AGREE && !(rate.runs && launch > 0.5 * least);
    return rate;
}

// True for probes of plain OpenCL C, like all ordinary kernels.
static bool is_plain(const probe *p) {
    return p->kernel == KERNEL_PROBE_FMA || p->kernel == KERNEL_PROBE_TILES ||
           p->kernel == KERNEL_PROBE_LANES || p->kernel == KERNEL_PROBE_LOADS ||
           p->kernel == KERNEL_PROBE_ASK;
}

// Compile and run a probe once, under a cache mark, because the driver may end the process. If it
// ended an earlier process, do not run it.
static void try_once(trial *t, cl_mem memory) {
    const clattn_context *c = t->context;
    uint8_t key[CACHE_KEY_BYTES];
    cache_mark mark;
    cla_probe_key(c, t->probe, CLATTN_VERSION_STRING, key);
    const int weight = is_plain(t->probe) && !c->surveys ? CACHE_PLAIN : CACHE_DANGEROUS;
    t->died = !cla_cache_begin(c->cache, key, weight, c->tries_again, &mark);
    t->right = !t->died && open_trial(t, memory) && is_right(t);
    cla_cache_end(c->cache, &mark);
}

void cla_probe_run_set(const clattn_context *c, const probe *const probes[], int count, probe_rate rates[],
                       bool answered[]) {
    trial trials[PROBE_COUNT] = {{0}};
    cl_mem memory = NULL;
    for (int i = 0; i < count; i++) {
        const probe *p = probes[i];
        trial *t = &trials[i];
        *t = (trial){
            .context = c, .probe = p, .knobs = p->knobs(&c->capabilities), .items = p->items ? p->items : 1};
        try_once(t, p->memory ? memory : NULL);
        if (p->memory && !memory) memory = t->out;
        if (t->right) choose_rounds(t);
    }
    time_interleaved(trials, count);
    for (int i = 0; i < count; i++) {
        rates[i] = rate_of(&trials[i], &answered[i]);
        close_trial(&trials[i]);
    }
}

float cla_probe_run(const clattn_context *c, const probe *p, bool *answered) {
    probe_rate rate;
    cla_probe_run_set(c, &p, 1, &rate, answered);
    return rate.gflops;
}
