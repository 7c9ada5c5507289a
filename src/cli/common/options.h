// options.h: what options_words.c tells options.c of a word that is none of clattn's.
#ifndef CLATTN_TOOL_CLI_OPTIONS_H
#define CLATTN_TOOL_CLI_OPTIONS_H
#include "cli/common/tool.h"

// What an unknown option means here: "did you mean --scale?", or a sentence; NULL: nothing is known. `given` has its dashes, and may have
// =VALUE.
const char *options_meant(const command_line *line, const char *given, char text[256]);
// The same of a value of `length` letters that is none of `names`, which end with NULL.
const char *options_value_meant(const char *given, size_t length, const char *const *names, char text[128]);
#endif
