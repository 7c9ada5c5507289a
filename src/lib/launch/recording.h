// recording.h: recorded calls (include/clattn/record.h): their launches, and the memory that the
// launches use. chain.c passes both to the recording, and replay.c enqueues the launches.
#ifndef CLATTN_LAUNCH_RECORDING_H
#define CLATTN_LAUNCH_RECORDING_H
#include "launch/chain.h"

// A launch: its own kernel object with the arguments set, and its grid. The buffers among the
// arguments are retained.
typedef struct recorded {
    struct recorded *next;
    cl_kernel kernel;
    size_t offset[3], size[3];
    launch l;     // argument values are in `values`
    bool of_text; // contains the caller's text, so its program may have been released
    bool derives; // the launch has l.derives, and no other handle can write its inputs
    unsigned char values[];
} recorded;

struct clattn_recording {
    clattn_context *context;
    recorded *first, *last;
    recorded *fused; // launches that fuse.c has replaced; their buffers stay retained
    size_t launches;
    // Tables and scratch memory. `held`: used by the call that is being recorded.
    pool_slot *slots;
    cl_command_queue queue; // retained until the recording ends

    os_mutex replay_lock;          // for a fused recording: guards the next two fields
    cl_event replayed;             // the newest command of the previous replay; NULL: it has ended
    cl_command_queue replay_queue; // the queue of that replay, retained; NULL: nothing was replayed
};

// The recording that is open on this queue; NULL: calls run.
clattn_recording *cla_recording_of(clattn_context *context, cl_command_queue queue);

// Steps of a call on a recorded queue: get memory, keep a launch, and (cla_recording_took) end the
// call. The recording owns `kernel`, whose arguments are set, from then on, even if
// cla_recording_keep fails. `well`: the call succeeded, so its launches are kept.
clattn_status cla_recording_table(chain *c, const void *words, size_t bytes, cl_mem *table);
clattn_status cla_recording_scratch(chain *c, uint64_t bytes, cl_mem *scratch);
clattn_status cla_recording_keep(chain *c, const launch *l, cl_kernel kernel, const size_t offset[3],
                                 const size_t size[3]);
// True if an earlier launch has derived the same result and nothing overwrites its inputs. Sets
// *result to its buffer.
bool cla_recording_has(const chain *c, const launch *l, cl_mem *result);
void cla_recording_took(chain *c, bool well);

// Create a buffer that the recording owns, with `words` as its content unless that is NULL.
clattn_status cla_recording_take(clattn_recording *r, uint64_t bytes, const void *words, cl_mem *buffer);

// Release the recording and all that it owns.
void cla_recording_free(clattn_recording *r);
#endif
