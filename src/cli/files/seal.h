// seal.h: a hash of a JSON object that detects accidental edits. It is no signature: an editor can
// compute a new hash. bench writes it as "sha256", and readers of bench files check it.
#ifndef CLATTN_CLI_FILES_SEAL_H
#define CLATTN_CLI_FILES_SEAL_H
#include <jansson.h>
#include <stdbool.h>

#define SEAL_LETTERS 64
// Write the hash in hexadecimal. False: no memory.
bool seal_of(const json_t *file, char hash[SEAL_LETTERS + 1]);
#endif
