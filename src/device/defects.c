// defects.c: see defects.h.
#include "device/defects.h"

#include <limits.h>
#include <string.h>

#include "base/host.h"

// Platforms that write `word` and a version, from one major version to another.
typedef struct defect {
    defect_of what;
    const char *word;
    int first, last;
    const char *why;
} defect;

static const defect defects[] = {
    // PoCL 4.0 to 6.0 take inline assembler for a call of their own where they compile for work-groups of any size, as they do
    // for a binary alone: both are a call of no known function (handleLocalMemAllocas in lib/llvmopencl/WorkitemLoops.cc; an
    // assertion fails on Debian 13). PoCL 7.0 asks for the function first (commit 5fcd68e60), PoCL 3.1 has no such code. What
    // else they compiled is in their own cache.
    {DEFECT_OF_BINARIES, "PoCL ", 4, 6,
     "PoCL 4 to 6 end the process when they are asked for a binary; PoCL keeps its own cache"},
    // PoCL compiles a kernel for work-groups of any size when it is asked for a binary, and compiles it again for the size of
    // the first launch (pocl_driver_build_poclbinary of its sources). The launch never uses the first one.
    {DEFECT_OF_BINARIES, "PoCL ", 1, INT_MAX,
     "PoCL compiles each kernel once more for a binary; PoCL keeps its own cache"},
    // PoCL 6.0 compiles kernels of tiles, in which many work-items meet at barriers, right or wrong by chance: the same text gives
    // wrong numbers in one run and right ones in the next. Each operation of its sub-groups is such a barrier. What a CPU is given
    // unasked has no barriers. bench/results/2026-11-25-debian-13-pocl-6.0-tests.md
    {DEFECT_OF_SUBGROUPS, "PoCL ", 4, 6,
     "PoCL 6.0 compiles kernels with many barriers right or wrong by chance"},
};

static bool is_of(const defect *d, const char *platform) {
    for (const char *at = strstr(platform, d->word); at; at = strstr(at, d->word)) {
        int major = 0;
        at += strlen(d->word);
        if (cla_text_count(&at, &major)) return major >= d->first && major <= d->last;
    }
    return false;
}

const char *cla_defect(defect_of what, const char *platform) {
    for (size_t i = 0; i < sizeof defects / sizeof defects[0]; i++)
        if (defects[i].what == what && is_of(&defects[i], platform)) return defects[i].why;
    return NULL;
}
