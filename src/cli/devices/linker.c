// linker.c: PoCL on a CPU links each kernel with `ld` from PATH, and ends the process if there is
// no `ld`. If PATH has no `ld`, a child process tries to build a kernel first, because some builds
// of PoCL have a linker of their own.
#ifndef _WIN32
#define _DEFAULT_SOURCE
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#endif

#include "verification/device/opencl.h"
#include "cli/common/session.h"

#ifdef _WIN32
void linker_look(void) {}
bool linker_is_missing(const clattn_capabilities *device) {
    (void)device;
    return false;
}
#else
static bool looked, missing;

bool linker_on_path(const char *name) {
    const char *at = getenv("PATH");
    char file[4096];
    while (at && *at) {
        const int length = (int)strcspn(at, ":");
        const int used = snprintf(file, sizeof file, "%.*s/%s", length, at, name);
        if (used > 0 && (size_t)used < sizeof file && access(file, X_OK) == 0) return true;
        at += length + (at[length] == ':');
    }
    return false;
}

static bool is_pocl(const clattn_capabilities *device) {
    return device->is_cpu && strstr(device->platform, "PoCL");
}

// Build a kernel that no cache of PoCL can have. Results are not checked: only a crash matters.
static void run_kernel(const clattn_device *device) {
    const clattn_context_params params = {.device = device->device, .no_measurements = true};
    const size_t one = 1;
    clattn_context *context = NULL;
    char source[160];
    const char *text = source;
    snprintf(source, sizeof source, "__kernel void trial(__global long *x) { x[0] = %lldL * %ldL; }",
             (long long)time(NULL), (long)getpid());
    if (clattn_context_create(&params, &context) != CLATTN_OK) return;
    cl_context opencl = clattn_context_opencl(context);
    cl_command_queue queue = clCreateCommandQueue(opencl, device->device, 0, NULL);
    cl_mem x = clCreateBuffer(opencl, CL_MEM_READ_WRITE, sizeof(cl_long), NULL, NULL);
    cl_program program = clCreateProgramWithSource(opencl, 1, &text, NULL, NULL);
    if (!queue || !x || !program || clBuildProgram(program, 1, &device->device, "", NULL, NULL)) return;
    cl_kernel kernel = clCreateKernel(program, "trial", NULL);
    if (!kernel || clSetKernelArg(kernel, 0, sizeof(cl_mem), &x)) return;
    clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, &one, 0, NULL, NULL);
    clFinish(queue);
}

static void try_devices(void) {
    clattn_device devices[64];
    clattn_capabilities c;
    size_t count = 0;
    if (clattn_device_list(devices, 64, &count, NULL) != CLATTN_OK) return;
    for (size_t i = 0; i < count && i < 64; i++)
        if (clattn_device_describe(devices[i].device, &c) == CLATTN_OK && is_pocl(&c)) {
            run_kernel(&devices[i]);
            return;
        }
}

// Run the trial without output and without a core file.
_Noreturn static void be_the_trial(void) {
    const int nowhere = open("/dev/null", O_RDWR);
    const struct rlimit none = {0, 0};
    (void)setrlimit(RLIMIT_CORE, &none);
    if (nowhere >= 0) (void)dup2(nowhere, STDERR_FILENO), (void)dup2(nowhere, STDOUT_FILENO);
    try_devices();
    _exit(EXIT_DONE);
}

void linker_look(void) {
    int status = 0;
    if (looked || linker_on_path("ld")) return;
    looked = true;
    const pid_t child = fork();
    if (child == 0) be_the_trial();
    missing = child > 0 && waitpid(child, &status, 0) == child && WIFSIGNALED(status);
}

bool linker_is_missing(const clattn_capabilities *device) {
    return missing && is_pocl(device);
}
#endif
