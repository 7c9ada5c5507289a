// watch.c: see watch.h.
#include "tool/cli/watch.h"

#include <signal.h>
#include <stddef.h>
#include <unistd.h>

static volatile sig_atomic_t interrupted;
#ifdef _WIN32
static void (*before)(int);
#else
static struct sigaction before;
#endif

static void on_interrupt(int signal) {
    (void)signal;
    interrupted = 1;
}

#ifdef _WIN32
static void catch_once(void) {
    before = signal(SIGINT, on_interrupt); // which Windows takes back as it comes
}
static void let_go(void) {
    (void)signal(SIGINT, before);
}
#else
static void catch_once(void) {
    struct sigaction once = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&once.sa_mask);
    sigaction(SIGINT, &once, &before);
}
static void let_go(void) {
    sigaction(SIGINT, &before, NULL);
}
#endif

static bool show(void *user, double done) {
    watch *w = user;
    progress_at(&w->line, done, NULL);
    return !interrupted;
}

const clattn_progress *watch_begin(watch *w, const session *s, double flops) {
    *w = (watch){.progress = {show, w}};
    progress_begin(&w->line, s->options.quiet, 1.0, 0.0);
    if (s->options.quiet || flops < WATCH_LEAST_FLOPS || !isatty(STDERR_FILENO)) return NULL;
    interrupted = 0;
    catch_once();
    w->watching = true;
    return &w->progress;
}

void watch_end(watch *w) {
    if (!w->watching) return;
    let_go();
    progress_wipe(&w->line);
    w->watching = false;
}
