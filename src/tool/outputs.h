// outputs.h: the files that a sub-command will write, asked after before any work: one that cannot be written is told
// then, and not when its contents are ready.
#ifndef CLATTN_TOOL_OUTPUTS_H
#define CLATTN_TOOL_OUTPUTS_H

typedef struct output_file {
    const char *option, *path; // path NULL: not asked for
} output_file;

// Returns -1, else EXIT_WRONG with a line: a file cannot be written, or two options name one file.
int outputs_check(const char *command, const output_file *outputs, int count);
#endif
