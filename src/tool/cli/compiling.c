// compiling.c: see compiling.h.
#include "tool/cli/compiling.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "evidence/device/measure.h"

#define SILENT_SECONDS 1
#define COLD_NS 500000000u // kernels of a cache are ready in a tenth

struct compiling_state {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t woken;
    bool ended;
    char line[4400];
};

// PoCL keeps kernels itself: clattn asks it for no binaries (cache_dir of clattn_context_params).
static bool pocl_folder(char *text, size_t size) {
    const char *own = getenv("POCL_CACHE_DIR"), *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int length;
    if (own && *own)
        length = snprintf(text, size, "%s", own);
    else if (base && *base)
        length = snprintf(text, size, "%s/pocl/kcache", base);
    else
        length = snprintf(text, size, "%s/.cache/pocl/kcache", home ? home : "");
    return length >= 0 && (size_t)length < size;
}

static void write_line(const session *s, char *line, size_t size) {
    char path[4096];
    const char *folder = NULL;
    if (!strstr(s->capabilities->platform, "PoCL "))
        folder = tool_cache_dir(&s->options, path, sizeof path);
    else if (pocl_folder(path, sizeof path))
        folder = path;
    snprintf(line, size, "clattn%s: compiling (%s%s)\n", tool_name(),
             folder ? "once; cached in " : "at each start: no folder caches kernels", folder ? folder : "");
}

static void *wait_and_tell(void *own) {
    struct compiling_state *c = own;
    struct timespec until;
    int code = 0;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += SILENT_SECONDS;
    pthread_mutex_lock(&c->lock);
    while (!c->ended && code == 0) code = pthread_cond_timedwait(&c->woken, &c->lock, &until);
    if (!c->ended) printable_printf(stderr, "%s", c->line);
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

void compiling_begin(compiling *c, const session *s) {
    *c = (compiling){.begun_ns = measure_clock_ns()};
    if (s->options.quiet || s->options.json || !isatty(STDERR_FILENO)) return;
    struct compiling_state *made = calloc(1, sizeof *made);
    if (!made) return;
    write_line(s, made->line, sizeof made->line);
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->woken, NULL);
    if (pthread_create(&made->thread, NULL, wait_and_tell, made) == 0)
        c->state = made;
    else
        free(made);
}

void compiling_end(compiling *c) {
    if (!c->state) return;
    pthread_mutex_lock(&c->state->lock);
    c->state->ended = true;
    pthread_cond_signal(&c->state->woken);
    pthread_mutex_unlock(&c->state->lock);
    pthread_join(c->state->thread, NULL);
    pthread_cond_destroy(&c->state->woken);
    pthread_mutex_destroy(&c->state->lock);
    free(c->state);
    c->state = NULL;
}

void compiling_still(compiling *c) {
    if (measure_clock_ns() - c->begun_ns < COLD_NS) compiling_end(c);
}

bool compiling_runs_first(const session *s, double flops) {
    clattn_context_stats stats;
    clattn_context_get_stats(s->context, &stats);
    return stats.programs_built > 0 && flops < COMPILING_MOST_FLOPS;
}
