// status.c: statuses and versions as text.
#include <clattn/clattn.h>

static const struct {
    const char *name, *text;
} statuses[] = {
#define ROW(name, value, text) [value] = {#name, text},
    CLATTN_STATUS_LIST(ROW)
#undef ROW
};

const char *clattn_status_name(clattn_status status) {
    const unsigned i = (unsigned)status;
    return i < sizeof statuses / sizeof statuses[0] ? statuses[i].name : "UNKNOWN";
}

const char *clattn_status_text(clattn_status status) {
    const unsigned i = (unsigned)status;
    return i < sizeof statuses / sizeof statuses[0] ? statuses[i].text : "a number that is no status";
}

const char *clattn_version(void) {
    return CLATTN_VERSION_STRING;
}

int clattn_version_number(void) {
    return CLATTN_VERSION_NUMBER;
}
