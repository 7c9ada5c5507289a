/* The command line: words, each ended by a newline. '/' is removed from words, so that no path
 * leaves the folder, which has a small file of every kind that an option may name. */
#define _POSIX_C_SOURCE 200809L
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_WORDS = 40, MOST_BYTES = 300 };

/* Copy the next word to memory of exactly its size, so that sanitizers see an access past its
 * end. */
static char *take_word(const uint8_t **at, size_t *left) {
    const uint8_t *end = *left ? memchr(*at, '\n', *left) : NULL;
    const size_t length = end ? (size_t)(end - *at) : *left;
    const size_t kept = length < MOST_BYTES ? length : MOST_BYTES;
    char *word = strndup((const char *)*at, kept);
    *at += length + (end ? 1 : 0);
    *left -= length + (end ? 1 : 0);
    for (char *c = word; c && *c; c++)
        if (*c == '/') *c = '_';
    return word;
}

bool fuzz_one(const uint8_t *data, size_t size) {
    char name[] = "clattn", *words[MOST_WORDS], *argv[MOST_WORDS + 2] = {name};
    int count = 0;
    while (size && count < MOST_WORDS && (words[count] = take_word(&data, &size))) count++;
    for (int i = 0; i < count; i++) argv[1 + i] = words[i];
    fuzz_sessions = 0;
    const int status = fuzz_tool(count + 1, argv);
    for (int i = 0; i < count; i++) free(words[i]);
    return fuzz_sessions > 0 || status == 0;
}
