// child.c: see child.h.
#ifndef _WIN32
#define _GNU_SOURCE // pipe2
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __APPLE__
#include <mach-o/dyld.h>
#endif
#ifdef __linux__
#include <sys/prctl.h>
#endif
#endif
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "cli/common/child.h"

static bool is_child;
bool child_is(void) {
    return is_child;
}

#ifdef _WIN32
void child_run(child *c, const char *const arguments[], const char *variable, double limit_s,
               void (*line)(void *user, const char *text), void *user) {
    (void)arguments, (void)variable, (void)limit_s, (void)line, (void)user;
    *c = (child){.end = CHILD_NOT_STARTED};
}
void child_begin(void) {
    is_child = true;
}
void child_answer(const char *line) {
    puts(line);
}
#else
extern char **environ;

#define LINE_MOST 65536
#define POLL_MS 50

// One of the two pipes, and its incomplete last line.
typedef struct stream {
    int end; // file descriptor; negative: closed
    size_t used;
    char text[LINE_MOST];
} stream;

static uint64_t now_ms(void) {
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

static const char *own_path(char *text, size_t size) {
#ifdef __APPLE__
    uint32_t length = (uint32_t)size;
    return _NSGetExecutablePath(text, &length) == 0 ? text : NULL;
#else
    const ssize_t length = readlink("/proc/self/exe", text, size - 1);
    if (length <= 0) return NULL;
    text[length] = '\0';
    return text;
#endif
}

static bool open_pipe(int ends[2]) {
    if (pipe(ends) != 0) return false;
    return fcntl(ends[0], F_SETFD, FD_CLOEXEC) == 0 && fcntl(ends[1], F_SETFD, FD_CLOEXEC) == 0 &&
           fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0;
}

static bool names_same(const char *a, const char *b) {
    const size_t length = strcspn(b, "=");
    return strncmp(a, b, length) == 0 && a[length] == '=';
}

// The process's environment with `variable` added or replaced. NULL: no memory.
static char **environment_with(const char *variable) {
    size_t count = 0, used = 0;
    while (environ[count]) count++;
    char **all = malloc((count + 2) * sizeof *all);
    if (!all) return NULL;
    for (size_t i = 0; i < count; i++)
        if (!variable || !names_same(environ[i], variable)) all[used++] = environ[i];
    if (variable) all[used++] = (char *)variable;
    all[used] = NULL;
    return all;
}

static pid_t start(const char *const arguments[], const char *variable, int out, int errors) {
    char path[4096], option[] = "--child";
    char *argv[CHILD_ARGUMENTS + 3] = {NULL};
    pid_t pid = -1;
    posix_spawn_file_actions_t actions;
    argv[0] = (char *)own_path(path, sizeof path);
    argv[1] = option;
    for (int i = 0; i < CHILD_ARGUMENTS && arguments[i]; i++) argv[2 + i] = (char *)arguments[i];
    char **environment = environment_with(variable);
    if (argv[0] && environment && posix_spawn_file_actions_init(&actions) == 0) {
        const bool ready = !posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0) &&
                           !posix_spawn_file_actions_adddup2(&actions, out, 1) &&
                           !posix_spawn_file_actions_adddup2(&actions, errors, 2);
        if (!ready || posix_spawn(&pid, argv[0], &actions, NULL, argv, environment) != 0) pid = -1;
        posix_spawn_file_actions_destroy(&actions);
    }
    free(environment);
    return pid;
}

static void keep_words(void *user, const char *text) {
    child *c = user;
    if (text[strspn(text, " \t\r")]) snprintf(c->words, sizeof c->words, "%s", text);
}

