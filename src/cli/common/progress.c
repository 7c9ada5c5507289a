// progress.c: see progress.h.
#include "cli/common/progress.h"

#include <math.h>
#include <signal.h>
#ifndef _WIN32
#include <sys/ioctl.h>
#endif
#include <unistd.h>

#include "verification/device/measure.h"
#include "cli/common/tool.h"

#define LEAST_SHARE 0.01 // an estimate before this share would measure mostly start-up
#define LEAST_SECONDS 0.2

const char *progress_text(double share, double seconds, char text[48]) {
    const double kept = fmin(fmax(share, 0.0), 1.0);
    // In x87 registers 0.99 is 0.9899999999999999911.
    const int percent = (int)(100.0 * kept + 1e-9);
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

// The terminal's width. A longer line would wrap, and then could not be wiped.
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

static volatile sig_atomic_t interrupted;

static void note_interrupt(int signal_number) {
    (void)signal_number;
    interrupted = 1;
}

// Catch only the first Ctrl-C: a second one has its previous effect. A signal that the parent
// ignores, as nohup and background jobs do, stays ignored.
#ifdef _WIN32
static void (*before)(int);

void interrupt_catch(void) {
    interrupted = 0;
    // Windows restores the previous handler when the signal arrives
    before = signal(SIGINT, note_interrupt);
}

static void let_go(void) {
    (void)signal(SIGINT, before);
}
#else
static struct sigaction before;

void interrupt_catch(void) {
    struct sigaction own = {.sa_handler = note_interrupt, .sa_flags = (int)(SA_RESTART | SA_RESETHAND)};
    interrupted = 0;
    if (sigaction(SIGINT, NULL, &before) == 0 && before.sa_handler != SIG_IGN) sigaction(SIGINT, &own, NULL);
}

static void let_go(void) {
    sigaction(SIGINT, &before, NULL);
}
#endif

void interrupt_end(void) {
    fflush(NULL);
#ifndef _WIN32
    signal(SIGINT, SIG_DFL);
    raise(SIGINT);
#endif
}

bool interrupt_asked(void) {
    return interrupted != 0;
}

static bool show(void *user, double done) {
    watch *w = user;
    progress_at(&w->line, done, NULL);
    return !interrupted;
}

const clattn_progress *watch_begin(watch *w, bool quiet, double flops) {
    *w = (watch){.progress = {show, w}};
    progress_begin(&w->line, quiet, 1.0, 0.0);
    if (quiet || flops < WATCH_LEAST_FLOPS || !isatty(STDERR_FILENO)) return NULL;
    interrupt_catch();
    w->watching = true;
    return &w->progress;
}

void watch_end(watch *w) {
    if (!w->watching) return;
    let_go();
    progress_wipe(&w->line);
    w->watching = false;
}
