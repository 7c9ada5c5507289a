// bytes.h: memcpy and memset for large structs on the path of every call. Of a size that it knows gcc 12 makes a string
// instruction of either, whose start costs a planned call 6 % of its time; behind a function it cannot know.
#ifndef CLATTN_BASE_BYTES_H
#define CLATTN_BASE_BYTES_H
#include <stddef.h>

void cla_bytes_copy(void *to, const void *from, size_t bytes);
void cla_bytes_zero(void *to, size_t bytes);
#endif
