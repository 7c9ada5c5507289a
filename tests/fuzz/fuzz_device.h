/* fuzz_device.h: what the API's fuzzer calls: a context on a device, buffers, queues and events, right and wrong ones,
 * and what must hold of every answer. */
#ifndef CLATTN_TESTS_FUZZ_DEVICE_H
#define CLATTN_TESTS_FUZZ_DEVICE_H

#include "fuzz/fuzz.h"

#include <clattn/clattn.h>

/* Buffers: one for each tensor, each between pages that nobody may touch; then those that no call may use so. */
enum { PLACES = 40, TINY = PLACES, READ_ONLY, WRITE_ONLY, FOREIGN, BUFFERS };
extern cl_mem fuzz_buffers[BUFFERS];
extern clattn_context *fuzz_context;

/* On the device that CLATTN_TEST_DEVICE says, else a CPU; kernels are kept in the folder FUZZ_CACHE. */
void fuzz_device_open(void);

/* Any of the buffers, or none. */
cl_mem fuzz_handle(fuzz_bytes *b);

/* Whether a view lies in its buffer, reckoned in 128 bits. */
bool fuzz_fits(const clattn_tensor *t);

/* Of a call that was taken: a view that is written shares no byte with another, and neither lies where it must not. */
void fuzz_check_apart(const clattn_tensor *written, const clattn_tensor *other);
void fuzz_check_access(const clattn_tensor *t, bool is_read, bool is_written);

/* Whether it is OK. A refusal is the request's or this build's, never the driver's, and says why in one line; of a call with
 * expressions it may be the compiler's, in as many as it takes. */
bool fuzz_answered(clattn_status status, bool built_of_text);

/* The first bytes of a buffer; of one that is no call's to use, or none, nothing is done. */
void fuzz_write_buffer(cl_mem buffer, const void *bytes, size_t count);

/* Whether what a program is made from was let in before, or is now: compiling takes seconds, so that a new one is let in
 * every now and then. */
bool fuzz_kernel_may_run(const void *signature, size_t bytes);

/* The queue and events of a call. */
typedef struct fuzz_launch {
    cl_command_queue queue;
    cl_uint wait_count;
    const cl_event *wait_list;
    cl_event event, *to;
    bool wrong;
} fuzz_launch;
void fuzz_launch_choose(fuzz_launch *at, fuzz_bytes *b);

/* After an enqueue: wait for it. A call that is not `right` must have been refused. */
bool fuzz_finish(const fuzz_launch *at, clattn_status status, bool right, bool built_of_text);

#endif
