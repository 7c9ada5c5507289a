/* fuzz_device.h: the environment of the API's fuzzer: a context on a device, buffers, queues and
 * events, valid and invalid ones, and the conditions of every result. */
#ifndef CLATTN_TESTS_FUZZ_DEVICE_H
#define CLATTN_TESTS_FUZZ_DEVICE_H

#include "fuzz/fuzz.h"

#include <clattn/clattn.h>

/* Buffers: one for each tensor, between inaccessible pages; then those that no call may use. */
enum { PLACES = 40, TINY = PLACES, READ_ONLY, WRITE_ONLY, FOREIGN, BUFFERS };
extern cl_mem fuzz_buffers[BUFFERS];
extern clattn_context *fuzz_context;

/* On the device of CLATTN_TEST_DEVICE, else a CPU; kernels are stored in the folder FUZZ_CACHE. */
void fuzz_device_open(void);

/* Any of the buffers, or none. */
cl_mem fuzz_handle(fuzz_bytes *b);

/* Returns whether a view is inside its buffer, computed in 128 bits. */
bool fuzz_fits(const clattn_tensor *t);

/* For an accepted call: an output shares no byte with another view, and each is where it may be. */
void fuzz_check_apart(const clattn_tensor *written, const clattn_tensor *other);
void fuzz_check_access(const clattn_tensor *t, bool is_read, bool is_written);

/* Returns whether the status is OK. A refusal must be the request's or this build's fault, never
 * the driver's, with one line of reason. With expressions it may be the compiler's, with several
 * lines. */
bool fuzz_answered(clattn_status status, bool built_of_text);

/* Set the first bytes of a buffer. An invalid buffer, or none, is skipped. */
void fuzz_write_buffer(cl_mem buffer, const void *bytes, size_t count);

/* Returns whether the parts of this program were allowed before, or are now. Compilation needs
 * seconds, so a new program is allowed only now and then. */
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
