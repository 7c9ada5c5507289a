// test_list.c: a suite that only runs a list of cases: tests/cases/LIST.txt (case_list.h).
#include "support/case_list.h"

int main(void) {
    Suite *suite = suite_create(LIST);
    case_list_add(suite, LIST, "cases");
    return harness_run(suite);
}
