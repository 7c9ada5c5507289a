// host.h: memory of the host: the application's functions where it gave them (clattn_host_memory), else the C library's. The
// only way to either; `from` NULL, or without functions, is the C library, and what was taken goes back the same way. And texts in it.
#ifndef CLATTN_BASE_HOST_H
#define CLATTN_BASE_HOST_H
#include <stdbool.h>
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

// memcpy and memset for large structs on the path of every call. Of a size that it knows gcc 12 makes a string instruction of
// either, whose start costs a planned call 6 % of its time; behind a function it cannot know.
void cla_bytes_copy(void *to, const void *from, size_t bytes);
void cla_bytes_zero(void *to, size_t bytes);

bool cla_text_equal(const char *a, const char *b);
// A copy, which cla_host_release takes back; NULL for NULL. *ok becomes false without memory.
char *cla_text_copy(const struct clattn_host_memory *host, const char *text, bool *ok);

// Digits alone, past which *text moves; false, and it stays, where there is none or they are beyond an int. Not strtol, which takes
// spaces and signs and whose long ends at INT_MAX on some systems: a number beyond that would read as it.
bool cla_text_count(const char **text, int *count);
#endif
