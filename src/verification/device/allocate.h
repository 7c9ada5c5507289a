// allocate.h: memory of the evidence, whose sizes its own cases say: where there is none, or a case of its own lists is wrong, the
// program ends with a line.
#ifndef CLATTN_EVIDENCE_DEVICE_ALLOCATE_H
#define CLATTN_EVIDENCE_DEVICE_ALLOCATE_H

#include <stddef.h>

// `count` zeros of `size` bytes each; a pointer to free also where count is 0.
void *evidence_zeros(size_t count, size_t size);
// The same memory with room for `count`; what is new is not set.
void *evidence_grow(void *old, size_t count, size_t size);

#if defined(__GNUC__)
__attribute__((__format__(__printf__, 1, 2), __noreturn__))
#endif
void evidence_end(const char *format, ...);

#endif
