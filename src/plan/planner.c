// planner.c: see planner.h.
#include "plan/planner.h"

#include <stdlib.h>

clattn_status cla_planner_create(clattn_context *context, const char *own_rows, char why[256]) {
    struct planner *p = calloc(1, sizeof *p);
    why[0] = '\0';
    context->planner = p;
    if (!p) return CLATTN_OUT_OF_MEMORY;
    if (own_rows && !cla_tuned_parse(own_rows, &p->own, why, 256)) return CLATTN_INVALID_ARGUMENT;
    return cla_tuned_parse(clattn_tuned_rows_text, &p->shipped, why, 256) ? CLATTN_OK : CLATTN_OUT_OF_MEMORY;
}

void cla_planner_destroy(clattn_context *context) {
    if (!context->planner) return;
    cla_tuned_free(&context->planner->own);
    cla_tuned_free(&context->planner->shipped);
    free(context->planner);
    context->planner = NULL;
}

plan_input cla_planner_linear_input(const clattn_context *context) {
    const struct planner *p = context->planner;
    return (plan_input){.device = &context->capabilities, .own = &p->own, .shipped = &p->shipped};
}

// The types first: a call that is not bfloat16 has not waited for the probes of another thread.
plan_input cla_planner_input(clattn_context *context, const problem *p) {
    plan_input in = cla_planner_linear_input(context);
    if (p->type_q == CLATTN_TYPE_BF16 && p->type_kv == CLATTN_TYPE_BF16)
        in.probes = cla_probe_results(context, 1u << PROBE_FMA | 1u << PROBE_DOT_BF16);
    return in;
}
