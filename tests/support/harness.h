// harness.h: what every device suite stands on: the device, a context with its queues, the log
// and the main function. Leaves out buffers and cases (src/evidence, case_assert.h).
//
// Environment: CLATTN_TEST_DEVICE  index, or a part of a device's or platform's name; unset: the first device
//              CLATTN_TEST_CACHE   folder of compiled kernels; where it is not set, none are kept
//              CLATTN_TEST_ROWS    tuned rows, as text, so that a suite runs with other kernels than the
//              planner's own:
//                                  "flash :" takes the portable flash kernel on every device
//              CLATTN_TEST_TYPE    bf16 or f16: float32 cases are run as that (case_assert.h); i8: their keys and values alone
//              CLATTN_TEST_TAKEN   "kernel N": the suite fails where that kernel took less than N of its cases
//              CLATTN_TEST_EVERY   N, or N/SHARE: of lists that the suites take parts of one in N alone
//              CLATTN_TEST_RECORDED=1  cases are recorded, and what is judged is what a replay gives (record.h)
//              CLATTN_TEST_LIMIT   compile_limit_ms of the harness' context
//              CLATTN_TEST_DATA    folder of the model data; suites that need it say so and skip without it
//              CLATTN_TEST_NO_CLBLAST=1  the library was built without CLBlast: asking for it is UNSUPPORTED
#ifndef CLATTN_TESTS_HARNESS_H
#define CLATTN_TESTS_HARNESS_H

#include <check.h>
#include <clattn/clattn.h>

#include "evidence/device/guarded.h"

// CTest, Meson and Automake read this exit status as "skipped".
#define HARNESS_SKIP 77
// The exit status when one of the test's own OpenCL calls failed, so that nothing can be said of the library.
#define HARNESS_BROKEN 3

struct harness {
    clattn_context *context;
    cl_context opencl;
    cl_device_id device;
    cl_command_queue queue;        // in order
    cl_command_queue out_of_order; // NULL where the device has none
};

// The one harness of the program, started by harness_run or harness_start.
const struct harness *harness(void);

// Where cases run: the harness' context and queue. One of its own calls that fails ends the program.
struct place *harness_place(void);
// Elements behind a view from now on. 0 ends the buffer with the view, for tools that see one element too
// far.
void harness_set_guard(int64_t elements);

// Choose the device, create the context and the queues. Without a device the program ends with HARNESS_SKIP.
void harness_start(void);

// Whether the context's driver compiles the kernels that these tuned rows name so that they give right numbers. PoCL 4 to 6 compile
// those of tiles and groups right or wrong by chance (src/device/defects.c).
bool harness_compiles_right(const clattn_context *context, const char *rows);
void harness_stop(void);
// Another context on the harness' device; the rest is `params`'. Fails the Check test where there is none.
clattn_context *harness_open(clattn_context_params params);
// The same, whose first call on a driver that clattn does not know compiles the least text.
clattn_context *harness_open_first(clattn_context_params params);
// The part of harness_start that follows a context of the suite's own making.
void harness_adopt(clattn_context *context);

// CLATTN_TEST_TYPE, else float32; whether CLATTN_TEST_TAKEN asks who takes a case, and one that was run.
clattn_type harness_type(void);
bool harness_counts_kernels(void);
void harness_count_kernel(const char *name);
// CLATTN_TEST_EVERY, else 1; and whether the n-th of a list is in its share: so many less, by a hash and not in turns, since a
// list that goes through two types in turn keeps both so.
int harness_every(void);
bool harness_takes(int n);
// Those iterations of a loop of tests that are in the share.
void harness_add_loop(TCase *group, const TTest *test, int count);

// Run a suite without forking (an OpenCL context does not survive a fork) and return main's exit status.
int harness_run(Suite *suite);

// A test case without time limit that holds the tests of a NULL-terminated list, and takes more.
TCase *harness_add(Suite *suite, const char *name, const TTest *const *tests);

// The last message the library logged on this thread since harness_log_clear, and how many there were.
const char *harness_log_text(void);
int harness_log_count(void);
void harness_log_clear(void);
// The callback itself, for contexts that a suite makes for itself.
clattn_log harness_log(void);

// Fail the Check test unless a call on harness()->context was refused as it must be: the status, and one line
// that mentions `word`, the same in the log (exactly once since harness_log_clear) and in
// clattn_context_last_error.
void harness_assert_refused(const char *name, clattn_status got, clattn_status want, const char *word);

// A user event for the wait list of a call.
cl_event harness_gate(void);
// Fail the Check test unless the call whose event is `done` waits for the gate to open, and runs then. Opens
// the gate and releases both events.
void harness_open_gate(cl_event gate, cl_event done, cl_command_queue queue);

bool harness_has_clblast(void);
// False, and told with the test's name, on a driver that clattn asks for no binary: no compiled kernel is kept there.
bool harness_keeps_kernels(const char *test);
// Run it on each queue there is, with each projection there is.
void harness_each_way(void (*run)(cl_command_queue queue, clattn_projection projection));

// A folder of data files, or NULL; `name` in it, in a buffer of the caller.
const char *harness_data_folder(void);
const char *harness_data_path(const char *name, char *path, size_t size);
// One of the public headers, with blanks for its remarks; the caller frees it.
char *harness_header(const char *name);

// The test's own OpenCL calls: end the program when one fails.
void harness_expect(cl_int status, const char *what);
void harness_finish(cl_command_queue queue);

#endif
