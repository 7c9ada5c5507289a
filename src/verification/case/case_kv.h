// case_kv.h: how a case stores its keys and values: types, rounding and buffers; in one pair of
// tensors, in past and new rows, or in pages. Appended rows are passed as k_new and v_new, with NaN
// in their place in the caches. The reference uses the whole keys, so every case with such a token
// verifies the storage as well.
#ifndef CLATTN_VERIFICATION_CASE_CASE_KV_H
#define CLATTN_VERIFICATION_CASE_CASE_KV_H

#include "verification/case/case_run.h"

// Generate lengths of the past and the block table from the seed. case_kv_hide then writes NaN to
// all rows that no item has.
void case_kv_make(struct case_data *data);
void case_kv_hide(struct case_data *data);
void case_kv_free(struct case_data *data);
// Round k, v and matrices with scales to values that their types can store, if that depends on more
// than one element.
void case_kv_store(struct case_data *data);
// Bind a tensor's stored numbers, and its scales in arrays->kv_scales and kv_zeros
// [case_kv_scales(tensor)].
struct guarded case_kv_bind_scaled(const struct case_data *data, struct place *place, int tensor,
                                   struct case_arrays *arrays);
int case_kv_scales(int tensor);

// Bind k, v and their companion tensors and set them in the call. The values are those of `keys`.
void case_kv_bind(const struct case_data *data, const struct case_data *keys, struct place *place,
                  struct case_arrays *arrays);
// As case_kv_bind, for caches and new rows.
void case_kv_bind_append(const struct case_data *data, struct place *place, struct case_arrays *arrays);

#endif
