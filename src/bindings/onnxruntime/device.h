// device.h: the clattn context that all operators on a device share, its queues, and the OpenCL
// functions that the library found.
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

enum { DEVICES = 64, QUEUES = 16, LINE = 512 }; // DEVICES: further devices are ignored

struct device {
    int number; // index in clattn_device_list
    clattn_context *context;
    bool shares_memory; // it computes in host memory: a CPU
    _Atomic(cl_command_queue) queues[QUEUES];
#define X(name) __typeof__(&name) name;
    OPENCL_CALLS(X)
#undef X
};

// Open the device with this number. With -1, open the first CPU, or the first device if there is no
// CPU. NULL: `why` has a message. Blocking: may load drivers.
struct device *device_open(int number, char why[LINE]);
void device_close(struct device *device);

// A queue for this thread alone, until device_give_queue. NULL: OpenCL could not create one.
// Threads: any.
cl_command_queue device_take_queue(struct device *device);
void device_give_queue(struct device *device, cl_command_queue queue);

// The message of the last call that failed on this thread; "" if none has.
const char *device_line(void);

#endif
