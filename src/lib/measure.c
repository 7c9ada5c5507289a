// measure.c: clattn_context_measure: measures which projection is faster on a device, clattn's own
// or CLBlast's. The runs of both are interleaved, in a context made for the measurement. Two sizes
// are measured, one for each group of rows in tuned_rows.c: projections of few rows are limited by
// reading W, projections of many rows by arithmetic.
#include "base/host.h"
#include "launch/entry.h"
#include "layer/projection/projector.h"
#include "probe/probe.h"
#include "program/unfit.h"

#define ROUNDS 7
#define FEW_ROWS 8

// `width`: columns and reduction length. `most_rows`: rows of the larger product. On CPUs the sizes
// are those of BERT-base; on other devices they are large enough that launch overhead is a small
// part of the time.
typedef struct trial {
    clattn_context *context;
    cl_command_queue queue;
    int64_t width, most_rows;
    cl_mem x, w, y;
} trial;

static int64_t rows_of(const trial *t, int measure) {
    return measure == PLAN_FEW_ROWS ? FEW_ROWS : t->most_rows;
}

static clattn_status make_matrix(trial *t, clattn_context *of, int64_t rows, cl_mem *m) {
    const float value = 0.5f;
    const size_t bytes = (size_t)(rows * t->width) * sizeof value;
    cl_int code = CL_SUCCESS;
    *m = clCreateBuffer(of->opencl, CL_MEM_READ_WRITE, bytes, NULL, &code);
    if (!*m) return cla_context_fail_opencl(of, code, "clCreateBuffer (measurement)");
    code = clEnqueueFillBuffer(t->queue, *m, &value, sizeof value, 0, bytes, 0, NULL, NULL);
    return code == CL_SUCCESS ? CLATTN_OK
                              : cla_context_fail_opencl(of, code, "clEnqueueFillBuffer (measurement)");
}

// Open a context on the caller's cl_context and cache, without the caller's tuned rows. Its errors
// do not become the caller's.
static clattn_status open_trial(trial *t, clattn_context *of) {
    const clattn_context_params params = {.device = of->device,
                                          .context = of->opencl,
                                          .no_measurements = true,
                                          .clblast_path = of->clblast_path};
    cl_int code = CL_SUCCESS;
    *t = of->capabilities.is_cpu ? (trial){.width = 768, .most_rows = 256}
                                 : (trial){.width = 2048, .most_rows = 512};
    const clattn_status status = clattn_context_create(&params, &t->context);
    if (status != CLATTN_OK)
        return cla_context_fail(of, status, "measurement: its own context: %s", clattn_status_text(status));
    t->context->cache = of->cache;
    t->queue = clCreateCommandQueue(of->opencl, of->device, 0, &code);
    if (!t->queue) return cla_context_fail_opencl(of, code, "clCreateCommandQueue (measurement)");
    TRY(make_matrix(t, of, t->most_rows, &t->x));
    TRY(make_matrix(t, of, t->width, &t->w));
    return make_matrix(t, of, t->most_rows, &t->y);
}

static void close_trial(trial *t, clattn_context *of) {
    cl_mem const all[] = {t->x, t->w, t->y};
    if (t->queue) clFinish(t->queue);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i]) clReleaseMemObject(all[i]);
    if (t->queue) clReleaseCommandQueue(t->queue);
    if (!t->context) return;
    cla_clblast_hand_over(t->context, of); // keep what CLBlast compiled for the caller's cl_context
    clattn_context_save_kernels(t->context);
    t->context->cache = NULL; // belongs to the caller's context
    clattn_context_destroy(t->context);
}

// Choose a projection and compile it. A kernel may allow smaller groups than its device; then the
// next choice knows the limit.
static linear projection_of(const trial *t, int64_t rows, bool native) {
    const int64_t n = t->width, w[2] = {n, n};
    linear l = {.x = clattn_tensor_bhsd(t->x, CLATTN_TYPE_F32, 1, 1, rows, n),
                .w = clattn_tensor_dense(t->w, CLATTN_TYPE_F32, 2, w),
                .y = clattn_tensor_bhsd(t->y, CLATTN_TYPE_F32, 1, 1, rows, n),
                .native = native};
    do cla_linear_choose(t->context, &l);
    while (native && cla_linear_native_prepare(t->context, &l) == ENTRY_PLAN_AGAIN);
    return l;
}

