// device.c: see device.h.
#include "onnxruntime/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local char line[LINE];

const char *device_line(void) {
    return line;
}

// Called on the thread whose call failed.
static void keep_line(void *user, clattn_log_level level, const char *message) {
    (void)user;
    if (level == CLATTN_LOG_ERROR) snprintf(line, sizeof line, "%s", message);
}

static const clattn_log keeping = {.fn = keep_line, .level = CLATTN_LOG_ERROR};

static bool find_calls(struct device *device) {
#define X(name)                                                                                              \
    {                                                                                                        \
        const clattn_function found = clattn_opencl_function(#name);                                         \
        if (found == NULL) return false;                                                                     \
        memcpy(&device->name, &found, sizeof found);                                                         \
    }
    OPENCL_CALLS(X)
#undef X
    return true;
}

// The number of the requested device; -1: there is none.
static int choose(int number, const clattn_device *all, size_t count) {
    clattn_capabilities has;
    if (number >= 0) return (size_t)number < count ? number : -1;
    for (size_t n = 0; n < count; n++)
        if (clattn_device_describe(all[n].device, &has) == CLATTN_OK && has.is_cpu) return (int)n;
    return 0;
}

struct device *device_open(int number, char why[LINE]) {
    clattn_device all[DEVICES];
    size_t count = 0;
    struct device *device = calloc(1, sizeof *device);
    clattn_context_params params = {.log = keeping};
    line[0] = '\0';
    snprintf(why, LINE, "out of memory");
    if (device == NULL) return NULL;
    clattn_status status = clattn_device_list(all, DEVICES, &count, &keeping);
    if (status == CLATTN_OK) {
        if (count > DEVICES) count = DEVICES;
        device->number = choose(number, all, count);
        if (device->number < 0) snprintf(line, LINE, "there is no device %d, of %zu", number, count);
    }
    if (status == CLATTN_OK && device->number >= 0) {
        params.device = all[device->number].device;
        status = clattn_context_create(&params, &device->context);
        if (status == CLATTN_OK && !find_calls(device)) {
            snprintf(line, LINE, "OpenCL lacks a function of version 1.2");
        } else if (status == CLATTN_OK) {
            device->shares_memory = clattn_context_capabilities(device->context)->is_cpu;
            return device;
        }
    }
    snprintf(why, LINE, "%s", line[0] ? line : clattn_status_text(status));
    device_close(device);
    return NULL;
}

void device_close(struct device *device) {
    if (device == NULL) return;
    for (int n = 0; n < QUEUES; n++) {
        cl_command_queue queue = atomic_load(&device->queues[n]);
        if (queue) device->clReleaseCommandQueue(queue);
    }
    clattn_context_destroy(device->context);
    free(device);
}

cl_command_queue device_take_queue(struct device *device) {
    for (int n = 0; n < QUEUES; n++) {
        cl_command_queue queue = atomic_exchange(&device->queues[n], NULL);
        if (queue) return queue;
    }
    clattn_context *context = device->context;
    return device->clCreateCommandQueue(clattn_context_opencl(context), clattn_context_device(context), 0,
                                        NULL);
}

void device_give_queue(struct device *device, cl_command_queue queue) {
    for (int n = 0; n < QUEUES; n++) {
        cl_command_queue none = NULL;
        if (atomic_compare_exchange_strong(&device->queues[n], &none, queue)) return;
    }
    device->clReleaseCommandQueue(queue);
}
