// program.h: compiled kernels of a context, one for each (kernel, knobs), built on first use or taken from
// the cache.
#ifndef CLATTN_CORE_PROGRAM_H
#define CLATTN_CORE_PROGRAM_H
#include "core/context.h"
#include "core/kernels.h"
#include "plan/knobs.h"

typedef struct program {
    struct program *next;
    enum kernel_id id;
    knobs knobs;
    cl_program program;
    cl_kernel kernel;
    uint8_t key[32];
    bool unsaved; // built here and not in the cache yet
    // clSetKernelArg on a shared kernel is the one OpenCL call that is not safe across threads: hold this
    // from the first argument to the enqueue.
    os_mutex lock;
} program;

// The compiled kernel; it belongs to the context. BUILD_FAILED sends the build log to the log callback.
clattn_status cla_program_get(clattn_context *context, enum kernel_id id, const knobs *k, program **result);

// Release all of a context's programs.
void cla_programs_release(clattn_context *context);
#endif
