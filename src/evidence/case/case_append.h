// case_append.h: the last keys and values of each item of a case, given as k_new and v_new, with caches that hold NaN where
// they go. What is right stays what the whole keys say, so every case with the token tests the append, too.
#ifndef CLATTN_EVIDENCE_CASE_CASE_APPEND_H
#define CLATTN_EVIDENCE_CASE_CASE_APPEND_H

#include "evidence/case/case_run.h"

// Where the new rows of item b begin among its keys, and how many they are.
int64_t case_append_start(const struct case_data *data, int64_t b);
int64_t case_append_count(const struct case_data *data, int64_t b);

// Replace the keys and values of bound arrays by caches and new rows.
void case_append_bind(const struct case_data *data, struct place *place, struct case_arrays *arrays);

#endif
