// cl_layer.h: the OpenCL layer under a program (OPENCL_LAYERS): it counts objects, and can make one
// call fail. The layer exports one `clattn_layer`; layer_client.h finds it. It sees the calls of
// the library, of CLBlast and of the program itself, not those inside a driver.
#ifndef CLATTN_TESTS_CL_LAYER_H
#define CLATTN_TESTS_CL_LAYER_H

#include <stdbool.h>
#include <stddef.h>

// X(NAME, plural) of all objects that are created, retained and released. A device is one of
// clCreateSubDevices.
#define LAYER_KIND_LIST(X)                                                                                   \
    X(CONTEXT, "contexts")                                                                                   \
    X(QUEUE, "queues")                                                                                       \
    X(BUFFER, "buffers")                                                                                     \
    X(PROGRAM, "programs")                                                                                   \
    X(KERNEL, "kernels")                                                                                     \
    X(EVENT, "events")                                                                                       \
    X(DEVICE, "sub-devices")

enum layer_kind {
#define X(name, text) LAYER_##name,
    LAYER_KIND_LIST(X)
#undef X
        LAYER_KINDS
};

// The field bytes is the size of the live buffers of clCreateBuffer. The field most_bytes is its
// maximum since the program began or called `watch`. The field misused counts releases and retains
// of missing objects, and commands on released ones; first_misuse describes the first.
struct layer_counts {
    long created[LAYER_KINDS], live[LAYER_KINDS], misused, bytes, most_bytes;
    char first_misuse[128];
};

// In place of a code: the command does not run, and its event ends with an error when the program
// next flushes or waits, or disarms. (PoCL never starts a command that waits for an event which
// failed before.)
#define LAYER_FAILED_EVENT 1

// The outcome of the calls between arm and disarm.
struct layer_armed {
    int calls;       // their number
    const char *hit; // the call that failed, NULL: none did
};

struct layer_control {
    void (*count)(struct layer_counts *counts);
    // Reset most_bytes to the bytes that are live now.
    void (*watch)(void);
    // Make the nth call from here on fail with this code; 0: none, calls are only counted.
    void (*arm)(int nth, int code);
    struct layer_armed (*disarm)(void);
    // The nth call since the last arm, NULL past the last.
    const char *(*call)(int nth);
    // From here on clGetDeviceInfo or clGetPlatformInfo of `what` returns these bytes, which must
    // stay; 0: none.
    void (*pretend)(unsigned what, const void *bytes, size_t count);
    // Prevent PoCL from freeing events in a chain with a failing one: on before the chain, off
    // after its queue is finished.
    void (*hold_events)(bool on);
};

#endif
