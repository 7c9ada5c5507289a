// case_layer.h: a layer's parts besides its projections: norms of q and k, a gate, keys and values
// computed by an earlier call, and appending to a cache.
//
// In a layer that appends, y has rows for all keys. The call computes the last rows of each item
// (case_append_count). The others are in the cache, computed from y by clattn_layer_kv_enqueue.
// Without a width of y, the new rows come from x, and y has the same rows there. The reference is a
// layer whose keys are all computed from y.
#ifndef CLATTN_VERIFICATION_CASE_CASE_LAYER_H
#define CLATTN_VERIFICATION_CASE_CASE_LAYER_H

#include "verification/case/case_run.h"
#include "verification/reference/reference.h"

// Copy the new rows of y to x, which provides them to the call.
void case_layer_make(struct case_data *data);

// Set norms and gate in the call, whose tensors are bound. case_layer_bind_ready computes keys and
// values now.
void case_layer_bind(const struct case_data *data, struct case_arrays *arrays);
void case_layer_bind_ready(const struct case_data *data, struct place *place, struct case_arrays *arrays);
// Bind the caches with the rows that they already have. Rows to append and unused rows contain NaN.
void case_layer_bind_append(const struct case_data *data, struct place *place, struct case_arrays *arrays);
void case_layer_unbind(struct case_arrays *arrays);
// True if nothing around keys and values changed.
bool case_layer_intact(const struct case_arrays *arrays, cl_command_queue queue);

// True if the reference must compute the whole layer.
bool case_layer_is_whole(const struct test_case *test);
void case_layer_reference(const struct case_data *data, struct reference_layer *layer);

#endif
