// host.h: host memory, and small functions on texts in it. Memory comes from the application's
// functions (clattn_host_memory), or from the C library if `from` is NULL or has no functions. It
// must be released with the same `from`.
#ifndef CLATTN_BASE_HOST_H
#define CLATTN_BASE_HOST_H
#include <stdbool.h>
#include <stddef.h>

struct clattn_host_memory;

// Returns NULL without memory. 0 bytes return a valid pointer, too.
void *cla_host_take(const struct clattn_host_memory *from, size_t bytes);
// Zeroed memory of count * bytes. Returns NULL also if the product overflows size_t.
void *cla_host_take_zeroed(const struct clattn_host_memory *from, size_t count, size_t bytes);
// Move a block of `old_bytes` to a new one of `bytes`. On NULL the old block is unchanged.
void *cla_host_grow(const struct clattn_host_memory *from, void *memory, size_t old_bytes, size_t bytes);
// NULL is allowed.
void cla_host_release(const struct clattn_host_memory *from, void *memory);

// memcpy and memset for large structs on the path of every call. These functions hide the size from
// the compiler: gcc 12 replaces copies of a known size by a string instruction, which costs a
// planned call 6 % of its time.
void cla_bytes_copy(void *to, const void *from, size_t bytes);
void cla_bytes_zero(void *to, size_t bytes);

bool cla_text_equal(const char *a, const char *b);
// Copy a text; NULL for NULL. Free it with cla_host_release. Sets *ok to false without memory.
char *cla_text_copy(const struct clattn_host_memory *host, const char *text, bool *ok);

// Parse decimal digits and move *text past them. Returns false and leaves *text without a digit, or
// if the number exceeds an int. Unlike strtol it accepts no spaces or signs, and detects overflow
// where long has 32 bits.
bool cla_text_count(const char **text, int *count);
#endif
