/* fuzz_device.h: arguments for the API's fuzzer: a context on a device, and valid and invalid
 * buffers, queues and events. Also the checks of every result. */
#ifndef CLATTN_TESTS_FUZZ_DEVICE_H
#define CLATTN_TESTS_FUZZ_DEVICE_H

#include "fuzz/fuzz.h"

#include <clattn/clattn.h>

/* Buffers: one for each tensor, between protected pages, and then buffers that calls must
 * refuse. */
enum { PLACES = 40, TINY = PLACES, READ_ONLY, WRITE_ONLY, FOREIGN, BUFFERS };
extern cl_mem fuzz_buffers[BUFFERS];
extern clattn_context *fuzz_context;

/* Open the device of CLATTN_TEST_DEVICE, by default a CPU. Kernels are cached in the folder
 * FUZZ_CACHE. */
void fuzz_device_open(void);

/* Any of the buffers, or NULL. */
cl_mem fuzz_handle(fuzz_bytes *b);

/* Returns true if a view fits into its buffer, computed in 128 bits. */
bool fuzz_fits(const clattn_tensor *t);

/* Check an accepted call: a written view shares no byte with another view, and both use buffers
 * with the required access. */
void fuzz_check_apart(const clattn_tensor *written, const clattn_tensor *other);
void fuzz_check_access(const clattn_tensor *t, bool is_read, bool is_written);

/* Returns true for OK. A refusal must be caused by the request or this build, not by the driver,
 * and have a one-line message. With expressions it may be the compiler's message, in several
 * lines. */
bool fuzz_answered(clattn_status status, bool built_of_text);

/* Write the first bytes of a buffer. Does nothing for NULL and for invalid buffers. */
void fuzz_write_buffer(cl_mem buffer, const void *bytes, size_t count);

/* Returns true if the program with this signature was allowed before, or is now. Compiling is slow,
 * so only now and then a new program is allowed. */
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

/* Check an enqueue's status and wait for the call. A call that is not `right` must have been
 * refused. */
bool fuzz_finish(const fuzz_launch *at, clattn_status status, bool right, bool built_of_text);

#endif
