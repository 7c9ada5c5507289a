// verify_case.h: one case on the session's device, with a kernel, against the double-precision reference. Used by
// verify and tune.
#ifndef CLATTN_TOOL_VERIFY_CASE_H
#define CLATTN_TOOL_VERIFY_CASE_H
#include "evidence/case.h"
#include "tool/tool.h"

typedef enum verify_result { VERIFY_PASS, VERIFY_FAIL, VERIFY_UNSUPPORTED } verify_result;

// Run on the session's context with this kernel; AUTO leaves the case its own. A line of why in why[256] unless it
// passed.
verify_result verify_run(session *s, const struct test_case *test, clattn_kernel kernel, char why[256]);
#endif
