// options.h: hints for unknown options and values, by which options.c explains an error
// (options_words.c).
#ifndef CLATTN_CLI_COMMON_OPTIONS_H
#define CLATTN_CLI_COMMON_OPTIONS_H
#include "cli/common/tool.h"

// A hint for an unknown option: "did you mean --scale?", or a sentence; NULL: no hint. `given`
// includes the dashes and may include =VALUE.
const char *options_meant(const command_line *line, const char *given, char text[256]);
// A hint for a value of `length` letters that is not in `names`, a list that ends with NULL.
const char *options_value_meant(const char *given, size_t length, const char *const *names, char text[128]);
#endif
