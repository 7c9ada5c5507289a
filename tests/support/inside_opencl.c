// inside_opencl.c: some suites are linked with the library's internals, and the harness uses the
// shared library. Each has its own access to OpenCL. This file opens OpenCL for the internals
// before anything runs.
#include "device/opencl.h"

__attribute__((constructor)) static void open_insides(void) {
    (void)cla_opencl_open(NULL); // without OpenCL the suite reports that itself
}
