// allocate.h: memory for the verification code. Sizes come from the program's own cases. If memory
// is short, or a case of a built-in list is wrong, the program prints a line and exits.
#ifndef CLATTN_VERIFICATION_DEVICE_ALLOCATE_H
#define CLATTN_VERIFICATION_DEVICE_ALLOCATE_H

#include <stddef.h>

// Allocate `count` zeroed elements of `size` bytes. The result can be freed even if count is 0.
void *evidence_zeros(size_t count, size_t size);
// Resize memory to `count` elements. New elements are not initialised.
void *evidence_grow(void *old, size_t count, size_t size);

#if defined(__GNUC__)
__attribute__((__format__(__printf__, 1, 2), __noreturn__))
#endif
void evidence_end(const char *format, ...);

#endif
