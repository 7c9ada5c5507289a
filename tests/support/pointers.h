// pointers.h: memory of OpenCL's that is an address: shared virtual memory and Intel's unified shared memory, of the harness' context.
#ifndef CLATTN_TESTS_POINTERS_H
#define CLATTN_TESTS_POINTERS_H

#include "support/harness.h"

enum pointers_kind {
    POINTERS_SVM, // coarse-grained
    POINTERS_SVM_FINE,
    POINTERS_USM_HOST,
    POINTERS_USM_DEVICE,
    POINTERS_USM_SHARED,
    POINTERS_KINDS
};

const char *pointers_name(enum pointers_kind kind);
bool pointers_have(enum pointers_kind kind);

// Of which kind memory is from now on, for the two functions of a place that have no more arguments.
void pointers_choose(enum pointers_kind kind);
void *pointers_memory(size_t bytes);
void pointers_release(void *memory);
void *pointers_memory_of(cl_context context, size_t bytes); // another context than the harness'
void pointers_release_of(cl_context context, void *memory);
// By commands of OpenCL, which wait: one side is such memory, the other the host's.
cl_int pointers_copy(void *to, const void *from, size_t bytes);

#endif
