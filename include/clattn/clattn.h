/* clattn.h: transformer attention on any OpenCL 1.2 device.
 *
 * Read from top to bottom: opencl.h (where OpenCL comes from), runtime.h (status, log, devices, context), tensor.h (views of buffers),
 * rope.h, append.h, attention.h (scores, keys and values, attention, merge), backward.h (gradients), group.h (several devices),
 * layer.h (layer, linear), block.h (norms, activations, embedding, argmax), record.h (calls that are replayed).
 *
 * The letters, everywhere in this header:
 *   B batch   H query heads   Hkv key/value heads (H % Hkv == 0; query head h reads h / (H/Hkv))
 *   Nq query rows   Nkv key rows   D head size of Q and K   Dv head size of V and of the output
 *   M model width   i counts query rows, j key rows, h heads, b batch items
 *
 * Rules that hold for every function:
 *   - Zero is the default of every field of every struct: start from {0} and set what you need.
 *   - All arguments are checked before anything is enqueued. A call that fails has enqueued nothing and
 *     written nothing, except DEVICE_LOST, DRIVER and OUT_OF_MEMORY, where the driver may have refused
 *     half-way, and BUILD_FAILED of a kernel of CLBlast's, which compiles between its own commands.
 *   - DEVICE_LOST, and then for every later call on the context: after a command went well, the driver said that the
 *     device is not available, that a queue which it knew is none, or that a kernel touched a bad address. A launch
 *     that is too large (OUT_OF_MEMORY) and an event that failed (DRIVER) leave the context as it was.
 *   - The library never prints, exits, aborts or reads the environment, and it has no mutable global state but the
 *     functions of OpenCL, which it finds once (opencl.h), and in CLBlast's module a count of the contexts that use it.
 *     OpenCL's loader and drivers have their own ways, and so has CLBlast (clattn_projection).
 *   - Speed on PoCL: its workers are threads that the system moves about, and two of them often share a core for a whole call,
 *     which then takes twice as long. An application sets POCL_AFFINITY=1 in its environment before anybody uses OpenCL
 *     (worker i then keeps to CPU i), if it may use all of the machine's CPUs: where the system refuses, PoCL 3.1 ends
 *     the process. The clattn program does so.
 *   - Threads: any function may be called from any thread. One context may be shared by threads that each
 *     have a queue of their own; calls on it overlap. A call waits for another thread only where both want a kernel
 *     that is being compiled, or a probe that is running.
 *   - Several queues on PoCL: Debian's 3.1, which is built with assertions, has ended the process by one of them
 *     (pocl_release_dlhandle_cache) where threads with a queue each used kernels for the first time at once: 4 of 32 runs of
 *     tests/runtime/test_threads.c without kept kernels, on a busy machine. With one queue that was not seen.
 *   - Processes: where nothing of OpenCL was called yet, by whomever, a process may fork and use the library in parent
 *     and children. Later a child lacks the driver's threads: names, versions and views are all that it may ask for,
 *     and contexts are the parent's. A library that was loaded by hand may be unloaded once its contexts are
 *     destroyed, and loaded again; OpenCL's loader and CLBlast's module then stay. Two copies of it in one process share
 *     those and nothing else.
 *   - A handle or pointer that is needed and NULL is INVALID_ARGUMENT; where it is the context, there is no line.
 *   - Why a call failed is one line, through the log callback and clattn_context_last_error().
 */
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
#include "record.h"
#include "rope.h"
#include "runtime.h"
#include "tensor.h"

#endif
