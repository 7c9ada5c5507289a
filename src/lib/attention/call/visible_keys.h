// visible_keys.h: how many keys the query rows of a call can see, from positions, window and
// lengths. Boolean masks are ignored. cl/call/items.clh computes the same on the device.
#ifndef CLATTN_ATTENTION_CALL_VISIBLE_KEYS_H
#define CLATTN_ATTENTION_CALL_VISIBLE_KEYS_H
#include "attention/call/call.h"

// Query rows, and new key rows, of sequence b of a ragged batch. If only the device knows them, the
// upper bound.
int cla_ragged_rows(const call *c, int b);
int cla_ragged_keys(const call *c, int b);

int cla_kv_max_length(const call *c, int b);  // upper bound on the keys of item b
int cla_kv_length(const call *c, int b);      // keys that item b has
int cla_call_keys(const call *c, int b);      // keys that this launch reads, from its first key on
int32_t cla_call_shift(const call *c, int b); // position of item b's row 0 among the keys

// Number of batch items with distinct host parameters: 1 if no host array varies by item, else B.
int cla_call_distinct_items(const call *c);

// cla_call_seen: keys that `rows` rows from `first` on see, summed over all rows and batch items,
// for one head. cla_call_row_keys: upper bound on the keys of one row.
double cla_call_seen(const call *c, int first, int rows);
double cla_call_seen_of(const call *c, int b, int first, int rows); // for item b only
// As cla_call_seen_of, but only the keys in [first_key, end_key).
double cla_call_seen_in(const call *c, int b, int first, int rows, double first_key, double end_key);
double cla_call_row_keys(const call *c);
#endif
