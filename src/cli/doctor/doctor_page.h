// doctor_page.h: print the report of `clattn doctor` as text of at most 100 columns.
#ifndef CLATTN_CLI_DOCTOR_DOCTOR_PAGE_H
#define CLATTN_CLI_DOCTOR_DOCTOR_PAGE_H
#include <jansson.h>
#include <stdbool.h>

void doctor_print(const json_t *report, bool verbose);
#endif
