// label.h: tokens of a file and their labels. A label is UTF-8 decoded by code points. Tokenizers'
// space marks become visible, and code points that could steer a terminal or break an XML file are
// replaced. Used by all back ends.
#ifndef CLATTN_CLI_HEATMAP_LABEL_H
#define CLATTN_CLI_HEATMAP_LABEL_H
#include "cli/common/text.h"

// The longest token that is drawn, in code points. A longer one is cut and ends with "..".
#define LABEL_LIMIT 14

// The longest title, in code points.
#define LABEL_CAPACITY 72

typedef struct label {
    uint32_t code_points[LABEL_CAPACITY];
    int length;
} label;

// Decode UTF-8. U+0120 (byte-level BPE's space) and U+2581 (SentencePiece's) become '_'. Control
// characters and invalid bytes become U+FFFD. A label longer than `limit` (3 to LABEL_CAPACITY) is
// cut.
label label_from_utf8(const char *text, int limit);
// The label labels[index]; with `labels` NULL the number `index`.
label label_at(const char *const *labels, int index, int limit);

// Encode one code point as UTF-8 with a final NUL, and return `utf8`.
const char *label_utf8(uint32_t code_point, char utf8[5]);

// Terminal columns of a code point: 0 for combining ones, 2 for East Asian wide ones and most
// emoji, 1 otherwise.
int label_columns(uint32_t code_point);
int label_width(const label *text); // terminal columns of the whole label

typedef struct tokens {
    char *text;         // owns the lines
    const char **lines; // [count]
    size_t count;
} tokens;

// Read a file with one token a line. An empty line is an empty token, a final newline starts no
// token, and the CR of a CRLF is dropped. A file with a NUL or without tokens is an error. Release
// with tokens_free.
bool tokens_read(const char *path, tokens *out, reason why);
void tokens_free(tokens *t);
#endif
