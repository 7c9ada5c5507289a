// case_kv.h: how a case stores its keys and values: in which types, as which numbers, in which buffers.
#ifndef CLATTN_EVIDENCE_CASE_CASE_KV_H
#define CLATTN_EVIDENCE_CASE_CASE_KV_H

#include "evidence/case/case_run.h"

// The words of the types that k and v may have, by clattn_type, ending with NULL; "-" is none.
extern const char *const case_kv_types[];

// Make the numbers of k and v what their type can hold, where that is not one element's affair.
void case_kv_store(struct case_data *data);

// A row as integers of i8, in place; returns their scale.
float case_kv_integers(double *row, int64_t size);

// Put k and v, and what stands beside them, on the device and into the call; k and v are those of `keys`.
void case_kv_bind(const struct case_data *data, const struct case_data *keys, struct place *place,
                  struct case_arrays *arrays);
// Of those the past alone, and where keys lie besides.
void case_kv_bind_past(const struct case_data *data, struct place *place, struct case_arrays *arrays);

#endif
