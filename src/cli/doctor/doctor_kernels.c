// doctor_kernels.c: the kernels that doctor tries, with a tiny case for each. See doctor_child.h.
#include <string.h>

#include "cli/doctor/doctor_child.h"

static const doctor_kernel variants[] = {
#define VARIANT(name, path, pairs, takes, row) {name, CLATTN_KERNEL_##path, pairs, #takes, row},
#include "tables/families.def"
};
#define VARIANTS ((int)(sizeof variants / sizeof variants[0]))

// Compare two rows without their knobs: the first word of a row is the kernel.
static bool same_kernel(const doctor_kernel *a, const doctor_kernel *b) {
    const size_t length = strcspn(a->row, " ");
    return a->path == b->path && !strcmp(a->takes, b->takes) && !strcmp(a->pairs, b->pairs) &&
           length == strcspn(b->row, " ") && !strncmp(a->row, b->row, length);
}

static bool is_first(int n) {
    for (int i = 0; i < n; i++)
        if (same_kernel(&variants[i], &variants[n])) return false;
    return true;
}

int doctor_kernel_count(void) {
    int count = 0;
    for (int n = 0; n < VARIANTS; n++) count += is_first(n);
    return count;
}

const doctor_kernel *doctor_kernel_at(int which) {
    for (int n = 0; n < VARIANTS; n++)
        if (is_first(n) && which-- == 0) return &variants[n];
    return NULL;
}

static const char *type_of(const doctor_kernel *k) {
    const bool decodes = k->path == CLATTN_KERNEL_DECODE;
    if (!strcmp(k->takes, "BF16") || !strcmp(k->takes, "TERMS")) return "bf16";
    return !strcmp(k->takes, "HALVES") || (!strcmp(k->takes, "INTEGERS") && decodes) ? "f16" : "f32";
}

const char *doctor_case(const doctor_kernel *k, char name[160]) {
    const char *type = type_of(k),
               *keys = !strcmp(k->takes, "I8") || !strcmp(k->takes, "INTEGERS") ? "-kvi8" : "";
    if (!strcmp(k->pairs, "layer"))
        snprintf(name, 160, "linear-%s-b1-h1-n%d-d64-m96-full-native", type,
                 strstr(k->row, "few") || strstr(k->row, "rows") ? 3 : 20);
    else if (!strcmp(k->pairs, "backward"))
        snprintf(name, 160, "backward-%s-b1-h2-n17-nkv33-d64-causal", type);
    else if (k->path == CLATTN_KERNEL_DECODE)
        snprintf(name, 160, "attend-%s-b1-h16-hkv1-n1-nkv65-d64-full%s", type, keys);
    else
        snprintf(name, 160, "attend-%s-b1-h2-n17-nkv33-d64-causal%s", type, keys);
    return name;
}
