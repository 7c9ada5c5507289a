// compiling.h: the first call of a kernel compiles it, which may take seconds: a person who waits is told, and no reported time
// contains it.
#ifndef CLATTN_TOOL_CLI_COMPILING_H
#define CLATTN_TOOL_CLI_COMPILING_H
#include "tool/cli/session.h"

// Prints "compiling (once; cached in FOLDER)" on stderr, where stderr is a terminal, after one second between begin and end.
// --quiet and --json print nothing.
typedef struct compiling {
    struct compiling_state *state; // NULL: nothing is printed
    uint64_t begun_ns;
} compiling;
void compiling_begin(compiling *c, const session *s);
void compiling_end(compiling *c);

// True if a call of so many operations runs once before it is timed: this process compiled a kernel for it. PoCL compiles a
// kernel for its size of work-groups at the first launch. A large call does not run twice: its time hardly changes.
#define COMPILING_MOST_FLOPS 2e11
bool compiling_runs_first(const session *s, double flops);
// Ends `c` unless the kernels took so long to build that the driver's cache had none: a slow call is not a compilation.
void compiling_still(compiling *c);
#endif
