// case_places.h: cases whose keys do not all lie in one pair of tensors: past rows and new ones, or pages. Tensors, tables and
// lengths of it, and where a row is.
#ifndef CLATTN_EVIDENCE_CASE_CASE_PLACES_H
#define CLATTN_EVIDENCE_CASE_CASE_PLACES_H

#include "evidence/case/case_run.h"
#include "evidence/reference/reference.h"

// Whether the case has a past or pages; of k and v, the sizes of their first and third axis.
bool case_has_places(const struct test_case *test);
int64_t case_kv_batch(const struct test_case *test);
int64_t case_kv_rows(const struct test_case *test);
// Of past_k and past_v; 0: none.
int64_t case_past_batch(const struct test_case *test);

// Whether what the name says of them fits together; false: why[256].
bool case_places_valid(const struct test_case *test, char why[256]);

// Lengths of the past and the block table, from the seed; then NaN in every row that no item has.
void case_places_make(struct case_data *data);
void case_places_hide(struct case_data *data);
void case_places_free(struct case_data *data);

// What the reference needs of them.
struct reference_places case_places_of(const struct case_data *data);

// How many keys of an item are past ones; and how many it has.
int64_t case_places_past(const struct case_data *data, int64_t b);
int64_t case_places_keys(const struct case_data *data, int64_t b);

// The row of key j, or with `value` of its value, or NULL where there is none.
double *case_kv_row(const struct case_data *data, bool value, int64_t b, int64_t h, int64_t j);

// Give past lengths and block table to the call.
void case_places_bind(const struct case_data *data, struct place *place, struct case_arrays *arrays);

#endif
