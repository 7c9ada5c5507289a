// device.h: the clattn context that the operators of a device share, its queues, and OpenCL by the functions that the library found.
// Leaves out what lies in its memory (call.h).
#ifndef CLATTN_ONNXRUNTIME_DEVICE_H
#define CLATTN_ONNXRUNTIME_DEVICE_H
#include <clattn/clattn.h>
#include <stdatomic.h>

#define OPENCL_CALLS(X)                                                                                      \
    X(clCreateBuffer)                                                                                        \
    X(clCreateCommandQueue)                                                                                  \
    X(clEnqueueMapBuffer)                                                                                    \
    X(clEnqueueReadBuffer)                                                                                   \
    X(clEnqueueUnmapMemObject)                                                                               \
    X(clFinish)                                                                                              \
    X(clReleaseCommandQueue)                                                                                 \
    X(clReleaseMemObject)

enum { DEVICES = 64, QUEUES = 16, LINE = 512 }; // DEVICES: those behind the first so many are not seen

struct device {
    int number; // in clattn_device_list
    clattn_context *context;
    _Atomic(cl_command_queue) queues[QUEUES];
#define X(name) __typeof__(&name) name;
    OPENCL_CALLS(X)
#undef X
};

// The device of that number, or of -1 the first CPU, or the first of all. NULL: `why` has a line.   Blocking: may load drivers.
struct device *device_open(int number, char why[LINE]);
void device_close(struct device *device);

// A queue that no other thread uses until it is given back. NULL: OpenCL has none.   Threads: any.
cl_command_queue device_take_queue(struct device *device);
void device_give_queue(struct device *device, cl_command_queue queue);

// The line of the call that failed last on this thread; "" where none has.
const char *device_line(void);

#endif
