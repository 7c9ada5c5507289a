// next_function.h: finds the function that a test's own function replaces, in the loader or the
// system. The includer defines _GNU_SOURCE first.
#ifndef CLATTN_TESTS_NEXT_FUNCTION_H
#define CLATTN_TESTS_NEXT_FUNCTION_H

#include <dlfcn.h>
#include <stdlib.h>

static inline void *next(const char *name) {
    void *function = dlsym(RTLD_NEXT, name);
    // CLBlast is loaded by the library's module, outside the global symbols.
    void *clblast = function ? NULL : dlopen("libclblast.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (clblast) function = dlsym(clblast, name);
    if (!function) abort();
    return function;
}

#endif