// Nanoseconds of one run; 0: it failed.
static uint64_t time_once(const trial *t, const linear *l) {
    chain steps;
    const uint64_t start = cla_os_time_ns();
    if (cla_chain_begin(&steps, t->context, t->queue, 0, NULL) != CLATTN_OK) return 0;
    const clattn_status status = cla_linear_enqueue(&steps, l, NULL, 0);
    if (cla_chain_end(&steps, status, NULL) != CLATTN_OK || clFinish(t->queue) != CL_SUCCESS) return 0;
    return cla_os_time_ns() - start + 1;
}

// Times for one size. Both projections alternate, so that other load on the machine slows both. The
// first round, which compiles, is not counted.
typedef struct contest {
    bool native, clblast; // the projection runs without errors
    int native_wins;      // rounds won, out of ROUNDS
    uint64_t native_ns, clblast_ns;
} contest;

static uint64_t lesser(uint64_t a, uint64_t b) {
    return !a || b < a ? b : a;
}

static contest run_contest(const trial *t, int64_t rows) {
    const linear native = projection_of(t, rows, true), clblast = projection_of(t, rows, false);
    contest c = {.native = time_once(t, &native) > 0, .clblast = time_once(t, &clblast) > 0};
    for (int round = 0; c.native && c.clblast && round < ROUNDS; round++) {
        const uint64_t ours = time_once(t, &native), theirs = time_once(t, &clblast);
        c.native = ours > 0, c.clblast = theirs > 0;
        c.native_wins += ours <= theirs;
        c.native_ns = lesser(c.native_ns, ours), c.clblast_ns = lesser(c.clblast_ns, theirs);
    }
    return c;
}

// A projection that fails loses.
static enum plan_measured faster(const contest *c) {
    if (!c->native && !c->clblast) return PLAN_NOT_MEASURED;
    if (!c->native || !c->clblast) return c->native ? PLAN_NATIVE_FASTER : PLAN_CLBLAST_FASTER;
    return c->native_wins > ROUNDS / 2 ? PLAN_NATIVE_FASTER : PLAN_CLBLAST_FASTER;
}

// If more than one round disagrees with the others, other load on the machine has decided rather
// than the projections.
static bool is_sure(const contest *c) {
    return c->native && c->clblast && (c->native_wins <= 1 || c->native_wins >= ROUNDS - 1);
}

static void tell(const clattn_context *c, int64_t rows, const contest *of) {
    cla_log_send(
        &c->log, CLATTN_LOG_INFO,
        "projection of %d rows, measured: native %.3f ms, CLBlast %.3f ms (0: it failed), native faster "
        "in %d of %d rounds%s",
        (int)rows, (double)of->native_ns / 1e6, (double)of->clblast_ns / 1e6, of->native_wins, ROUNDS,
        is_sure(of) ? "" : ": not sure, the next measurement looks again");
}

// Needs seconds, because CLBlast compiles. A projection that fails loses, and is no error. The
// status is an error only if the trial's context or buffers failed. *all: every run succeeded, so
// the answer may be cached.
static clattn_status measure_projections(clattn_context *c, projection_answer *answer, bool *all) {
    trial t;
    const clattn_status status = open_trial(&t, c);
    const bool open = status == CLATTN_OK;
    *all = open;
    *answer = (projection_answer){.sure = open};
    for (int i = 0; open && i < PLAN_MEASURES; i++) {
        const contest of = run_contest(&t, rows_of(&t, i));
        tell(c, rows_of(&t, i), &of);
        answer->of[i] = faster(&of);
        answer->sure = answer->sure && is_sure(&of);
        *all = *all && of.native && of.clblast;
    }
    close_trial(&t, c);
    return status;
}

clattn_status clattn_context_measure(clattn_context *context) {
    if (!context) return CLATTN_INVALID_ARGUMENT;
    if (context->no_measurements)
        return cla_context_fail(context, CLATTN_INVALID_ARGUMENT,
                                "no_measurements: the context was created without measurements");
    TRY(cla_context_check(context));
    cla_unfit_forget(context);
    (void)cla_probe_results(context, ~0u);
    if (!cla_clblast_available(context)) return CLATTN_OK; // nothing to compare with
    projection_answer answer;
    bool all;
    if (!cla_projector_begin_measuring(context)) return CLATTN_OK; // already measured
    const clattn_status status = measure_projections(context, &answer, &all);
    cla_projector_end_measuring(context, status == CLATTN_OK ? &answer : NULL, all);
    return status;
}
