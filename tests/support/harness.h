// harness.h: the common part of every device suite: the device, a context with its queues, the log
// and the main function. Buffers and cases are elsewhere (src/verification, case_assert.h).
//
// Environment:
//   CLATTN_TEST_DEVICE    index, or part of a device's or platform's name; default: the first
//   CLATTN_TEST_CACHE     folder of compiled kernels; unset: none are stored
//   CLATTN_TEST_ROWS      tuned rows as text, which force kernels: "flash :" is the portable one
//   CLATTN_TEST_TYPE      bf16, f16: type of float32 cases (case_assert.h); i8: of keys and values
//   CLATTN_TEST_TAKEN     "kernel N": the suite fails if that kernel ran fewer than N of its cases
//   CLATTN_TEST_EVERY     N, or N/SHARE: run one in N of the lists that suites shorten
//   CLATTN_TEST_RECORDED  1: record cases, and check the results of a replay (record.h)
//   CLATTN_TEST_LIMIT     compile_limit_ms of the harness' context
//   CLATTN_TEST_DATA      folder of the model data; suites that need it skip without it
//   CLATTN_TEST_NO_CLBLAST  1: the library has no CLBlast, and must return UNSUPPORTED for it
#ifndef CLATTN_TESTS_HARNESS_H
#define CLATTN_TESTS_HARNESS_H

#include <check.h>
#include <clattn/clattn.h>

#include "verification/device/guarded.h"

// CTest, Meson and Automake read this exit status as "skipped".
#define HARNESS_SKIP 77
// The exit status if one of the test's own OpenCL calls failed. The test then says nothing about
// the library.
#define HARNESS_BROKEN 3

struct harness {
    clattn_context *context;
    cl_context opencl;
    cl_device_id device;
    cl_command_queue queue;        // in order
    cl_command_queue out_of_order; // NULL if the device has no such queue
};

// The one harness of the program, started by harness_run or harness_start.
const struct harness *harness(void);

// The harness' context and queue, on which cases run. If one of its own calls fails, the program
// ends.
struct place *harness_place(void);
// Sets how many elements follow a view in its buffer. With 0 the buffer ends with the view, so that
// tools see an access one element too far.
void harness_set_guard(int64_t elements);

// Choose the device, create the context and the queues. Without a device the program ends with
// HARNESS_SKIP.
void harness_start(void);

// Returns whether the context's driver compiles the kernels of these tuned rows correctly. PoCL 4
// to 6 compile the kernels of tiles and groups right or wrong by chance
// (src/lib/device/driver_quirks.c).
bool harness_compiles_right(const clattn_context *context, const char *rows);
void harness_stop(void);
// Open another context on the harness' device. `params` has all other options. Fails the Check test
// if that is impossible.
clattn_context *harness_open(clattn_context_params params);
// As harness_open. If the driver is unknown, the context's first call compiles the kernels with the
// least text.
clattn_context *harness_open_first(clattn_context_params params);
// The part of harness_start that follows a context which the suite created itself.
void harness_adopt(clattn_context *context);

// The type that CLATTN_TEST_TYPE names, or float32. harness_counts_kernels: true if
// CLATTN_TEST_TAKEN is set. harness_count_kernel: count the kernel of one case.
clattn_type harness_type(void);
bool harness_counts_kernels(void);
void harness_count_kernel(const char *name);
// CLATTN_TEST_EVERY, or 1. Then whether the n-th entry of a list is in the share. A hash chooses
// entries: with every N-th entry, a list that alternates between two types would lose one of them.
int harness_every(void);
bool harness_takes(int n);
// Add the iterations of a loop of tests that are in the share.
void harness_add_loop(TCase *group, const TTest *test, int count);

// Run a suite and return main's exit status. It does not fork, because an OpenCL context does not
// survive a fork.
int harness_run(Suite *suite);

// A test case without a time limit, with the tests of a NULL-terminated list. More can be added.
TCase *harness_add(Suite *suite, const char *name, const TTest *const *tests);

// The last message that the library logged on this thread since harness_log_clear, and their
// number.
const char *harness_log_text(void);
int harness_log_count(void);
void harness_log_clear(void);
// The log callback itself, for contexts that a suite creates.
clattn_log harness_log(void);

// Fail the Check test unless a call on harness()->context was refused correctly: with the status,
// and with one line that mentions `word`. The log must have this line exactly once since
// harness_log_clear, and clattn_context_last_error must return it.
void harness_assert_refused(const char *name, clattn_status got, clattn_status want, const char *word);

// A user event for the wait list of a call.
cl_event harness_gate(void);
// Fail the Check test unless the call with the event `done` waits for the gate, and runs after it.
// Opens the gate and releases both events.
void harness_open_gate(cl_event gate, cl_event done, cl_command_queue queue);

bool harness_has_clblast(void);
// False on a driver whose binaries clattn does not read: no compiled kernels are stored there.
// Prints the test's name then.
bool harness_keeps_kernels(const char *test);
// Call `run` on each queue that exists, with each projection that exists.
void harness_each_way(void (*run)(cl_command_queue queue, clattn_projection projection));

// The folder of data files, or NULL; the path of the file `name` in it, in the caller's buffer.
const char *harness_data_folder(void);
const char *harness_data_path(const char *name, char *path, size_t size);
// The text of a public header, with its comments replaced by blanks. The caller frees it.
char *harness_header(const char *name);

// For the test's own OpenCL calls: end the program if one fails.
void harness_expect(cl_int status, const char *what);
void harness_finish(cl_command_queue queue);

#endif
