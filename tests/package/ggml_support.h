// ggml_support.h: the common part of ggml_host.c and ggml_model.c: random numbers that are the same
// on every machine, and an error with the name of the PROGRAM if ggml returns nothing. The includer
// defines PROGRAM first.
#ifndef CLATTN_TESTS_GGML_SUPPORT_H
#define CLATTN_TESTS_GGML_SUPPORT_H
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static uint32_t seed = 7;
static float noise(void) { // with a mean of 0 and a variance of about 1
    float sum = 0;
    for (int at = 0; at < 4; at++) {
        seed = seed * 1664525u + 1013904223u;
        sum += (float)(seed >> 8) / 8388608.0f - 1;
    }
    return sum * 0.87f;
}

static void *must(void *pointer, const char *what) {
    if (!pointer) {
        fprintf(stderr, PROGRAM ": %s failed\n", what);
        exit(2);
    }
    return pointer;
}

#endif
