// backward_plan.h: choose the kernels for the gradients of a call. The choice is a pure function of
// the device's capabilities, the tuned rows and the problem.
#ifndef CLATTN_PLAN_BACKWARD_PLAN_H
#define CLATTN_PLAN_BACKWARD_PLAN_H
#include "plan/backward_families.h"
#include "plan/variant.h"

typedef struct backward_variant {
    const family *family;
    // One launch computes dq, dk and dv. Otherwise one launch computes dq, and a second one dk and
    // dv.
    bool one_pass;
    knobs knobs;    // knobs of all launches
    int work_group; // work-items per work-group
    int own_rows;   // query rows or keys per work-group
    int other_rows; // rows of the other kind per step; 0: set by a knob
    // Accumulators per work-item for dk and dv, which should fit registers; 0: not checked.
    int sums;
    int parts, part_keys; // dq has one partial sum for each of `parts` ranges of keys
    size_t local_bytes;
    char why[200];
} backward_variant;

// Plan the register-tiled kernel. Returns NULL and fills `v`, or returns why the kernel does not
// fit. `row`: its tuned row, or NULL.
const char *cla_backward_fit_tiles(const plan_input *in, const problem *p, const tuned_row *row,
                                   backward_variant *v);

// Choose a kernel. Returns NULL, or why no kernel can compute the gradients.
const char *cla_backward_choose(const plan_input *in, const problem *p, backward_variant *v);
#endif
