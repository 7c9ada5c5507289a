// progress.h: how far a long command is, and the time that is left by the work that is done: one line on stderr that is overwritten, for
// somebody who watches it on a terminal. Used by every command that can be long.
#ifndef CLATTN_TOOL_CLI_PROGRESS_H
#define CLATTN_TOOL_CLI_PROGRESS_H
#include <clattn/clattn.h>

typedef struct progress {
    double all, done; // work, in any unit: parts of one size, operations, milliseconds
    uint64_t start_ns, silent_ns;
    bool shown, on_screen;
} progress;

// silent_ms: of a command that is mostly over before anybody reads. Nothing is shown where quiet, or where stderr is no terminal
// that can wipe a line.
void progress_begin(progress *p, bool quiet, double all, double silent_ms);
// `what` is begun now, after `done` of the work; it may be NULL.
void progress_at(progress *p, double done, const char *what);
// The same after `more` than before.
void progress_more(progress *p, double more, const char *what);
// Wipes the line: before anything else is printed, and at the end. It may go on afterwards.
void progress_wipe(progress *p);

// "42 %, 3 min 05 s left" of a share of the work that took so many seconds; returns text. No time where too little is done to tell.
const char *progress_text(double share, double seconds, char text[48]);

// Ctrl-C on work of many parts: the first ends it after the part at hand, so that what is there is kept; the second ends the program at
// once.
void interrupt_catch(void);
bool interrupt_asked(void);
// Ends the program by the signal, when all is written: a shell that runs it in a loop then stops, too.
void interrupt_end(void);

// Somebody who watches a long call on a terminal: a line on stderr says how far it is and what time is left, and an interrupt cancels it
// between two slices, so that nothing of it runs on when the program ends; a second one ends the program at once. A call that has one
// waits between its launches, so that a short call has none: its time is reported.
#define WATCH_LEAST_FLOPS 2e10
typedef struct watch {
    clattn_progress progress;
    struct progress line;
    bool watching;
} watch;
// The progress of a call of so many operations; NULL where nobody watches: stderr is no terminal, or --quiet.
const clattn_progress *watch_begin(watch *w, bool quiet, double flops);
void watch_end(watch *w);
#endif
