// hard_cases.h: the cases that find what is wrong with a device or a kernel: every option alone, pairs that are
// dangerous, sizes at the edges, hostile numbers. Run by verify, tune and the device suite with every kernel; a row
// that is added is run by all of them. Each is a name (case.h) with a short alias.
#ifndef CLATTN_EVIDENCE_SETS_HARD_CASES_H
#define CLATTN_EVIDENCE_SETS_HARD_CASES_H

#include "verification/case/case.h"

struct hard_case {
    const char *alias, *name;
};
extern const struct hard_case hard_cases[];
extern const int hard_case_count;

// A hard case by its number; its `name` is the alias. The rows are tested to be right, so that none is refused.
struct test_case hard_case(int number);
// The number of an alias or name; -1: none.
int hard_case_find(const char *text);

#endif
