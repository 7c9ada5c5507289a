// doctor_child.h: the work of `clattn --child KIND ARGUMENT...`. It runs in a process of its own,
// because a driver may crash or hang that process. Each answer is one line of JSON on the child's
// pipe (child.h).
//
//    platforms SPEC    the loader, the platforms, and each device with a mark if SPEC (the text of
//                      --device, or "" for any) selects it
//    library FILE      whether the system can load a driver's library
//    calls DEVICE CACHE FIRST ONLY
//                      a tiny call of each kernel from number FIRST on; ONLY: kernel names, or ""
//    engines DEVICE CACHE
//                      the engines as the probes measured them
//    survey DEVICE CACHE RESUME MEASURE
//                      clattn_device_survey; the last two arguments are 0 or 1
#ifndef CLATTN_CLI_DOCTOR_DOCTOR_CHILD_H
#define CLATTN_CLI_DOCTOR_DOCTOR_CHILD_H
#include "cli/common/tool.h"

// A kernel family and the way to force it: a row of families.def.
typedef struct doctor_kernel {
    const char *name; // the name in clattn verify --only
    clattn_kernel path;
    const char *pairs, *takes, *row;
} doctor_kernel;
// The kernels that doctor tries: of variants that differ only in knobs, the first.
// doctor_kernel_count returns their number. doctor_kernel_at returns NULL past the last.
int doctor_kernel_count(void);
const doctor_kernel *doctor_kernel_at(int n);
// Write the name of the kernel's case (verification/case/case.h) and return it.
const char *doctor_case(const doctor_kernel *k, char name[160]);

int tool_child(int argc, char **argv);

void doctor_answer(json_t *object); // releases the object
int doctor_calls(int argc, char **argv);
#endif
