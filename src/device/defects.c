// defects.c: see defects.h.
#include "device/defects.h"

#include <limits.h>
#include <string.h>

#include "base/host.h"

// Platforms that write `word` and a version, from one major version to another.
typedef struct versions {
    const char *word;
    int first, last;
} versions;

typedef struct defect {
    defect_of what;
    versions of;
    const char *why;
} defect;

static const defect defects[] = {
    // PoCL 4.0 to 6.0 take inline assembler for a call of their own where they compile for work-groups of any size, as they do
    // for a binary alone: both are a call of no known function (handleLocalMemAllocas in lib/llvmopencl/WorkitemLoops.cc; an
    // assertion fails on Debian 13). PoCL 7.0 asks for the function first (commit 5fcd68e60), PoCL 3.1 has no such code. What
    // else they compiled is in their own cache.
    {DEFECT_OF_BINARIES,
     {"PoCL ", 4, 6},
     "PoCL 4 to 6 end the process when they are asked for a binary; PoCL keeps its own cache"},
    // PoCL compiles a kernel for work-groups of any size when it is asked for a binary (pocl_driver_build_poclbinary). The first
    // launch compiles the kernel again for its own size, and never uses the binary's code.
    {DEFECT_OF_BINARIES,
     {"PoCL ", 1, INT_MAX},
     "PoCL compiles each kernel once more for a binary; PoCL keeps its own cache"},
    // PoCL 6.0 compiles kernels of tiles, in which many work-items meet at barriers, right or wrong by chance: the same text gives
    // wrong numbers in one run and right ones in the next. Each operation of its sub-groups is such a barrier. What a CPU is given
    // unasked has no barriers. bench/results/2026-11-25-debian-13-pocl-6.0-tests.md
    {DEFECT_OF_SUBGROUPS,
     {"PoCL ", 4, 6},
     "PoCL 6.0 compiles kernels with many barriers right or wrong by chance"},
};

// Compilers that are known to compile inline assembly. PoCL compiles for a CPU by clang, with the CPU as its target; suites ran on
// PoCL 3.1 and 6.0. Versions before 3.0 write `pocl`. Intel's CPU runtime compiles for SPIR first: it compiles tiles of AMX, and
// refuses operands in vector registers without harm. NVIDIA's compiler defines PTX. Oclgrind 21.10 ends the process with SIGSEGV in
// clBuildProgram (stripDebugIntrinsics), for AMX on a CPU that has it.
static const struct {
    assembly of;
    versions by;
} compilers[] = {
    {ASSEMBLY_OF_X86, {"PoCL ", 3, 7}},
    {ASSEMBLY_OF_X86, {"pocl ", 1, 2}},
    {ASSEMBLY_OF_X86, {"Intel(R) OpenCL, OpenCL ", 1, 3}},
    {ASSEMBLY_OF_PTX, {"CUDA ", 1, INT_MAX}},
};

static bool is_of(const versions *v, const char *platform) {
    for (const char *at = strstr(platform, v->word); at; at = strstr(at, v->word)) {
        int major = 0;
        at += strlen(v->word);
        if (cla_text_count(&at, &major)) return major >= v->first && major <= v->last;
    }
    return false;
}

const char *cla_defect(defect_of what, const char *platform) {
    for (size_t i = 0; i < sizeof defects / sizeof defects[0]; i++)
        if (defects[i].what == what && is_of(&defects[i].of, platform)) return defects[i].why;
    return NULL;
}

bool cla_takes_assembly(assembly of, const char *platform) {
    for (size_t i = 0; i < sizeof compilers / sizeof compilers[0]; i++)
        if (compilers[i].of == of && is_of(&compilers[i].by, platform)) return true;
    return false;
}
