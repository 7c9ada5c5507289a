// driver_quirks.c: see driver_quirks.h.
#include "device/driver_quirks.h"

#include <limits.h>
#include <string.h>

#include "base/host.h"

// Drivers whose text contains `word` followed by a version from `first` to `last`, both inclusive.
// A version is 1000 * major + minor.
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
    // PoCL 4.0 to 6.0 crash on inline assembler when they compile for work-groups of any size,
    // which a binary requires (handleLocalMemAllocas in lib/llvmopencl/WorkitemLoops.cc:
    // getCalledFunction() is NULL). PoCL 7.0 checks for NULL (commit 5fcd68e60). PoCL 3.1 has no
    // such code.
    {DEFECT_OF_BINARIES,
     {"PoCL ", FROM(4), TO(6)},
     "PoCL 4 to 6 end the process when they are asked for a binary; PoCL keeps its own cache"},
    // For a binary PoCL compiles the kernel for work-groups of any size
    // (pocl_driver_build_poclbinary). The first launch compiles the kernel again for its actual
    // size, so the binary is never used.
    {DEFECT_OF_BINARIES,
     {"PoCL ", FROM(1), EVER},
     "PoCL compiles each kernel once more for a binary; PoCL keeps its own cache"},
    // PoCL 6.0 miscompiles tiled kernels with many barriers: the same source runs right in one
    // process and wrong in the next. Each sub-group operation contains such a barrier. See
    // bench/results/2026-11-25-debian-13-pocl-6.0-tests.md
    {DEFECT_OF_SUBGROUPS,
     {"PoCL ", FROM(4), TO(6)},
     "PoCL 6.0 compiles kernels with many barriers right or wrong by chance"},
    // Adreno compilers before E031.38.11 crash in clBuildProgram on sub_group_reduce_add, which the
    // probe of sub-groups uses. Their version text reads "OpenCL 3.0 QUALCOMM build: ... Compiler
    // E031.38.10.00".
    {DEFECT_OF_SUBGROUPS,
     {"Compiler E031.", FROM(0), 38 * 1000 + 10},
     "Adreno compilers before E031.38.11 end the process on sub_group_reduce_add"},
};

// Compilers that are known to compile inline assembly:
//
//    PoCL        clang with the CPU as its target; versions before 3.0 write `pocl`
//    Intel CPU   compiles AMX tiles; an operand in a vector register is a plain build error
//    NVIDIA      defines PTX
//    AMD         clang with built-in functions for matrices; rejects them if the chip lacks them
//
// Oclgrind 21.10 is not in the table: on a CPU with AMX it crashes in clBuildProgram
// (stripDebugIntrinsics).
static const struct {
    unsigned of; // CLATTN_ASSEMBLY_...
    bool known;  // clattn's test suites ran on this driver
    versions by;
} compilers[] = {
    {CLATTN_ASSEMBLY_X86, true, {"PoCL ", FROM(3), TO(7)}},
    {CLATTN_ASSEMBLY_X86, true, {"pocl ", FROM(1), TO(2)}},
    {CLATTN_ASSEMBLY_X86, true, {"Intel(R) OpenCL, OpenCL ", FROM(1), TO(3)}},
    {CLATTN_ASSEMBLY_PTX, true, {"CUDA ", FROM(1), EVER}},
    {CLATTN_ASSEMBLY_AMD, false, {"AMD-APP (", FROM(1), EVER}},
};

// Parse "major[.minor]" as 1000 * major + minor. INT_MAX if the major number would overflow.
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
