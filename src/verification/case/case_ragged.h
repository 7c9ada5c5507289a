// case_ragged.h: pack the batch items of a case into a ragged batch: each item has its length, and
// unused rows are NaN. The reference is the result of the dense batch.
#ifndef CLATTN_VERIFICATION_CASE_CASE_RAGGED_H
#define CLATTN_VERIFICATION_CASE_CASE_RAGGED_H

#include "verification/case/case_run.h"

// The packed case: q, k, v, out and lse have one batch item. A case that is not ragged is returned
// itself. Free the result with case_ragged_free.
const struct case_data *case_ragged_pack(const struct case_data *data);
void case_ragged_free(const struct case_data *data, const struct case_data *packed);
// True if the tensor is packed. Keys may be a dense batch instead.
bool case_ragged_has(const struct test_case *test, int tensor);

// True if there are unused rows between the sequences, which lengths exclude.
bool case_ragged_has_gaps(const struct test_case *test);

// Pack rows [B, heads, n, width] as queries or keys to [heads, total, width], with NaN in unused
// rows. The caller frees the result.
double *case_ragged_rows(const struct case_data *data, bool queries, const double *from, int64_t heads,
                         int64_t n, int64_t width);
int64_t case_ragged_total(const struct case_data *data, bool queries);

// Set cu_seqlens in the bound call, and lengths if sequences have unused rows.
void case_ragged_bind(const struct case_data *data, struct place *place, struct case_arrays *arrays);

void case_ragged_bind_layer(const struct case_data *data, struct place *place, struct case_arrays *arrays);

// Unpack a result with `width` values a row to the layout of a dense batch; frees `packed`. Sets
// *intact to false if an unused row changed.
double *case_ragged_unpack(const struct case_arrays *arrays, double *packed, int64_t width, bool *intact);
// As case_ragged_unpack, for a gradient of queries or keys: rows past a length become 0.
double *case_ragged_unpack_gradient(const struct case_arrays *arrays, bool queries, double *packed,
                                    int64_t width, bool *intact);

#endif
