// place.h: where a case runs: a context, a queue, and what becomes of an OpenCL call of the evidence's own that
// fails. Filled by the tool from its session and by the tests from their harness.
#ifndef CLATTN_EVIDENCE_DEVICE_PLACE_H
#define CLATTN_EVIDENCE_DEVICE_PLACE_H

#include <clattn/clattn.h>

struct place {
    clattn_context *context;
    cl_context opencl;
    cl_device_id device;
    cl_command_queue queue; // with profiling, where times are taken
    int64_t guard;          // elements behind every view
    uint64_t
        drawn; // of tensors that are scattered (guarded.h): where the next one lies; a case begins with its seed
    bool bare; // keep no copy of what a buffer held: nothing tells whether it is intact
    // Memory for the buffers of cases where the caller wants it to lie; NULL: the driver's own.
    void *(*memory)(size_t bytes);
    void (*release_memory)(void *memory);
    // Where that memory is no host's but an address for a view (clattn_tensor.svm, or usm): how its bytes are copied from and to
    // the host. NULL: it becomes a buffer.
    cl_int (*copy)(void *to, const void *from, size_t bytes);
    bool usm;
    void (*broken)(const char *what, cl_int code); // NULL: the line is kept, the rest is skipped
    char error[256];                               // of the first call that failed, else ""
};

// Guard zones wide enough that a whole tile of rows too many lands in one and not in somebody else's memory.
#define PLACE_GUARD 4096

void place_broken(struct place *place, const char *what, cl_int code);

// The library's line for a call that failed, or the status in words.
const char *place_message(const struct place *place, clattn_status status, char text[256]);

#endif
