// projector.c: see projector.h.
#include "layer/projection/projector.h"

#include "base/host.h"
#include "probe/probe.h"
#include "layer/projection/measure.h"

struct projector {
    os_mutex lock;       // guards the rest, for a moment
    os_mutex measuring;  // held while projections are measured; taken before the lock
    bool looked;         // in the cache folder, or measured
    bool clblast_failed; // in a call that was free to choose: the next ones do not try it again
    projection_answer answer;
};

bool cla_projector_create(clattn_context *context) {
    struct projector *p = cla_host_take_zeroed(&context->host, 1, sizeof *p);
    if (p && cla_os_mutex_init_two(&p->lock, &p->measuring)) {
        context->projector = p;
        return true;
    }
    cla_host_release(&context->host, p);
    return false;
}

void cla_projector_destroy(clattn_context *context) {
    cla_clblast_leave(context);
    if (!context->projector) return;
    cla_os_mutex_destroy(&context->projector->lock);
    cla_os_mutex_destroy(&context->projector->measuring);
    cla_host_release(&context->host, context->projector);
    context->projector = NULL;
}

// What was measured here, or what the cache folder keeps: planning runs nothing.
static projection_answer measured(clattn_context *context) {
    struct projector *p = context->projector;
    if (context->no_measurements) return (projection_answer){.sure = false};
    cla_os_mutex_lock(&p->lock);
    if (!p->looked) p->answer = cla_measure_kept(context);
    p->looked = true;
    const projection_answer answer = p->answer;
    cla_os_mutex_unlock(&p->lock);
    return answer;
}

clattn_status clattn_context_measure(clattn_context *context) {
    if (!context) return CLATTN_INVALID_ARGUMENT;
    if (context->no_measurements)
        return cla_context_fail(context, CLATTN_INVALID_ARGUMENT,
                                "no_measurements: the context was created without measurements");
    TRY(cla_context_check(context));
    (void)cla_probe_results(context, ~0u);
    if (!cla_clblast_available(context)) return CLATTN_OK; // there are no two to be compared
    struct projector *p = context->projector;
    projection_answer answer;
    clattn_status status = CLATTN_OK;
    cla_os_mutex_lock(&p->measuring);
    if (!measured(context).sure) {
        status = cla_measure_projections(context, &answer);
        cla_os_mutex_lock(&p->lock);
        if (status == CLATTN_OK) p->answer = answer;
        cla_os_mutex_unlock(&p->lock);
    }
    cla_os_mutex_unlock(&p->measuring);
    return status;
}

static bool clblast_failed(clattn_context *context) {
    struct projector *p = context->projector;
    cla_os_mutex_lock(&p->lock);
    const bool failed = p->clblast_failed;
    cla_os_mutex_unlock(&p->lock);
    return failed;
}

void cla_projector_clblast_failed(clattn_context *context, clattn_status status) {
    struct projector *p = context->projector;
    cla_os_mutex_lock(&p->lock);
    p->clblast_failed = p->clblast_failed || status != CLATTN_DEVICE_LOST;
    cla_os_mutex_unlock(&p->lock);
}

bool cla_projector_falls_back(clattn_context *context, clattn_projection wanted, bool native) {
    return wanted == CLATTN_PROJECTION_AUTO && !native && clblast_failed(context);
}

// Nobody asked for one, and there are rows.
static const char *choose(clattn_context *context, linear *l) {
    if (clblast_failed(context)) {
        l->native = true;
        return "CLBlast failed in this context, the log says how";
    }
    const bool open = cla_linear_native_is_open(context, l);
    const projection_answer known = open ? measured(context) : (projection_answer){.sure = false};
    l->native = cla_linear_native_wins(context, l, &known);
    if (!l->native && !cla_clblast_available(context)) {
        l->native = true;
        return "there is no CLBlast";
    }
    return cla_linear_why(context, l, &known);
}

clattn_status cla_projector_decide(clattn_context *context, linear *l, clattn_projection wanted, bool no_rows,
                                   const char **why) {
    l->native = wanted != CLATTN_PROJECTION_CLBLAST;
    *why = wanted != CLATTN_PROJECTION_AUTO ? "as asked" : no_rows ? "there are no rows" : choose(context, l);
    return l->native || cla_clblast_available(context) ? CLATTN_OK : cla_clblast_refuse(context);
}
