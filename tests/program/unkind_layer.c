// unkind_layer.c: for check_doctor.sh, a driver that crashes or hangs processes, or fails. It is an
// OpenCL layer (OPENCL_LAYERS), controlled by variables:
//
//   UNKIND_DIES, UNKIND_HANGS   WORD: clBuildProgram of a source with WORD and a parenthesis
//                               crashes or hangs
//   UNKIND_REFUSES              WORD: such a build fails, and its log has an error
//   UNKIND_LIES                 WORD: after such a build, clEnqueueReadBuffer returns wrong numbers
//   UNKIND_SILENT               clGetDeviceInfo fails
//   UNKIND_EMPTY                no platform has a device
//   UNKIND_LOAD                 crashes when it is loaded
//   UNKIND_VERSION              replaces CL_PLATFORM_VERSION
//   UNKIND_NAME                 replaces CL_PLATFORM_NAME
//   UNKIND_FILE                 with LD_PRELOAD: the path of a device file that glob() finds and
//                               access() refuses
#define _POSIX_C_SOURCE 200809L
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl_layer.h>

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct _cl_icd_dispatch layer;
static const struct _cl_icd_dispatch *next;
static bool lies;

static cl_int answer(const void *from, size_t bytes, size_t size, void *value, size_t *size_ret) {
    if (value && size < bytes) return CL_INVALID_VALUE;
    if (value) memcpy(value, from, bytes);
    if (size_ret) *size_ret = bytes;
    return CL_SUCCESS;
}

// Returns true if the source calls or defines a function whose name ends with the word.
static bool has_word(cl_program program, const char *variable) {
    const char *word = getenv(variable);
    size_t size = 0;
    char call[128];
    bool found = false;
    if (!word || next->clGetProgramInfo(program, CL_PROGRAM_SOURCE, 0, NULL, &size) != CL_SUCCESS || size < 2)
        return false;
    char *source = malloc(size);
    snprintf(call, sizeof call, " %s(", word);
    if (next->clGetProgramInfo(program, CL_PROGRAM_SOURCE, size, source, NULL) == CL_SUCCESS)
        found = strstr(source, call) ||
                (strstr(source, call + 1) && strstr(source, "\n") && strstr(source, call + 1)[-1] == '\n');
    free(source);
    return found;
}

static cl_int CL_API_CALL build(cl_program program, cl_uint count, const cl_device_id *devices,
                                const char *options, void(CL_CALLBACK *told)(cl_program, void *),
                                void *user) {
    if (has_word(program, "UNKIND_DIES")) {
        fprintf(stderr, "unkind: internal compiler error in /home/%s/driver.c\n", getenv("USER"));
        signal(SIGSEGV, SIG_DFL); // PoCL catches this signal
        raise(SIGSEGV);
    }
    while (has_word(program, "UNKIND_HANGS")) sleep(1);
    if (has_word(program, "UNKIND_REFUSES")) return CL_BUILD_PROGRAM_FAILURE;
    lies = lies || has_word(program, "UNKIND_LIES");
    return next->clBuildProgram(program, count, devices, options, told, user);
}

static cl_int CL_API_CALL build_info(cl_program program, cl_device_id device, cl_program_build_info what,
                                     size_t size, void *value, size_t *size_ret) {
    static const char log[] = "kernel.cl:7:9: error: too unkind\n";
    if (what == CL_PROGRAM_BUILD_LOG && has_word(program, "UNKIND_REFUSES"))
        return answer(log, sizeof log, size, value, size_ret);
    return next->clGetProgramBuildInfo(program, device, what, size, value, size_ret);
}

static cl_int CL_API_CALL read_buffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t at,
                                      size_t bytes, void *to, cl_uint count, const cl_event *waits,
                                      cl_event *event) {
    const cl_int code =
        next->clEnqueueReadBuffer(queue, buffer, blocking, at, bytes, to, count, waits, event);
    for (size_t i = 0; lies && blocking && i + sizeof(float) <= bytes; i += sizeof(float)) {
        float x;
        memcpy(&x, (char *)to + i, sizeof x);
        if (x > 0.01f && x < 10.0f) x *= 1.5f, memcpy((char *)to + i, &x, sizeof x);
    }
    return code;
}

