/* record.h: calls that are recorded once and replayed, such as a decoder's step. Included by
 * clattn.h (rules, contracts). */
#ifndef CLATTN_RECORD_H
#define CLATTN_RECORD_H

#include "runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A list of launches with their arguments. A replay only enqueues them: it checks, plans, compiles
 * and creates nothing.
 *    clattn_recording_begin(context, queue, &step)            calls on `queue` are recorded
 *    clattn_layer_enqueue(context, queue, ...) ...            any number of calls, of any kind
 *    clattn_recording_end(step)                               later calls on the queue run
 *    clattn_recording_fuse(step)                              optional: fewer launches, on CPUs
 *    clattn_recording_enqueue(step, queue, 0, NULL, NULL)     any number of times
 *    clattn_recording_destroy(step)
 *
 * Only contents of buffers may change between replays, such as inputs, caches and
 * kv_lengths_device. Host memory, such as kv_lengths and seeds, is read once, during recording. See
 * docs/decoder.md, "Steps that are recorded".
 *
 * Results have the same bits as the calls, except where CLBlast would project. */
typedef struct clattn_recording clattn_recording;

/* Record the context's calls on `queue` until clattn_recording_end. A failed call leaves nothing in
 * the recording. Meanwhile:
 *    - calls have no event, wait_list or progress: INVALID_ARGUMENT
 *    - CLATTN_PROJECTION_CLBLAST is UNSUPPORTED, and AUTO selects clattn's kernels, on all queues
 *      of the context. Query plans and workspace sizes only then
 *    - no other thread enqueues on the queue through this context, and no mpi.h call uses the queue
 *    - the application's own commands and groups (group.h) run at once
 *
 * A recording owns its scratch memory and tables (clattn_memory). It retains the launches' buffers,
 * and the queue until the end.
 *    Lifetime  destroy it with clattn_recording_destroy, before its context
 *    Threads   any
 *    Returns   INVALID_ARGUMENT  the queue has another cl_context or device, or another recording
 *                                of the context has not ended
 *              OUT_OF_MEMORY, DEVICE_LOST, DRIVER */
CLATTN_API clattn_status clattn_recording_begin(clattn_context *context, cl_command_queue queue,
                                                clattn_recording **recording);

/* Stop recording. Later calls on the queue execute normally.
 *    Returns   INVALID_ARGUMENT  the recording is NULL, or has ended */
CLATTN_API clattn_status clattn_recording_end(clattn_recording *recording);

/* Fuse launches: on a CPU, launches of up to about a millisecond become parts of one kernel, which
 * the cache stores. Launches with svm or usm addresses or expressions (mods.h) are not fused.
 *
 * Results keep their error bounds, and with PoCL their bits. On other devices, or if the compiler
 * refuses, nothing changes.
 *    Threads   nobody else uses the recording
 *    Blocking  while the driver compiles, seconds the first time
 *    Returns   INVALID_ARGUMENT  the recording is NULL or has not ended
 *              OUT_OF_MEMORY, DEVICE_LOST, DRIVER: it can be replayed, with what was fused so
 *              far */
CLATTN_API clattn_status clattn_recording_fuse(clattn_recording *recording);

/* Return how many launches a replay enqueues; 0 for NULL.   Threads: any, after its end. */
CLATTN_API size_t clattn_recording_launches(const clattn_recording *recording);

/* Enqueue the recorded launches in order, on any queue of the context's cl_context and device.
 * Replays share scratch memory: each must begin after the previous one has ended, through an
 * in-order queue or an event. A fused recording orders its replays itself, and retains its newest
 * queue and event.
 *
 * A launch that the driver refuses fails the replay. Earlier launches are enqueued, and their
 * outputs undefined. The context then avoids the kernel (clattn_context_unfit): record the calls
 * again.
 *    Blocking  never
 *    Returns   INVALID_ARGUMENT  the recording is NULL or has not ended, or queue, wait_list or an
 *                                event is wrong
 *              OUT_OF_MEMORY, DEVICE_LOST, DRIVER
 *    Otherwise the enqueue contract. */
CLATTN_API clattn_status clattn_recording_enqueue(clattn_recording *recording, cl_command_queue queue,
                                                  cl_uint wait_count, const cl_event *wait_list,
                                                  cl_event *event);

/* Destroy a recording, ended or not; NULL is allowed. Its replays have ended.   Threads: no other
 * thread uses it any more. */
CLATTN_API void clattn_recording_destroy(clattn_recording *recording);

#ifdef __cplusplus
}
#endif
#endif
