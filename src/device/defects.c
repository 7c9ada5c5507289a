// defects.c: see defects.h.
#include "device/defects.h"

#include <limits.h>
#include <string.h>

#include "base/host.h"

// Platforms that write `word` and a version, from one major version to another.
typedef struct defect {
    const char *word;
    int first, last;
    const char *why;
} defect;

// PoCL 4.0 to 6.0 take inline assembler for a call of their own where they compile for work-groups of any size, as they do for a
// binary alone: both are a call of no known function (handleLocalMemAllocas in lib/llvmopencl/WorkitemLoops.cc; an assertion fails on
// Debian 13). PoCL 7.0 asks for the function first (commit 5fcd68e60), PoCL 3.1 has no such code. What else they compiled is in
// their own cache.
static const defect of_binaries[] = {
    {"PoCL ", 4, 6, "PoCL 4 to 6 end the process when they are asked for a binary; PoCL keeps its own cache"},
};

static bool is_of(const defect *d, const char *platform) {
    for (const char *at = strstr(platform, d->word); at; at = strstr(at, d->word)) {
        int major = 0;
        at += strlen(d->word);
        if (cla_text_count(&at, &major)) return major >= d->first && major <= d->last;
    }
    return false;
}

const char *cla_defect_of_binaries(const char *platform) {
    for (size_t i = 0; i < sizeof of_binaries / sizeof of_binaries[0]; i++)
        if (is_of(&of_binaries[i], platform)) return of_binaries[i].why;
    return NULL;
}
