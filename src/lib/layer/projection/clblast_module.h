// clblast_module.h: the table of functions through which the library calls CLBlast, without
// CLBlast's header. The table is in a separate module, because CLBlast links with OpenCL and the
// library does not. Libraries that link with OpenCL contain the table themselves.
#ifndef CLATTN_LAYER_PROJECTION_CLBLAST_MODULE_H
#define CLATTN_LAYER_PROJECTION_CLBLAST_MODULE_H
#include <clattn/clattn.h>

// A row-major float32 matrix in a buffer. Element (r, c) is at offset + r * stride + c.
typedef struct matrix {
    cl_mem buffer;
    int64_t offset, stride;
} matrix;

// Result of a call, and the origin of the error number `code`.
typedef enum clblast_outcome {
    CLBLAST_DONE,
    CLBLAST_BUILD_FAILED, // the driver's compiler refused a kernel
    CLBLAST_UNEXPECTED,   // an exception inside CLBlast
    CLBLAST_OWN,          // CLBlast's own code
    CLBLAST_OPENCL        // OpenCL's code
} clblast_outcome;

typedef struct clblast_calls {
    int version; // CLATTN_VERSION_NUMBER of the library it was built with
    // y[rows, columns] = x[rows, inner] w[columns, inner]^T
    clblast_outcome (*multiply)(const matrix *x, const matrix *w, const matrix *y, const int64_t size[3],
                                cl_command_queue queue, cl_event *event, int *code);
    // Set a kernel's tuning parameters, for the device and in the whole process.
    clblast_outcome (*set_parameters)(cl_device_id device, const char *kernel, size_t count,
                                      const char *const *names, const size_t *values, int *code);
    // Count the contexts of the process that use CLBlast. When the last one leaves, all compiled
    // kernels are dropped.
    void (*enter)(void);
    void (*leave)(void);
} clblast_calls;

#ifdef CLATTN_LINK_OPENCL
extern const clblast_calls cla_clblast_calls;
#else
CLATTN_API extern const clblast_calls clattn_clblast_calls;
#endif
#endif
