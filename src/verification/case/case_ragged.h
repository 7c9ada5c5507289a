// case_ragged.h: the batch items of a case as sequences of a ragged batch: those of a dense case, of the lengths that it says,
// packed one behind the other, with NaN in every row that is none's. What is right stays what a dense batch gives.
#ifndef CLATTN_EVIDENCE_CASE_CASE_RAGGED_H
#define CLATTN_EVIDENCE_CASE_CASE_RAGGED_H

#include "verification/case/case_run.h"

// The case whose q, k, v, out and lse are the packed ones: one batch item. free with case_ragged_free; a case that is not
// ragged is itself.
const struct case_data *case_ragged_pack(const struct case_data *data);
void case_ragged_free(const struct case_data *data, const struct case_data *packed);
// Whether a tensor is that one's; keys may be a dense batch.
bool case_ragged_has(const struct test_case *test, int tensor);

// Whether there are rows between its sequences, which lengths leave out.
bool case_ragged_has_gaps(const struct test_case *test);

// Rows of an item, [B, heads, n, width], packed as queries are, or as keys, [heads, total, width]; NaN between them. free().
double *case_ragged_rows(const struct case_data *data, bool queries, const double *from, int64_t heads,
                         int64_t n, int64_t width);
int64_t case_ragged_total(const struct case_data *data, bool queries);

// Give the call of bound arrays its cu_seqlens; and lengths, where a sequence's rows are more than that.
void case_ragged_bind(const struct case_data *data, struct place *place, struct case_arrays *arrays);

void case_ragged_bind_layer(const struct case_data *data, struct place *place, struct case_arrays *arrays);

// Values of `width` a row that were read from a packed result, as of a dense one; they are freed. False in *intact where a row
// changed that is no sequence's.
double *case_ragged_unpack(const struct case_arrays *arrays, double *packed, int64_t width, bool *intact);
// The same of a gradient of queries, or of keys: 0 in rows that the dense batch has past a length.
double *case_ragged_unpack_gradient(const struct case_arrays *arrays, bool queries, double *packed,
                                    int64_t width, bool *intact);

#endif
