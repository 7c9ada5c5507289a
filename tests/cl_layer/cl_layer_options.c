// cl_layer_options.c: see cl_layer_options.h. CLATTN_LAYER_OPTIONS of the environment is added to
// builds from source: tests/retry_flaky.sh uses it to compile kernels without optimisation. The
// library's probes are excluded, because plans depend on their rates.
#define _POSIX_C_SOURCE 200809L
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl_icd.h>

#include "cl_layer/cl_layer_options.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *more;
static bool binaries, slow, copied;

// Once, because a suite counts reads of variables.
void layer_options_begin(void) {
    more = getenv("CLATTN_LAYER_OPTIONS");
    binaries = getenv("CLATTN_LAYER_BINARIES") != NULL;
    slow = getenv("CLATTN_LAYER_SLOW") != NULL;
    copied = getenv("CLATTN_LAYER_COPIES") != NULL;
}

unsigned long layer_options_flags(unsigned long flags) {
    return copied && flags & CL_MEM_USE_HOST_PTR
               ? (flags & ~(unsigned long)CL_MEM_USE_HOST_PTR) | CL_MEM_COPY_HOST_PTR
               : flags;
}

void layer_options_wait(layer_slow first) {
    static atomic_bool waited[2];
    if (slow && !atomic_exchange(&waited[first], true)) nanosleep(&(struct timespec){.tv_sec = 2}, NULL);
}

void layer_options_version(char *version) {
    char *name = binaries ? strstr(version, "PoCL ") : NULL;
    if (name != NULL && (name[5] < '4' || name[5] > '6')) memcpy(name, "pocl 2", 6);
}

// A function of this name is called or defined, not only a file named.
static bool is_probe(const char *source) {
    for (const char *at = strstr(source, "probe_"); at != NULL; at = strstr(at + 1, "probe_"))
        if (at[strspn(at, "abcdefghijklmnopqrstuvwxyz0123456789_")] == '(') return true;
    return false;
}

// NULL for a program made from a binary.
static char *source_of(const struct _cl_icd_dispatch *next, cl_program program) {
    size_t size = 0;
    if (next->clGetProgramInfo(program, CL_PROGRAM_SOURCE, 0, NULL, &size) != CL_SUCCESS || size <= 1)
        return NULL;
    char *source = malloc(size);
    if (source != NULL &&
        next->clGetProgramInfo(program, CL_PROGRAM_SOURCE, size, source, NULL) == CL_SUCCESS)
        return source;
    free(source);
    return NULL;
}

char *layer_options(const struct _cl_icd_dispatch *next, cl_program program, const char *options) {
    const char *given = options ? options : "";
    if (more == NULL) return NULL;
    char *source = source_of(next, program), *all = NULL;
    if (source != NULL && !is_probe(source)) {
        const size_t size = strlen(given) + strlen(more) + 2;
        all = malloc(size);
        if (all != NULL) snprintf(all, size, "%s %s", given, more);
    }
    free(source);
    return all;
}
