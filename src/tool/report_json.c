// report_json.c: one JSON object as a command's whole answer: see report.h.
#include <stdio.h>

#include "tool/report.h"

int report_json(json_t *object) {
    const int bad = !object || json_dumpf(object, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) != 0;
    json_decref(object);
    printf("\n");
    return bad ? EXIT_FAILED : EXIT_DONE;
}
