// recording.h: what calls on a queue that is recorded leave (include/clattn/record.h): launches, and the memory that they use. The
// chain of a call (chain.c) gives it both; replay.c enqueues the launches.
#ifndef CLATTN_LAUNCH_RECORDING_H
#define CLATTN_LAUNCH_RECORDING_H
#include "launch/chain.h"

// A launch: a kernel object with its arguments, which nobody else has, and its grid. The buffers of arguments are retained.
typedef struct recorded {
    struct recorded *next;
    cl_kernel kernel;
    size_t offset[3], size[3];
    launch l;     // its values are in `values`
    bool of_text; // its program has a text of the caller's, and may be gone
    bool derives; // l.derives, and nobody writes what it reads by another name
    unsigned char values[];
} recorded;

struct clattn_recording {
    clattn_context *context;
    recorded *first, *last;
    recorded *fused; // those that others do (fuse.c): their buffers stay retained
    size_t launches;
    pool_slot *slots;       // tables and scratch memory; `held`: by the call that is being recorded
    cl_command_queue queue; // retained until the recording ends

    os_mutex replay_lock;          // of a fused recording, guards the next two
    cl_event replayed;             // the newest command of the replay before; NULL: it is over
    cl_command_queue replay_queue; // where that is, retained; NULL: nothing was replayed
};

// The recording that takes this queue's calls; NULL: they run.
clattn_recording *cla_recording_of(clattn_context *context, cl_command_queue queue);

// Of a call on a queue that is recorded: memory, a launch with the kernel object whose arguments are set, which the recording owns then,
// also where this fails, and the end of the call, whose launches are kept where it went well.
clattn_status cla_recording_table(chain *c, const void *words, size_t bytes, cl_mem *table);
clattn_status cla_recording_scratch(chain *c, uint64_t bytes, cl_mem *scratch);
clattn_status cla_recording_keep(chain *c, const launch *l, cl_kernel kernel, const size_t offset[3],
                                 const size_t size[3]);
// Whether the result of a launch that derives is there already, and stays until it is read: *result becomes its buffer.
bool cla_recording_has(const chain *c, const launch *l, cl_mem *result);
void cla_recording_took(chain *c, bool well);

// A buffer that becomes the recording's own, and holds these words, where there are some.
clattn_status cla_recording_take(clattn_recording *r, uint64_t bytes, const void *words, cl_mem *buffer);

// Release all that it has, and itself.
void cla_recording_free(clattn_recording *r);
#endif
