// tool.h: what the sub-commands share: exit statuses, error lines, reports as JSON, tables of options.
// The program is a thin user of the public header: nothing here reaches into the library.
#ifndef CLATTN_TOOL_CLI_TOOL_H
#define CLATTN_TOOL_CLI_TOOL_H
#include <clattn/clattn.h>
#include <jansson.h>

#include "cli/common/text.h"
#include "cli/files/array.h"

// EXIT_INTERRUPTED: by Ctrl-C. The program then ends by that signal, as one that catches none does, and a shell says 130 of both.
enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_WRONG = 2, EXIT_INTERRUPTED = 130 };

// The sub-command that lines on stderr name: options_parse sets it. NULL: none.
void tool_begin(const char *command);
const char *tool_name(void); // " COMMAND", or ""
// Print "clattn COMMAND: ..." on stderr and return EXIT_WRONG, EXIT_FAILED or EXIT_INTERRUPTED.
int tool_wrong(const char *format, ...) TOOL_PRINTF(1);
int tool_failed(const char *format, ...) TOOL_PRINTF(1);
int tool_interrupted(const char *format, ...) TOOL_PRINTF(1);
// The same of what is no error.
void tool_note(const char *format, ...) TOOL_PRINTF(1);
// With --json these lines are kept, and at the end are one object on stderr: {"error": {"status", "command", "message", "notes"}},
// or {"notes"} where the status is EXIT_DONE. begin looks for --json, so that a request that cannot be parsed is told so, too; end
// returns the status.
void tool_errors_begin(int argc, char **argv);
void tool_errors_json(void);
int tool_errors_end(int status);
// Several processes that fail alike tell it once: from now on an error line is kept, until the process is said to be the one that
// tells it, or not.
void tool_errors_hold(void);
void tool_errors_release(bool mine);

// Print and release an object. EXIT_FAILED when stdout cannot be written.
int report_json(json_t *object);
// A text that may be no UTF-8, such as a path, for which JSON has no place.
json_t *report_text(const char *text);
// JSON has no number for one that is not finite.
json_t *report_real(double x);

// Items of a list: `512,1k..16k*2` of numbers, `f32,bf16` of names.
#define OPTION_LIST_MOST 64
typedef struct option_list {
    int64_t x[OPTION_LIST_MOST];
    int count; // 0: not given
} option_list;

// An option's value is stored in a field of the group's target, or a function takes it.
typedef enum option_kind {
    OPTION_TEXT,    // const char *: as given
    OPTION_OUTPUT,  // the same, the name of a file that will be written; "-" is none
    OPTION_SWITCH,  // bool
    OPTION_INTEGER, // int64_t, from `least` to `most`
    OPTION_INT32,   // int32_t, likewise
    OPTION_REAL,    // double
    OPTION_FLOAT,   // float
    OPTION_CHOICE,  // int or an enum: its place in `names`
    OPTION_WORD,    // const char *: that one of `names`
    // option_list: N, or A..B*F (multiplied), or A..B+S (stepped), A..B being doubled; k is 1024; all from 1 to 16777216
    OPTION_NUMBERS,
    OPTION_NAMES, // option_list: places in `names`
    OPTION_YES,   // bool: whether it is not the first of `names`
    OPTION_CALL   // take() stores it
} option_kind;

// One option of the command line: "device" is --device, "-n" is -n; value NULL: it is a switch.
typedef struct option_row {
    const char *name, *value; // of a value such as "FILE..." each counts
    const char *help;         // NULL: another name of an option before it, whose help names it
    option_kind kind;
    size_t field;
    const char *const *names; // ending with NULL
    int64_t least, most;
    // OUTPUT, too, may have one: whether the name is accepted. It says in why[256] what would be.
    bool (*take)(void *target, const char *value, char why[256]);
} option_row;
#define OPTION_FIELD(kind, type, field) kind, offsetof(type, field), NULL, 0, 0, NULL
#define AS_TEXT(type, field) OPTION_FIELD(OPTION_TEXT, type, field)
#define AS_OUTPUT(type, field) OPTION_FIELD(OPTION_OUTPUT, type, field)
#define AS_OUTPUT_IF(type, field, take) OPTION_OUTPUT, offsetof(type, field), NULL, 0, 0, take
#define AS_SWITCH(type, field) OPTION_FIELD(OPTION_SWITCH, type, field)
#define AS_NUMBER(type, field)                                                                               \
    OPTION_FIELD(_Generic(((type *)NULL)->field, double : OPTION_REAL, float : OPTION_FLOAT), type, field)
