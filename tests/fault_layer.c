// fault_layer.c: an OpenCL layer that makes the n-th call of an entry point fail, for test_faults.c. Built as
// a shared library and named in OPENCL_LAYERS, which the Khronos loader reads. Leaves out every call that the
// library does not make. It sees the calls of CLBlast and of the test as well.
//
//   CLFAULT="call:nth:code[,call:nth:code...]"  nth = 0: every call
//   CLFAULT_STATS=1                             print "CLFAULT call count" lines to stderr at exit
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl_layer.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_RULES 32

#define CALLS(X)                                                                                             \
    X(clGetPlatformIDs)                                                                                      \
    X(clCreateContext)                                                                                       \
    X(clCreateBuffer)                                                                                        \
    X(clCreateProgramWithSource)                                                                             \
    X(clCreateProgramWithBinary)                                                                             \
    X(clBuildProgram)                                                                                        \
    X(clCreateKernel)                                                                                        \
    X(clSetKernelArg)                                                                                        \
    X(clEnqueueNDRangeKernel)                                                                                \
    X(clEnqueueReadBuffer)                                                                                   \
    X(clEnqueueWriteBuffer)                                                                                  \
    X(clEnqueueMapBuffer)                                                                                    \
    X(clWaitForEvents)                                                                                       \
    X(clFinish)                                                                                              \
    X(clFlush)

enum call {
#define X(name) CALL_##name,
    CALLS(X)
#undef X
        CALL_COUNT
};

static const char *const names[] = {
#define X(name) #name,
    CALLS(X)
#undef X
};

struct rule {
    int call, nth, code;
};

static struct _cl_icd_dispatch layer;
static const struct _cl_icd_dispatch *next;
static atomic_int counts[CALL_COUNT];
static struct rule rules[MAX_RULES];
static int rule_count;

// The code that this call must fail with, or 0.
static int fault(enum call call) {
    int nth = atomic_fetch_add(&counts[call], 1) + 1;
    for (int n = 0; n < rule_count; n++)
        if (rules[n].call == (int)call && (rules[n].nth == 0 || rules[n].nth == nth)) return rules[n].code;
    return 0;
}

// Entry points that return a status, and those that return an object.
#define RETURNS_STATUS(name, parameters, arguments)                                                          \
    static cl_int CL_API_CALL faulty_##name parameters {                                                     \
        int code = fault(CALL_##name);                                                                       \
        return code != 0 ? code : next->name arguments;                                                      \
    }
#define RETURNS_OBJECT(type, name, parameters, arguments)                                                    \
    static type CL_API_CALL faulty_##name parameters {                                                       \
        int code = fault(CALL_##name);                                                                       \
        if (code == 0) return next->name arguments;                                                          \
        if (err != NULL) *err = code;                                                                        \
        return NULL;                                                                                         \
    }

typedef void(CL_CALLBACK *context_notify)(const char *, const void *, size_t, void *);
typedef void(CL_CALLBACK *program_notify)(cl_program, void *);

RETURNS_STATUS(clGetPlatformIDs, (cl_uint n, cl_platform_id *p, cl_uint *count), (n, p, count))
RETURNS_OBJECT(cl_context, clCreateContext,
               (const cl_context_properties *p, cl_uint n, const cl_device_id *d, context_notify f,
                void *user, cl_int *err),
               (p, n, d, f, user, err))
RETURNS_OBJECT(cl_mem, clCreateBuffer, (cl_context c, cl_mem_flags f, size_t size, void *host, cl_int *err),
               (c, f, size, host, err))
RETURNS_OBJECT(cl_program, clCreateProgramWithSource,
               (cl_context c, cl_uint n, const char **s, const size_t *length, cl_int *err),
               (c, n, s, length, err))
RETURNS_OBJECT(cl_program, clCreateProgramWithBinary,
               (cl_context c, cl_uint n, const cl_device_id *d, const size_t *length, const unsigned char **b,
                cl_int *status, cl_int *err),
               (c, n, d, length, b, status, err))
RETURNS_STATUS(clBuildProgram,
               (cl_program p, cl_uint n, const cl_device_id *d, const char *o, program_notify f, void *user),
               (p, n, d, o, f, user))
