/* foreign.c: clattn in an application that already uses OpenCL, with its own cl_context and
 * out-of-order queue. Events order clattn's command between the application's, and only the last
 * line waits. The log joins the application's log. clattn calls the OpenCL with which the
 * application is linked. An application that loads OpenCL in another way passes its functions
 * first (clattn_opencl_load).
 *     cc foreign.c $(pkg-config --cflags --libs clattn OpenCL) -lm */
#include <clattn/clattn.h>
#include <math.h>
#include <stdio.h>

enum { HEADS = 2, ROWS = 33, SIZE = 16, COUNT = HEADS * ROWS * SIZE, NO_DEVICE = 77 };

static void on_log(void *user, clattn_log_level level, const char *message) {
    fprintf(user, "clattn: %s%s\n", level == CLATTN_LOG_ERROR ? "error: " : "", message);
}

int main(void) {
    const clattn_log log = {.fn = on_log, .user = stderr};
    cl_platform_id platform;
    cl_device_id device;
    cl_uint count = 0;
    cl_int code;
    if (clGetPlatformIDs(1, &platform, &count) != CL_SUCCESS || count == 0 ||
        clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL) != CL_SUCCESS)
        return NO_DEVICE;
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    cl_command_queue queue =
        clCreateCommandQueue(context, device, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &code);
    if (code != CL_SUCCESS) queue = clCreateCommandQueue(context, device, 0, &code);
    if (code != CL_SUCCESS) return 1;

    clattn_context *clattn;
    const clattn_context_params setup = {.device = device, .context = context, .log = log};
    if (clattn_context_create(&setup, &clattn) != CLATTN_OK) return 1;

    static float x[COUNT], y[COUNT];
    for (int i = 0; i < COUNT; i++) x[i] = sinf((float)i);
    cl_mem in = clCreateBuffer(context, CL_MEM_READ_ONLY, sizeof x, NULL, &code);
    cl_mem out = clCreateBuffer(context, CL_MEM_READ_WRITE, sizeof y, NULL, &code);

    cl_event written, attended, read;
    clEnqueueWriteBuffer(queue, in, CL_FALSE, 0, sizeof x, x, 0, NULL, &written);
    const clattn_tensor tensor = clattn_tensor_bhsd(in, CLATTN_TYPE_F32, 1, HEADS, ROWS, SIZE);
    const clattn_attention_params call = {
        .q = tensor,
        .kv = {.k = tensor, .v = tensor},
        .out = clattn_tensor_bhsd(out, CLATTN_TYPE_F32, 1, HEADS, ROWS, SIZE),
        .score = {.window = true, .window_left = 0, .window_right = 0}}; /* out = x */
    if (clattn_attention_enqueue(clattn, queue, &call, 1, &written, &attended) != CLATTN_OK) return 1;
    clEnqueueReadBuffer(queue, out, CL_FALSE, 0, sizeof y, y, 1, &attended, &read);
    clWaitForEvents(1, &read);

    double most = 0;
    for (int i = 0; i < COUNT; i++) most = fmax(most, fabs((double)x[i] - (double)y[i]));
    printf("rows that see themselves alone: the largest difference is %.2g\n", most);
    clReleaseEvent(written), clReleaseEvent(attended), clReleaseEvent(read);
    clReleaseMemObject(in), clReleaseMemObject(out);
    clFinish(queue);
    clattn_context_destroy(clattn); /* before its cl_context, and after its commands */
    clReleaseCommandQueue(queue), clReleaseContext(context);
    return most < 1e-6 ? 0 : 1;
}
