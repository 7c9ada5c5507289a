// case_layer.h: what a case has of a layer beyond its four projections: norms of q and k, a gate, keys and values that are
// made before.
#ifndef CLATTN_EVIDENCE_CASE_CASE_LAYER_H
#define CLATTN_EVIDENCE_CASE_CASE_LAYER_H

#include "evidence/case/case_run.h"
#include "evidence/reference/reference.h"

// One of the tensors from CASE_NORM to CASE_GATE_BIAS; rank 0: absent.
struct guarded_shape case_layer_shape(const struct test_case *test, int tensor);

// Rows of the gate's matrix; 0: there is no gate.
int64_t case_gate_rows(const struct test_case *test);

// Whether its tokens fit together; false: why[256].
bool case_layer_valid(const struct test_case *test, char why[256]);

// Put them into the call, whose tensors are bound. Keys and values of `ready` are made now.
void case_layer_bind(const struct case_data *data, struct place *place, struct case_arrays *arrays);
// What makes keys and values as the bound layer does; y, k and v are the caller's to say.
clattn_layer_kv_params case_layer_maker(const clattn_layer_params *layer);
void case_layer_make_ready(const struct case_data *data, struct place *place, struct case_arrays *arrays);
void case_layer_unbind(struct case_arrays *arrays);
// Whether nothing around the keys and values changed.
bool case_layer_intact(const struct case_arrays *arrays, cl_command_queue queue);

// Whether the reference has to make the layer whole.
bool case_layer_is_whole(const struct test_case *test);
void case_layer_reference(const struct case_data *data, struct reference_layer *layer);

#endif
