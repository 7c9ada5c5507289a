// case_layer_cache.h: a layer that appends to a cache: y of such a case has rows of all keys, of which the call makes the last ones
// of each item, those that case_append.h counts; the others lie in the cache, made of y by clattn_layer_kv_enqueue. Without a width
// of y the new rows are x's: then y's rows there are what x has. What is right stays what a layer gives whose keys are made of y.
#ifndef CLATTN_EVIDENCE_CASE_CASE_LAYER_CACHE_H
#define CLATTN_EVIDENCE_CASE_CASE_LAYER_CACHE_H

#include "evidence/case/case_run.h"

// Whether there is one, and how wide y is then.
bool case_layer_appends(const struct test_case *test);
int64_t case_layer_width_y(const struct test_case *test);

// Whether its tokens fit together; NULL, or what does not.
const char *case_layer_cache_refusal(const struct test_case *test);

// x has the rows of y that it stands for.
void case_layer_cache_make(struct case_data *data);

// The caches, and the rows that are there already; rows that are to be appended, and those of no key, hold NaN. The call is bound.
void case_layer_cache_bind(const struct case_data *data, struct place *place, struct case_arrays *arrays);

#endif
