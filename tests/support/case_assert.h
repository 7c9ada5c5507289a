// case_assert.h: the cases of src/verification in a Check test: run on the harness, compared with the reference, and
// named when they fail, so that verify, bench and tune can run them again. Used by every device suite.
//
//   case_assert(&(struct test_case){.name = "causal", .n_q = 9, .n_kv = 9, .head_dim = 32, .score = {.causal = true}});
#ifndef CLATTN_TESTS_CASE_ASSERT_H
#define CLATTN_TESTS_CASE_ASSERT_H

#include "verification/case/case_check.h"
#include "verification/words/words.h"
#include "support/harness.h"

// With CLATTN_TEST_TYPE a float32 attention case becomes one of that type, its inputs rounded to it, or, where the type has scales, of a
// forward call its keys and values; others stay. The
// case_assert functions do it themselves; who compares with figures of float32 does not.
void case_retype(struct case_data *data);

// The case of a name, made and bound; fails the Check test where it is none.
struct case_data *case_open(const char *name, struct case_arrays *arrays);

// Bind, enqueue on this queue, collect, unbind. Counts the kernel that takes it, for CLATTN_TEST_TAKEN.
struct case_result case_run(const struct case_data *data, cl_command_queue queue);

// Whether what the bound arrays hold is right, after waiting for the queue; false: one line in why[size].
bool case_holds(const struct case_data *data, const struct case_arrays *arrays, cl_command_queue queue,
                char *why, size_t size);

// Run with the case's kernel and fail the Check test when the result is wrong.
void case_assert_data(struct case_data *data);
void case_assert(const struct test_case *test);

// The same with every kernel that may do the case: unfused and auto always, flash where no weights or scores
// are asked for, decode where there are few rows (its UNSUPPORTED is counted and passed over).
void case_assert_data_kernels(struct case_data *data);
void case_assert_kernels(const struct test_case *test);
int case_decode_skipped(void);

// The layer that the layers' suites vary: two items of nine rows, four heads of 16, a width of 48, all biases.
struct test_case case_layer_base(const char *name);

// The kernel of loop step n in 0..2: flash, unfused, auto.
clattn_kernel case_kernel(int n);

#endif
