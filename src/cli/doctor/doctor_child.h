// doctor_child.h: what clattn does in a process of its own, since a driver may end or stop that process: clattn --child KIND ARGUMENT...
// Each answer is one line of JSON on the child's answers (child.h).
//   platforms SPEC      the loader, each platform, each device and whether SPEC (--device; "": any) means it
//   library FILE        whether the system loads a driver's library
//   calls DEVICE CACHE FIRST ONLY    a tiny call by each kernel family from number FIRST on; ONLY: names of kernels, or ""
//   engines DEVICE CACHE             engines as probes found them
//   survey DEVICE CACHE RESUME MEASURE    clattn_device_survey; both are 0 or 1
#ifndef CLATTN_TOOL_DOCTOR_DOCTOR_CHILD_H
#define CLATTN_TOOL_DOCTOR_DOCTOR_CHILD_H
#include "cli/common/tool.h"

// A kernel family of a kind of call, and how it is forced: rows of families.def.
typedef struct doctor_kernel {
    const char *name; // as of clattn verify --only
    clattn_kernel path;
    const char *pairs, *takes, *row;
} doctor_kernel;
// The kernels that doctor tries: of variants that differ in knobs alone the first. Returns how many there are; NULL past the last.
int doctor_kernel_count(void);
const doctor_kernel *doctor_kernel_at(int n);
// The name of its case (verification/case/case.h). Returns name.
const char *doctor_case(const doctor_kernel *k, char name[160]);

int tool_child(int argc, char **argv);

void doctor_answer(json_t *object); // which it releases
int doctor_calls(int argc, char **argv);
#endif
