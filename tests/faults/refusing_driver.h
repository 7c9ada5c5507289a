// refusing_driver.h: fakes a driver that refuses a kernel when it is built, created, given an
// argument or launched. Its functions shadow the loader's, in a program that exports its symbols.
// POSIX only.
#ifndef CLATTN_TESTS_REFUSING_DRIVER_H
#define CLATTN_TESTS_REFUSING_DRIVER_H

#include <clattn/clattn.h>

#include <stdatomic.h>

// The line of the build log that names the error.
#define LINE "step.cl:7:3: error: this driver takes no such kernel"

typedef enum step { NO_STEP, BUILD, CREATE, ARGUMENT, LAUNCH, STEPS } step;
extern const char *const step_names[STEPS];

// Refuse kernels whose name starts with `kernel` at this step, with this code. NULL: refuse none.
extern struct refusing_driver {
    const char *kernel;
    step at;
    cl_int code;
    atomic_int spared;      // number of launches that succeed first
    size_t most;            // refuse only work-groups larger than this; 0: all
    atomic_int hits;        // number of refusals
    atomic_int builds, all; // builds of refused kernels; calls of any kind
    bool slow_device;       // the device reports that it is no CPU
    bool slow_build;        // each build seems to last ten seconds
    bool stranger;          // the platform has a name that clattn does not know
} driver;

// Builds of kernels whose name begins so wait until it is NULL again; how many wait now.
void driver_hold(const char *kernel);
int driver_held(void);
#endif
