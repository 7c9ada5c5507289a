// ggml_support.h: shared by ggml_host.c and ggml_model.c: random numbers that are the same on every
// machine, and `must`, which exits if a ggml function returns NULL. The includer defines PROGRAM,
// the name in that message.
#ifndef CLATTN_TESTS_GGML_SUPPORT_H
#define CLATTN_TESTS_GGML_SUPPORT_H
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static uint32_t seed = 7;
static float noise(void) { // mean 0, variance about 1
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
