// promise.h: what a plan says is what then happens: a call asked ahead, with no buffer at all, and then enqueued. Leaves
// out the results (case_assert.h). Used by test_promises.c and test_promises_layer.c, which make calls at random.
#ifndef CLATTN_TESTS_PROMISE_H
#define CLATTN_TESTS_PROMISE_H

#include "verification/reference/random.h"
#include "support/harness.h"

// The functions of one kind of call.
struct promise_kind {
    clattn_status (*plan)(const void *params, size_t *bytes); // bytes: of the workspace, as the plan has them
    clattn_status (*workspace)(const void *params, size_t *bytes);
    clattn_status (*prepare)(const void *params);
    clattn_status (*enqueue)(const void *params, cl_event *event);
};

// One call of it.
struct promise {
    char name[64];        // for messages
    const void *bare;     // its parameters without buffers
    void *whole;          // the same with buffers
    cl_mem *workspace;    // the place for one in `whole`; NULL: always NULL
    bool does_nothing;    // a size is zero
    clattn_status spoilt; // what must come of it; OK: OK, or UNSUPPORTED where no kernel can do it
    const char *word;     // in the message of one that is spoilt
};

// Fail the Check test unless plan, workspace, prepare and enqueue agree. A call that is planned OK is enqueued only where
// `run` says so, because that compiles: with a byte of workspace too few, then with just enough. True: it was OK.
bool promise_kept(const struct promise_kind *kind, const struct promise *promise, bool run);

// One of `count` numbers; whether something of probability 1 / of happens.
int64_t promise_pick(struct random *random, const int64_t *from, int count);
bool promise_chance(struct random *random, int of);
#define PROMISE_PICK(random, ...)                                                                            \
    promise_pick(random, (const int64_t[]){__VA_ARGS__},                                                     \
                 (int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))

// A view of zeros that all inputs share, or of one of the outputs. Released by promise_close.
enum { PROMISE_OUTPUTS = 4 };
void promise_open(void);
void promise_close(void);
clattn_tensor promise_input(clattn_type type, int rank, const int64_t *shape);
clattn_tensor promise_output(int output, clattn_type type, int rank, const int64_t *shape);

#endif
