// seen.h: which keys the rows of a call see by their position and by lengths, whatever a boolean mask says. The device's half is
// cl/call/items.clh.
#ifndef CLATTN_ATTENTION_CALL_SEEN_H
#define CLATTN_ATTENTION_CALL_SEEN_H
#include "attention/call/call.h"

// Query rows of a sequence, and new rows of keys of a sequence, of packed ones: those it has, or, where the host does not know,
// the most.
int cla_ragged_rows(const call *c, int b);
int cla_ragged_keys(const call *c, int b);

int cla_kv_most(const call *c, int b);        // keys of an item at most
int cla_kv_length(const call *c, int b);      // and those that it has
int cla_call_keys(const call *c, int b);      // the same of the launch, counted from its first key on
int32_t cla_call_shift(const call *c, int b); // position of an item's row 0 among the keys

// Batch items that the host tells apart: all, or, where no array in host memory has a number of each, the first, whom the others
// are like.
int cla_call_items_apart(const call *c);

// Keys that rows see: of `rows` rows from `first` on in all batch items, together, in one head; and of a row that sees the most,
// at most.
double cla_call_seen(const call *c, int first, int rows);
double cla_call_seen_of(const call *c, int b, int first, int rows); // in one of them
// The same of the keys from first_key to before end_key.
double cla_call_seen_in(const call *c, int b, int first, int rows, double first_key, double end_key);
double cla_call_row_keys(const call *c);
#endif
