// names.c: the words and sizes of the header's enums, statuses and versions: one list of each.
#include <clattn/clattn.h>

static const struct {
    const char *name;
    size_t bytes;
    bool is_block;
} types[CLATTN_TYPE_COUNT] = {
    [CLATTN_TYPE_F32] = {.name = "f32", .bytes = 4},
    [CLATTN_TYPE_F16] = {.name = "f16", .bytes = 2},
    [CLATTN_TYPE_BF16] = {.name = "bf16", .bytes = 2},
    [CLATTN_TYPE_BOOL] = {.name = "bool", .bytes = 1},
    [CLATTN_TYPE_I8] = {.name = "i8", .bytes = 1},
    [CLATTN_TYPE_I32] = {.name = "i32", .bytes = 4},
    [CLATTN_TYPE_F8E4M3] = {.name = "f8e4m3", .bytes = 1},
    [CLATTN_TYPE_F8E5M2] = {.name = "f8e5m2", .bytes = 1},
    [CLATTN_TYPE_Q8_0] = {.name = "q8_0", .bytes = 34, .is_block = true},
    [CLATTN_TYPE_Q4_0] = {.name = "q4_0", .bytes = 18, .is_block = true},
    [CLATTN_TYPE_Q4_1] = {.name = "q4_1", .bytes = 20, .is_block = true},
};

size_t clattn_type_size(clattn_type type) {
    return (unsigned)type < CLATTN_TYPE_COUNT ? types[type].bytes : 0;
}

int clattn_type_numbers(clattn_type type) {
    return (unsigned)type >= CLATTN_TYPE_COUNT ? 0 : types[type].is_block ? 32 : 1;
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
