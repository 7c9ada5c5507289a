// past.h: what operators with a cache of keys and values share.
#ifndef CLATTN_ONNXRUNTIME_PAST_H
#define CLATTN_ONNXRUNTIME_PAST_H
#include "onnxruntime/call.h"

// The output `index`, [B, Hkv, P + N, D]: the rows of past, whose data may be NULL, and behind them those of `rows`, a view
// [B, Hkv, N, D] of `data`. Nothing where the node does not want it.
void past_join(struct call *call, size_t index, const struct array *past, const clattn_tensor *rows,
               const void *data);

// Sets past_k and past_v where the node has them as inputs `index` and the next. Returns how many rows they have.
int64_t past_bind(struct call *call, size_t index, struct array past[2], clattn_kv *kv);

#endif
