/* Tokens of a file, and their labels as they are drawn: UTF-8 walked code point by code point, tokenizers' space marks made
 * visible, nothing that could steer a terminal or break an XML file. Called by the picture's back ends. */
#ifndef CLATTN_TOOL_HEATMAP_LABEL_H
#define CLATTN_TOOL_HEATMAP_LABEL_H
#include "cli/common/text.h"

/* Longest token that is drawn, in code points; a longer one ends in "..". */
#define LABEL_LIMIT 14

/* Longest title, in code points. */
#define LABEL_CAPACITY 72

typedef struct label {
    uint32_t code_points[LABEL_CAPACITY];
    int length;
} label;

/* U+0120 (byte-level BPE's space) and U+2581 (SentencePiece's) become '_'; control characters and what is not
 * UTF-8 become U+FFFD. A label longer than `limit` (3 to LABEL_CAPACITY) is cut. */
label label_from_utf8(const char *text, int limit);
/* That one of them; where there are none its number. */
label label_at(const char *const *labels, int index, int limit);

/* One code point as UTF-8 with a NUL after it; returns utf8. */
const char *label_utf8(uint32_t code_point, char utf8[5]);

/* Columns that a terminal gives the code point: 0 combining, 1, or 2 for East Asian wide ones and most emoji.
 */
int label_columns(uint32_t code_point);
int label_width(const label *text); /* of all of it */

typedef struct tokens {
    char *text;         /* owns the lines */
    const char **lines; /* [count] */
    size_t count;
} tokens;

/* Read a file: a line is a token, an empty line an empty one; a newline at the end of the file begins none,
 * and the CR of a CRLF is dropped. A file with a NUL or without a token is refused. Release with tokens_free.
 */
bool tokens_read(const char *path, tokens *out, reason why);
void tokens_free(tokens *t);
#endif
