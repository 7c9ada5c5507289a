// step.h: the buffer that fused_launches.cl reads, for the host and the device: a step_shared, the
// launches, the words of their arguments, and the values of these arguments.
#ifndef CLATTN_ARGS_STEP_H
#define CLATTN_ARGS_STEP_H
#include "args/args.h"

// Number of buffer arguments of fused_launches.cl. Index STEP_BUFFERS is a null pointer.
#define STEP_BUFFERS 120

typedef struct step_shared {
    // parts fetched and done, and groups that have left: 0 between two runs
    args_i32 taken, done, left;
    args_i32 launches;
} step_shared;

// A launch. `end` counts parts from the first launch on, `size` is the grid in work-groups, and
// `arguments` is the index of its first argument's word. This word is a buffer's index, or a
// value's byte offset.
typedef struct step_launch {
    args_i32 which, end, size[3], arguments;
} step_launch;

ARGS_SIZE(step_shared, 16);
ARGS_SIZE(step_launch, 24);
#endif
