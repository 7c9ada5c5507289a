// allocate.c: see allocate.h.
#include "verification/device/allocate.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void evidence_end(const char *format, ...) {
    va_list list;
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputc('\n', stderr);
    exit(EXIT_FAILURE);
}

static void *given(void *memory, size_t count, size_t size) {
    if (memory == NULL) evidence_end("no memory for %.0f times %.0f bytes", (double)count, (double)size);
    return memory;
}

void *evidence_zeros(size_t count, size_t size) {
    return given(calloc(count > 0 ? count : 1, size), count, size);
}

void *evidence_grow(void *old, size_t count, size_t size) {
    if (count > (size_t)-1 / size)
        evidence_end("no memory for %.0f times %.0f bytes", (double)count, (double)size);
    return given(realloc(old, count > 0 ? count * size : 1), count, size);
}
