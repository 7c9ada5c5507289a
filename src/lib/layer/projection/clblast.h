// clblast.h: the library's only interface to CLBlast, whose module is loaded when first needed.
// Without CLBlast (meson -Dclblast=disabled, or no module found) the same functions report that.
#ifndef CLATTN_LAYER_PROJECTION_CLBLAST_H
#define CLATTN_LAYER_PROJECTION_CLBLAST_H
#include "launch/chain.h"
#include "layer/projection/clblast_module.h"

// True if CLBlast is available. Each context looks once, and logs at CLATTN_LOG_INFO what it looked
// for and found.
bool cla_clblast_available(clattn_context *context);

// Returns UNSUPPORTED and logs why there is no CLBlast.
clattn_status cla_clblast_refuse(clattn_context *context);

// Enqueue y[rows, columns] = x[rows, inner] w[columns, inner]^T on the chain.
clattn_status cla_clblast_multiply(chain *c, const matrix *x, const matrix *w, const matrix *y,
                                   const int64_t size[3]);

// CLBlast caches programs of every cl_context for the whole process. `leave` drops them all if this
// context is the last one that has used CLBlast. `hand_over` makes another context on the same
// cl_context responsible for that.
void cla_clblast_leave(clattn_context *context);
void cla_clblast_hand_over(clattn_context *from, clattn_context *to);
#endif
