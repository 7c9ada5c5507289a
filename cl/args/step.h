// step.h: what fused_launches.cl reads of the launches that it does one behind the other, for the host and for the device: a
// step_shared, the launches, the words of their arguments, and the values among those, all in one buffer.
#ifndef CLATTN_ARGS_STEP_H
#define CLATTN_ARGS_STEP_H
#include "args/args.h"

// Buffers among the arguments of fused_launches.cl; an argument that is none is behind them.
#define STEP_BUFFERS 120

typedef struct step_shared {
    args_i32 taken, done, left; // parts, and work-groups that have nothing more to do: 0 between two runs
    args_i32 launches;
} step_shared;

// A launch: its kernel by its number among the program's parts, the end of its parts in those of all launches, the work-groups of its
// grid, and where its arguments begin. An argument is a word: the number of a buffer, or the byte where a value begins.
typedef struct step_launch {
    args_i32 which, end, size[3], arguments;
} step_launch;

ARGS_SIZE(step_shared, 16);
ARGS_SIZE(step_launch, 24);
#endif
