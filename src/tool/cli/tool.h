// tool.h: what the sub-commands share: exit statuses, error lines, option tables, the device session.
// The program is a thin user of the public header: nothing here reaches into the library.
#ifndef CLATTN_TOOL_CLI_TOOL_H
#define CLATTN_TOOL_CLI_TOOL_H
#include <clattn/clattn.h>
#include <stdio.h> // mingw-w64 says there which formats it has

#include "tool/files/array.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_WRONG = 2 };

#if defined(__MINGW_PRINTF_FORMAT)
#define TOOL_PRINTF(at) __attribute__((__format__(__MINGW_PRINTF_FORMAT, at, at + 1)))
#elif defined(__GNUC__)
#define TOOL_PRINTF(at) __attribute__((__format__(__printf__, at, at + 1)))
#else
#define TOOL_PRINTF(at)
#endif

// The sub-command that lines on stderr name: options_parse sets it. NULL: none.
void tool_begin(const char *command);
const char *tool_name(void); // " COMMAND", or ""
// Print "clattn COMMAND: ..." on stderr and return EXIT_WRONG resp. EXIT_FAILED.
int tool_wrong(const char *format, ...) TOOL_PRINTF(1);
int tool_failed(const char *format, ...) TOOL_PRINTF(1);
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

// One option of the command line: "device" is --device, "-n" is -n. ids are unique within a sub-command;
// value NULL is a switch.
typedef struct option_row {
    const char *name, *value; // of a value such as "FILE..." each counts
    int id;
    const char *help;
} option_row;

// A table of options and who takes them: take() stores a value, or says in why[256] what would be accepted.
typedef struct option_group {
    const char *title;
    const option_row *rows;
    int count;
    bool (*take)(void *target, int id, const char *value, char why[256]);
    void *target;
} option_group;

enum { OPTIONS_MOST = 96 }; // of a command
typedef struct command_line {
    const char *command, *summary, *example;
    const option_group *groups;
    int group_count;
    int positional_max;         // arguments that are no options
    const char *positional[16]; // filled by options_parse
    int positional_count;
    const char *given
        [16]; // of each group the first option that was given, its name without dashes; filled by options_parse
    const char *values
        [OPTIONS_MOST]; // of each option, in the tables' order: "" of a switch, NULL: not given; likewise
} command_line;

// Parse. Returns -1 to go on, else the exit status (0 after --help).
int options_parse(command_line *line, int argc, char **argv);

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
    bool mods_unchecked; // of score_options.h
} common_options;
option_group common_group(common_options *o);

// A device ready for use.
typedef struct session {
    common_options options;
    clattn_device device;
    clattn_context *context;
    const clattn_capabilities *capabilities;
    cl_command_queue queue;
    char message[1024];  // of the last failed call
    bool measures_again; // what is kept of rates is not read
} session;

// The log that keeps the last error line of a session and prints build logs with --verbose.
clattn_log session_log(session *s);
// All devices; the caller frees. EXIT_FAILED (with a line) where there is none.
int session_devices(session *s, clattn_device **devices, size_t *count);
int session_open(session *s, const common_options *o);
// The same with tuned rows of one's own; and on a given device. Rows NULL: those of --tuned, else those that clattn tune has
// kept for the device.
int session_open_rows(session *s, const common_options *o, const char *rows);
int session_open_device(session *s, const clattn_device *device, const char *rows);
void session_close(session *s);
// Print the line of a failed clattn call and return the exit status for it: a wrong request is 2, the rest 1.
int session_status(session *s, clattn_status status);
// A buffer of these bytes; NULL data leaves it unset. *buffer stays NULL for 0 bytes.
int session_buffer(session *s, const void *data, size_t bytes, cl_mem *buffer);
int session_read(session *s, cl_mem buffer, void *data, size_t bytes);
int session_finish(session *s);

// The folder of compiled kernels: --cache-dir, else the user's cache folder; NULL: off.
const char *tool_cache_dir(const common_options *o, char *text, size_t size);

// Before OpenCL is first used.
void tool_pin_workers(void);
void linker_look(void);
// Whether a kernel on this device would end the process, for want of a linker.
bool linker_is_missing(const clattn_capabilities *device);

// Sub-commands: argv[0] is the command's own name.

int tool_devices(int argc, char **argv);
int tool_attend(int argc, char **argv);
int tool_layer(int argc, char **argv);
int tool_heatmap(int argc, char **argv);
int tool_verify(int argc, char **argv);
int tool_bench(int argc, char **argv);
int tool_tune(int argc, char **argv);
int tool_compare(int argc, char **argv);
int tool_report(int argc, char **argv);
int tool_completion(int argc, char **argv);
int tool_manual(int argc, char **argv);
#endif
