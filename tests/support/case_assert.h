// case_assert.h: the cases of src/verification in a Check test. A case runs on the harness and is
// compared with the reference. A failure prints its name, which verify, bench and tune accept. Used
// by every device suite.
//
//   case_assert(&(struct test_case){.name = "causal", .n_q = 9, .n_kv = 9, .head_dim = 32,
//                                   .score = {.causal = true}});
#ifndef CLATTN_TESTS_CASE_ASSERT_H
#define CLATTN_TESTS_CASE_ASSERT_H

#include "verification/case/case_check.h"
#include "verification/words/words.h"
#include "support/harness.h"

// With CLATTN_TEST_TYPE a float32 attention case gets that type, and its inputs are rounded to it.
// A type with scales applies only to the keys and values of a forward call. Other cases stay. The
// case_assert functions call this themselves. Suites with float32 tolerances do not.
void case_retype(struct case_data *data);

// Create and bind the case of a name. Fails the Check test if there is no such case.
struct case_data *case_open(const char *name, struct case_arrays *arrays);

// Bind, enqueue on this queue, collect, unbind. Counts the case's kernel, for CLATTN_TEST_TAKEN.
struct case_result case_run(const struct case_data *data, cl_command_queue queue);

// Waits for the queue. Returns true if the bound arrays have the right results, else writes one
// line to why[size].
bool case_holds(const struct case_data *data, const struct case_arrays *arrays, cl_command_queue queue,
                char *why, size_t size);

// Run with the case's kernel, and fail the Check test if the result is wrong.
void case_assert_data(struct case_data *data);
void case_assert(const struct test_case *test);

// The same with every kernel that supports the case: unfused and auto always, flash without
// returned weights or scores, decode with few rows. UNSUPPORTED of decode is counted and skipped.
void case_assert_data_kernels(struct case_data *data);
void case_assert_kernels(const struct test_case *test);
int case_decode_skipped(void);

// The layer that the suites of layers vary: two items of nine rows, four heads of 16, a width of
// 48, all biases.
struct test_case case_layer_base(const char *name);

// The kernel of loop step n in 0..2: flash, unfused, auto.
clattn_kernel case_kernel(int n);

#endif
