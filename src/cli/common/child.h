// child.h: start this program again in a process of its own, for work that may crash or hang. The
// command line is the undocumented `clattn --child KIND ARGUMENT...`; doctor/doctor_child.c has the
// kinds.
#ifndef CLATTN_CLI_COMMON_CHILD_H
#define CLATTN_CLI_COMMON_CHILD_H
#include <stdbool.h>

typedef enum child_end {
    CHILD_DONE,       // it exited with status `number`
    CHILD_DIED,       // killed by signal `number`
    CHILD_TIMED_OUT,  // it wrote no line within the limit and was killed
    CHILD_NOT_STARTED // the system has no such processes, or starting it failed
} child_end;

#define CHILD_WORDS 512
typedef struct child {
    child_end end;
    int number;
    char words[CHILD_WORDS]; // the last line that it wrote to stderr
} child;

#define CHILD_ARGUMENTS 8
// Run `clattn --child` with these arguments, ended by NULL. `line` is called with each line of the
// child's answers. `limit_s` is the longest time in seconds between lines. `variable` is NAME=VALUE
// for its environment, or NULL.
void child_run(child *c, const char *const arguments[], const char *variable, double limit_s,
               void (*line)(void *user, const char *text), void *user);
// Describes the end as "died by signal 11 (Segmentation fault)", "timed out after 60 s" and so on;
// "" after exit status 0. Returns `text`.
const char *child_text(const child *c, double limit_s, char text[128]);

// For the child, called first: answers go to the parent's pipe, and output of a driver on stdout
// goes to stderr. Core files are disabled.
void child_begin(void);
void child_answer(const char *line);
// True in a child process.
bool child_is(void);
#endif
