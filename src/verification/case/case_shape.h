// case_shape.h: all sizes of a case: of tensors, of an item's rows and keys, and the place of a
// key's row. Nothing here allocates or binds.
#ifndef CLATTN_VERIFICATION_CASE_CASE_SHAPE_H
#define CLATTN_VERIFICATION_CASE_CASE_SHAPE_H

#include "verification/case/case_data.h"

// The shape of a tensor of a complete case; rank 0: the case does not have it.
struct guarded_shape case_shape(const struct test_case *test, int tensor);
// Bytes of all tensors on the device, and of the largest tensor.
double case_bytes(const struct test_case *test, double *largest);

// Rows and columns of a projection's matrix [out, in]; rows of the gate's matrix, 0: no gate.
int64_t case_matrix_rows(const struct test_case *test, int matrix);
int64_t case_matrix_columns(const struct test_case *test, int matrix);
int64_t case_gate_rows(const struct test_case *test);

// case_has_places: true if the case has a past or pages, so that its keys are not all in k and v.
// Then: sizes 0 and 2 of k and v; blocks of an item's pages; size 0 of past_k and past_v.
bool case_has_places(const struct test_case *test);
int64_t case_kv_batch(const struct test_case *test);
int64_t case_kv_rows(const struct test_case *test);
int64_t case_kv_blocks(const struct test_case *test);
int64_t case_past_batch(const struct test_case *test);

// The number of past keys of an item, of all its keys, and of the keys that fit.
int64_t case_places_past(const struct case_data *data, int64_t b);
int64_t case_places_keys(const struct case_data *data, int64_t b);
int64_t case_places_most(const struct case_data *data, int64_t b);
// Returns the row of key j or, with `value`, the row of its value; NULL: there is none.
double *case_kv_row(const struct case_data *data, bool value, int64_t b, int64_t h, int64_t j);

// The index of item b's first appended key, and the number of appended keys.
int64_t case_append_start(const struct case_data *data, int64_t b);
int64_t case_append_count(const struct case_data *data, int64_t b);
// True if a layer appends them; and the width of y in that case.
bool case_layer_appends(const struct test_case *test);
int64_t case_layer_width_y(const struct test_case *test);

#endif
