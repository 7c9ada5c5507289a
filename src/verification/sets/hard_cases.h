// hard_cases.h: cases that expose faults of a device or a kernel: every option alone, dangerous
// pairs, sizes at the edges, hostile numbers. The commands verify and tune and the device suite run
// them with every kernel. Each case is a name (case.h) with a short alias.
#ifndef CLATTN_VERIFICATION_SETS_HARD_CASES_H
#define CLATTN_VERIFICATION_SETS_HARD_CASES_H

#include "verification/case/case.h"

struct hard_case {
    const char *alias, *name;
};
extern const struct hard_case hard_cases[];
extern const int hard_case_count;

// A hard case by number; its `name` is the alias. A test verifies that every row is valid.
struct test_case hard_case(int number);
// The number of an alias or name; -1: not found.
int hard_case_find(const char *text);

#endif
