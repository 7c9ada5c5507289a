// case_list.h: lists of cases as text, one file a subject (tests/cases/*.txt), as tests of a suite.
// Each case is a check. A failure prints its whole name, which verify and bench accept.
//
//   # why the group exists
//   GROUP: TOKENS                      tokens of all its cases (case.h); a case names its kernel
//   GROUP by every kernel: TOKENS      with each kernel that supports it (case_assert_kernels)
//   GROUP by every projection: TOKENS  for layers and linears; without CLBlast by the others
//     WORD WORD ...                    the cases: further tokens of each; "." has none; a type at
//                                      the start of a word is the case's;
//                                      a{b,-c,}d is abd, a-cd, ad
#ifndef CLATTN_TESTS_CASE_LIST_H
#define CLATTN_TESTS_CASE_LIST_H

#include "support/case_assert.h"

// Add the cases of tests/cases/LIST.txt as one group of tests. An unreadable list ends the program.
void case_list_add(Suite *suite, const char *list, const char *group);

#endif
