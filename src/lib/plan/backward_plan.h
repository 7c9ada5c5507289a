// backward_plan.h: which kernels make the gradients of a call: a pure function of the device's capabilities, its tuned rows and the
// problem.
#ifndef CLATTN_PLAN_BACKWARD_PLAN_H
#define CLATTN_PLAN_BACKWARD_PLAN_H
#include "plan/backward_families.h"
#include "plan/variant.h"

typedef struct backward_variant {
    const family *family;
    bool one_pass;        // one launch makes dq, dk and dv; else dq has one, and dk with dv
    knobs knobs;          // of both
    int work_group;       // work-items of a group
    int own_rows;         // rows of a group, query rows or keys
    int other_rows;       // of the others that it meets at once; 0: knobs say it
    int sums;             // of a work-item for dk and dv, which should be in registers; 0: no matter
    int parts, part_keys; // ranges of keys whose shares of dq are sums apart
    size_t local_bytes;
    char why[200];
} backward_variant;

// The register-tiled kernel: why it is not for the problem, or NULL and `v` filled. `row` is the one for it, or NULL.
const char *cla_backward_fit_tiles(const plan_input *in, const problem *p, const tuned_row *row,
                                   backward_variant *v);

// NULL, or why it cannot be done.
const char *cla_backward_choose(const plan_input *in, const problem *p, backward_variant *v);
#endif
