// linear_attention_plan.h: choose the kernel of linear attention. Pure: no OpenCL, no context.
#ifndef CLATTN_PLAN_LINEAR_ATTENTION_PLAN_H
#define CLATTN_PLAN_LINEAR_ATTENTION_PLAN_H
#include <stdbool.h>
#include <stdint.h>

#include "program/kernels.h"
#include "program/knobs.h"

typedef struct linear_attention_problem {
    bool is_cpu;
    int lanes;             // vector width for kernels with lanes; 0: none
    int64_t compute_units; // of the device
    int64_t sequences, heads, head_dim, head_dim_v;
} linear_attention_problem;

typedef struct linear_attention_plan {
    enum kernel_id id;
    knobs knobs; // without storage types
    int group;   // largest work-group; 0: the kernel has work-groups of one work-item
    char why[256];
} linear_attention_plan;

void cla_plan_linear_attention(const linear_attention_problem *p, linear_attention_plan *plan);
#endif
