// host.h: memory of the host: the application's functions where it gave them (clattn_host_memory), else the C library's. The
// only way to either; `from` NULL, or without functions, is the C library, and what was taken goes back the same way.
#ifndef CLATTN_BASE_HOST_H
#define CLATTN_BASE_HOST_H
#include <stddef.h>

struct clattn_host_memory;

// NULL without memory; of 0 bytes, too, a pointer.
void *cla_host_take(const struct clattn_host_memory *from, size_t bytes);
// All zero; NULL also where the product is more than size_t holds.
void *cla_host_take_zeroed(const struct clattn_host_memory *from, size_t count, size_t bytes);
// More room for what was taken: `bytes` in place of `old_bytes`, at another place; NULL leaves it as it was.
void *cla_host_grow(const struct clattn_host_memory *from, void *memory, size_t old_bytes, size_t bytes);
// NULL is allowed.
void cla_host_release(const struct clattn_host_memory *from, void *memory);
#endif
