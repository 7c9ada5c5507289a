// chain.h: the commands of one call, each waiting for the one before, on an in-order or an out-of-order
// queue. The first waits for the caller's events, the last one's event is the caller's. Also: launching a
// kernel.
#ifndef CLATTN_LAUNCH_CHAIN_H
#define CLATTN_LAUNCH_CHAIN_H
#include "args/args.h"
#include "device/pace.h"
#include "device/pool.h"
#include "program/program.h"

struct recorded;

typedef struct chain {
    clattn_context *context;
    cl_command_queue queue;
    cl_uint wait_count;
    const cl_event *wait_list;
    cl_event last;    // of the newest command, where events are needed (cla_chain_event)
    bool in_order;    // the queue itself orders the commands: only the first needs a wait list
    bool keeps_times; // the queue does, of each command that has an event
    bool wants_event; // the caller does; false at first
    bool started;     // a command was enqueued
    bool again;       // the call was planned again after a failure
    bool changed;     // one of them was a launch that changes what the call reads (launch.changes)
    pool_slot *loans; // what the call has borrowed
    const clattn_progress *progress; // the caller's, who hears of each launch that has `flops`; NULL: none
    double done, total;              // operations of such launches
    struct clattn_recording
        *recording;            // takes the launches in place of the queue (recording.h); NULL: they run
    struct recorded *recorded; // those of this call, the newest first
    uint64_t waited_ns;        // when the newest command was one of them and was waited for, else 0
} chain;

#define LAUNCH_MAX_ARGS 27
// Bytes of a launch's arguments: what OpenCL 1.2 asks of every full-profile device. A context is refused on a device
// that takes fewer; who launches asserts that its own are no more.
#define LAUNCH_MAX_BYTES 1024
// Of one argument of this type: drivers place arguments at multiples of eight bytes.
#define LAUNCH_BYTES(type) ((sizeof(type) + 7) / 8 * 8)

typedef struct launch_argument {
    size_t bytes;
    const void *value;
    const char *type; // of a struct: its name in the kernels, where LAUNCH_TYPE knows it, else NULL
    cl_mem pointer;   // an address in place of the value (pointer.h)
    cl_mem buffer;    // the value is this one
} launch_argument;

typedef struct launch {
    program *program;
    int count;
    launch_argument args[LAUNCH_MAX_ARGS + 1]; // the last: of `placed`
    size_t global[3], local[3];                // work-items of all and of a group
    double flops;                              // operations of all; 0: too few to count
    bool early;      // of a call's rows, which were cut, not the last: too little of it may be seen by a mask
    bool apart;      // no work-item knows of another one's being in its group: the grid is cla_launch_items'
    bool placed;     // the last argument is the offset of a slice, whose grid has none (program_spec)
    bool changes;    // it changes what the call reads, so that the call cannot be run again from its start
    bool cuts_first; // the kernel finds its place in the first dimension by get_global_id, too
    // Of a launch that writes one buffer, all of whose content follows from the other arguments: the number of that argument, from 1 on.
    // A recording keeps what it wrote for the next launch that is the same (cla_recording_has). 0: any other launch.
    int derives;
} launch;

// Begin a chain, after queue and wait list were checked: the queue is of the context's own cl_context and device.
clattn_status cla_chain_begin(chain *c, clattn_context *context, cl_command_queue queue, cl_uint wait_count,
                              const cl_event *wait_list);

// The first step of a command that is not a launch: the tables must be there. Then its wait list, and where its event
// goes, NULL where none is needed; then chain_took with that event.
clattn_status cla_chain_write_tables(chain *c);
void cla_chain_waits(const chain *c, cl_uint *count, const cl_event **list);
cl_event *cla_chain_event(const chain *c, cl_event *event);
void cla_chain_took(chain *c, cl_event event);

// Memory of the context's pool (pool.h) until the chain ends: a table that holds these words for the commands to come;
// scratch memory.
clattn_status cla_chain_table(chain *c, const void *words, size_t bytes, cl_mem *table);
clattn_status cla_chain_scratch(chain *c, uint64_t bytes, cl_mem *scratch);

// From here on the chain waits for each launch that has `flops` and tells of it, after which the caller may cancel. Where the
// work begins anew, what was told stays told: the share that is left is that of all.
void cla_chain_hear(chain *c, const clattn_progress *progress, double total);
// The newest command did so many operations, if somebody wants to hear of it: a launch tells by itself.
clattn_status cla_chain_tell(chain *c, pace_rate *of, double flops);

// End a chain: give back what it borrowed, hand the last event over, or make one where there is none. `status`
// passes through; with ENTRY_PLAN_AGAIN the chain goes on behind what it enqueued, and another end follows, or cla_chain_drop.
clattn_status cla_chain_end(chain *c, clattn_status status, cl_event *event);
void cla_chain_drop(chain *c);

// The name of a struct of args.h by a pointer to one, which fuse.c needs; NULL of what no other kernels are fused with.
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

// Argument by value, and a memory object (NULL is allowed where the kernel does not touch it).
#define LAUNCH_VALUE(at, size) ((launch_argument){.bytes = (size), .value = (at), .type = LAUNCH_TYPE(at)})
#define cla_launch_value(l, at, size) cla_launch_argument(l, LAUNCH_VALUE(at, size))
void cla_launch_argument(launch *l, launch_argument a);
void cla_launch_buffer(launch *l, const cl_mem *buffer);
clattn_status cla_launch_enqueue(chain *c, const launch *l);
// The next command of the chain: a kernel whose arguments are set.
cl_int cla_launch_kernel(const chain *c, cl_kernel kernel, const size_t offset[3], const size_t size[3],
                         const size_t local[3], cl_event *event);

// Work-items that know nothing of one another, of which the kernel ignores those past the end: the launch's grid, rounded
// up to groups of at most the shape that is asked for. The program must be there.
void cla_launch_items(launch *l, const clattn_context *context, const size_t items[3], const size_t shape[3]);
// The shape of such a group, powers of a step, from what a group may have in all and in each dimension. The step is 4 on a CPU, whose
// drivers compile a kernel anew for every shape of group, and 2 elsewhere, where an idle work-item is a lane that waits.
void cla_launch_group(const size_t items[3], const size_t shape[3], size_t step, uint64_t most,
                      const uint64_t most_of[3], size_t group[3]);
#endif
