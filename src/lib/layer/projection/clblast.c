// clblast.c: see clblast.h. CLBlast accepts no wait list, so a barrier with the wait list is
// enqueued before it. Inside a call CLBlast orders its own kernels by events. Each CLBlast call is
// one product of given rows, columns and inner size.
#include "layer/projection/clblast.h"

#include <stdio.h>
#include <string.h>

#include "base/host.h"
#include "plan/planner.h"

#if !defined(CLATTN_HAVE_CLBLAST)
static const clblast_calls *look_for(clattn_context *context) {
    (void)context;
    return NULL;
}
#elif defined(CLATTN_LINK_OPENCL)
static const clblast_calls *look_for(clattn_context *context) {
    (void)context;
    return &cla_clblast_calls;
}
#else
// Open the module. A module built for another minor version may have other structs, and is
// rejected.
static const clblast_calls *open_module(clattn_context *context, const char *path) {
    void *library = cla_os_library_open(path);
    const clblast_calls *calls = library ? cla_os_library_symbol(library, "clattn_clblast_calls") : NULL;
    const bool good = calls && calls->version / 1000 == CLATTN_VERSION_NUMBER / 1000;
    cla_log_send(&context->log, CLATTN_LOG_INFO, "CLBlast: %s: %s", path,
                 good    ? "loaded"
                 : calls ? "it was built for another version of clattn"
                         : "not there");
    if (good) return calls; // never closed: CLBlast keeps state for the process
    cla_os_library_close(library);
    return NULL;
}

// Look for the module at the caller's path. Without one, look beside the library, then on the
// system's library path.
static const clblast_calls *look_for(clattn_context *context) {
    if (context->clblast_path) return open_module(context, context->clblast_path);
    char *beside = cla_os_beside_library(&context->host, CLATTN_CLBLAST_MODULE);
    const clblast_calls *calls = beside ? open_module(context, beside) : NULL;
    cla_host_release(&context->host, beside);
    return calls ? calls : open_module(context, CLATTN_CLBLAST_MODULE);
}
#endif

// Threads that get here at the same time each look for the module. The first result is kept.
static const clblast_calls *calls_of(clattn_context *context) {
    static const clblast_calls absent = {0};
    const clblast_calls *known = atomic_load(&context->clblast), *unknown = NULL;
    if (!known) {
        known = look_for(context);
        if (!known) known = &absent;
        if (!atomic_compare_exchange_strong(&context->clblast, &unknown, known)) known = unknown;
    }
    return known->multiply ? known : NULL;
}

bool cla_clblast_available(clattn_context *context) {
    return calls_of(context) != NULL;
}

clattn_status cla_clblast_refuse(clattn_context *context) {
#ifdef CLATTN_CLBLAST_MODULE
    return cla_context_fail(context, CLATTN_UNSUPPORTED,
                            "projection: CLBlast's module is not there (%s%s): take native, or install it",
                            context->clblast_path ? context->clblast_path : CLATTN_CLBLAST_MODULE,
                            context->clblast_path ? "" : " beside the library");
#else
    return cla_context_fail(context, CLATTN_UNSUPPORTED,
                            "projection: this build of clattn has no CLBlast: take native");
#endif
}

// Pass a tuned row's parameters to CLBlast. They hold for the device in the whole process until it
// ends. CLBlast compiles its kernel again at the next product.
static void set_parameters(clattn_context *context, int kernel) {
    const clblast_kernel *of = &cla_clblast_kernels[kernel];
    const clattn_capabilities *device = &context->capabilities;
    const int *row = cla_planner_clblast_row(context, kernel);
    const char *names[CLBLAST_MOST_PARAMETERS];
    size_t values[CLBLAST_MOST_PARAMETERS];
    if (!row) return;
    for (int i = 0; i < of->count; i++) names[i] = of->names[i], values[i] = (size_t)row[i];
    const bool fits = cla_clblast_fits(kernel, row, device->max_work_group, device->local_memory_bytes);
    int code = 0;
    if (fits && calls_of(context)->set_parameters(context->device, of->kernel, (size_t)of->count, names,
                                                  values, &code) == CLBLAST_DONE)
        return;
    cla_log_send(&context->log, CLATTN_LOG_ERROR,
                 "tuned rows: %s: CLBlast does not take it on this device (%d)", of->word, code);
}

