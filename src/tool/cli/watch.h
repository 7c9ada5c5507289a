// watch.h: somebody who watches a long call on a terminal: a line on stderr says how far it is and what time is left,
// and an interrupt (Ctrl-C) cancels it between two slices, so that nothing of it runs on when the program ends; a
// second one ends the program at once.
#ifndef CLATTN_TOOL_CLI_WATCH_H
#define CLATTN_TOOL_CLI_WATCH_H
#include "tool/cli/progress.h"
#include "tool/cli/tool.h"

// A call that has one waits between its launches, so that a short call has none: its time is reported.
#define WATCH_LEAST_FLOPS 2e10

typedef struct watch {
    clattn_progress progress;
    struct progress line;
    bool watching;
} watch;

// The progress of a call of so many operations; NULL where nobody watches: stderr is no terminal, or --quiet.
const clattn_progress *watch_begin(watch *w, const session *s, double flops);
void watch_end(watch *w);
#endif
