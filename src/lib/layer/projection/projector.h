// projector.h: who multiplies a projection, CLBlast or clattn's own kernels: what the caller asks for, else the caller's
// rows, what was measured on the device, or the library's rows. Keeps what a context knows of it, and clears CLBlast
// when the context goes.
#ifndef CLATTN_LAYER_PROJECTION_PROJECTOR_H
#define CLATTN_LAYER_PROJECTION_PROJECTOR_H
#include "layer/projection/linear.h"

bool cla_projector_create(clattn_context *context);
void cla_projector_destroy(clattn_context *context);

// Decide who computes it, after cla_linear_choose. Runs nothing. Refuses where it would be CLBlast and the library has none.
// *why says what decided, in words that last.
clattn_status cla_projector_decide(clattn_context *context, linear *l, clattn_projection wanted, bool no_rows,
                                   const char **why);

// Whether both are to be measured (src/lib/measure.c): false, and nothing is held, where the answer is known and sure. Else others wait
// until the end, which tells the answer, NULL: there is none, and whether the cache folder keeps it.
bool cla_projector_begin_measuring(clattn_context *context);
void cla_projector_end_measuring(clattn_context *context, const projection_answer *answer, bool keep);

// A call of CLBlast failed with this status; and whether a call that may choose, and was about to use CLBlast, is to be
// done again without it.
void cla_projector_clblast_failed(clattn_context *context, clattn_status status);
bool cla_projector_falls_back(clattn_context *context, clattn_projection wanted, bool native);
#endif
