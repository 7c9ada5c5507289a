// variant.h: the planner: a pure function from capabilities and problem to a kernel, its tile, and why. It
// knows no OpenCL handle and never looks at a name.
#ifndef CLATTN_PLAN_VARIANT_H
#define CLATTN_PLAN_VARIANT_H
#include "core/kernels.h"
#include "plan/knobs.h"
#include "plan/problem.h"

typedef struct variant {
    clattn_kernel kernel;
    enum kernel_id id;           // the main kernel: flash or scores
    knobs knobs;                 // of the main kernel
    int work_group;              // work-items of a group of the main kernel
    int rows_per_group;          // query rows of a group
    int splits, split_keys;      // key ranges computed apart; 1: none
    int softmax_group;           // work-items of a softmax group, unfused path
    int chunk_items, chunk_rows; // what the unfused path has scores of at once
    size_t local_bytes;
    size_t workspace_bytes; // scores of a chunk, or partial results of the splits
    char why[256];
} variant;

// Choose. On UNSUPPORTED `why` says what cannot be done.
clattn_status variant_choose(const clattn_capabilities *device, const problem *p, variant *v);
#endif
