// clblast.c: see clblast.h. CLBlast takes no wait list, so a barrier with the wait list, where there is one, goes in front of it;
// inside a call it orders its own kernels by events. It only knows one product at a time: rows, columns,
// inner size.
#include "layer/clblast.h"

#ifdef CLATTN_HAVE_CLBLAST
#include <clblast_c.h>
#include <stdatomic.h>

#include "plan/planner.h"

bool cla_clblast_available(void) {
    return true;
}
// Contexts of the process that have used CLBlast. It keeps one cache for all cl_contexts and can only drop all of it,
// so that waits for the last of them; until then a cl_context that only the cache knows stays alive in it.
static atomic_int users;

// Give CLBlast the parameters of a tuned row, which it then has for the device in the whole process and until it ends; with
// its next product it compiles anew.
static void set_parameters(clattn_context *context, int kernel) {
    const clblast_kernel *of = &cla_clblast_kernels[kernel];
    const clattn_capabilities *device = &context->capabilities;
    const int *row = cla_planner_clblast_row(context, kernel);
    const char *names[CLBLAST_MOST_PARAMETERS];
    size_t values[CLBLAST_MOST_PARAMETERS];
    if (!row) return;
    for (int i = 0; i < of->count; i++) names[i] = of->names[i], values[i] = (size_t)row[i];
    const bool fits = cla_clblast_fits(kernel, row, device->max_work_group, device->local_memory_bytes);
    const CLBlastStatusCode code =
        fits ? CLBlastOverrideParameters(context->device, of->kernel, CLBlastPrecisionSingle,
                                         (size_t)of->count, names, values)
             : CLBlastInvalidLocalMemUsage;
    if (code != CLBlastSuccess)
        cla_log_send(&context->log, CLATTN_LOG_ERROR,
                     "tuned rows: %s: CLBlast does not take it on this device (%d)", of->word, (int)code);
}

static void become_user(clattn_context *context) {
    cla_os_mutex_lock(&context->program_lock);
    for (int i = 0; !context->clblast_used && i < CLBLAST_KERNELS; i++) set_parameters(context, i);
    if (!context->clblast_used) atomic_fetch_add(&users, 1);
    context->clblast_used = true;
    cla_os_mutex_unlock(&context->program_lock);
}
void cla_clblast_leave(clattn_context *context) {
    if (context->clblast_used && atomic_fetch_sub(&users, 1) == 1) CLBlastClearCache();
    context->clblast_used = false;
}
void cla_clblast_hand_over(clattn_context *from, clattn_context *to) {
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
    cla_chain_took(c, event);
    return CLATTN_OK;
}

static clattn_status multiply(chain *c, const matrix *x, const matrix *w, const matrix *y,
                              const int64_t size[3]) {
    TRY(enqueue_barrier(c));
    cl_event event;
    cl_command_queue queue = c->queue;
    const CLBlastStatusCode code =
        CLBlastSgemm(CLBlastLayoutRowMajor, CLBlastTransposeNo, CLBlastTransposeYes, (size_t)size[0],
                     (size_t)size[1], (size_t)size[2], 1.0f, x->buffer, (size_t)x->offset, (size_t)x->stride,
                     w->buffer, (size_t)w->offset, (size_t)w->stride, 0.0f, y->buffer, (size_t)y->offset,
                     (size_t)y->stride, &queue, cla_chain_event(c, &event));
    if (code == CLBlastOpenCLBuildProgramFailure)
        return cla_context_fail(c->context, CLATTN_BUILD_FAILED,
                                "CLBlast: the driver's compiler refused its GEMM kernel");
    if (code == CLBlastUnexpectedError || code == CLBlastUnknownError)
        return cla_context_fail(c->context, CLATTN_DRIVER, "CLBlastSgemm: unexpected error %d", (int)code);
    // Its codes are OpenCL's where an OpenCL call failed; CLBlast's own lie between -1012 and -2048.
    if (code != CLBlastSuccess && (int)code <= -1012 && (int)code != OPENCL_ILLEGAL_ACCESS)
        return cla_context_fail(c->context, CLATTN_DRIVER, "CLBlastSgemm: error %d", (int)code);
    if (code != CLBlastSuccess) return cla_context_fail_opencl(c->context, (cl_int)code, "CLBlastSgemm");
    cla_chain_took(c, event);
    cla_context_mark_run(c->context);
    return CLATTN_OK;
}

#define TILE 128 // at least that of its kernels, so that a part of a product does no more than the whole

// A product that is too large for a launch in parts of y, rows before columns. Unless somebody hears of progress, at the cautious
// rate of the start: CLBlast's event is that of its last kernel alone.
clattn_status cla_clblast_multiply(chain *c, const matrix *x, const matrix *w, const matrix *y,
                                   const int64_t size[3]) {
    pace_rate *const rate = &c->context->pace->clblast;
    const double most = cla_pace_most(c->context, rate, c->progress != NULL);
    const double each = 2.0 * (double)size[2];
    const int64_t rows = cla_pace_rows(size[0], TILE, each * (double)size[1], most),
                  columns = cla_pace_rows(size[1], TILE, each * (double)rows, most);
    become_user(c->context);
    for (int64_t i = 0; i < size[0]; i += rows)
        for (int64_t j = 0; j < size[1]; j += columns) {
            const int64_t part[3] = {size[0] - i < rows ? size[0] - i : rows,
                                     size[1] - j < columns ? size[1] - j : columns, size[2]};
            const matrix part_x = {x->buffer, x->offset + i * x->stride, x->stride},
                         part_w = {w->buffer, w->offset + j * w->stride, w->stride},
                         part_y = {y->buffer, y->offset + i * y->stride + j, y->stride};
            TRY(multiply(c, &part_x, &part_w, &part_y, part));
            TRY(cla_chain_tell(c, rate, each * (double)part[0] * (double)part[1]));
        }
    return CLATTN_OK;
}
#else
bool cla_clblast_available(void) {
    return false;
}
void cla_clblast_leave(clattn_context *context) {
    (void)context;
}
void cla_clblast_hand_over(clattn_context *from, clattn_context *to) {
    (void)from, (void)to;
}
clattn_status cla_clblast_multiply(chain *c, const matrix *x, const matrix *w, const matrix *y,
                                   const int64_t size[3]) {
    (void)x, (void)w, (void)y, (void)size;
    return cla_context_fail(c->context, CLATTN_UNSUPPORTED, "projection: this build has no CLBlast");
}
#endif
