// binary.c: see binary.h.
#include "program/binary.h"

#include <stdio.h>
#include <string.h>

#include "args/args.h"
#include "base/host.h"

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define HIDES "-DMATRIX_ENGINE=" TEXT(MATRIX_ENGINE_WGMMA)
#define TARGET ".target sm_"

char *cla_binary_log(const clattn_context *c, cl_program built) {
    size_t bytes = 0;
    if (clGetProgramBuildInfo(built, c->device, CL_PROGRAM_BUILD_LOG, 0, NULL, &bytes) != CL_SUCCESS ||
        bytes < 2)
        return NULL;
    char *text = cla_host_take_zeroed(&c->host, bytes + 1, 1);
    if (text &&
        clGetProgramBuildInfo(built, c->device, CL_PROGRAM_BUILD_LOG, bytes, text, NULL) == CL_SUCCESS)
        return text;
    cla_host_release(&c->host, text);
    return NULL;
}

cl_int cla_binary_build(const clattn_context *c, cl_program built, const char *options) {
    const cl_int code = clBuildProgram(built, 1, &c->device, options, NULL, NULL);
    if (code != CL_BUILD_PROGRAM_FAILURE) return code;
    char *log = cla_binary_log(c, built);
    const bool told = log && strstr(log, "error");
    cla_host_release(&c->host, log);
    return told ? code : clBuildProgram(built, 1, &c->device, options, NULL, NULL);
}

// A program may hold a binary for each device of the caller's cl_context.
unsigned char *cla_binary_of(const clattn_context *c, cl_program built, size_t *bytes) {
    cl_uint devices = 0;
    if (clGetProgramInfo(built, CL_PROGRAM_NUM_DEVICES, sizeof devices, &devices, NULL) != CL_SUCCESS ||
        !devices)
        return NULL;
    cl_device_id *ids = cla_host_take_zeroed(&c->host, devices, sizeof *ids);
    size_t *sizes = cla_host_take_zeroed(&c->host, devices, sizeof *sizes);
    unsigned char **binaries = cla_host_take_zeroed(&c->host, devices, sizeof *binaries), *binary = NULL;
    cl_uint mine = devices;
    if (ids && sizes && binaries &&
        clGetProgramInfo(built, CL_PROGRAM_DEVICES, devices * sizeof *ids, ids, NULL) == CL_SUCCESS &&
        clGetProgramInfo(built, CL_PROGRAM_BINARY_SIZES, devices * sizeof *sizes, sizes, NULL) == CL_SUCCESS)
        for (cl_uint i = 0; i < devices; i++)
            if (ids[i] == c->device) mine = i;
    // A NULL entry skips that device's binary.
    if (mine < devices && sizes[mine] && (binaries[mine] = cla_host_take(&c->host, sizes[mine]))) {
        binary = binaries[mine], *bytes = sizes[mine];
        if (clGetProgramInfo(built, CL_PROGRAM_BINARIES, devices * sizeof *binaries, binaries, NULL) !=
            CL_SUCCESS) {
            cla_host_release(&c->host, binary);
            binary = NULL;
        }
    }
    cla_host_release(&c->host, binaries);
    cla_host_release(&c->host, sizes);
    cla_host_release(&c->host, ids);
    return binary;
}

char *cla_ptx_patch_target(const clattn_context *c, const unsigned char *binary, size_t bytes) {
    char *text = cla_host_take_zeroed(&c->host, bytes + 2, 1);
    if (!text) return NULL;
    memcpy(text, binary, bytes);
    char *target = strstr(text, TARGET);
    const size_t number = target ? strspn(target + strlen(TARGET), "0123456789") : 0;
    if (!number) {
        cla_host_release(&c->host, text);
        return NULL;
    }
    target += strlen(TARGET) + number;
    memmove(target + 1, target, strlen(target) + 1);
    *target = 'a';
    for (char *at = text; (at = strstr(at, FRAGMENT_HIDDEN)) != NULL;)
        memset(at, ' ', strlen(FRAGMENT_HIDDEN));
    return text;
}

cl_int cla_ptx_enable_wgmma(const clattn_context *c, const char *options, cl_program *built) {
    size_t bytes = 0;
    if (!strstr(options, HIDES)) return CL_SUCCESS;
    unsigned char *binary = cla_binary_of(c, *built, &bytes);
    char *text = binary ? cla_ptx_patch_target(c, binary, bytes) : NULL;
    cla_host_release(&c->host, binary);
    if (!text) return CL_INVALID_BINARY;
    const size_t length = strlen(text);
    const unsigned char *const other = (const unsigned char *)text;
    cl_int each = CL_SUCCESS, code = CL_SUCCESS;
    cl_program shown = clCreateProgramWithBinary(c->opencl, 1, &c->device, &length,
                                                 (const unsigned char **)&other, &each, &code);
    cla_host_release(&c->host, text);
    if (!shown) return code;
    clReleaseProgram(*built);
    *built = shown;
    return each == CL_SUCCESS ? cla_binary_build(c, shown, options) : each;
}
