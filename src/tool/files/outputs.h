// outputs.h: the files that a sub-command will write, asked after before any work: one that cannot be written is told
// then, and not when its contents are ready.
#ifndef CLATTN_TOOL_FILES_OUTPUTS_H
#define CLATTN_TOOL_FILES_OUTPUTS_H
#include "tool/cli/tool.h"

typedef struct output_file {
    const char *option, *path; // as the option was given; path NULL: not asked for
} output_file;

// Returns -1, else EXIT_WRONG with a line: a file cannot be written, two options name one file, or it is an input: a file of the line's
// options or arguments, by whatever path or link, or weights or configuration in a folder of them.
int outputs_check(const command_line *line, const output_file *outputs, int count);
#endif
