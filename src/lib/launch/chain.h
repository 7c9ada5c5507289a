// chain.h: the commands of one call on an in-order or out-of-order queue. Each command waits for
// the one before it. The first waits for the caller's events, and the last one's event goes to the
// caller. Also: launching a kernel.
#ifndef CLATTN_LAUNCH_CHAIN_H
#define CLATTN_LAUNCH_CHAIN_H
#include "args/args.h"
#include "device/launch_slicing.h"
#include "device/pool.h"
#include "program/program.h"

struct recorded;

typedef struct chain {
    clattn_context *context;
    cl_command_queue queue;
    cl_uint wait_count;
    const cl_event *wait_list;
    cl_event last;    // event of the newest command, if events are needed (cla_chain_event)
    bool in_order;    // the queue orders the commands: only the first needs a wait list
    bool keeps_times; // the queue profiles: every command with an event has times
    bool wants_event; // the caller wants an event; initially false
    bool started;     // a command was enqueued
    bool again;       // the call was planned again after a failure
    bool changed;     // a launch has changed inputs of the call (launch.changes)
    pool_slot *loans; // memory borrowed from the context's pool
    // The caller's progress function, called after each launch that has `flops`; NULL: none.
    const clattn_progress *progress;
    double done, total; // operations of those launches
    // Records the launches instead of running them (recording.h); NULL: they run.
    struct clattn_recording *recording;
    struct recorded *recorded; // the call's recorded launches, newest first
    // When the host finished waiting for the newest command, if that command was a launch with
    // `flops`; else 0.
    uint64_t waited_ns;
} chain;

#define LAUNCH_MAX_ARGS 27
// Limit for the bytes of a launch's arguments: OpenCL 1.2's minimum for a full-profile device. A
// context is refused on a device with a lower limit, and each launching file asserts that its
// arguments fit.
#define LAUNCH_MAX_BYTES 1024
// The bytes of one argument of this type: drivers place arguments at multiples of eight bytes.
#define LAUNCH_BYTES(type) ((sizeof(type) + 7) / 8 * 8)

typedef struct launch_argument {
    size_t bytes;
    const void *value;
    const char *type; // a struct's name in the kernels, if LAUNCH_TYPE knows the struct; else NULL
    cl_mem pointer;   // an address, passed instead of `value` (pointer.h)
    cl_mem buffer;    // set if the argument is a buffer
} launch_argument;

typedef struct launch {
    program *program;
    int count;
    // One more than a kernel's own arguments, for the offset that `placed` adds.
    launch_argument args[LAUNCH_MAX_ARGS + 1];
    size_t global[3], local[3]; // work-items in all, and in a work-group
    double flops;               // operations of the whole launch; 0: too few to count
    // The launch has a chunk of the call's rows, and later chunks follow. It is not timed, because
    // a mask may hide most of its keys.
    bool early;
    bool apart; // work-items do not use their group; cla_launch_items sets the grid
    // The last argument is the slice's offset in the grid. The kernel is then enqueued without a
    // global offset (program_spec).
    bool placed;
    bool changes;    // overwrites what the call reads, so the call cannot be restarted afterwards
    bool cuts_first; // the kernel also uses get_global_id(0), so dimension 0 may be cut
    // Number, from 1 on, of the argument that the launch writes, if it is the only one and its
    // content depends only on the other arguments. A recording then reuses the result for an equal
    // launch (cla_recording_has). 0: any other launch.
    int derives;
} launch;

// Begin a chain, after checking the queue and the wait list. The queue must be of the context's
// cl_context and device.
clattn_status cla_chain_begin(chain *c, clattn_context *context, cl_command_queue queue, cl_uint wait_count,
                              const cl_event *wait_list);

// To enqueue a command that is not a launch: write the tables, get the wait list, and get the place
// for the event (NULL if none is needed). Enqueue, then pass the event to cla_chain_set_last_event.
clattn_status cla_chain_write_tables(chain *c);
void cla_chain_waits(const chain *c, cl_uint *count, const cl_event **list);
cl_event *cla_chain_event(const chain *c, cl_event *event);
void cla_chain_set_last_event(chain *c, cl_event event);

