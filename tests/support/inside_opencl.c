// inside_opencl.c: suites that are linked with the library's insides call them beside the shared library that the harness uses:
// two libraries, each with a way to OpenCL of its own. This opens the insides' before anything runs.
#include "device/opencl.h"

__attribute__((constructor)) static void open_insides(void) {
    (void)cla_opencl_open(NULL); // where there is no OpenCL the suite says so
}
