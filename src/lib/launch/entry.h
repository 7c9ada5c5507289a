// entry.h: the way into the library that every operation shares: check the context and the queue, check the call and
// plan it, run it as one chain of commands, hand its event over. An operation says what its own check, run and release
// are; `job` is what its check makes of the caller's parameters, and nothing of those is read afterwards.
#ifndef CLATTN_LAUNCH_ENTRY_H
#define CLATTN_LAUNCH_ENTRY_H
#include "launch/chain.h"

typedef enum entry_purpose {
    ENTRY_PLAN,    // nothing will be enqueued: buffers may be NULL
    ENTRY_PREPARE, // likewise, and kernels are compiled
    ENTRY_ENQUEUE
} entry_purpose;

typedef struct entry {
    // Every refusal happens here, before the first command.
    clattn_status (*check)(clattn_context *context, const void *params, entry_purpose purpose, void *job);
    clattn_status (*prepare)(void *job);
    clattn_status (*run)(void *job, chain *steps);
    void (*release)(void *job); // what check took for ENTRY_ENQUEUE; NULL: nothing
} entry;

typedef struct entry_queue {
    cl_command_queue queue;
    cl_uint wait_count;
    const cl_event *wait_list;
    cl_event *event;
} entry_queue;

// Plan a call into `job`. `result` is where the caller wants the answer, named `name`.
clattn_status cla_entry_plan(const entry *e, clattn_context *context, const void *params, const void *result,
                             const char *name, void *job);
clattn_status cla_entry_prepare(const entry *e, clattn_context *context, const void *params, void *job);
clattn_status cla_entry_enqueue(const entry *e, clattn_context *context, const void *params,
                                const entry_queue *at, void *job);
#endif
