// backward.c: the gradients of a prefill whose rows are shared: what can be wrong of them, and the public calls.
#include <string.h>

#include "mpi/gradients.h"
#include "mpi/ways.h"

#define FAIL(...) cla_mpi_fail(w, CLATTN_INVALID_ARGUMENT, __VA_ARGS__)

static clattn_status check_like(clattn_mpi *w, const clattn_tensor *t, const char *name,
                                const clattn_tensor *like, const char *of) {
    bool empty = false;
    if (!t->rank) return CLATTN_OK;
    if (!like->rank) return FAIL("%s: is asked for without %s", name, of);
    if (t->rank != like->rank)
        return FAIL("%s: has %d axes: must have those of %s, %d", name, t->rank, of, like->rank);
    for (int axis = 0; axis < t->rank; axis++) {
        if (t->shape[axis] != like->shape[axis])
            return FAIL("%s: size %lld of axis %d: %s has %lld there", name, (long long)t->shape[axis], axis,
                        of, (long long)like->shape[axis]);
        empty = empty || t->shape[axis] == 0;
    }
    return empty || t->buffer ? CLATTN_OK : FAIL("%s: has no buffer", name);
}

static clattn_status check_of_heads(clattn_mpi *w, const clattn_mpi_attention_backward_params *b) {
    const clattn_score *s = &b->forward.score;
    const clattn_tensor heads = {.rank = 1, .shape = {b->forward.q.shape[1]}}, none = {.rank = 0};
    const struct {
        const clattn_tensor *t;
        const char *name, *of;
        bool given;
    } all[] = {{&b->dsinks, "dsinks", "sinks", s->sinks || cla_mpi_given(&s->sinks_device)},
               {&b->dalibi_slopes, "dalibi_slopes", "alibi_slopes", s->alibi_slopes != NULL},
               {&b->dhead_scales, "dhead_scales", "head_scales", s->head_scales != NULL}};
    for (size_t n = 0; n < sizeof all / sizeof *all; n++) {
        TRY(check_like(w, all[n].t, all[n].name, all[n].given ? &heads : &none, all[n].of));
        if (all[n].t->rank && all[n].t->type != CLATTN_TYPE_F32)
            return FAIL("%s: its type must be f32", all[n].name);
    }
    return CLATTN_OK;
}

// What the library says of the tensors themselves.
static clattn_status ask_library(clattn_mpi *w, const clattn_mpi_attention_backward_params *b) {
    const clattn_mpi_attention_params *p = &b->forward;
    const clattn_attention_backward_params call = {.forward = {.q = p->q,
                                                               .kv = {.k = p->k, .v = p->v},
                                                               .out = p->out,
                                                               .lse = p->lse,
                                                               .kernel = p->kernel},
                                                   .dout = b->dout,
                                                   .dlse = b->dlse,
                                                   .dq = b->dq,
                                                   .dk = b->dk,
                                                   .dv = b->dv};
    clattn_plan plan;
    if (!b->dq.rank && !b->dk.rank && !b->dv.rank) return CLATTN_OK;
    return cla_mpi_library(w, clattn_attention_backward_plan(w->context, &call, &plan));
}

clattn_status cla_mpi_check_gradients(clattn_mpi *w, const clattn_mpi_attention_backward_params *b) {
    const clattn_mpi_attention_params *p = &b->forward;
    bool any = false;
    if (CLATTN_TYPE_IS_SCALED(p->k.type))
        return cla_mpi_fail(w, CLATTN_UNSUPPORTED,
                            "k: its type %s has no gradient: it must be f32, f16 or bf16",
                            clattn_type_name(p->k.type));
    if (!p->lse.rank) return FAIL("lse: is absent: gradients need what the run wrote there");
    if (!b->dout.rank) return FAIL("dout: is absent: [B, H, nq, Dv] is needed");
    TRY(check_like(w, &b->dout, "dout", &p->out, "out"));
    TRY(check_like(w, &b->dlse, "dlse", &p->lse, "lse"));
    TRY(check_like(w, &b->dq, "dq", &p->q, "q"));
    TRY(check_like(w, &b->dk, "dk", &p->k, "k"));
    TRY(check_like(w, &b->dv, "dv", &p->v, "v"));
    TRY(check_like(w, &b->dbias, "dbias", &p->score.bias, "bias"));
    if (b->dbias.rank && b->dbias.type != CLATTN_TYPE_F32) return FAIL("dbias: its type must be f32");
    TRY(check_of_heads(w, b));
    for (int n = 0; n < GRADIENTS; n++) any = any || cla_mpi_gradient(b, n)->rank;
    if (!any) return FAIL("dq: no gradient is asked for");
    return ask_library(w, b);
}

uint64_t cla_mpi_gradients_hash(const clattn_mpi_attention_backward_params *b) {
    uint64_t hash = 0xcbf29ce484222325u;
    const clattn_tensor *const inputs[] = {&b->dout, &b->dlse};
    for (int n = 0; n < GRADIENTS + 2; n++) {
        const clattn_tensor *t = n < GRADIENTS ? cla_mpi_gradient(b, n) : inputs[n - GRADIENTS];
        hash = (hash ^ (uint64_t)(t->rank ? 1 + (int)t->type : 0)) * 0x100000001b3u;
    }
    for (const char *c = b->score_mod_gradient; c && *c; c++)
        hash = (hash ^ (uint64_t)(unsigned char)*c) * 0x100000001b3u;
    return hash;
}

clattn_status clattn_mpi_attention_backward_plan(clattn_mpi *w,
                                                 const clattn_mpi_attention_backward_params *params,
                                                 clattn_mpi_plan *plan) {
    job j;
    if (!w) return CLATTN_INVALID_ARGUMENT;
    clattn_status status = cla_mpi_job_open_backward(w, params, &j);
    if (status == CLATTN_OK) status = cla_mpi_measure(w);
    if (status == CLATTN_OK) status = cla_mpi_choose(&j);
    if (plan) *plan = j.plan;
    cla_mpi_job_close(&j);
    return status;
}

clattn_status clattn_mpi_attention_backward_run(clattn_mpi *w,
                                                const clattn_mpi_attention_backward_params *params,
                                                clattn_mpi_report *report) {
    job j;
    if (!w) return CLATTN_INVALID_ARGUMENT;
    clattn_status status = cla_mpi_job_open_backward(w, params, &j);
    if (status == CLATTN_OK) status = cla_mpi_choose(&j);
    j.report.plan = j.plan;
    if (status == CLATTN_OK)
        status = j.plan.way == CLATTN_MPI_ALL_TO_ALL ? cla_mpi_heads_run(&j) : cla_mpi_ring_run(&j);
    if (report) *report = j.report;
    cla_mpi_job_close(&j);
    return status;
}
