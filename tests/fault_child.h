// fault_child.h: the program that test_faults.c starts again and again, once for each failing OpenCL call.
// Leaves out choosing the calls.
#ifndef CLATTN_TESTS_FAULT_CHILD_H
#define CLATTN_TESTS_FAULT_CHILD_H

// Exit statuses of the child; HARNESS_BROKEN: the failing call was one of the test's own.
enum {
    FAULT_UNNOTICED = 0, // every call of the library succeeded, with right results
    FAULT_REPORTED = 10, // one failed as it should, and the library could be used again
    FAULT_LOST = 11,     // DEVICE_LOST, also for later calls; a new context worked
    FAULT_WRONG = 1      // anything else; stderr says what
};

// Use the whole library once. code: what the failing call returns, 0 when none fails.
int fault_child(int code);

#endif
