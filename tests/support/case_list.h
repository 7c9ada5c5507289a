// case_list.h: lists of cases as text, one file a subject (tests/cases/*.txt), as tests of a suite. Each case is a check of its own, and
// a failure prints its whole name, which verify and bench run, too.
//
//   # why the group is there
//   GROUP: TOKENS                     what all of its cases have (case.h); each runs by the kernel that it names
//   GROUP by every kernel: TOKENS     by every kernel that may do it (case_assert_kernels)
//   GROUP by every projection: TOKENS   of layers and linears; without CLBlast by the others
//     WORD WORD ...                   the cases: tokens that each has besides; "." has none; one that begins with a type has that
//                                     type; a{b,-c,}d stands for abd, a-cd and ad
#ifndef CLATTN_TESTS_CASE_LIST_H
#define CLATTN_TESTS_CASE_LIST_H

#include "support/case_assert.h"

// Add the cases of tests/cases/LIST.txt as one group of tests. A list that cannot be read ends the program.
void case_list_add(Suite *suite, const char *list, const char *group);

#endif
