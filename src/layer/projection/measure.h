// measure.h: which projection is faster on a device, clattn's own or CLBlast's: both are run in turn, and the cache
// folder keeps the answer. Leaves out who is asked for and what rows a caller gives. Used by projector.c.
#ifndef CLATTN_LAYER_PROJECTION_MEASURE_H
#define CLATTN_LAYER_PROJECTION_MEASURE_H
#include "layer/projection/linear.h"

// What the cache folder keeps; a file is read, nothing is run.
projection_answer cla_measure_kept(clattn_context *context);

// Run both and keep the answer. Takes seconds, because CLBlast compiles. Not OK: not even its buffers were there. One that
// does not run is no failure: it loses.
clattn_status cla_measure_projections(clattn_context *context, projection_answer *answer);
#endif
