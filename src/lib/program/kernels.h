// kernels.h: the kernels of cl/ as bytes inside the library. cl/embed.py writes the array and kernel_list.h from the
// build file's list of them; a kernel's function has its file's name.
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
