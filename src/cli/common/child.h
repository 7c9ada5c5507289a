// child.h: this program once more, in a process of its own, for work that may end the process or never end: `clattn --child KIND
// ARGUMENT...`, which no help names. doctor/doctor_child.c has the kinds.
#ifndef CLATTN_TOOL_CLI_CHILD_H
#define CLATTN_TOOL_CLI_CHILD_H
#include <stdbool.h>

typedef enum child_end {
    CHILD_DONE,       // it exited; `number` is the status
    CHILD_DIED,       // by the signal `number`
    CHILD_TIMED_OUT,  // it wrote no line for the limit, and was killed
    CHILD_NOT_STARTED // the system has no such processes, or did not start one
} child_end;

#define CHILD_WORDS 512
typedef struct child {
    child_end end;
    int number;
    char words[CHILD_WORDS]; // the last line that it wrote to stderr
} child;

#define CHILD_ARGUMENTS 8
// Run `clattn --child` with these arguments, of which a NULL is the end. `line` gets each line of its answers. `limit_s`: seconds without
// a line. `variable`: NAME=VALUE for its environment, or NULL.
void child_run(child *c, const char *const arguments[], const char *variable, double limit_s,
               void (*line)(void *user, const char *text), void *user);
// "died by signal 11 (Segmentation fault)", "timed out after 60 s", ...; "" of one that is done with status 0. Returns text.
const char *child_text(const child *c, double limit_s, char text[128]);

// The child's side: called first. Answers go where the parent reads them, and what a driver prints goes to stderr. There is no core file.
void child_begin(void);
void child_answer(const char *line);
// Whether this process is one.
bool child_is(void);
#endif
