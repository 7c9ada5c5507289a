// clblast_module.h: what the library wants of CLBlast, without CLBlast's header: a table of functions that a module of its own has,
// because CLBlast is linked with OpenCL and the library is not. Libraries that are linked with OpenCL have it inside.
#ifndef CLATTN_LAYER_PROJECTION_CLBLAST_MODULE_H
#define CLATTN_LAYER_PROJECTION_CLBLAST_MODULE_H
#include <clattn/clattn.h>

// A row-major float32 matrix in a buffer: element (r, c) is at offset + r*stride + c.
typedef struct matrix {
    cl_mem buffer;
    int64_t offset, stride;
} matrix;

// The outcome of a call: it says whose the code is.
typedef enum clblast_outcome {
    CLBLAST_DONE,
    CLBLAST_BUILD_FAILED, // the driver's compiler refused a kernel
    CLBLAST_UNEXPECTED,   // an exception inside
    CLBLAST_OWN,          // one of CLBlast's own
    CLBLAST_OPENCL        // OpenCL's
} clblast_outcome;

typedef struct clblast_calls {
    int version; // CLATTN_VERSION_NUMBER of the library that it was built with
    // y[rows, columns] = x[rows, inner] w[columns, inner]^T
    clblast_outcome (*multiply)(const matrix *x, const matrix *w, const matrix *y, const int64_t size[3],
                                cl_command_queue queue, cl_event *event, int *code);
    // Parameters of one of its kernels, for the device and in the whole process.
    clblast_outcome (*set_parameters)(cl_device_id device, const char *kernel, size_t count,
                                      const char *const *names, const size_t *values, int *code);
    // Contexts of the process that use it, counted: when the last one leaves, what was compiled for them all is dropped.
    void (*enter)(void);
    void (*leave)(void);
} clblast_calls;

#ifdef CLATTN_LINK_OPENCL
extern const clblast_calls cla_clblast_calls;
#else
CLATTN_API extern const clblast_calls clattn_clblast_calls;
#endif
#endif
