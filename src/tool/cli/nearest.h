/* Names close to a mistyped one, for error lines. Called by safetensors.c, options.c and main.c. */
#ifndef CLATTN_TOOL_CLI_NEAREST_H
#define CLATTN_TOOL_CLI_NEAREST_H

#include <stddef.h>

/* Write the (at most three) names nearest to `wanted` into text[size], separated by ", ", nearest first, cut
 * to fit. Near is the Levenshtein distance over the last 128 bytes of each, where tensor names differ. */
void nearest_names(const char *wanted, const char *const *names, size_t count, char *text, size_t size);

/* The one that was probably meant: the nearest, where it differs in a few letters alone; else NULL. */
const char *nearest_name(const char *wanted, const char *const *names, size_t count);

#endif
