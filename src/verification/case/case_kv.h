// case_kv.h: how a case stores its keys and values: in which types, as which numbers, in which buffers; in one pair of tensors, in
// past rows and new ones, or in pages; and the last ones given as rows to append (k_new, v_new), with NaN in the caches where they
// go. What is right stays what the whole keys say, so every case with such a token tests it, too.
#ifndef CLATTN_EVIDENCE_CASE_CASE_KV_H
#define CLATTN_EVIDENCE_CASE_CASE_KV_H

#include "verification/case/case_run.h"

// Lengths of the past and the block table, from the seed; then NaN in every row that no item has.
void case_kv_make(struct case_data *data);
void case_kv_hide(struct case_data *data);
void case_kv_free(struct case_data *data);
// Make the numbers of k and v what their type can hold, where that is not one element's affair; and those of matrices with scales.
void case_kv_store(struct case_data *data);
// A tensor's numbers as they are stored, and its scales beside it: arrays->kv_scales and kv_zeros [case_kv_scales(tensor)].
struct guarded case_kv_bind_scaled(const struct case_data *data, struct place *place, int tensor,
                                   struct case_arrays *arrays);
int case_kv_scales(int tensor);

// Put k and v, and what stands beside them, on the device and into the call; k and v are those of `keys`.
void case_kv_bind(const struct case_data *data, const struct case_data *keys, struct place *place,
                  struct case_arrays *arrays);
// The same as caches and new rows.
void case_kv_bind_append(const struct case_data *data, struct place *place, struct case_arrays *arrays);

#endif
