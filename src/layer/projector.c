// projector.c: see projector.h.
#include "layer/projector.h"

#include <stdlib.h>

#include "layer/measure.h"

struct projector {
    os_mutex lock; // held while projections are measured
    bool measured; // answer says what can be known
    projection_answer answer;
};

bool cla_projector_create(clattn_context *context) {
    context->projector = calloc(1, sizeof *context->projector);
    if (context->projector && cla_os_mutex_init(&context->projector->lock)) return true;
    free(context->projector);
    context->projector = NULL;
    return false;
}

void cla_projector_destroy(clattn_context *context) {
    cla_clblast_leave(context);
    if (!context->projector) return;
    cla_os_mutex_destroy(&context->projector->lock);
    free(context->projector);
    context->projector = NULL;
}

// What is known, after measuring where that is possible: nothing is measured without a cache folder, which could not
// keep the answer, without CLBlast, or on a device that is no CPU.
static projection_answer measured(clattn_context *context) {
    struct projector *p = context->projector;
    if (!context->capabilities.is_cpu || !context->cache || !cla_clblast_available())
        return (projection_answer){{PLAN_NOT_MEASURED}};
    cla_os_mutex_lock(&p->lock);
    if (!p->measured) {
        p->measured = true;
        p->answer = cla_measure_projections(context);
    }
    const projection_answer answer = p->answer;
    cla_os_mutex_unlock(&p->lock);
    return answer;
}

// Nobody asked for one, and there are rows.
static const char *choose(clattn_context *context, linear *l) {
    const bool open = cla_linear_native_is_open(context, l);
    const projection_answer known = open ? measured(context) : (projection_answer){{PLAN_NOT_MEASURED}};
    l->native = cla_linear_native_wins(context, l, &known);
    const int measure = l->choice.id == KERNEL_LINEAR_FEW_LANES ? PLAN_FEW_ROWS : PLAN_MANY_ROWS;
    if (!open)
        return l->native ? "a tuned row of the context prefers it"
                         : "no tuned row prefers the native kernel on this device";
    return known.of[measure] ? "measured as the faster one on this device"
                             : "a shipped row prefers it, nothing was measured";
}

clattn_status cla_projector_decide(clattn_context *context, linear *l, clattn_projection wanted, bool no_rows,
                                   const char **why) {
    l->native = wanted != CLATTN_PROJECTION_CLBLAST;
    *why = wanted != CLATTN_PROJECTION_AUTO ? "as asked" : no_rows ? "there are no rows" : choose(context, l);
    if (l->native || cla_clblast_available()) return CLATTN_OK;
    return cla_context_fail(
        context, CLATTN_UNSUPPORTED,
        "projection: this build of clattn has no CLBlast and no tuned row for the device: take native");
}
