// tool.h: what the sub-commands share: exit statuses, error lines, JSON reports, option tables. The
// program uses only the public header of the library.
#ifndef CLATTN_CLI_COMMON_TOOL_H
#define CLATTN_CLI_COMMON_TOOL_H
#include <clattn/clattn.h>
#include <jansson.h>

#include "cli/common/text.h"
#include "cli/files/array.h"

// EXIT_INTERRUPTED: Ctrl-C. The program then ends by SIGINT, and a shell reports status 130.
enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_WRONG = 2, EXIT_INTERRUPTED = 130 };

// Set the sub-command that error lines name; options_parse calls this. NULL: none.
void tool_begin(const char *command);
const char *tool_name(void); // " COMMAND", or ""
// Print "clattn COMMAND: ..." on stderr and return EXIT_WRONG, EXIT_FAILED or EXIT_INTERRUPTED.
int tool_wrong(const char *format, ...) TOOL_PRINTF(1);
int tool_failed(const char *format, ...) TOOL_PRINTF(1);
int tool_interrupted(const char *format, ...) TOOL_PRINTF(1);
// Print a line that is no error.
void tool_note(const char *format, ...) TOOL_PRINTF(1);
// With --json these lines are collected and printed at the end as one object on stderr:
//    {"error": {"status", "command", "message", "notes"}}, or {"notes"} after EXIT_DONE.
// To report parse errors as JSON as well, tool_errors_begin searches argv for --json.
// The result of tool_errors_end is the status.
void tool_errors_begin(int argc, char **argv);
void tool_errors_json(void);
int tool_errors_end(int status);
// For processes that would all print the same error: after tool_errors_hold an error line is kept.
// tool_errors_release(true) prints the line, and tool_errors_release(false) drops it.
void tool_errors_hold(void);
void tool_errors_release(bool mine);

// Print and release an object. Returns EXIT_FAILED if stdout cannot be written.
int report_json(json_t *object);
// A JSON string of a text that may not be valid UTF-8, such as a path.
json_t *report_text(const char *text);
// A JSON number, or null if x is not finite.
json_t *report_real(double x);

// A list option: numbers such as `512,1k..16k*2`, or names such as `f32,bf16`.
#define OPTION_LIST_MOST 64
typedef struct option_list {
    int64_t x[OPTION_LIST_MOST];
    int count; // 0: not given
} option_list;

// An option's value is stored in a field of the group's target, or passed to a function.
typedef enum option_kind {
    OPTION_TEXT,    // const char *: the text itself
    OPTION_OUTPUT,  // const char *: an output file's path; "-" is no file
    OPTION_SWITCH,  // bool
    OPTION_INTEGER, // int64_t, from `least` to `most`
    OPTION_INT32,   // int32_t, from `least` to `most`
    OPTION_REAL,    // double
    OPTION_FLOAT,   // float
    OPTION_CHOICE,  // int or an enum: the index in `names`
    OPTION_WORD,    // const char *: the word in `names`
    // option_list of numbers from 1 to 16777216: N, A..B (doubling), A..B*F or A..B+S. k is 1024.
    OPTION_NUMBERS,
    OPTION_NAMES, // option_list: indices in `names`
    OPTION_YES,   // bool: false for the first of `names`
    OPTION_CALL   // the function `take` stores the value
} option_kind;

// One option of the command line: "device" is --device, "-n" is -n. A NULL `value` is a switch.
typedef struct option_row {
    const char *name, *value; // an option whose value ends with "..." may be repeated
    // NULL: this row is another name of an earlier option, whose help mentions it.
    const char *help;
    option_kind kind;
    size_t field;
    const char *const *names; // NULL ends the list
    int64_t least, most;
    // An OUTPUT may have this function, too. It returns whether the value is accepted; `why` says
    // which input is.
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

// A table of options, and the struct that they fill.
typedef struct option_group {
    const char *title;
    const option_row *rows;
    int count;
    void *target;
} option_group;
#define OPTION_ROWS(rows) rows, (int)(sizeof(rows) / sizeof(rows)[0])

enum { OPTIONS_MOST = 128 }; // most options of one command
typedef struct command_line {
    const char *command, *summary, *example;
    const option_group *groups;
    int group_count;
    int positional_max;         // arguments other than options
    const char *positional[64]; // filled by options_parse
    int positional_count;
    // Filled by options_parse. `given`: for each group, the name of the first option given.
    // `values`: for each option in table order, its value, "" for a switch, or NULL if not given.
    const char *given[16], *values[OPTIONS_MOST];
} command_line;

// Visit each row with its group and its index among all rows. once_##n reads n because gcc 16 warns
// otherwise.
#define EACH_OPTION(line, group, row, n)                                                                     \
    for (int n = 0, once_##n = 1; once_##n; once_##n = n < 0)                                                \
        for (const option_group *group = (line)->groups; group < (line)->groups + (line)->group_count;       \
             group++)                                                                                        \
            for (const option_row *row = group->rows; row < group->rows + group->count; row++, n++)
const char *option_dashes(const option_row *row); // "--", or "" if the name contains its dash
bool option_takes_file(const option_row *row);    // a file, a folder, or a tensor in a file

// Parse the command line. Returns -1 to continue, else the exit status (0 after --help).
int options_parse(command_line *line, int argc, char **argv);
// The shapes of this rank that an option's help names, such as "[B,H,Nq,D]"; "" if it names none.
// The option is looked up in the last parsed command line.
const char *options_axes(const char *option, int rank, char text[128]);
// Check all output files before any work. Returns -1, or EXIT_WRONG after printing a line: a file
// cannot be written, two options name one file, or an output is an input. Inputs are compared
// through links, and include the weights and configuration in a model's folder.
int options_check_outputs(const command_line *line);

// options_text.c: a command's option table as text: help, manual page or shell completion. The
// parser uses the same table, so that all agree.
typedef enum options_form {
    OPTIONS_HELP = 0,
    OPTIONS_MANUAL,
    OPTIONS_BASH,
    OPTIONS_ZSH,
    OPTIONS_FISH,
    OPTIONS_JSON // nothing is printed; see options_text_json
} options_form;

// Choose what --help of any command prints from now on, and where. NULL is stdout.
void options_text_choose(options_form form, FILE *to);
void options_text_print(const command_line *line);
// Print words, starting in column `at`, in lines of 100 columns. Further lines begin at column
// `indent`.
void options_text_wrapped(const char *text, int at, int indent, FILE *to);
// The tables collected since OPTIONS_JSON was chosen, as an array. The caller releases it.
json_t *options_text_json(void);

// Print running text with the special characters of roff or zsh escaped.
void options_text_roff(const char *text, FILE *to);
void options_text_zsh(const char *text, FILE *to);
// Print text for use between single quotes of a shell. `fish` escapes with backslashes, others as
// zsh and bash do.
void options_text_quoted(const char *text, bool fish, FILE *to);

// Parse a number. The whole text must be one number.
bool option_integer(const char *text, int64_t least, int64_t most, int64_t *value, char why[256]);
bool option_number(const char *text, double *value, char why[256]);
bool option_float(const char *text, float *value, char why[256]);
// Find `text` in a list of names that ends with NULL. On failure `why` lists the names.
bool option_choice(const char *text, const char *const *names, int *index, char why[256]);

// The options of every sub-command that uses a device.
typedef struct common_options {
    const char *device, *cache_dir, *tuned;
    const char *device_option; // the option or variable that named the device, if not --device
    bool json, quiet, verbose;
    bool mods_unchecked; // see call_options.h
} common_options;
option_group common_group(common_options *o);
#endif
