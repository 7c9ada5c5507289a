// defects.h: defects of drivers that end the process or give wrong numbers, by the version that a driver tells of itself: rows of
// data, each with its source. They say what the library does without there, and never which kernel is taken. So do the few compilers
// that are known to compile inline assembly.
#ifndef CLATTN_DEVICE_DEFECTS_H
#define CLATTN_DEVICE_DEFECTS_H
#include <clattn/runtime.h>

// The things that a platform may do badly.
typedef enum defect_of {
    DEFECT_OF_BINARIES,  // asking it for a program's binary is fatal, or costs more than it saves
    DEFECT_OF_SUBGROUPS, // its sub-groups must not be used
} defect_of;

// Why this driver must not do it, by its texts: platform, version, driver; NULL: it may.
const char *cla_defect(defect_of what, const clattn_capabilities *device);

// The instructions that this platform's compiler is known to take in a kernel: CLATTN_ASSEMBLY_..., or-ed. A compiler that is not known may
// end the process, whatever the CPU or the GPU can do, so that it never gets a text with inline assembly before a survey
// (clattn_device_survey) tried it. *known: suites of clattn ran on the driver.
unsigned cla_known_assembly(const clattn_capabilities *device, bool *known);
#endif
