// faults.h: the fault suite. A subject is one way to use the library. The suite runs a subject
// again and again, and lets one OpenCL call fail each time. The subjects are in faults_calls.c and
// faults_contexts.c. faults.c injects and judges the faults.
#ifndef CLATTN_TESTS_FAULTS_H
#define CLATTN_TESTS_FAULTS_H

#include "support/case_assert.h"
#include "support/layer_client.h"

// One run of a subject with the nth OpenCL call failing (0: none), and its outcome.
struct attempt {
    int nth, code;
    clattn_status status;
    struct layer_armed armed;
    char message[1024]; // the last logged message
    bool right;         // events are right, and results if the run succeeded
    char why[512];      // the reason if not right
};

struct subject {
    const char *name;
    void (*run)(const struct subject *subject, struct attempt *attempt);
    const char *const *spared; // calls that may fail while the run succeeds, NULL-terminated
    const struct test_case *test;
    int small;    // index of the call in small_calls.h, if the subject runs one
    bool borrows; // the call borrows buffers that the context keeps
    // The call writes tables. The context keeps their events for a while, so remaining events
    // are counted only when the context is destroyed.
    bool writes;
    bool out_of_order;
    bool fuses;   // the recording is fused
    bool replays; // a failed launch of a replay fails the call with its status
    bool through_clblast;
    bool never_ran; // its contexts enqueue nothing, so no device can be lost
    // Each run compiles, which is slow: one or two codes per call, and no second run to check
    // recovery.
    bool compiles;
    bool measures;  // the number of calls varies, because unsure measurements are repeated
    int most_calls; // inject into about this many calls, evenly spaced; 0: all
};

const struct layer_control *faults_layer(void);
// Between these two functions the library's OpenCL calls are counted, and one fails.
void faults_begin(const struct attempt *attempt);
void faults_end(struct attempt *attempt, clattn_status status);
void faults_wrong(struct attempt *attempt, const char *format, ...);
// Returns false if a queue is unusable after a failed command. Intel's runtime of 2026 crashes on
// an out-of-order queue.
bool faults_queue_survives(cl_command_queue queue);
// Returns true if a command fails when its wait list fails (PoCL). Intel's runtime runs the
// command.
bool faults_driver_tells(cl_command_queue queue);

// Run the subject with a fault in every call. The first call of each name fails with every code,
// other calls with a few. Fails the Check test.
void faults_try(const struct subject *subject);

extern const struct subject faults_calls[], faults_contexts[]; // end with a NULL name

// Add the tests of faults_rules.c.
void faults_add_rules(Suite *suite);

// Totals so far.
struct fault_figures {
    long injected, refused, spared, went_on, lost, events;
};
const struct fault_figures *faults_figures(void);

#endif
