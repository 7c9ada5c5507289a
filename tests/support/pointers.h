// pointers.h: OpenCL memory that has an address, in the harness' context: shared virtual memory,
// and Intel's unified shared memory.
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

// Choose the kind of memory that the next two functions allocate and release. Both are callbacks of
// struct place, which passes no kind.
void pointers_choose(enum pointers_kind kind);
void *pointers_memory(size_t bytes);
void pointers_release(void *memory);
void *pointers_memory_of(cl_context context, size_t bytes); // in another context than the harness'
void pointers_release_of(cl_context context, void *memory);
// Copy by OpenCL commands, and wait. One side is memory of the chosen kind, the other is host
// memory.
cl_int pointers_copy(void *to, const void *from, size_t bytes);

#endif
