// host.c: see host.h.
#include "base/host.h"

#include <clattn/clattn.h>
#include <limits.h>
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

void cla_bytes_copy(void *to, const void *from, size_t bytes) {
    memcpy(to, from, bytes);
}

void cla_bytes_zero(void *to, size_t bytes) {
    memset(to, 0, bytes);
}

bool cla_text_equal(const char *a, const char *b) {
    return a == b || (a && b && !strcmp(a, b));
}

char *cla_text_copy(const struct clattn_host_memory *host, const char *text, bool *ok) {
    const size_t bytes = text ? strlen(text) + 1 : 0;
    char *copy = text ? cla_host_take(host, bytes) : NULL;
    if (copy) memcpy(copy, text, bytes);
    *ok = *ok && (copy || !text);
    return copy;
}

bool cla_text_count(const char **text, int *count) {
    const char *at = *text;
    int x = 0;
    for (; *at >= '0' && *at <= '9'; at++) {
        const int digit = *at - '0';
        if (x > (INT_MAX - digit) / 10) return false;
        x = x * 10 + digit;
    }
    if (at == *text) return false;
    *count = x;
    *text = at;
    return true;
}
