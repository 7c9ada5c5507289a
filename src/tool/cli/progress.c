// progress.c: see progress.h.
#include "tool/cli/progress.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifndef _WIN32
#include <sys/ioctl.h>
#endif
#include <unistd.h>

#include "evidence/device/measure.h"
#include "tool/cli/text.h"
#include "tool/cli/tool.h"

#define LEAST_SHARE 0.01 // before that start-up is most of what is known
#define LEAST_SECONDS 0.2

const char *progress_text(double share, double seconds, char text[48]) {
    const double kept = fmin(fmax(share, 0.0), 1.0);
    const int percent = (int)(100.0 * kept);
    const double left = kept > 0.0 ? ceil(seconds * (1.0 - kept) / kept) : 0.0;
    const long whole = left < 3.6e6 ? (long)left : 3600000;
    if (kept < LEAST_SHARE || seconds < LEAST_SECONDS || whole == 0)
        snprintf(text, 48, "%d %%", percent);
    else if (whole < 60)
        snprintf(text, 48, "%d %%, %ld s left", percent, whole);
    else if (whole < 3600)
        snprintf(text, 48, "%d %%, %ld min %02ld s left", percent, whole / 60, whole % 60);
    else
        snprintf(text, 48, "%d %%, %ld h %02ld min left", percent, whole / 3600, whole / 60 % 60);
    return text;
}

void progress_begin(progress *p, bool quiet, double all, double silent_ms) {
    const char *terminal = getenv("TERM");
    *p = (progress){.all = all, .start_ns = measure_clock_ns()};
    p->silent_ns = (uint64_t)(silent_ms * 1e6);
    p->shown = !quiet && isatty(STDERR_FILENO) && !(terminal && !strcmp(terminal, "dumb"));
}

// A line that the terminal breaks cannot be wiped.
static int columns(void) {
#ifdef TIOCGWINSZ
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
#endif
    return 80;
}

void progress_at(progress *p, double done, const char *what) {
    char text[48], line[512];
    p->done = done;
    if (!p->shown) return;
    const uint64_t spent = measure_clock_ns() - p->start_ns;
    if (spent < p->silent_ns) return;
    snprintf(line, sizeof line, "clattn%s: %s%s%s", tool_name(),
             progress_text(p->all > 0.0 ? done / p->all : 0.0, (double)spent / 1e9, text), what ? ", " : "",
             what ? what : "");
    fprintf(stderr, "\r\033[K%.*s", columns() - 1, printable(line));
    fflush(stderr);
    p->on_screen = true;
}

void progress_more(progress *p, double more, const char *what) {
    progress_at(p, p->done + more, what);
}

void progress_wipe(progress *p) {
    if (!p->on_screen) return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
    p->on_screen = false;
}
