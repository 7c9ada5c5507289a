/* Token labels: see tokens.h. */
#include "tool/files/tokens.h"

#include <stdlib.h>
#include <string.h>

#include "tool/files/file.h"
#include "tool/cli/refuse.h"

void tokens_free(tokens *t) {
    free(t->text);
    free(t->lines);
    *t = (tokens){0};
}

static size_t count_lines(const char *text, size_t size) {
    size_t lines = 0;
    for (size_t i = 0; i < size; i++) lines += text[i] == '\n';
    return size && text[size - 1] != '\n' ? lines + 1 : lines;
}

static void split(tokens *t) {
    char *line = t->text;
    for (size_t k = 0; k < t->count; k++) {
        size_t length = strcspn(line, "\n");
        char *next = line + length + 1;
        if (length && line[length - 1] == '\r') length--;
        line[length] = '\0';
        t->lines[k] = line;
        line = next;
    }
}

bool tokens_read(const char *path, tokens *out, char *error, size_t error_size) {
    *out = (tokens){0};
    unsigned char *bytes = NULL;
    size_t size = 0;
    if (!file_read_whole(path, &bytes, &size, error, error_size)) return false;
    *out = (tokens){.text = (char *)bytes, .count = count_lines((char *)bytes, size)};
    const char *problem = NULL;
    if (memchr(bytes, 0, size))
        problem = "a NUL byte; a text file with one token a line is read";
    else if (out->count == 0)
        problem = "no token in it; a text file with one token a line is read";
    else if (!(out->lines = calloc(out->count, sizeof *out->lines)))
        problem = "no memory for its lines";
    if (problem) {
        tokens_free(out);
        return refuse(error, error_size, "%s: %s", path, problem);
    }
    split(out);
    return true;
}