// Borrow memory from the context's pool (pool.h) until the chain ends: a table with these words, or
// scratch memory.
clattn_status cla_chain_table(chain *c, const void *words, size_t bytes, cl_mem *table);
clattn_status cla_chain_scratch(chain *c, uint64_t bytes, cl_mem *scratch);

// From now on, wait for each launch that has `flops` and report progress, after which the caller
// may cancel. `total` counts the operations still to come. If a call is planned again, its progress
// continues from the share reported so far.
void cla_chain_set_progress(chain *c, const clattn_progress *progress, double total);
// Report that the newest command did `flops` operations, if the caller wants progress. Launches
// call this themselves.
clattn_status cla_chain_report_progress(chain *c, pace_rate *of, double flops);

// End a chain: return the borrowed memory, and pass the last event to the caller, or a marker's if
// there is none. Returns `status`, or an error of its own. With ENTRY_PLAN_AGAIN the chain stays
// open for further commands; another cla_chain_end or cla_chain_drop must follow.
clattn_status cla_chain_end(chain *c, clattn_status status, cl_event *event);
void cla_chain_drop(chain *c);

// The name of an args.h struct, from a pointer to it. fuse.c needs the name. NULL for structs of
// kernels that are never fused.
#define LAUNCH_NAME(name) name * : #name, const name * : #name
#define LAUNCH_TYPE(value)                                                                                   \
    _Generic((value), LAUNCH_NAME(attention_args), LAUNCH_NAME(past_args), LAUNCH_NAME(past_scale_args),     \
             LAUNCH_NAME(page_args), LAUNCH_NAME(dropout_args), LAUNCH_NAME(dropout_mask_args),              \
             LAUNCH_NAME(block_args), LAUNCH_NAME(ragged_args), LAUNCH_NAME(sinks_args),                     \
             LAUNCH_NAME(chunk_args), LAUNCH_NAME(softmax_args), LAUNCH_NAME(combine_args),                  \
             LAUNCH_NAME(merge_args), LAUNCH_NAME(pack_args), LAUNCH_NAME(rope_args),                        \
             LAUNCH_NAME(rope_source_args), LAUNCH_NAME(append_args), LAUNCH_NAME(append_past_args),         \
             LAUNCH_NAME(shift_args), LAUNCH_NAME(hadamard_args), LAUNCH_NAME(convert_args),                 \
             LAUNCH_NAME(linear_args), LAUNCH_NAME(linear_pack_args), LAUNCH_NAME(norm_args),                \
             LAUNCH_NAME(gate_args), LAUNCH_NAME(row_norm_args), LAUNCH_NAME(activate_args),                 \
             LAUNCH_NAME(epilogue_args), LAUNCH_NAME(embed_args), LAUNCH_NAME(argmax_args),                  \
             LAUNCH_NAME(sample_args), default                                                               \
             : NULL)

// Append an argument: a value, or a memory object. A NULL object is allowed if the kernel does not
// use it.
#define LAUNCH_VALUE(at, size) ((launch_argument){.bytes = (size), .value = (at), .type = LAUNCH_TYPE(at)})
#define cla_launch_value(l, at, size) cla_launch_argument(l, LAUNCH_VALUE(at, size))
void cla_launch_argument(launch *l, launch_argument a);
void cla_launch_buffer(launch *l, const cl_mem *buffer);
clattn_status cla_launch_enqueue(chain *c, const launch *l);
// Enqueue the chain's next command, a kernel whose arguments are set.
cl_int cla_launch_kernel(const chain *c, cl_kernel kernel, const size_t offset[3], const size_t size[3],
                         const size_t local[3], cl_event *event);

// Set the grid for independent work-items: `items`, rounded up to groups of at most `shape`. The
// kernel ignores work-items past the end. l->program must be set.
void cla_launch_items(launch *l, const clattn_context *context, const size_t items[3], const size_t shape[3]);
// Choose the size of such a group, in powers of `step`. `most` limits its work-items, and `most_of`
// those of each dimension. step is 4 on CPUs, whose drivers compile a kernel again for each group
// size. Elsewhere it is 2, because idle work-items waste lanes.
void cla_launch_group(const size_t items[3], const size_t shape[3], size_t step, uint64_t most,
                      const uint64_t most_of[3], size_t group[3]);
#endif
