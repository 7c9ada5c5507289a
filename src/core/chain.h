// chain.h: the commands of one call, each waiting for the one before, on an in-order or an out-of-order
// queue. The first waits for the caller's events, the last one's event is the caller's. Also: launching a
// kernel.
#ifndef CLATTN_CORE_CHAIN_H
#define CLATTN_CORE_CHAIN_H
#include "core/program.h"

typedef struct chain {
    clattn_context *context;
    cl_command_queue queue;
    cl_uint wait_count;
    const cl_event *wait_list;
    cl_event last; // of the newest command, NULL before the first
    bool in_order; // the queue itself orders the commands: only the first needs a wait list
} chain;

#define LAUNCH_MAX_ARGS 13
// Bytes of a launch's arguments: what OpenCL 1.2 asks of every full-profile device. A context is refused on a device
// that takes fewer; who launches asserts that its own are no more.
#define LAUNCH_MAX_BYTES 1024

typedef struct launch {
    program *program;
    int count;
    struct {
        size_t bytes;
        const void *value;
    } args[LAUNCH_MAX_ARGS];
    size_t global[3], local[3]; // local[0] = 0: the driver chooses
} launch;

// Check queue and wait list of a call: the queue is of the context's own cl_context and device.
clattn_status cla_chain_check(clattn_context *context, cl_command_queue queue, cl_uint wait_count,
                              const cl_event *wait_list);
void cla_chain_begin(chain *c, clattn_context *context, cl_command_queue queue, cl_uint wait_count,
                     const cl_event *wait_list);

// The wait list for a command that is not a launch; then chain_took with the event of that command.
void cla_chain_waits(const chain *c, cl_uint *count, const cl_event **list);
void cla_chain_took(chain *c, cl_event event);

// End a chain: hand the last event over, or make one where nothing was enqueued. `status` passes through.
clattn_status cla_chain_end(chain *c, clattn_status status, cl_event *event);

// Argument by value, and a memory object (NULL is allowed where the kernel does not touch it).
void cla_launch_value(launch *l, const void *value, size_t bytes);
void cla_launch_buffer(launch *l, const cl_mem *buffer);
clattn_status cla_launch_enqueue(chain *c, const launch *l);
#endif