// Read all available data and report each whole line. Returns true if any data was available.
static bool read_lines(stream *s, void (*line)(void *user, const char *text), void *user) {
    bool any = false;
    while (s->end >= 0) {
        const ssize_t n = read(s->end, s->text + s->used, LINE_MOST - 1 - s->used);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) break;
        any = any || n > 0;
        s->used += n > 0 ? (size_t)n : 0;
        s->text[s->used] = '\0';
        for (char *end = strchr(s->text, '\n'); end; end = strchr(s->text, '\n')) {
            *end = '\0';
            line(user, s->text);
            s->used -= (size_t)(end + 1 - s->text);
            memmove(s->text, end + 1, s->used + 1);
        }
        // A line that is too long, or the rest at the end of file.
        if (s->used == LINE_MOST - 1 || n <= 0) {
            if (s->used) line(user, s->text);
            s->used = 0;
        }
        if (n > 0) continue;
        (void)close(s->end);
        s->end = -1;
    }
    return any;
}

// Read both pipes until the process ends. The end of file is no sign of that: a grandchild may keep
// the pipes open.
static void follow(child *c, pid_t pid, stream streams[2], double limit_s,
                   void (*line)(void *user, const char *text), void *user) {
    uint64_t heard = now_ms();
    int status = 0;
    bool gone = false;
    while (!gone) {
        struct pollfd wait[2] = {{.fd = streams[0].end, .events = POLLIN},
                                 {.fd = streams[1].end, .events = POLLIN}};
        (void)poll(wait, 2, POLL_MS);
        gone = waitpid(pid, &status, WNOHANG) == pid;
        if (read_lines(&streams[0], line, user)) heard = now_ms();
        (void)read_lines(&streams[1], keep_words, c);
        if (gone || (double)(now_ms() - heard) <= 1000.0 * limit_s) continue;
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, &status, 0);
        (void)read_lines(&streams[1], keep_words, c);
        c->end = CHILD_TIMED_OUT;
        return;
    }
    c->end = WIFSIGNALED(status) ? CHILD_DIED : CHILD_DONE;
    c->number = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
}

void child_run(child *c, const char *const arguments[], const char *variable, double limit_s,
               void (*line)(void *user, const char *text), void *user) {
    int out[2] = {-1, -1}, errors[2] = {-1, -1};
    stream *streams = calloc(2, sizeof *streams);
    *c = (child){.end = CHILD_NOT_STARTED};
    pid_t pid = -1;
    if (streams && open_pipe(out) && open_pipe(errors)) pid = start(arguments, variable, out[1], errors[1]);
    if (out[1] >= 0) (void)close(out[1]);
    if (errors[1] >= 0) (void)close(errors[1]);
    if (streams) streams[0].end = out[0], streams[1].end = errors[0];
    if (pid > 0) follow(c, pid, streams, limit_s, line, user);
    for (int i = 0; streams && i < 2; i++)
        if (streams[i].end >= 0) (void)close(streams[i].end);
    free(streams);
}

static int answers = STDOUT_FILENO;

void child_begin(void) {
    const struct rlimit none = {0, 0};
    is_child = true;
    (void)setrlimit(RLIMIT_CORE, &none);
#ifdef __linux__
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); // a hanging child must not outlive its parent
#endif
    const int own = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    if (own < 0) return;
    answers = own;
    (void)dup2(STDERR_FILENO, STDOUT_FILENO);
}

// Write the line to the pipe without buffering, because the next step may end the process.
void child_answer(const char *line) {
    size_t left = strlen(line);
    for (const char *at = line; left > 0;) {
        const ssize_t n = write(answers, at, left);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return;
        at += n, left -= (size_t)n;
    }
    (void)!write(answers, "\n", 1);
}
#endif

const char *child_text(const child *c, double limit_s, char text[128]) {
    text[0] = '\0';
    if (c->end == CHILD_NOT_STARTED) snprintf(text, 128, "not tried: no process could be started");
    if (c->end == CHILD_TIMED_OUT) snprintf(text, 128, "timed out after %.3g s", limit_s);
#ifndef _WIN32
    if (c->end == CHILD_DIED) snprintf(text, 128, "died by signal %d (%s)", c->number, strsignal(c->number));
#endif
    if (c->end == CHILD_DONE && c->number) snprintf(text, 128, "ended with exit status %d", c->number);
    return text;
}
