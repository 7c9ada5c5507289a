// packed.h: weights packed for linear_matrix.cl: their size, the launch that packs them, and the
// caller's clattn_packed.
#ifndef CLATTN_LAYER_PROJECTION_PACKED_H
#define CLATTN_LAYER_PROJECTION_PACKED_H
#include "layer/projection/linear.h"

// Words of a checked matrix. WORKSPACE_MOST if their bytes do not fit 64 bits.
uint64_t cla_packed_words(const clattn_tensor *w);
// View the words in a buffer, from byte `at` on.
clattn_tensor cla_packed_view(const clattn_tensor *w, cl_mem buffer, uint64_t at);

clattn_status cla_packed_prepare(clattn_context *context, const clattn_tensor *w);
clattn_status cla_packed_enqueue(chain *c, const clattn_tensor *w, const clattn_tensor *packed);

// The caller's packed weights as a view; no buffer if they are absent. Rejects weights that were
// not packed from this w on this device.
clattn_status cla_packed_check(clattn_context *context, const char *name, const clattn_packed *packed,
                               const clattn_tensor *w, clattn_tensor *view);
#endif
