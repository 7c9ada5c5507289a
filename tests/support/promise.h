// promise.h: a plan must agree with what happens then: a call is planned without any buffer, and
// then enqueued. Results are checked elsewhere (case_assert.h). Used by test_promises.c and
// test_promises_layer.c, which make random calls.
#ifndef CLATTN_TESTS_PROMISE_H
#define CLATTN_TESTS_PROMISE_H

#include "verification/reference/random.h"
#include "support/harness.h"

// The functions of one kind of call.
struct promise_kind {
    // bytes: the workspace, as the plan returns it
    clattn_status (*plan)(const void *params, size_t *bytes);
    clattn_status (*workspace)(const void *params, size_t *bytes);
    clattn_status (*prepare)(const void *params);
    clattn_status (*enqueue)(const void *params, cl_event *event);
};

// One call of the kind.
struct promise {
    char name[64];     // for messages
    const void *bare;  // its parameters without buffers
    void *whole;       // its parameters with buffers
    cl_mem *workspace; // the place of the workspace in `whole`; NULL: none
    bool does_nothing; // a size is zero
    // the expected status; OK also allows UNSUPPORTED, if no kernel can do the call
    clattn_status spoilt;
    const char *word; // a word of the message, if the call is spoilt
};

// Fail the Check test unless plan, workspace, prepare and enqueue agree. A call with an OK plan is
// enqueued only if `run` is set, because that compiles: with a workspace one byte too small, then
// with one of the exact size. Returns true if it was OK.
bool promise_kept(const struct promise_kind *kind, const struct promise *promise, bool run);

// Return one of `count` numbers. Return true with probability 1 / of.
int64_t promise_pick(struct random *random, const int64_t *from, int count);
bool promise_chance(struct random *random, int of);
#define PROMISE_PICK(random, ...)                                                                            \
    promise_pick(random, (const int64_t[]){__VA_ARGS__},                                                     \
                 (int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))

// A view of zeros that all inputs share, or a view of one of the outputs. Released by
// promise_close.
enum { PROMISE_OUTPUTS = 4 };
void promise_open(void);
void promise_close(void);
clattn_tensor promise_input(clattn_type type, int rank, const int64_t *shape);
clattn_tensor promise_output(int output, clattn_type type, int rank, const int64_t *shape);

#endif
