/* record.h: calls that are recorded once and replayed, such as the step of a decoder. Included by clattn.h, which tells the rules. */
#ifndef CLATTN_RECORD_H
#define CLATTN_RECORD_H

#include "runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A list of launches, with their arguments. Replaying it asks OpenCL for nothing but the launches: nothing is checked, planned,
 * compiled, written or made again.
 *
 *   clattn_recording_begin(context, queue, &step)            from here on the context's calls on `queue` are recorded, not run
 *   clattn_layer_enqueue(context, queue, ...) ...            as many calls as wanted, of any kind
 *   clattn_recording_end(step)                               the queue runs what it is given again
 *   clattn_recording_fuse(step)                              or not: fewer launches, on CPUs
 *   clattn_recording_enqueue(step, queue, 0, NULL, NULL)     as often as wanted
 *   clattn_recording_destroy(step)
 *
 * What changes between replays is what lies in buffers: inputs, caches, ids of tokens, and lengths, where they are
 * kv_lengths_device, cu_seqlens_q_device and cu_seqlens_kv_device, or block_table. So a decoder's step is a ragged batch of B sequences
 * (attention.h): the application adds 1 to the numbers of kv_lengths_device between two replays, or the step's own clattn_argmax_enqueue
 * does (its lengths), and new rows are appended, turned and seen where these say. All that a call reads from host memory, kv_lengths and
 * k_positions as much as scale and seeds, is read when it is recorded, and stays. Results are the same to the bit as those of the calls,
 * but where CLBlast would have projected. */
typedef struct clattn_recording clattn_recording;

/* Begin to record the calls that enqueue on `queue` by this context. Until clattn_recording_end they run nothing. Their
 * arguments are checked as ever; a call that fails leaves nothing in the recording, and the others stay. Meanwhile:
 *   - such a call has no event, no wait_list and no progress: INVALID_ARGUMENT
 *   - CLBlast's launches are its own: CLATTN_PROJECTION_CLBLAST is UNSUPPORTED, and where the library may choose it takes its own
 *     kernels, on other queues of this context, too. Plans and sizes of workspaces are those of what is chosen: ask for them between
 *     begin and end
 *   - no other thread enqueues on the queue by this context
 *   - what the application itself enqueues on the queue runs at once, and so do groups (group.h), which have queues of their own; no
 *     call of mpi.h is made with the queue
 * Scratch memory and tables are the recording's own while it lives, from the context's clattn_memory; a call uses again what those
 * before it have used, where that is large enough. Buffers that launches use are retained, as
 * is the queue until the recording ends.
 * Lifetime  destroy it with clattn_recording_destroy, before its context.
 * Threads   any.
 * Returns   INVALID_ARGUMENT  the queue is not of the context's cl_context and device, or the context has another recording that is
 *                             not ended
 *           OUT_OF_MEMORY, DEVICE_LOST, DRIVER */
CLATTN_API clattn_status clattn_recording_begin(clattn_context *context, cl_command_queue queue,
                                                clattn_recording **recording);

/* End it: calls on its queue run again.
 * Returns   INVALID_ARGUMENT  it is NULL, or was ended */
CLATTN_API clattn_status clattn_recording_end(clattn_recording *recording);

/* Make as few launches of it as the device allows: on a CPU those of at most about a millisecond become parts of one kernel, whose
 * work-groups go on from one to the next without waking the cores anew. The results keep their bounds and, where the driver compiles a
 * kernel in another program to the same code, as PoCL does and Intel's CPU runtime does not always, their bits. The kernel is linked from
 * those of the calls, by OpenCL 1.2's clCompileProgram and clLinkProgram, which takes seconds the first time and is kept in the context's
 * cache. Elsewhere, and where the driver's compiler refuses, nothing changes and the log says why; clattn_recording_launches tells
 * what became of it. Launches with addresses in place of buffers (pointer.h) and of expressions (mods.h) stay as they are.
 * Blocking  while it compiles.   Threads: nobody else uses the recording.
 * Returns   INVALID_ARGUMENT  it is NULL or not ended
 *           OUT_OF_MEMORY, DEVICE_LOST, DRIVER: what is fused stays so, and it can be replayed as before */
CLATTN_API clattn_status clattn_recording_fuse(clattn_recording *recording);

/* How many launches a replay enqueues; 0 of NULL.   Threads: any, after its end. */
CLATTN_API size_t clattn_recording_launches(const clattn_recording *recording);

/* Enqueue what was recorded, in its order, on the queue of the recording or on any other of the context's cl_context and device,
 * in-order or out-of-order; wait_list and event as in clattn_attention_enqueue. Replays of one recording share scratch memory: each begins
 * after the one before has ended, which an in-order queue sees to, and an event elsewhere. A fused recording orders its replays
 * itself: each waits on the device for the one before, on any queue and from any thread. Its newest queue and event are retained.
 * Threads   any, one queue a thread.
 * Blocking  never.
 * Returns   INVALID_ARGUMENT  it is NULL or not ended, or the queue, wait_list or one of its events is wrong; nothing was enqueued
 *           OUT_OF_MEMORY, DEVICE_LOST, DRIVER; a launch that the driver refuses fails the replay. Launches before it
 *           are enqueued, and what they write is undefined. The context then avoids the kernel (clattn_context_unfit):
 *           record the calls again */
CLATTN_API clattn_status clattn_recording_enqueue(clattn_recording *recording, cl_command_queue queue,
                                                  cl_uint wait_count, const cl_event *wait_list,
                                                  cl_event *event);

/* Destroy it, ended or not; NULL is allowed. Its replays have ended.   Threads: nobody else uses it any more. */
CLATTN_API void clattn_recording_destroy(clattn_recording *recording);

#ifdef __cplusplus
}
#endif
#endif
