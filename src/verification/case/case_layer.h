// case_layer.h: what a case has of a layer beyond its four projections: norms of q and k, a gate, keys and values that are
// made before; and a layer that appends to a cache. There y has rows of all keys, of which the call makes the last ones of each
// item (case_append_count); the others lie in the cache, made of y by clattn_layer_kv_enqueue. Without a width of y the new rows
// are x's: then y's rows there are what x has. What is right stays what a layer gives whose keys are made of y.
#ifndef CLATTN_EVIDENCE_CASE_CASE_LAYER_H
#define CLATTN_EVIDENCE_CASE_CASE_LAYER_H

#include "verification/case/case_run.h"
#include "verification/reference/reference.h"

// x has the rows of y that it stands for.
void case_layer_make(struct case_data *data);

// Put norms and gate into the call, whose tensors are bound. Keys and values of `ready` are made now.
void case_layer_bind(const struct case_data *data, struct case_arrays *arrays);
void case_layer_bind_ready(const struct case_data *data, struct place *place, struct case_arrays *arrays);
// The caches, and the rows that are there already; rows that are to be appended, and those of no key, hold NaN.
void case_layer_bind_append(const struct case_data *data, struct place *place, struct case_arrays *arrays);
void case_layer_unbind(struct case_arrays *arrays);
// Whether nothing around the keys and values changed.
bool case_layer_intact(const struct case_arrays *arrays, cl_command_queue queue);

// Whether the reference has to make the layer whole.
bool case_layer_is_whole(const struct test_case *test);
void case_layer_reference(const struct case_data *data, struct reference_layer *layer);

#endif
