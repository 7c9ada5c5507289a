// parts.c: an attention call between a layer's projections: its q, keys and values, or those that it appends, and out are
// parts of a workspace, which are laid out, and whose buffer is known, after the call was checked.
#include "attention/call/call.h"

void cla_call_move(call *c, clattn_tensor *const parts[4]) {
    clattn_kv *kv = &c->params.kv;
    const bool appends = cla_kv_appends(kv); // then the parts are appended to k and v
    clattn_tensor *const own[] = {&c->params.q, appends ? &kv->k_new : &kv->k, appends ? &kv->v_new : &kv->v,
                                  &c->params.out};
    args_view *const views[] = {&c->args.q, &c->args.k, &c->args.v, &c->args.out};
    for (int i = 0; i < 4; i++) {
        own[i]->offset = parts[i]->offset;
        if (!appends || i == 0 || i == 3) views[i]->offset = parts[i]->offset;
    }
}

void cla_call_bind(call *c, cl_mem workspace) {
    c->q = c->params.q.buffer = workspace;
    if (cla_kv_appends(&c->params.kv)) {
        c->params.kv.k_new.buffer = c->params.kv.v_new.buffer = workspace;
    } else {
        c->k = c->params.kv.k.buffer = workspace;
        c->v = c->params.kv.v.buffer = workspace;
    }
    c->params.out.buffer = workspace;
    c->params.workspace = workspace;
}

void cla_call_bind_kv(call *c, const clattn_kv *kv) {
    c->k = c->params.kv.k.buffer = kv->k.buffer;
    c->v = c->params.kv.v.buffer = kv->v.buffer;
}
