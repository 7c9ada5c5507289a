// compiling.c: see compiling.h.
#include "cli/common/compiling.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

#define SILENT_SECONDS 1
#define COLD_NS 500000000u // a longer build came from source: cached kernels load in about 50 ms

struct compiling {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t woken;
    bool ended;
    char line[4400];
};

// PoCL's own cache folder. With PoCL, kernels are cached there and not by clattn
// (clattn_context_params.cache_dir).
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
    compiling *c = own;
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

compiling *compiling_begin(const session *s) {
    if (s->options.quiet || s->options.json || !isatty(STDERR_FILENO)) return NULL;
    compiling *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    write_line(s, c->line, sizeof c->line);
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->woken, NULL);
    if (pthread_create(&c->thread, NULL, wait_and_tell, c) == 0) return c;
    free(c);
    return NULL;
}

void compiling_end(compiling *c) {
    if (!c) return;
    pthread_mutex_lock(&c->lock);
    c->ended = true;
    pthread_cond_signal(&c->woken);
    pthread_mutex_unlock(&c->lock);
    pthread_join(c->thread, NULL);
    pthread_cond_destroy(&c->woken);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

bool compiling_runs_first(const session *s, double flops) {
    clattn_context_stats stats;
    clattn_context_get_stats(s->context, &stats);
    return stats.build_time_ns >= COLD_NS && flops < COMPILING_MOST_FLOPS;
}
