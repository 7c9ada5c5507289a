// compiling.h: the first call of a kernel compiles it, which may take seconds: a person who waits is told, and no reported time
// contains it.
#ifndef CLATTN_TOOL_CLI_COMPILING_H
#define CLATTN_TOOL_CLI_COMPILING_H
#include "cli/common/session.h"

// Prints "compiling (once; cached in FOLDER)" on stderr, where stderr is a terminal, after one second between begin and end.
// --quiet and --json print nothing. compiling_end accepts NULL.
typedef struct compiling compiling;
compiling *compiling_begin(const session *s);
void compiling_end(compiling *c);

// True if a call of so many operations runs once before it is timed: its kernels took so long to build that no cache had them. PoCL
// compiles such a kernel for its size of work-groups at the first launch. A large call does not run twice: its time hardly changes.
#define COMPILING_MOST_FLOPS 2e11
bool compiling_runs_first(const session *s, double flops);
#endif
