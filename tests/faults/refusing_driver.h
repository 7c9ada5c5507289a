// refusing_driver.h: a driver that refuses a kernel at its build, its object, an argument or its
// launch. The functions replace the loader's, in a program that exports its own. POSIX only.
#ifndef CLATTN_TESTS_REFUSING_DRIVER_H
#define CLATTN_TESTS_REFUSING_DRIVER_H

#include <clattn/clattn.h>

// The line of its build log that names an error.
#define LINE "step.cl:7:3: error: this driver takes no such kernel"

typedef enum step { NO_STEP, BUILD, CREATE, ARGUMENT, LAUNCH, STEPS } step;
extern const char *const step_names[STEPS];

// The refused kernels: the beginning of their names (NULL: none), the step, and the code.
extern struct refusing_driver {
    const char *kernel;
    step at;
    cl_int code;
    int spared;       // launches of it that succeed first
    size_t most;      // only groups of more work-items are refused; 0: all
    int hits;         // refusals
    int builds, all;  // builds of such kernels, and calls of all kinds
    bool slow_device; // it reports a device that is no CPU
    bool slow_build;  // and a build lasts ten seconds by the clock
} driver;
#endif
