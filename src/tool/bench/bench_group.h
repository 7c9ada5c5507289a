// bench_group.h: clattn bench --devices: a group of devices beside the fastest of them alone, both from host memory to host memory,
// in turns. Used by the bench.
#ifndef CLATTN_TOOL_BENCH_BENCH_GROUP_H
#define CLATTN_TOOL_BENCH_BENCH_GROUP_H
#include "tool/bench/bench.h"

// All cases. -1, or an exit status with its line.
int bench_run_group(bench *b);
#endif