static void become_user(clattn_context *context) {
    cla_os_mutex_lock(&context->program_lock);
    for (int i = 0; !context->clblast_used && i < CLBLAST_KERNELS; i++) set_parameters(context, i);
    if (!context->clblast_used) calls_of(context)->enter();
    context->clblast_used = true;
    cla_os_mutex_unlock(&context->program_lock);
}
void cla_clblast_leave(clattn_context *context) {
    if (context->clblast_used) calls_of(context)->leave();
    context->clblast_used = false;
}
void cla_clblast_hand_over(clattn_context *from, clattn_context *to) {
    const clblast_calls *unknown = NULL;
    (void)atomic_compare_exchange_strong(&to->clblast, &unknown, atomic_load(&from->clblast));
    if (from->clblast_used) become_user(to);
    cla_clblast_leave(from);
}

static clattn_status enqueue_barrier(chain *c) {
    cl_uint count;
    const cl_event *list;
    cl_event event;
    TRY(cla_chain_write_tables(c));
    cla_chain_waits(c, &count, &list);
    if (count == 0) return CLATTN_OK;
    const cl_int code = clEnqueueBarrierWithWaitList(c->queue, count, list, cla_chain_event(c, &event));
    if (code != CL_SUCCESS) return cla_context_fail_opencl(c->context, code, "clEnqueueBarrierWithWaitList");
    cla_chain_set_last_event(c, event);
    return CLATTN_OK;
}

static clattn_status multiply(chain *c, const matrix *x, const matrix *w, const matrix *y,
                              const int64_t size[3]) {
    TRY(enqueue_barrier(c));
    cl_event event;
    int code = 0;
    switch (calls_of(c->context)->multiply(x, w, y, size, c->queue, cla_chain_event(c, &event), &code)) {
    case CLBLAST_DONE:
        break;
    case CLBLAST_BUILD_FAILED:
        return cla_context_fail(c->context, CLATTN_BUILD_FAILED,
                                "CLBlast: the driver's compiler refused its GEMM kernel");
    case CLBLAST_UNEXPECTED:
        return cla_context_fail(c->context, CLATTN_DRIVER, "CLBlastSgemm: unexpected error %d", code);
    case CLBLAST_OWN:
        return cla_context_fail(c->context, CLATTN_DRIVER, "CLBlastSgemm: error %d", code);
    case CLBLAST_OPENCL:
        return cla_context_fail_opencl(c->context, (cl_int)code, "CLBlastSgemm");
    }
    cla_chain_set_last_event(c, event);
    cla_context_mark_run(c->context);
    return CLATTN_OK;
}

// At least the tile of CLBlast's kernels, so that cutting a product adds no padding.
#define TILE 128

// Cut a product that is too large for one launch into parts of y, first by rows, then by columns.
// Without progress the parts are sized for the cautious initial rate: CLBlast's event covers only
// its last kernel, so its rate cannot be measured.
clattn_status cla_clblast_multiply(chain *c, const matrix *x, const matrix *w, const matrix *y,
                                   const int64_t size[3]) {
    pace_rate *const rate = &c->context->pace->clblast;
    const double most = cla_pace_most(c->context, rate, c->progress != NULL);
    const double each = 2.0 * (double)size[2];
    const int64_t rows = cla_pace_rows(size[0], TILE, each * (double)size[1], most),
                  columns = cla_pace_rows(size[1], TILE, each * (double)rows, most);
    if (!calls_of(c->context)) return cla_clblast_refuse(c->context);
    become_user(c->context);
    for (int64_t i = 0; i < size[0]; i += rows)
        for (int64_t j = 0; j < size[1]; j += columns) {
            const int64_t part[3] = {size[0] - i < rows ? size[0] - i : rows,
                                     size[1] - j < columns ? size[1] - j : columns, size[2]};
            const matrix part_x = {x->buffer, x->offset + i * x->stride, x->stride},
                         part_w = {w->buffer, w->offset + j * w->stride, w->stride},
                         part_y = {y->buffer, y->offset + i * y->stride + j, y->stride};
            TRY(multiply(c, &part_x, &part_w, &part_y, part));
            TRY(cla_chain_report_progress(c, rate, each * (double)part[0] * (double)part[1]));
        }
    return CLATTN_OK;
}
