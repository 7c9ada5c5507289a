// packed.h: weights packed for the kernels that take them so (linear_matrix.cl): how many words, the launch that packs them,
// the caller's clattn_packed.
#ifndef CLATTN_LAYER_PROJECTION_PACKED_H
#define CLATTN_LAYER_PROJECTION_PACKED_H
#include "layer/projection/linear.h"

// Words of a checked matrix; WORKSPACE_MOST where they are more than 64 bits count in bytes.
uint64_t cla_packed_words(const clattn_tensor *w);
// The words as a view of a buffer from a byte on.
clattn_tensor cla_packed_view(const clattn_tensor *w, cl_mem buffer, uint64_t at);

clattn_status cla_packed_prepare(clattn_context *context, const clattn_tensor *w);
clattn_status cla_packed_enqueue(chain *c, const clattn_tensor *w, const clattn_tensor *packed);

// The caller's packed weights of a checked w, as a view: no buffer where they are absent. Refuses what was not made for this w on this
// device.
clattn_status cla_packed_check(clattn_context *context, const char *name, const clattn_packed *packed,
                               const clattn_tensor *w, clattn_tensor *view);
#endif
