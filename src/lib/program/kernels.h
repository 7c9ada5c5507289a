// kernels.h: the kernel sources of cl/, embedded in the library. cl/embed.py generates the array
// and kernel_list.h from the list in the build file. A kernel function has the name of its file.
#ifndef CLATTN_PROGRAM_KERNELS_H
#define CLATTN_PROGRAM_KERNELS_H
#include <stddef.h>

enum kernel_id {
#define KERNEL(name, NAME) KERNEL_##NAME,
#include "kernel_list.h"
#undef KERNEL
    KERNEL_COUNT
};

struct kernel_source {
    const char *name;
    const unsigned char *text;
    size_t bytes;
};
extern const struct kernel_source clattn_kernel_sources[KERNEL_COUNT];
#endif
