// refusing_driver.c: see refusing_driver.h.
#define _GNU_SOURCE
#include "faults/refusing_driver.h"

#include "support/next_function.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct refusing_driver driver;
const char *const step_names[STEPS] = {"", "clBuildProgram", "clCreateKernel", "clSetKernelArg",
                                       "clEnqueueNDRangeKernel"};

// The kernel name of each program, newest last. Names of released programs may stay.
static struct {
    cl_program program;
    char name[64];
    bool refused;
} known[4096];
static int known_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void remember(cl_program program, cl_uint count, const char **texts, const size_t *sizes) {
    const char *name = NULL;
    for (cl_uint i = 0; i < count; i++) {
        const size_t bytes = sizes ? sizes[i] : strlen(texts[i]);
        for (const char *at = texts[i]; at && at < texts[i] + bytes;) {
            at = memmem(at, (size_t)(texts[i] + bytes - at), "__kernel", 8);
            if (!at) break;
            const char *is = memmem(at, (size_t)(texts[i] + bytes - at), " void", 5);
            if (is) name = is + 5 + strspn(is + 5, " \n");
            at += 8;
        }
    }
    pthread_mutex_lock(&lock);
    const int n = known_count++ % 4096;
    known[n].program = program, known[n].refused = false;
    snprintf(known[n].name, sizeof known[n].name, "%.*s", name ? (int)strcspn(name, "(") : 0,
             name ? name : "");
    pthread_mutex_unlock(&lock);
}

static int find_program(cl_program program) {
    int found = -1;
    pthread_mutex_lock(&lock);
    for (int n = known_count - 1; n >= 0 && n >= known_count - 4096 && found < 0; n--)
        if (known[n % 4096].program == program) found = n % 4096;
    pthread_mutex_unlock(&lock);
    return found;
}

static bool is_refused(step at, const char *name) {
    if (!driver.kernel || driver.at != at || strncmp(name, driver.kernel, strlen(driver.kernel)))
        return false;
    driver.hits++;
    return true;
}

CL_API_ENTRY cl_program CL_API_CALL clCreateProgramWithSource(cl_context context, cl_uint count,
                                                              const char **texts, const size_t *sizes,
                                                              cl_int *code) {
    cl_program (*real)(cl_context, cl_uint, const char **, const size_t *, cl_int *);
    *(void **)&real = next("clCreateProgramWithSource");
    driver.all++;
    const cl_program made = real(context, count, texts, sizes, code);
    if (made) remember(made, count, texts, sizes);
    return made;
}

static const char *held_kernel;
static int held;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate_moved = PTHREAD_COND_INITIALIZER;

void driver_hold(const char *kernel) {
    pthread_mutex_lock(&gate);
    held_kernel = kernel;
    pthread_cond_broadcast(&gate_moved);
    pthread_mutex_unlock(&gate);
}

int driver_held(void) {
    pthread_mutex_lock(&gate);
    const int now = held;
    pthread_mutex_unlock(&gate);
    return now;
}

static void wait_while_held(const char *name) {
    pthread_mutex_lock(&gate);
    held++;
    while (held_kernel && !strncmp(name, held_kernel, strlen(held_kernel)))
        pthread_cond_wait(&gate_moved, &gate);
    held--;
    pthread_mutex_unlock(&gate);
}

CL_API_ENTRY cl_int CL_API_CALL clBuildProgram(cl_program program, cl_uint count, const cl_device_id *devices,
                                               const char *options,
                                               void(CL_CALLBACK *done)(cl_program, void *), void *user) {
    cl_int (*real)(cl_program, cl_uint, const cl_device_id *, const char *,
                   void(CL_CALLBACK *)(cl_program, void *), void *);
    *(void **)&real = next("clBuildProgram");
    const int n = find_program(program);
    driver.all++;
    if (n >= 0 && driver.kernel && !strncmp(known[n].name, driver.kernel, strlen(driver.kernel)))
        driver.builds++;
    if (n >= 0) wait_while_held(known[n].name);
    if (n >= 0 && is_refused(BUILD, known[n].name)) {
        known[n].refused = true;
        return driver.code;
    }
    if (driver.slow_build) usleep(300000);
    return real(program, count, devices, options, done, user);
}

