// clblast_module.c: see clblast_module.h. Compiled as a module (libclattn-clblast), or into
// libraries that link with OpenCL.
#include "layer/projection/clblast_module.h"

#if defined(CLATTN_CLBLAST_INSIDE)
#include <clblast_c.h>
#include <stdatomic.h>

// CLBlast has one cache for all cl_contexts and can only clear it whole, so clearing waits for the
// last user. Until then the cache keeps cl_contexts alive that nobody else uses.
static atomic_int users;

static void enter(void) {
    atomic_fetch_add(&users, 1);
}
static void leave(void) {
    if (atomic_fetch_sub(&users, 1) == 1) CLBlastClearCache();
}

// CLBlast returns OpenCL's code if an OpenCL call failed. Its own codes are -1012 to -2048. -9999
// is a code of NVIDIA's OpenCL.
static clblast_outcome outcome_of(CLBlastStatusCode status, int *code) {
    *code = (int)status;
    if (status == CLBlastSuccess) return CLBLAST_DONE;
    if (status == CLBlastOpenCLBuildProgramFailure) return CLBLAST_BUILD_FAILED;
    if (status == CLBlastUnexpectedError || status == CLBlastUnknownError) return CLBLAST_UNEXPECTED;
    return *code <= -1012 && *code != -9999 ? CLBLAST_OWN : CLBLAST_OPENCL;
}

static clblast_outcome multiply(const matrix *x, const matrix *w, const matrix *y, const int64_t size[3],
                                cl_command_queue queue, cl_event *event, int *code) {
    return outcome_of(CLBlastSgemm(CLBlastLayoutRowMajor, CLBlastTransposeNo, CLBlastTransposeYes,
                                   (size_t)size[0], (size_t)size[1], (size_t)size[2], 1.0f, x->buffer,
                                   (size_t)x->offset, (size_t)x->stride, w->buffer, (size_t)w->offset,
                                   (size_t)w->stride, 0.0f, y->buffer, (size_t)y->offset, (size_t)y->stride,
                                   &queue, event),
                      code);
}

static clblast_outcome set_parameters(cl_device_id device, const char *kernel, size_t count,
                                      const char *const *names, const size_t *values, int *code) {
    return outcome_of(CLBlastOverrideParameters(device, kernel, CLBlastPrecisionSingle, count,
                                                (const char **)names, values),
                      code);
}

#define CALLS                                                                                                \
    { CLATTN_VERSION_NUMBER, multiply, set_parameters, enter, leave }
#ifdef CLATTN_LINK_OPENCL
const clblast_calls cla_clblast_calls = CALLS;
#else
const clblast_calls clattn_clblast_calls = CALLS;
#endif
#endif
