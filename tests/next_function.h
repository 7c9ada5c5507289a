// next_function.h: the function behind one that a test puts in front of the loader's or the system's. The includer defines
// _GNU_SOURCE first.
#ifndef CLATTN_TESTS_NEXT_FUNCTION_H
#define CLATTN_TESTS_NEXT_FUNCTION_H

#include <dlfcn.h>
#include <stdlib.h>

static inline void *next(const char *name) {
    void *function = dlsym(RTLD_NEXT, name);
    if (!function) abort();
    return function;
}

#endif
