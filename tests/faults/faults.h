// faults.h: one subject of the fault suite, which is a way to use the library, and what becomes of
// it when an OpenCL call under it fails. The subjects are faults_calls.c's and faults_contexts.c's;
// faults.c lets the calls fail and judges.
#ifndef CLATTN_TESTS_FAULTS_H
#define CLATTN_TESTS_FAULTS_H

#include "support/case_assert.h"
#include "support/layer_client.h"

// One use, with the nth OpenCL call of the library failing (0: none), and what came of it.
struct attempt {
    int nth, code;
    clattn_status status;
    struct layer_armed armed;
    char message[1024]; // the last one that was logged
    bool right;         // of a use that succeeded: its results; of all: events, what came back
    char why[512];      // it is not right
};

struct subject {
    const char *name;
    void (*run)(const struct subject *subject, struct attempt *attempt);
    const char *const *spared; // calls that may fail without the use failing, NULL-terminated
    const struct test_case *test;
    int small;    // of small_calls.h, where that is what it runs
    bool borrows; // of what its context keeps
    bool
        // tables, whose events the context keeps for a while: what is left is seen when it is
        // destroyed
        writes;
    bool out_of_order;
    bool fuses;   // what it records
    bool replays; // a launch of a replay fails with its status
    bool through_clblast;
    bool never_ran; // its contexts have enqueued nothing, so that no device can have been lost
    bool
        // each use does, which takes long: a code or two for each call, and no second use to see it
        // work
        compiles;
    // a time that is not sure is taken again: it makes fewer or more calls from run to run
    bool measures;
    int most_calls; // try about so many of its calls, evenly; 0: all
};

const struct layer_control *faults_layer(void);
// Between these two the calls of the library count, and one fails.
void faults_begin(const struct attempt *attempt);
void faults_end(struct attempt *attempt, clattn_status status);
void faults_wrong(struct attempt *attempt, const char *format, ...);
// Whether a queue can be used after a command on it failed: Intel's runtime of 2026 crashes on an
// out-of-order one.
bool faults_queue_survives(cl_command_queue queue);
// Whether the driver lets a command fail whose wait list fails (PoCL), or runs it (Intel's
// runtime).
bool faults_driver_tells(cl_command_queue queue);

// Let every call fail, with every code where it is the first of its name, else with some. Fails the
// Check test.
void faults_try(const struct subject *subject);

extern const struct subject faults_calls[], faults_contexts[]; // end with a name that is NULL

// Tests of their own (faults_rules.c).
void faults_add_rules(Suite *suite);

// How many there were so far.
struct fault_figures {
    long injected, refused, spared, went_on, lost, events;
};
const struct fault_figures *faults_figures(void);

#endif
