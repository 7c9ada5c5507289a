// measure.c: see measure.h. Each of the two sizes stands for the rows of tuned_rows.c that it measures: few
// rows are bound by reading W, many by arithmetic.
#include "layer/measure.h"

#include <stdlib.h>
#include <string.h>

#include "core/kernels.h"
#include "core/sha256.h"

#define RUNS 5
#define MOST_ROWS 256
#define WIDTH 768 // columns and reduction, of a model like BERT-base

static const int64_t rows_of[PLAN_MEASURES] = {[PLAN_FEW_ROWS] = 8, [PLAN_MANY_ROWS] = MOST_ROWS};

typedef struct trial {
    clattn_context *context;
    cl_command_queue queue;
    cl_mem x, w, y;
} trial;

static cl_mem make_matrix(trial *t, int64_t rows) {
    const float value = 0.5f;
    const size_t bytes = (size_t)rows * WIDTH * sizeof value;
    cl_mem m = clCreateBuffer(t->context->opencl, CL_MEM_READ_WRITE, bytes, NULL, NULL);
    if (m && clEnqueueFillBuffer(t->queue, m, &value, sizeof value, 0, bytes, 0, NULL, NULL) == CL_SUCCESS)
        return m;
    if (m) clReleaseMemObject(m);
    return NULL;
}

// A context of its own on the caller's cl_context and cache: without the caller's rows, and what fails in it is no
// failure of the caller's.
static bool open_trial(trial *t, clattn_context *of) {
    *t = (trial){0};
    const clattn_context_params params = {.device = of->device, .context = of->opencl};
    if (clattn_context_create(&params, &t->context) != CLATTN_OK) return false;
    t->context->cache = of->cache;
    t->queue = clCreateCommandQueue(of->opencl, of->device, 0, NULL);
    if (!t->queue) return false;
    t->x = make_matrix(t, MOST_ROWS);
    t->w = make_matrix(t, WIDTH);
    t->y = make_matrix(t, MOST_ROWS);
    return t->x && t->w && t->y;
}

static void close_trial(trial *t, clattn_context *of) {
    cl_mem const all[] = {t->x, t->w, t->y};
    if (t->queue) clFinish(t->queue);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i]) clReleaseMemObject(all[i]);
    if (t->queue) clReleaseCommandQueue(t->queue);
    if (!t->context) return;
    cla_clblast_hand_over(t->context, of); // what CLBlast compiled for the cl_context serves the caller
    clattn_context_save_kernels(t->context);
    t->context->cache = NULL; // the caller's
    clattn_context_destroy(t->context);
}

// Nanoseconds of the fastest run, which is not the first: that one compiles. 0: it failed.
static uint64_t time_projection(const trial *t, int64_t rows, bool native) {
    const int64_t w[2] = {WIDTH, WIDTH};
    linear l = {.x = clattn_tensor_bhsd(t->x, CLATTN_TYPE_F32, 1, 1, rows, WIDTH),
                .w = clattn_tensor_dense(t->w, CLATTN_TYPE_F32, 2, w),
                .y = clattn_tensor_bhsd(t->y, CLATTN_TYPE_F32, 1, 1, rows, WIDTH),
                .native = native};
    uint64_t least = 0;
    cla_linear_choose(t->context, &l);
    for (int run = 0; run < RUNS; run++) {
        chain steps;
        const uint64_t start = cla_os_time_ns();
        cla_chain_begin(&steps, t->context, t->queue, 0, NULL);
        const clattn_status status = cla_linear_enqueue(&steps, &l, NULL, 0);
        if (cla_chain_end(&steps, status, NULL) != CLATTN_OK || clFinish(t->queue) != CL_SUCCESS) return 0;
        const uint64_t time = cla_os_time_ns() - start;
        if (run > 0 && (least == 0 || time < least)) least = time;
    }
    return least;
}

// Nanoseconds of one size; 0: it cannot run.
typedef struct pair {
    uint64_t native, clblast;
} pair;

static unsigned char faster(const pair *p) {
    if (!p->native && !p->clblast) return PLAN_NOT_MEASURED;
    return p->native && (!p->clblast || p->native <= p->clblast) ? PLAN_NATIVE_FASTER : PLAN_CLBLAST_FASTER;
}

// One that cannot run loses. Only a trial in which all ran is kept: what failed may work the next time.
static bool run_trial(clattn_context *c, unsigned char answer[PLAN_MEASURES]) {
    trial t;
    bool all = true;
    memset(answer, PLAN_NOT_MEASURED, PLAN_MEASURES);
    const bool open = open_trial(&t, c);
    for (int i = 0; open && i < PLAN_MEASURES; i++) {
        const pair p = {time_projection(&t, rows_of[i], true), time_projection(&t, rows_of[i], false)};
        cla_log_send(&c->log, CLATTN_LOG_INFO,
                     "projection of %d rows, measured: native %.3f ms, CLBlast %.3f ms (0: it failed)",
                     (int)rows_of[i], (double)p.native / 1e6, (double)p.clblast / 1e6);
        answer[i] = faster(&p);
        all = all && p.native && p.clblast;
    }
    close_trial(&t, c);
    return open && all;
}

static void measure_key(const clattn_context *c, uint8_t key[CACHE_KEY_BYTES]) {
    const clattn_capabilities *of = &c->capabilities;
    const char *const parts[] = {"projection", of->name,     of->driver,
                                 of->version,  of->platform, CLATTN_VERSION_STRING};
    const struct kernel_source *sources[] = {&clattn_kernel_sources[KERNEL_LINEAR_LANES],
                                             &clattn_kernel_sources[KERNEL_LINEAR_FEW_LANES]};
    const uint32_t units = of->compute_units;
    sha256_state h;
    cla_sha256_begin(&h);
    cla_sha256_add(&h, &units, sizeof units);
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++)
        cla_sha256_add(&h, sources[i]->text, sources[i]->bytes);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        cla_sha256_add(&h, parts[i], strlen(parts[i]) + 1);
    cla_sha256_end(&h, key);
}

static bool is_answer(const unsigned char *bytes, size_t count) {
    bool ok = count == PLAN_MEASURES;
    for (size_t i = 0; ok && i < PLAN_MEASURES; i++)
        ok = bytes[i] == PLAN_NATIVE_FASTER || bytes[i] == PLAN_CLBLAST_FASTER;
    return ok;
}

static void find_answer(clattn_context *c, unsigned char answer[PLAN_MEASURES]) {
    uint8_t key[CACHE_KEY_BYTES];
    unsigned char *kept = NULL;
    size_t count = 0;
    measure_key(c, key);
    if (cla_cache_load(c->cache, key, &kept, &count)) {
        const bool ok = is_answer(kept, count);
        if (ok) memcpy(answer, kept, PLAN_MEASURES);
        free(kept);
        if (ok) return;
    }
    if (run_trial(c, answer)) cla_cache_store(c->cache, key, answer, PLAN_MEASURES);
}

projection_answer cla_measure_projections(clattn_context *context) {
    unsigned char bytes[PLAN_MEASURES];
    projection_answer answer;
    find_answer(context, bytes);
    for (int i = 0; i < PLAN_MEASURES; i++) answer.of[i] = (enum plan_measured)bytes[i];
    return answer;
}
