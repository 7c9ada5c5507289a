// report_json.c: one JSON object as a command's whole answer: see report.h.
#include <stdio.h>

#include "tool/cli/text.h"
#include "tool/cli/report.h"

json_t *report_text(const char *text) {
    char plain[4096];
    json_t *json = json_string(text);
    if (json) return json;
    snprintf(plain, sizeof plain, "%s", text);
    return json_string(printable(plain));
}

int report_json(json_t *object) {
    const int bad = !object || json_dumpf(object, stdout,
                                          JSON_INDENT(1) | JSON_REAL_PRECISION(9) | JSON_ENSURE_ASCII) != 0;
    json_decref(object);
    printf("\n");
    return bad ? EXIT_FAILED : EXIT_DONE;
}