// The library's clock. With `slow_build` it jumps by ten seconds, so that no test must wait.
int clock_gettime(clockid_t clock, struct timespec *now) {
    const int result = (int)syscall(SYS_clock_gettime, clock, now);
    if (driver.slow_build && clock == CLOCK_REALTIME) now->tv_sec -= 10;
    return result;
}

CL_API_ENTRY cl_int CL_API_CALL clGetProgramBuildInfo(cl_program program, cl_device_id device,
                                                      cl_program_build_info what, size_t size, void *value,
                                                      size_t *size_ret) {
    cl_int (*real)(cl_program, cl_device_id, cl_program_build_info, size_t, void *, size_t *);
    *(void **)&real = next("clGetProgramBuildInfo");
    const int n = find_program(program);
    if (n < 0 || !known[n].refused || what != CL_PROGRAM_BUILD_LOG)
        return real(program, device, what, size, value, size_ret);
    static const char text[] = "\nstep.cl:2:1: warning: of no interest\n" LINE "\nmore\n";
    if (size_ret) *size_ret = sizeof text;
    if (value) memcpy(value, text, size < sizeof text ? size : sizeof text);
    return CL_SUCCESS;
}

CL_API_ENTRY cl_kernel CL_API_CALL clCreateKernel(cl_program program, const char *name, cl_int *code) {
    cl_kernel (*real)(cl_program, const char *, cl_int *);
    *(void **)&real = next("clCreateKernel");
    driver.all++;
    if (!is_refused(CREATE, name)) return real(program, name, code);
    if (code) *code = driver.code;
    return NULL;
}

static const char *name_of(cl_kernel kernel, char name[128]) {
    name[0] = '\0';
    clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, 128, name, NULL);
    return name;
}

CL_API_ENTRY cl_int CL_API_CALL clSetKernelArg(cl_kernel kernel, cl_uint index, size_t size,
                                               const void *value) {
    cl_int (*real)(cl_kernel, cl_uint, size_t, const void *);
    char name[128];
    *(void **)&real = next("clSetKernelArg");
    driver.all++;
    if (index == 1 && is_refused(ARGUMENT, name_of(kernel, name))) return driver.code;
    return real(kernel, index, size, value);
}

CL_API_ENTRY cl_int CL_API_CALL clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dims,
                                                       const size_t *offset, const size_t *global,
                                                       const size_t *local, cl_uint count,
                                                       const cl_event *list, cl_event *event) {
    cl_int (*real)(cl_command_queue, cl_kernel, cl_uint, const size_t *, const size_t *, const size_t *,
                   cl_uint, const cl_event *, cl_event *);
    char name[128];
    size_t group = 1;
    *(void **)&real = next("clEnqueueNDRangeKernel");
    driver.all++;
    for (cl_uint i = 0; local && i < dims; i++) group *= local[i];
    if (driver.kernel && driver.at == LAUNCH && group > driver.most &&
        !strncmp(name_of(kernel, name), driver.kernel, strlen(driver.kernel)) && driver.spared-- <= 0 &&
        is_refused(LAUNCH, name))
        return driver.code;
    return real(queue, kernel, dims, offset, global, local, count, list, event);
}

CL_API_ENTRY cl_int CL_API_CALL clGetPlatformInfo(cl_platform_id platform, cl_platform_info what, size_t size,
                                                  void *value, size_t *size_ret) {
    cl_int (*real)(cl_platform_id, cl_platform_info, size_t, void *, size_t *);
    *(void **)&real = next("clGetPlatformInfo");
    static const char name[] = "Stranger";
    if (!driver.stranger || (what != CL_PLATFORM_NAME && what != CL_PLATFORM_VERSION))
        return real(platform, what, size, value, size_ret);
    if (size_ret) *size_ret = sizeof name;
    if (value && size < sizeof name) return CL_INVALID_VALUE;
    if (value) memcpy(value, name, sizeof name);
    return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t size,
                                                void *value, size_t *size_ret) {
    cl_int (*real)(cl_device_id, cl_device_info, size_t, void *, size_t *);
    *(void **)&real = next("clGetDeviceInfo");
    const cl_int code = real(device, what, size, value, size_ret);
    if (code == CL_SUCCESS && what == CL_DEVICE_TYPE && driver.slow_device && value)
        *(cl_device_type *)value = CL_DEVICE_TYPE_GPU;
    return code;
}
