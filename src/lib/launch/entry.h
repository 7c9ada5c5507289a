// entry.h: the path into the library that all operations share. It checks the context and the
// queue, lets the operation check and plan the call, runs the call as one chain of commands, and
// returns the chain's event. An operation is a table of its own check, prepare, run and release.
// `job` is the plan that check makes from the caller's parameters; later steps read only `job`.
#ifndef CLATTN_LAUNCH_ENTRY_H
#define CLATTN_LAUNCH_ENTRY_H
#include "launch/chain.h"

typedef enum entry_purpose {
    ENTRY_PLAN,    // nothing will be enqueued: buffers may be NULL
    ENTRY_PREPARE, // as ENTRY_PLAN, but kernels are compiled
    ENTRY_ENQUEUE
} entry_purpose;

typedef struct entry {
    // All refusals happen here, before the first command.
    clattn_status (*check)(clattn_context *context, const void *params, entry_purpose purpose, void *job);
    clattn_status (*prepare)(void *job);
    clattn_status (*run)(void *job, chain *steps);
    void (*release)(void *job); // frees what check acquired for ENTRY_ENQUEUE; NULL: nothing
} entry;

typedef struct entry_queue {
    cl_command_queue queue;
    cl_uint wait_count;
    const cl_event *wait_list;
    cl_event *event;
} entry_queue;

// Plan a call into `job`. `result` is the caller's pointer for the result, and `name` its name for
// error texts.
clattn_status cla_entry_plan(const entry *e, clattn_context *context, const void *params, const void *result,
                             const char *name, void *job);
clattn_status cla_entry_prepare(const entry *e, clattn_context *context, const void *params, void *job);
clattn_status cla_entry_enqueue(const entry *e, clattn_context *context, const void *params,
                                const entry_queue *at, void *job);
#endif
