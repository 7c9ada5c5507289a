// case_shape.h: every size of a case: of its tensors, of an item's rows and keys, and where a key's row lies in them. Nothing here
// makes or binds anything.
#ifndef CLATTN_EVIDENCE_CASE_CASE_SHAPE_H
#define CLATTN_EVIDENCE_CASE_CASE_SHAPE_H

#include "verification/case/case_data.h"

// The tensor of a complete case; rank 0: the case has none.
struct guarded_shape case_shape(const struct test_case *test, int tensor);
// Bytes of all tensors on the device, and of the largest.
double case_bytes(const struct test_case *test, double *largest);

// Sizes of a projection's matrix: [out, in]; rows of the gate's matrix, 0: there is no gate.
int64_t case_matrix_rows(const struct test_case *test, int matrix);
int64_t case_matrix_columns(const struct test_case *test, int matrix);
int64_t case_gate_rows(const struct test_case *test);

// Whether the case has a past or pages, so that its keys do not all lie in one pair of tensors. The first and third size of k and v;
// blocks of an item's pages; the first size of past_k and past_v.
bool case_has_places(const struct test_case *test);
int64_t case_kv_batch(const struct test_case *test);
int64_t case_kv_rows(const struct test_case *test);
int64_t case_kv_blocks(const struct test_case *test);
int64_t case_past_batch(const struct test_case *test);

// How many keys of an item are past ones, how many it has, and how many there is room for.
int64_t case_places_past(const struct case_data *data, int64_t b);
int64_t case_places_keys(const struct case_data *data, int64_t b);
int64_t case_places_most(const struct case_data *data, int64_t b);
// The row of key j, or with `value` of its value, or NULL where there is none.
double *case_kv_row(const struct case_data *data, bool value, int64_t b, int64_t h, int64_t j);

// Where the new rows of item b begin among its keys, and how many they are.
int64_t case_append_start(const struct case_data *data, int64_t b);
int64_t case_append_count(const struct case_data *data, int64_t b);
// Whether a layer appends them, and how wide y is then.
bool case_layer_appends(const struct test_case *test);
int64_t case_layer_width_y(const struct test_case *test);

#endif
