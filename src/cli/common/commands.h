// commands.h: the table of sub-commands, for main.c and for the outputs made from the option
// tables.
#ifndef CLATTN_CLI_COMMON_COMMANDS_H
#define CLATTN_CLI_COMMON_COMMANDS_H
#include <stddef.h>

typedef struct tool_command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
} tool_command;

extern const tool_command tool_commands[];
extern const size_t tool_command_count;

// NULL: there is no such command.
const tool_command *tool_command_named(const char *name);
#endif
