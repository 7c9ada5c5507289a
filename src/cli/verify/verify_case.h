// verify_case.h: run one case on a session's device with a kernel, and compare with the
// double-precision reference. Used by verify and tune.
#ifndef CLATTN_CLI_VERIFY_VERIFY_CASE_H
#define CLATTN_CLI_VERIFY_VERIFY_CASE_H
#include "verification/case/case.h"
#include "cli/devices/device_group.h"

typedef enum verify_result { VERIFY_PASS, VERIFY_FAIL, VERIFY_UNSUPPORTED } verify_result;

// The kernel that ran, and the error of its output. The name is attention's kernel family, or a
// projection's kernel or "clblast". It is empty if unknown, such as for a layer's several kernels.
typedef struct verify_family {
    char name[32];
    double nmse; // normalised mean squared error; negative: nothing was compared
} verify_family;

// Run a case on the session's context with this kernel; AUTO keeps the case's own. With `family`,
// run only if the planner selects that family; otherwise return UNSUPPORTED and the name of the
// selected family. `why` has the reason unless the case passed.
verify_result verify_run(session *s, const struct test_case *test, clattn_kernel kernel, const char *family,
                         verify_family *ran, char why[256]);
// As verify_run, on several devices. The family's name is then the axis along which the call was
// partitioned.
verify_result verify_run_several(several *all, const struct test_case *test, verify_family *ran,
                                 char why[256]);
#endif
