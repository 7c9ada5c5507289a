// driver_quirks.h: a table of driver defects that crash the process or corrupt results, by the
// driver's version, each with its source. A defect disables a feature. It never selects a kernel. A
// second table has the compilers that are known to compile inline assembly.
#ifndef CLATTN_DEVICE_DRIVER_QUIRKS_H
#define CLATTN_DEVICE_DRIVER_QUIRKS_H
#include <clattn/runtime.h>

// Features that a driver may break.
typedef enum defect_of {
    DEFECT_OF_BINARIES,  // requesting a program's binary crashes, or costs more than it saves
    DEFECT_OF_SUBGROUPS, // sub-groups must not be used
} defect_of;

// Why the feature is disabled for this driver, found by its platform, version and driver texts.
// NULL: it is not disabled.
const char *cla_defect(defect_of what, const clattn_capabilities *device);

// Kinds of assembly that this platform's compiler is known to accept: CLATTN_ASSEMBLY_..., or-ed.
// An unknown compiler may crash on inline assembly, so it gets none before a survey
// (clattn_device_survey) has tried it. *known: clattn's suites ran on the driver.
unsigned cla_known_assembly(const clattn_capabilities *device, bool *known);
#endif
