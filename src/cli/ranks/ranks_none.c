// ranks_none.c: the functions of ranks.h in the program without MPI: execute clattn-mpi. See
// ranks_mpi.c.
#define _XOPEN_SOURCE 700
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include <errno.h>
#include <unistd.h>

#include "cli/ranks/ranks.h"

// The path of clattn-mpi: beside this program, or by the search path if this program's folder is
// unknown.
static void program_path(char path[4096]) {
    const char *name = "clattn-mpi";
#ifdef _WIN32
    const int length = -1;
#else
    const ssize_t length = readlink("/proc/self/exe", path, 4096 - sizeof "clattn-mpi" - 1);
#endif
    path[length < 0 ? 0 : length] = '\0';
    char *slash = strrchr(path, '/');
    snprintf(slash ? slash + 1 : path, 64, "%s", name);
}

int ranks_open(ranks *r, const command_line *line, int argc, char **argv) {
    char path[4096], name[] = "clattn-mpi";
    if (!r->wanted && !r->strategy) return -1;
    if (!r->wanted) return tool_wrong("--mpi-way: has no effect without --mpi");
    char **words = calloc((size_t)argc + 2, sizeof *words);
    if (!words) return tool_failed("no memory");
    words[0] = name;
    memcpy(words + 1, argv, (size_t)argc * sizeof *words);
    program_path(path);
    execvp(path, words);
    const int failure = errno;
    free(words);
    return tool_failed("--mpi: the program clattn-mpi, of a build with -Dmpi, is needed: %s",
                       strerror(failure));
}

int ranks_agree(const ranks *r, int status) {
    return status;
}

void ranks_share(const ranks *r, int64_t whole, ranks_rows *rows) {
    *rows = ranks_all(whole);
}

// The functions below are never called, because ranks_open has replaced the program.
static int none(void) {
    return tool_failed("--mpi: this program has no MPI");
}

int ranks_alike(const ranks *r, const char *option, const void *bytes, size_t count) {
    return none();
}

int ranks_begin(ranks *r, session *s) {
    return none();
}

void ranks_end(ranks *r) {}

int ranks_attend(ranks *r, session *s, const clattn_attention_params *p, const ranks_rows *q,
                 const ranks_rows *kv, bool decode) {
    return none();
}

int ranks_layer(ranks *r, session *s, const clattn_layer_params *p, const ranks_rows *rows) {
    return none();
}

int ranks_save(const ranks *r, const char *path, const array *whole, int axis, const ranks_part *parts,
               int64_t count) {
    return none();
}

int ranks_verdict(const ranks *r, expect *e) {
    return none();
}

int ranks_tell(const ranks *r, const session *s, const char *out, const expect *e) {
    return none();
}

void ranks_close(ranks *r, int status) {}

int ranks_bench_run(int argc, char **argv) {
    const command_line line = {.command = "bench"};
    tool_begin("bench");
    ranks r = {.wanted = true};
    return ranks_open(&r, &line, argc, argv);
}