#define AS_INTEGER(type, field, least, most)                                                                 \
    _Generic(((type *)NULL)->field, int64_t                                                                  \
             : OPTION_INTEGER, int32_t                                                                       \
             : OPTION_INT32),                                                                                \
        offsetof(type, field), NULL, least, most, NULL
#define AS_CHOICE(type, field, names) OPTION_CHOICE, offsetof(type, field), names, 0, 0, NULL
#define AS_WORD(type, field, names) OPTION_WORD, offsetof(type, field), names, 0, 0, NULL
#define AS_YES(type, field, names) OPTION_YES, offsetof(type, field), names, 0, 0, NULL
#define AS_NUMBERS(type, field) OPTION_FIELD(OPTION_NUMBERS, type, field)
#define AS_NAMES(type, field, names) OPTION_NAMES, offsetof(type, field), names, 0, 0, NULL
#define AS_CALL(take) OPTION_CALL, 0, NULL, 0, 0, take

// A table of options, and what they fill.
typedef struct option_group {
    const char *title;
    const option_row *rows;
    int count;
    void *target;
} option_group;
#define OPTION_ROWS(rows) rows, (int)(sizeof(rows) / sizeof(rows)[0])

enum { OPTIONS_MOST = 128 }; // of a command
typedef struct command_line {
    const char *command, *summary, *example;
    const option_group *groups;
    int group_count;
    int positional_max;         // arguments that are no options
    const char *positional[64]; // filled by options_parse
    int positional_count;
    // Filled by options_parse: of each group the first option that was given, its name without dashes; of each option, in the tables'
    // order, its value, "" of a switch, NULL: not given.
    const char *given[16], *values[OPTIONS_MOST];
} command_line;

// Each row, with its group and its place among all.
#define EACH_OPTION(line, group, row, n)                                                                     \
    for (int n = 0, once_##n = 1; once_##n; once_##n = n < 0) /* which reads n: gcc 16 asks that */          \
        for (const option_group *group = (line)->groups; group < (line)->groups + (line)->group_count;       \
             group++)                                                                                        \
            for (const option_row *row = group->rows; row < group->rows + group->count; row++, n++)
const char *option_dashes(const option_row *row); // "--", or "" of a name that has its own
bool option_takes_file(const option_row *row);    // or a folder, or a tensor in a file

// Parse. Returns -1 to go on, else the exit status (0 after --help).
int options_parse(command_line *line, int argc, char **argv);
// The shapes of that rank that the help of an option of the last command line names, as "[B,H,Nq,D]"; "" where it names none.
const char *options_axes(const char *option, int rank, char text[128]);
// The files that will be written, asked after before any work. Returns -1, else EXIT_WRONG with a line: one cannot be written, two
// options name one file, or it is an input: a file of the line's options or arguments, by whatever path or link, or weights or
// configuration in a folder of them.
int options_check_outputs(const command_line *line);

// options_text.c: a command's table as text: its help, its manual page, and its part of what a shell completes. All are made from the
// one table that also parses, so that none can drift.
typedef enum options_form {
    OPTIONS_HELP = 0,
    OPTIONS_MANUAL,
    OPTIONS_BASH,
    OPTIONS_ZSH,
    OPTIONS_FISH,
    OPTIONS_JSON // nothing is printed: see options_text_json
} options_form;

// Chooses what --help of any command prints from here on, and where; NULL is stdout.
void options_text_choose(options_form form, FILE *to);
void options_text_print(const command_line *line);
// Words from column `at` on, in lines of 100 columns; those that follow begin at `indent`.
void options_text_wrapped(const char *text, int at, int indent, FILE *to);
// The tables that were asked for since OPTIONS_JSON was chosen, an array, which the caller releases.
json_t *options_text_json(void);

// Roff's and zsh's own signs in running text, told as themselves.
void options_text_roff(const char *text, FILE *to);
void options_text_zsh(const char *text, FILE *to);
// Text between single quotes of a shell (zsh, bash); fish takes backslashes inside.
void options_text_quoted(const char *text, bool fish, FILE *to);

// Numbers in option values: the whole text must be one.
bool option_integer(const char *text, int64_t least, int64_t most, int64_t *value, char why[256]);
bool option_number(const char *text, double *value, char why[256]);
bool option_float(const char *text, float *value, char why[256]);
// Index of `text` in a list of names ending with NULL; why lists them.
bool option_choice(const char *text, const char *const *names, int *index, char why[256]);

// Options of every sub-command that uses a device.
typedef struct common_options {
    const char *device, *cache_dir, *tuned;
    const char *device_option; // who named the device, where it was not --device
    bool json, quiet, verbose;
    bool mods_unchecked; // of call_options.h
} common_options;
option_group common_group(common_options *o);
#endif
