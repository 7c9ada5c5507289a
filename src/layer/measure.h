// measure.h: which projection is faster on a CPU device, clattn's own or CLBlast's: both are run once, and
// the cache keeps the answer. Leaves out who is asked for and what rows a caller gives. Used by projector.c.
#ifndef CLATTN_LAYER_MEASURE_H
#define CLATTN_LAYER_MEASURE_H
#include "layer/linear.h"

// Takes seconds where the cache has no answer, because CLBlast compiles. A failure is no error: nothing is then known.
projection_answer cla_measure_projections(clattn_context *context);
#endif
