/* Token labels from a text file, one a line. Called by heatmap.c. */
#ifndef CLATTN_TOOL_FILES_TOKENS_H
#define CLATTN_TOOL_FILES_TOKENS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct tokens {
    char *text;         /* owns the lines */
    const char **lines; /* [count] */
    size_t count;
} tokens;

/* Read a file: a line is a token, an empty line an empty one; a newline at the end of the file begins none,
 * and the CR of a CRLF is dropped. A file with a NUL or without a token is refused. Release with tokens_free.
 */
bool tokens_read(const char *path, tokens *out, char *error, size_t error_size);
void tokens_free(tokens *t);

#endif
