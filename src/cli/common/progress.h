// progress.h: the progress of a long command: one line on stderr that is overwritten, with the
// share that is done and the estimated time left. Shown on a terminal only. Used by every command
// that can run long.
#ifndef CLATTN_CLI_COMMON_PROGRESS_H
#define CLATTN_CLI_COMMON_PROGRESS_H
#include <clattn/clattn.h>

typedef struct progress {
    double all, done; // work in any unit: parts of equal size, operations, milliseconds
    uint64_t start_ns, silent_ns;
    bool shown, on_screen;
} progress;

// Nothing is shown in the first `silent_ms` milliseconds, with `quiet`, or if stderr is no terminal
// that can erase a line.
void progress_begin(progress *p, bool quiet, double all, double silent_ms);
// The part `what` begins now; `done` of the work is finished. `what` may be NULL.
void progress_at(progress *p, double done, const char *what);
// Like progress_at, with `more` work finished since the last call.
void progress_more(progress *p, double more, const char *what);
// Erase the line. Call this before printing anything else, and at the end. The progress may
// continue afterwards.
void progress_wipe(progress *p);

// Formats "42 %, 3 min 05 s left" from the finished share and its seconds, and returns `text`. The
// time is left out if the share is too small for an estimate.
const char *progress_text(double share, double seconds, char text[48]);

// Ctrl-C during work of many parts. The first stops the work after the current part, and finished
// parts are kept. The second ends the program at once.
void interrupt_catch(void);
bool interrupt_asked(void);
// End the program by SIGINT after all output is written. A shell loop that runs the program then
// stops, too.
void interrupt_end(void);

// A watched call: a terminal shows its progress, and Ctrl-C cancels it between two slices, so that
// no work continues after the program ends. A second Ctrl-C ends the program at once. A watched
// call waits between its launches. Short calls are therefore not watched: waiting would lengthen
// the reported time.
#define WATCH_LEAST_FLOPS 2e10
typedef struct watch {
    clattn_progress progress;
    struct progress line;
    bool watching;
} watch;
// The progress object for a call of `flops` operations. NULL: the call is short, stderr is no
// terminal, or `quiet` is set.
const clattn_progress *watch_begin(watch *w, bool quiet, double flops);
void watch_end(watch *w);
#endif
