// bytes.c: see bytes.h.
#include "base/bytes.h"

#include <string.h>

void cla_bytes_copy(void *to, const void *from, size_t bytes) {
    memcpy(to, from, bytes);
}

void cla_bytes_zero(void *to, size_t bytes) {
    memset(to, 0, bytes);
}
