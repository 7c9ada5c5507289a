// cl_layer.h: what a program can ask the OpenCL layer under it (OPENCL_LAYERS): how many objects
// there are, and to let one call fail. The layer exports one `clattn_layer`; layer_client.h finds
// it. It sees the calls of the library, of CLBlast and of the program itself, not those that a
// driver makes inside.
#ifndef CLATTN_TESTS_CL_LAYER_H
#define CLATTN_TESTS_CL_LAYER_H

#include <stdbool.h>
#include <stddef.h>

// X(NAME, plural) of all that is created, retained and released. A device is one of
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

// bytes: of clCreateBuffer's that are live; most_bytes: the most of them since the program began or
// `watch` was called. misused: releases and retains of what is not there, commands on what was
// released. first_misuse: the first, in words.
struct layer_counts {
    long created[LAYER_KINDS], live[LAYER_KINDS], misused, bytes, most_bytes;
    char first_misuse[128];
};

// In place of a code: the command is not run, and its event ends with an error when the program
// next flushes or waits, or disarms. (PoCL never starts a command that waits for an event which had
// failed before.)
#define LAYER_FAILED_EVENT 1

// What became of the calls between arm and disarm.
struct layer_armed {
    int calls;       // how many there were
    const char *hit; // the call that failed, NULL: none did
};

struct layer_control {
    void (*count)(struct layer_counts *counts);
    // most_bytes is what is live now.
    void (*watch)(void);
    // Let the nth call from here on fail with this code; 0: none, they are only counted.
    void (*arm)(int nth, int code);
    struct layer_armed (*disarm)(void);
    // The nth call since the last arm, NULL past the last.
    const char *(*call)(int nth);
    // From here on clGetDeviceInfo or clGetPlatformInfo of `what` answers these bytes, which must
    // stay; 0: none.
    void (*pretend)(unsigned what, const void *bytes, size_t count);
    // Keep PoCL from freeing events in a chain of which one fails: on before the chain, off when
    // its queue is finished.
    void (*hold_events)(bool on);
};

#endif
