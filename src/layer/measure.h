// measure.h: which projection is faster on a CPU device, clattn's own or CLBlast's: both are run once, and
// the cache keeps the answer. Leaves out who is asked for and what rows a caller gives. Used by linear.c.
#ifndef CLATTN_LAYER_MEASURE_H
#define CLATTN_LAYER_MEASURE_H
#include "core/context.h"

// Make sure that planner.measured says what it can of the context's device. The first call on a device takes
// seconds, because CLBlast compiles. Nothing is measured without a cache folder, which could not keep the
// answer, without CLBlast, or on a device that is no CPU. A failure is no error: nothing is then known.
void cla_measure_projections(clattn_context *context);
#endif
