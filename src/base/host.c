// host.c: see host.h.
#include "base/host.h"

#include <clattn/clattn.h>
#include <stdlib.h>
#include <string.h>

void *cla_host_take(const clattn_host_memory *from, size_t bytes) {
    const size_t some = bytes ? bytes : 1;
    return from && from->allocate ? from->allocate(from->user, some) : malloc(some);
}

void *cla_host_take_zeroed(const clattn_host_memory *from, size_t count, size_t bytes) {
    if (bytes && count > SIZE_MAX / bytes) return NULL;
    void *memory = cla_host_take(from, count * bytes);
    if (memory) memset(memory, 0, count * bytes);
    return memory;
}

void *cla_host_grow(const clattn_host_memory *from, void *memory, size_t old_bytes, size_t bytes) {
    void *more = cla_host_take(from, bytes);
    if (!more) return NULL;
    if (old_bytes) memcpy(more, memory, old_bytes < bytes ? old_bytes : bytes);
    cla_host_release(from, memory);
    return more;
}

void cla_host_release(const clattn_host_memory *from, void *memory) {
    if (!memory) return;
    if (from && from->release)
        from->release(from->user, memory);
    else
        free(memory);
}
