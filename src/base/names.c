// names.c: the words and sizes of the header's enums: one list of each.
#include <clattn/clattn.h>

static const struct {
    const char *name;
    size_t bytes;
} types[CLATTN_TYPE_COUNT] = {
    [CLATTN_TYPE_F32] = {"f32", 4},   [CLATTN_TYPE_F16] = {"f16", 2}, [CLATTN_TYPE_BF16] = {"bf16", 2},
    [CLATTN_TYPE_BOOL] = {"bool", 1}, [CLATTN_TYPE_I8] = {"i8", 1},   [CLATTN_TYPE_I32] = {"i32", 4},
};

size_t clattn_type_size(clattn_type type) {
    return (unsigned)type < CLATTN_TYPE_COUNT ? types[type].bytes : 0;
}

const char *clattn_type_name(clattn_type type) {
    return (unsigned)type < CLATTN_TYPE_COUNT ? types[type].name : "(unknown)";
}

const char *clattn_kernel_name(clattn_kernel kernel) {
    static const char *const names[CLATTN_KERNEL_COUNT] = {"auto", "unfused", "flash", "decode"};
    return (unsigned)kernel < CLATTN_KERNEL_COUNT ? names[kernel] : "(unknown)";
}
