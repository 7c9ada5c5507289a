// past.h: shared by operators with a cache of keys and values.
#ifndef CLATTN_ONNXRUNTIME_PAST_H
#define CLATTN_ONNXRUNTIME_PAST_H
#include "onnxruntime/call.h"

// Write the output `index`, [B, Hkv, P + N, D]: the past's rows, then those of `rows`, a view [B,
// Hkv, N, D] of `data`. The past's data may be NULL. Does nothing if the node leaves out the
// output.
void past_join(struct call *call, size_t index, const struct array *past, const clattn_tensor *rows,
               const void *data);

// Set past_k and past_v if the node has the inputs `index` and index + 1. Returns their number of
// rows.
int64_t past_bind(struct call *call, size_t index, struct array past[2], clattn_kv *kv);

#endif