// In front of the C library's. Programs of large files call glob64; the two structs are alike.
int access(const char *path, int mode) {
    const char *file = getenv("UNKIND_FILE");
    if (file && !strcmp(path, file)) {
        errno = EACCES;
        return -1;
    }
    return faccessat(AT_FDCWD, path, mode, 0);
}

static int find(const char *pattern, glob_t *found) {
    static char *paths[2];
    const char *file = getenv("UNKIND_FILE");
    paths[0] = (char *)file;
    *found = (glob_t){.gl_pathc = 1, .gl_pathv = paths};
    return file && !strncmp(pattern, file, strcspn(pattern, "*[")) ? 0 : GLOB_NOMATCH;
}
int glob(const char *pattern, int flags, int (*failed)(const char *, int), glob_t *found) {
    (void)flags, (void)failed;
    return find(pattern, found);
}
int glob64(const char *pattern, int flags, int (*failed)(const char *, int), glob_t *found) {
    (void)flags, (void)failed;
    return find(pattern, found);
}
void globfree(glob_t *found) {
    (void)found;
}
void globfree64(glob_t *found) {
    (void)found;
}

static cl_int CL_API_CALL device_info(cl_device_id device, cl_device_info what, size_t size, void *value,
                                      size_t *size_ret) {
    return getenv("UNKIND_SILENT") ? CL_OUT_OF_RESOURCES
                                   : next->clGetDeviceInfo(device, what, size, value, size_ret);
}

static cl_int CL_API_CALL device_ids(cl_platform_id platform, cl_device_type type, cl_uint room,
                                     cl_device_id *devices, cl_uint *count) {
    return getenv("UNKIND_EMPTY") ? CL_DEVICE_NOT_FOUND
                                  : next->clGetDeviceIDs(platform, type, room, devices, count);
}

static cl_int CL_API_CALL platform_info(cl_platform_id platform, cl_platform_info what, size_t size,
                                        void *value, size_t *size_ret) {
    const char *version = getenv("UNKIND_VERSION"), *name = getenv("UNKIND_NAME");
    if (version && what == CL_PLATFORM_VERSION)
        return answer(version, strlen(version) + 1, size, value, size_ret);
    if (name && what == CL_PLATFORM_NAME) return answer(name, strlen(name) + 1, size, value, size_ret);
    return next->clGetPlatformInfo(platform, what, size, value, size_ret);
}

CL_API_ENTRY cl_int CL_API_CALL clGetLayerInfo(cl_layer_info name, size_t size, void *value,
                                               size_t *size_ret) {
    static const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
    static const char layer_name[] = "unkind";
    if (name == CL_LAYER_API_VERSION) return answer(&version, sizeof version, size, value, size_ret);
    return name == CL_LAYER_NAME ? answer(layer_name, sizeof layer_name, size, value, size_ret)
                                 : CL_INVALID_VALUE;
}

CL_API_ENTRY cl_int CL_API_CALL clInitLayer(cl_uint entries, const cl_icd_dispatch *target,
                                            cl_uint *entries_ret, const cl_icd_dispatch **dispatch) {
    const cl_uint own = sizeof layer / sizeof(void *), common = entries < own ? entries : own;
    if (getenv("UNKIND_LOAD")) raise(SIGABRT);
    next = target;
    memcpy(&layer, target, common * sizeof(void *));
    layer.clBuildProgram = build;
    layer.clGetProgramBuildInfo = build_info;
    layer.clEnqueueReadBuffer = read_buffer;
    layer.clGetDeviceInfo = device_info;
    layer.clGetDeviceIDs = device_ids;
    layer.clGetPlatformInfo = platform_info;
    *entries_ret = common;
    *dispatch = &layer;
    return CL_SUCCESS;
}
