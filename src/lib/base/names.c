// names.c: names and sizes of the public enums, the status texts, and the version.
#include <clattn/clattn.h>

static const struct {
    const char *name;
    size_t bytes;
    int numbers;
} types[CLATTN_TYPE_COUNT] = {
#define TYPE(name, word, bytes, numbers, kind) [CLATTN_TYPE_##name] = {word, bytes, numbers},
#include "tables/types.def"
};

size_t clattn_type_size(clattn_type type) {
    return (unsigned)type < CLATTN_TYPE_COUNT ? types[type].bytes : 0;
}

int clattn_type_numbers(clattn_type type) {
    return (unsigned)type < CLATTN_TYPE_COUNT ? types[type].numbers : 0;
}

const char *clattn_type_name(clattn_type type) {
    return (unsigned)type < CLATTN_TYPE_COUNT ? types[type].name : "(unknown)";
}

const char *clattn_kernel_name(clattn_kernel kernel) {
    static const char *const names[CLATTN_KERNEL_COUNT] = {"auto", "unfused", "flash", "decode"};
    return (unsigned)kernel < CLATTN_KERNEL_COUNT ? names[kernel] : "(unknown)";
}

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