RETURNS_OBJECT(cl_kernel, clCreateKernel, (cl_program p, const char *name, cl_int *err), (p, name, err))
RETURNS_STATUS(clSetKernelArg, (cl_kernel k, cl_uint i, size_t size, const void *value), (k, i, size, value))
RETURNS_STATUS(clEnqueueNDRangeKernel,
               (cl_command_queue q, cl_kernel k, cl_uint dims, const size_t *offset, const size_t *global,
                const size_t *local, cl_uint n, const cl_event *wait, cl_event *event),
               (q, k, dims, offset, global, local, n, wait, event))
RETURNS_STATUS(clEnqueueReadBuffer,
               (cl_command_queue q, cl_mem m, cl_bool block, size_t offset, size_t size, void *to, cl_uint n,
                const cl_event *wait, cl_event *event),
               (q, m, block, offset, size, to, n, wait, event))
RETURNS_STATUS(clEnqueueWriteBuffer,
               (cl_command_queue q, cl_mem m, cl_bool block, size_t offset, size_t size, const void *from,
                cl_uint n, const cl_event *wait, cl_event *event),
               (q, m, block, offset, size, from, n, wait, event))
RETURNS_OBJECT(void *, clEnqueueMapBuffer,
               (cl_command_queue q, cl_mem m, cl_bool block, cl_map_flags f, size_t offset, size_t size,
                cl_uint n, const cl_event *wait, cl_event *event, cl_int *err),
               (q, m, block, f, offset, size, n, wait, event, err))
RETURNS_STATUS(clWaitForEvents, (cl_uint n, const cl_event *events), (n, events))
RETURNS_STATUS(clFinish, (cl_command_queue q), (q))
RETURNS_STATUS(clFlush, (cl_command_queue q), (q))

static void print_counts(void) {
    for (int n = 0; n < CALL_COUNT; n++)
        if (counts[n] > 0) fprintf(stderr, "CLFAULT %s %d\n", names[n], counts[n]);
}

static void add_rule(const char *text) {
    char name[64];
    struct rule rule = {0};
    if (rule_count == MAX_RULES || sscanf(text, "%63[^:]:%d:%d", name, &rule.nth, &rule.code) != 3) return;
    for (rule.call = 0; rule.call < CALL_COUNT; rule.call++) {
        if (strcmp(name, names[rule.call]) != 0) continue;
        rules[rule_count++] = rule;
        return;
    }
}

static void read_rules(const char *text) {
    char copy[1024];
    if (text == NULL) return;
    snprintf(copy, sizeof copy, "%s", text);
    for (char *rule = strtok(copy, ","); rule != NULL; rule = strtok(NULL, ",")) add_rule(rule);
}

static cl_int answer(const void *value, size_t value_size, size_t size, void *to, size_t *size_ret) {
    if (to != NULL && size < value_size) return CL_INVALID_VALUE;
    if (to != NULL) memcpy(to, value, value_size);
    if (size_ret != NULL) *size_ret = value_size;
    return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL clGetLayerInfo(cl_layer_info name, size_t size, void *value,
                                               size_t *size_ret) {
    static const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
    static const char layer_name[] = "clattn fault layer";
    if (name == CL_LAYER_API_VERSION) return answer(&version, sizeof version, size, value, size_ret);
    if (name == CL_LAYER_NAME) return answer(layer_name, sizeof layer_name, size, value, size_ret);
    return CL_INVALID_VALUE;
}

CL_API_ENTRY cl_int CL_API_CALL clInitLayer(cl_uint entries, const cl_icd_dispatch *target,
                                            cl_uint *entries_ret, const cl_icd_dispatch **dispatch) {
    const cl_uint own = sizeof layer / sizeof(void *);
    if (target == NULL || entries_ret == NULL || dispatch == NULL) return CL_INVALID_VALUE;
    cl_uint common = entries < own ? entries : own;
    next = target;
    memcpy(&layer, target, common * sizeof(void *));
#define X(name) layer.name = faulty_##name;
    CALLS(X)
#undef X
    read_rules(getenv("CLFAULT"));
    if (getenv("CLFAULT_STATS") != NULL) atexit(print_counts);
    *entries_ret = common;
    *dispatch = &layer;
    return CL_SUCCESS;
}
