// planner.c: see planner.h.
#include "plan/planner.h"

#include <stdlib.h>

clattn_status cla_planner_create(clattn_context *context, const char *own_rows, char why[256]) {
    struct planner *p = calloc(1, sizeof *p);
    why[0] = '\0';
    context->planner = p;
    if (!p) return CLATTN_OUT_OF_MEMORY;
    if (own_rows && !cla_tuned_parse(own_rows, &p->own, why, 256)) return CLATTN_INVALID_ARGUMENT;
    if (!cla_tuned_parse(clattn_tuned_rows_text, &p->shipped, why, 256)) return CLATTN_OUT_OF_MEMORY;
    p->input = (plan_input){.device = &context->capabilities, .own = &p->own, .shipped = &p->shipped};
    return CLATTN_OK;
}

void cla_planner_destroy(clattn_context *context) {
    if (!context->planner) return;
    cla_tuned_free(&context->planner->own);
    cla_tuned_free(&context->planner->shipped);
    free(context->planner);
    context->planner = NULL;
}

const plan_input *cla_planner_linear_input(const clattn_context *context) {
    return &context->planner->input;
}

// The types first: a call that is not bfloat16 has not waited for the probes of another thread.
plan_input cla_planner_input(clattn_context *context, const problem *p) {
    plan_input in = context->planner->input;
    if (p->type_q == CLATTN_TYPE_BF16 && p->type_kv == CLATTN_TYPE_BF16)
        in.probes = cla_probe_results(context, 1u << PROBE_FMA | 1u << PROBE_DOT_BF16);
    return in;
}
