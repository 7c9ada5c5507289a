// compare_by.c: see compare_rows.h.
#include <stdio.h>
#include <string.h>

#include "tool/compare/compare_rows.h"

const char *const compare_by_words[] = {"dtype", "device", "kernel", "file", NULL};

// A case's name without one of its tokens.
static void without(char *name, const char *token) {
    const size_t length = strlen(token);
    for (char *at = name; length && (at = strstr(at, token)) != NULL; at++) {
        const bool whole = (at == name || at[-1] == '-') && (at[length] == '-' || at[length] == '\0');
        if (!whole) continue;
        memmove(at, at + length, strlen(at + length) + 1);
        return;
    }
}

void compare_by_key(const json_t *row, int file, int by, char key[1024]) {
    static const char *const kernels[] = {"unfused", "flash", "decode", "clblast", "native"};
    char name[600];
    snprintf(name, sizeof name, "%s", compare_text(row, "case"));
    if (by == COMPARE_BY_DTYPE) without(name, compare_text(row, "dtype"));
    for (size_t i = 0; by == COMPARE_BY_KERNEL && i < sizeof kernels / sizeof kernels[0]; i++)
        without(name, kernels[i]);
    // What is left of a token's end.
    for (size_t length = strlen(name); length && name[length - 1] == '-'; length--) name[length - 1] = '\0';
    snprintf(key, 1024, "%s|%.300s|%d", name, by == COMPARE_BY_DEVICE ? "" : compare_text(row, "device"),
             by == COMPARE_BY_FILE ? 0 : file);
}

const char *compare_by_value(const json_t *row, const char *path, int by) {
    return by == COMPARE_BY_FILE ? path : compare_text(row, compare_by_words[by - 1]);
}
