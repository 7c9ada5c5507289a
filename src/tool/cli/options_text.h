// options_text.h: a command's table of options as text: its help, its manual page, and its part of what a shell completes.
// All are made from the one table that also parses, so that none can drift. Called by options.c and completion.c.
#ifndef CLATTN_TOOL_CLI_OPTIONS_TEXT_H
#define CLATTN_TOOL_CLI_OPTIONS_TEXT_H
#include <jansson.h>
#include <stdio.h>

#include "tool/cli/tool.h"

typedef enum options_form {
    OPTIONS_HELP = 0,
    OPTIONS_MANUAL,
    OPTIONS_BASH,
    OPTIONS_ZSH,
    OPTIONS_FISH,
    OPTIONS_JSON // nothing is printed: see options_text_json
} options_form;

// What --help of any command prints from here on, and where; NULL is stdout.
void options_text_choose(options_form form, FILE *to);
void options_text_print(const command_line *line);
// The tables that were asked for since OPTIONS_JSON was chosen, an array, which the caller releases.
json_t *options_text_json(void);

// Roff's and zsh's own signs in running text, told as themselves.
void options_text_roff(const char *text, FILE *to);
void options_text_zsh(const char *text, FILE *to);
// Text between single quotes of a shell (zsh, bash); fish takes backslashes inside.
void options_text_quoted(const char *text, bool fish, FILE *to);
#endif
