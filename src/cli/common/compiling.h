// compiling.h: the first call of a kernel compiles it, often for seconds. Notify the user, and keep
// compile time out of reported times.
#ifndef CLATTN_CLI_COMMON_COMPILING_H
#define CLATTN_CLI_COMMON_COMPILING_H
#include "cli/common/session.h"

// If a terminal is at stderr and compiling_end is not called within one second, print "compiling
// (once; cached in FOLDER)". --quiet and --json print nothing. compiling_end accepts NULL.
typedef struct compiling compiling;
compiling *compiling_begin(const session *s);
void compiling_end(compiling *c);

// True if a call of `flops` operations should run once before it is timed. That is the case if its
// kernels were not cached: PoCL compiles a kernel for its work-group size at the first launch.
// Large calls do not run twice, because the compile time hardly changes their time.
#define COMPILING_MOST_FLOPS 2e11
bool compiling_runs_first(const session *s, double flops);
#endif
