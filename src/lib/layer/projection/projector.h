// projector.h: chooses between CLBlast and clattn's own kernels for each projection. The order is:
// the caller's choice, the caller's tuned rows, a measurement on the device, the library's tuned
// rows. Stores a context's measurements and failures, and releases CLBlast with the context.
#ifndef CLATTN_LAYER_PROJECTION_PROJECTOR_H
#define CLATTN_LAYER_PROJECTION_PROJECTOR_H
#include "layer/projection/linear.h"

bool cla_projector_create(clattn_context *context);
void cla_projector_destroy(clattn_context *context);

// Choose after cla_linear_choose; nothing is run. Rejects CLBlast if it is not available. *why is
// the reason, a static text.
clattn_status cla_projector_decide(clattn_context *context, linear *l, clattn_projection wanted, bool no_rows,
                                   const char **why);

// Begin a measurement (src/lib/measure.c). Returns false if a sure answer is known; then there is
// nothing to end. Otherwise other threads wait until the end, which receives the answer (NULL:
// none). `keep`: store the answer in the cache.
bool cla_projector_begin_measuring(clattn_context *context);
void cla_projector_end_measuring(clattn_context *context, const projection_answer *answer, bool keep);

// Record that a CLBlast call failed with `status`.
void cla_projector_clblast_failed(clattn_context *context, clattn_status status);
// True if a failed call, with the choice `wanted`, is to be repeated without CLBlast.
bool cla_projector_falls_back(clattn_context *context, clattn_projection wanted, bool native);
#endif
