// verify_case.h: one case on the session's device, with a kernel, against the double-precision reference. Used by
// verify and tune.
#ifndef CLATTN_TOOL_VERIFY_VERIFY_CASE_H
#define CLATTN_TOOL_VERIFY_VERIFY_CASE_H
#include "verification/case/case.h"
#include "cli/devices/several.h"

typedef enum verify_result { VERIFY_PASS, VERIFY_FAIL, VERIFY_UNSUPPORTED } verify_result;

// The kernel that ran: the kernel family of attention, the kernel or "clblast" of a projection; empty where it is not known, as of
// the several in a layer; and the error of its output.
typedef struct verify_family {
    char name[32];
    double nmse; // normalised mean squared error; below 0: nothing was compared
} verify_family;

// Run on the session's context with this kernel; AUTO leaves the case its own. Only where `family` takes it, if that is
// not NULL, else UNSUPPORTED with the name of the one that would. A line of why in why[256] unless it passed.
verify_result verify_run(session *s, const struct test_case *test, clattn_kernel kernel, const char *family,
                         verify_family *ran, char why[256]);
// The same on several devices, whose family has the name of how it was dealt.
verify_result verify_run_several(several *all, const struct test_case *test, verify_family *ran,
                                 char why[256]);
#endif
