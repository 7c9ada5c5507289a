// seal.h: a hash of a JSON object, by which it is told from one that was edited. It is no signature: whoever edits on purpose can make
// the hash anew. Used by bench, which writes it as "sha256", and by all that read files of bench.
#ifndef CLATTN_TOOL_FILES_SEAL_H
#define CLATTN_TOOL_FILES_SEAL_H
#include <jansson.h>
#include <stdbool.h>

#define SEAL_LETTERS 64
// In hexadecimal. False: no memory.
bool seal_of(const json_t *file, char hash[SEAL_LETTERS + 1]);
#endif
