// test_objects.c: a program that leaks one OpenCL object, or releases one too often, for
// check_layer.sh: the layer must make it fail. The argument selects the error.
#include <clattn/clattn.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const char *fault;

static bool leaves(const char *kind) {
    return strcmp(fault, kind) == 0;
}

static void use_events(cl_context context, cl_command_queue queue) {
    cl_event event = clCreateUserEvent(context, NULL);
    clSetUserEventStatus(event, CL_COMPLETE);
    if (!leaves("event")) clReleaseEvent(event);
    if (leaves("used-after-release")) clEnqueueMarkerWithWaitList(queue, 1, &event, NULL);
}

static void use_programs(cl_context context, cl_device_id device) {
    const char *source = "kernel void k(global int *a) { a[0] = 1; }";
    cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, NULL);
    clBuildProgram(program, 1, &device, "", NULL, NULL);
    cl_kernel kernel = clCreateKernel(program, "k", NULL);
    if (!leaves("kernel")) clReleaseKernel(kernel);
    if (!leaves("program")) clReleaseProgram(program);
}

int main(int count, char **arguments) {
    clattn_device device;
    size_t devices = 0;
    fault = count == 2 ? arguments[1] : "";
    if (clattn_device_list(&device, 1, &devices, NULL) != CLATTN_OK) return 77;
    cl_context context = clCreateContext(NULL, 1, &device.device, NULL, NULL, NULL);
    cl_command_queue queue = clCreateCommandQueue(context, device.device, 0, NULL);
    cl_mem buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, 64, NULL, NULL);
    use_programs(context, device.device);
    use_events(context, queue);
    clFinish(queue);
    if (!leaves("buffer")) clReleaseMemObject(buffer);
    if (leaves("released-twice")) clReleaseMemObject(buffer);
    if (!leaves("queue")) clReleaseCommandQueue(queue);
    if (!leaves("context")) clReleaseContext(context);
    return EXIT_SUCCESS;
}
