// no_cpu.h: fixtures of a suite that tests the device as it is, and as a device that is no CPU and
// runs kernels with work-groups. Its clGetDeviceInfo replaces the loader's. Only the suite's one
// file includes this header, and defines _GNU_SOURCE first.
#ifndef CLATTN_TESTS_NO_CPU_H
#define CLATTN_TESTS_NO_CPU_H

#include "support/harness.h"
#include "support/next_function.h"

static bool is_gpu;        // the device reports that it is a GPU
static clattn_context *on; // a context of the device that is no CPU

CL_API_ENTRY cl_int CL_API_CALL clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t size,
                                                void *value, size_t *size_ret) {
    cl_int (*real)(cl_device_id, cl_device_info, size_t, void *, size_t *);
    *(void **)&real = next("clGetDeviceInfo");
    const cl_int code = real(device, what, size, value, size_ret);
    if (code == CL_SUCCESS && what == CL_DEVICE_TYPE && is_gpu && value)
        *(cl_device_type *)value = CL_DEVICE_TYPE_GPU;
    return code;
}

static void begin_cpu(void) {
    on = harness()->context;
}
static void begin_gpu(void) {
    is_gpu = true;
    on = harness_open((clattn_context_params){.context = harness()->opencl, .log = harness_log()});
    is_gpu = false;
    ck_assert(!clattn_context_capabilities(on)->is_cpu);
}
static void end_gpu(void) {
    clattn_context_destroy(on);
}

#endif
