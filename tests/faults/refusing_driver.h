// refusing_driver.h: a driver that refuses a kernel, at its build, its object, an argument or its launch: functions that stand in front of
// the loader's, in a program that exports its own. POSIX only.
#ifndef CLATTN_TESTS_REFUSING_DRIVER_H
#define CLATTN_TESTS_REFUSING_DRIVER_H

#include <clattn/clattn.h>

// The line of its build log that names an error.
#define LINE "step.cl:7:3: error: this driver takes no such kernel"

typedef enum step { NO_STEP, BUILD, CREATE, ARGUMENT, LAUNCH, STEPS } step;
extern const char *const step_names[STEPS];

// What the driver refuses: a kernel whose name begins so, at a step, with a code; NULL: none.
extern struct refusing_driver {
    const char *kernel;
    step at;
    cl_int code;
    int spared;       // launches of it that go well before
    size_t most;      // work-items of a group, where only larger ones are refused; 0: all are
    int hits;         // refusals
    int builds, all;  // builds of such kernels, and calls of all kinds
    bool slow_device; // it says that it is no CPU
    bool slow_build;  // and ten seconds are short
    bool stranger;    // its platform has a name that clattn does not know
} driver;

// Builds of kernels whose name begins so wait until it is NULL again; how many wait now.
void driver_hold(const char *kernel);
int driver_held(void);
#endif
