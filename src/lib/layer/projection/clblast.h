// clblast.h: the one way to CLBlast, whose module is loaded when it is first needed. Without it (meson -Dclblast=disabled, or
// where the module is not found) the same functions say so.
#ifndef CLATTN_LAYER_PROJECTION_CLBLAST_H
#define CLATTN_LAYER_PROJECTION_CLBLAST_H
#include "launch/chain.h"
#include "layer/projection/clblast_module.h"

// Whether there is one; looked for once a context. A line at CLATTN_LOG_INFO tells what was found or looked for.
bool cla_clblast_available(clattn_context *context);

// UNSUPPORTED, with a line that says why there is none.
clattn_status cla_clblast_refuse(clattn_context *context);

// y[rows, columns] = x[rows, inner] w[columns, inner]^T, onto the chain.
clattn_status cla_clblast_multiply(chain *c, const matrix *x, const matrix *w, const matrix *y,
                                   const int64_t size[3]);

// CLBlast keeps programs of every cl_context that it has seen, for the whole process. Leave: drop them all, if this
// context has used CLBlast and is the last that did. Hand over: another context on the same cl_context does that later.
void cla_clblast_leave(clattn_context *context);
void cla_clblast_hand_over(clattn_context *from, clattn_context *to);
#endif
