/* clattn.h: transformer attention on any OpenCL 1.2 device.
 *
 * Read runtime.h, tensor.h, rope.h and attention.h first. Then: append.h (caches), backward.h
 * (gradients), linear_attention.h, sparse.h (lists of keys), group.h (several devices), layer.h,
 * block.h (norms, tokens), record.h (replays).
 *
 * Letters, in all headers:
 *    B batch   H query heads   Hkv key/value heads (H % Hkv == 0; query head h reads h / (H/Hkv))
 *    Nq query rows   Nkv key rows   D head size of Q and K   Dv head size of V and of the output
 *    M model width   i counts query rows, j key rows, h heads, b batch items
 *
 * Rules of every function:
 *   - Zero is the default of every field of every struct. Start from {0} and set what you need.
 *   - All arguments are checked before a command is enqueued. A call that fails has enqueued and
 *     written nothing. Exceptions are CANCELLED, DEVICE_LOST, DRIVER, OUT_OF_MEMORY, and
 *     BUILD_FAILED of a CLBlast kernel, which may come half-way.
 *   - A required handle or pointer that is NULL is INVALID_ARGUMENT. A NULL context has no message.
 *   - One line says why a call failed: the log receives it, clattn_context_last_error() returns it.
 *   - DEVICE_LOST is final: every later call on the context returns it. A context is lost when,
 *     after a command succeeded, the driver reports an unavailable device, an invalid queue that
 *     was valid, or a bad address in a kernel. A launch that is too large (OUT_OF_MEMORY) or an
 *     event that failed (DRIVER) leaves the context usable.
 *   - The library never prints, exits, aborts or reads the environment. Drivers and CLBlast may:
 *     see docs/drivers.md and docs/context.md.
 *   - Threads: any thread may call any function. Threads may share a context if each has its own
 *     queue; their calls overlap. A call waits for another only while both need one build or probe.
 *   - Processes: a process may fork before any code in it calls OpenCL. A child that is forked
 *     later may use names, versions and views only.
 *   - Unloading: the library may be unloaded after its contexts are destroyed, and loaded again.
 *     OpenCL's loader and CLBlast's module stay loaded.
 *
 * Functions name these contracts, and state what differs.
 *
 * The enqueue contract:
 *    queue      the caller's, in-order or out-of-order; one thread at a time uses a queue
 *    wait_list  events[wait_count] of the context's cl_context, which the call waits for, or NULL
 *               and 0. A failed event is INVALID_ARGUMENT. If it fails later, the driver decides
 *               whether the call runs (docs/drivers.md)
 *    event      NULL, or receives an event that completes when every output is written, and NULL if
 *               the call fails. The caller releases the event
 *    Lifetime   params and host arrays are read during the call. Buffers must live until the
 *               commands have completed
 *    Threads    any
 *    Blocking   never for the result, except with `progress`: then until all is done, wait_list
 *               included. A kernel that is not compiled yet is compiled now
 *    Returns    INVALID_ARGUMENT  a rank, shape, type, stride, range, number, buffer or handle is
 *                                 wrong, or an output overlaps other data of the call
 *               UNSUPPORTED       this build or device cannot do the call; the message names the
 *                                 option
 *               OUT_OF_MEMORY     no scratch memory, or the driver lacks memory for the launch
 *               CANCELLED         by `progress`
 *               BUILD_FAILED, DEVICE_LOST, DRIVER
 *
 * The prepare contract: compile the kernels of the enqueue function, so that it compiles nothing.
 *    params     buffers may be NULL; an optional tensor counts as present when its rank is not 0
 *    Threads    any
 *    Blocking   while the driver compiles: about a second a kernel on a CPU; milliseconds if cached
 *    Returns    as the enqueue function; the log receives the driver's log of a failed build
 *
 * The callback contract: several threads may call the function at once: threads that call clattn
 * and, with compile_limit_ms, threads of the library, which end before clattn_context_destroy
 * returns. The function must not call into the same context.
 *
 * The list contract: entries are written to an array of `capacity` places. Pass NULL and 0 to get
 * only the number.
 *    count      receives the number of entries, which may exceed capacity
 *    Returns    INVALID_ARGUMENT  count is NULL, or the array is NULL and capacity is not 0
 *
 * The name contract: the result is a word such as "flash", or "(unknown)" for other numbers.
 *    Lifetime: static.   Threads: any.   Blocking: never. */
#ifndef CLATTN_CLATTN_H
#define CLATTN_CLATTN_H

#include "append.h"
#include "attention.h"
#include "backward.h"
#include "block.h"
#include "group.h"
#include "mods.h"
#include "opencl.h"
#include "layer.h"
#include "linear_attention.h"
#include "record.h"
#include "rope.h"
#include "runtime.h"
#include "sparse.h"
#include "tensor.h"

#endif
