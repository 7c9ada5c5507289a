// faults.h: the fault suite. A subject is one use of the library, in which one OpenCL call fails.
// faults_calls.c and faults_contexts.c have the subjects; faults.c makes the calls fail and checks
// the outcome.
#ifndef CLATTN_TESTS_FAULTS_H
#define CLATTN_TESTS_FAULTS_H

#include "support/case_assert.h"
#include "support/layer_client.h"

// One use with the nth OpenCL call of the library failing (0: none), and its outcome.
struct attempt {
    int nth, code;
    clattn_status status;
    struct layer_armed armed;
    char message[1024]; // the last logged message
    bool right;         // right: the results and events of a successful use are right
    char why[512];      // the reason if it is not right
};

struct subject {
    const char *name;
    void (*run)(const struct subject *subject, struct attempt *attempt);
    const char *const *spared; // calls that may fail without the use failing, NULL-terminated
    const struct test_case *test;
    int small;    // which of small_calls.h, if it runs one
    bool borrows; // memory that its context keeps
    bool
        // tables, whose events the context keeps for a while: leaks show when it is destroyed
        writes;
    bool out_of_order;
    bool fuses;   // the recording
    bool replays; // a launch of a replay fails with its status
    bool through_clblast;
    bool never_ran; // its contexts have enqueued nothing, so no device can be lost
    bool
        // each use compiles, which is slow: one or two codes for each call, and no second use
        compiles;
    // an uncertain time is measured again, so the number of calls changes from run to run
    bool measures;
    int most_calls; // try about this many of its calls, evenly distributed; 0: all
};

const struct layer_control *faults_layer(void);
// Between these two, the library's OpenCL calls are counted, and one fails.
void faults_begin(const struct attempt *attempt);
void faults_end(struct attempt *attempt, clattn_status status);
void faults_wrong(struct attempt *attempt, const char *format, ...);
// Returns whether a queue is usable after a command on it failed. Intel's runtime of 2026 crashes
// on an out-of-order one.
bool faults_queue_survives(cl_command_queue queue);
// True if a command fails with its wait list (PoCL), false if it runs (Intel's runtime).
bool faults_driver_tells(cl_command_queue queue);

// Make every call fail: with every code the first of its name, the others with some codes. Fails
// the Check test.
void faults_try(const struct subject *subject);

extern const struct subject faults_calls[], faults_contexts[]; // end with a name that is NULL

// Tests of their own (faults_rules.c).
void faults_add_rules(Suite *suite);

// The number of faults so far.
struct fault_figures {
    long injected, refused, spared, went_on, lost, events;
};
const struct fault_figures *faults_figures(void);

#endif
