// defects.c: see defects.h.
#include "device/defects.h"

#include <limits.h>
#include <string.h>

#include "base/host.h"

// Drivers of which a text has `word` and then a version, from one to another, both included: 1000 * major + minor.
typedef struct versions {
    const char *word;
    int first, last;
} versions;
#define FROM(major) ((major)*1000)
#define TO(major) ((major)*1000 + 999)
#define EVER INT_MAX

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
     {"PoCL ", FROM(4), TO(6)},
     "PoCL 4 to 6 end the process when they are asked for a binary; PoCL keeps its own cache"},
    // PoCL compiles a kernel for work-groups of any size when it is asked for a binary (pocl_driver_build_poclbinary). The first
    // launch compiles the kernel again for its own size, and never uses the binary's code.
    {DEFECT_OF_BINARIES,
     {"PoCL ", FROM(1), EVER},
     "PoCL compiles each kernel once more for a binary; PoCL keeps its own cache"},
    // PoCL 6.0 compiles kernels of tiles, in which many work-items meet at barriers, right or wrong by chance: the same text gives
    // wrong numbers in one run and right ones in the next. Each operation of its sub-groups is such a barrier. What a CPU is given
    // unasked has no barriers. bench/results/2026-11-25-debian-13-pocl-6.0-tests.md
    {DEFECT_OF_SUBGROUPS,
     {"PoCL ", FROM(4), TO(6)},
     "PoCL 6.0 compiles kernels with many barriers right or wrong by chance"},
    // Adreno's compilers before E031.38.11 end the process (SIGSEGV in clBuildProgram) on sub_group_reduce_add, and so on the probe of
    // sub-groups. All their texts read "OpenCL 3.0 QUALCOMM build: ... Compiler E031.38.10.00". E031 stayed from 2017 to now.
    {DEFECT_OF_SUBGROUPS,
     {"Compiler E031.", FROM(0), 38 * 1000 + 10},
     "Adreno compilers before E031.38.11 end the process on sub_group_reduce_add"},
};

// Compilers that are known to compile inline assembly. PoCL compiles for a CPU by clang, with the CPU as its target; suites ran on
// PoCL 3.1 and 6.0. Versions before 3.0 write `pocl`. Intel's CPU runtime compiles for SPIR first: it compiles tiles of AMX, and
// refuses operands in vector registers without harm. NVIDIA's compiler defines PTX. Oclgrind 21.10 ends the process with SIGSEGV in
// clBuildProgram (stripDebugIntrinsics), for AMX on a CPU that has it.
// AMD's compilers are clang with built-in functions for matrices, which they refuse where the chip lacks them. No suite ran on one.
static const struct {
    unsigned of; // CLATTN_ASSEMBLY_...
    bool known;  // suites of clattn ran on it
    versions by;
} compilers[] = {
    {CLATTN_ASSEMBLY_X86, true, {"PoCL ", FROM(3), TO(7)}},
    {CLATTN_ASSEMBLY_X86, true, {"pocl ", FROM(1), TO(2)}},
    {CLATTN_ASSEMBLY_X86, true, {"Intel(R) OpenCL, OpenCL ", FROM(1), TO(3)}},
    {CLATTN_ASSEMBLY_PTX, true, {"CUDA ", FROM(1), EVER}},
    {CLATTN_ASSEMBLY_AMD, false, {"AMD-APP (", FROM(1), EVER}},
};

// A major number that is too large for the product is the largest.
static bool version_at(const char **at, int *version) {
    int major = 0, minor = 0;
    if (!cla_text_count(at, &major)) return false;
    if (**at == '.') {
        ++*at;
        if (!cla_text_count(at, &minor) || minor > 999) minor = 999;
    }
    *version = major >= INT_MAX / 1000 ? INT_MAX : 1000 * major + minor;
    return true;
}

static bool is_in(const versions *v, const char *text) {
    for (const char *at = strstr(text, v->word); at; at = strstr(at, v->word)) {
        int version = 0;
        at += strlen(v->word);
        if (version_at(&at, &version)) return version >= v->first && version <= v->last;
    }
    return false;
}
static bool is_of(const versions *v, const clattn_capabilities *device) {
    return is_in(v, device->platform) || is_in(v, device->version) || is_in(v, device->driver);
}

const char *cla_defect(defect_of what, const clattn_capabilities *device) {
    for (size_t i = 0; i < sizeof defects / sizeof defects[0]; i++)
        if (defects[i].what == what && is_of(&defects[i].of, device)) return defects[i].why;
    return NULL;
}

unsigned cla_known_assembly(const clattn_capabilities *device, bool *known) {
    unsigned all = 0;
    *known = false;
    for (size_t i = 0; i < sizeof compilers / sizeof compilers[0]; i++)
        if (is_in(&compilers[i].by, device->platform)) all |= compilers[i].of, *known |= compilers[i].known;
    return all;
}
