// program.h: compiled kernels of a context, one for each program_spec, built on first use or taken from the cache.
#ifndef CLATTN_CORE_PROGRAM_H
#define CLATTN_CORE_PROGRAM_H
#include "core/context.h"
#include "core/kernels.h"
#include "core/knobs.h"

// What names a program: all of it is compared, and all of it is in the cache's key.
typedef struct program_spec {
    enum kernel_id id;
    knobs knobs;
    const char *options;  // of the compiler, besides the knobs; NULL: PROGRAM_OPTIONS
    const char *inserted; // OpenCL C in front of the source, such as a caller's score function; NULL: none
} program_spec;

#define PROGRAM_OPTIONS "-cl-std=CL1.2"

typedef struct program {
    struct program *next;
    program_spec spec; // with texts of its own
    cl_program program;
    cl_kernel kernel;
    uint8_t key[32];
    bool
        building; // by a thread, of which the context's program_built tells the end; the rest is not there yet
    bool unsaved; // built here and not in the cache yet
    // clSetKernelArg on a shared kernel is the one OpenCL call that is not safe across threads: hold this
    // from the first argument to the enqueue.
    os_mutex lock;
} program;

// The compiled kernel; it belongs to the context. BUILD_FAILED sends the build log to the log callback.
clattn_status cla_program_get_spec(clattn_context *context, const program_spec *spec, program **result);
// The same with the usual options and nothing inserted.
clattn_status cla_program_get(clattn_context *context, enum kernel_id id, const knobs *k, program **result);

// Release all of a context's programs.
void cla_programs_release(clattn_context *context);
#endif
