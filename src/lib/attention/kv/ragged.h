// ragged.h: sequences of different lengths, packed one behind the other. To the rest of the library they are a dense batch of
// the longest, with lengths; what differs is where a sequence's rows lie, which the call's table says (args.h), and the
// grid, which has work-groups for rows that exist. The device's half is cl/call/items.clh.
#ifndef CLATTN_ATTENTION_KV_RAGGED_H
#define CLATTN_ATTENTION_KV_RAGGED_H
#include <clattn/clattn.h>

#include "launch/chain.h"

struct call;

typedef struct ragged_batch {
    bool given;       // else everything here is 0
    bool on_device;   // the host does not know lengths
    bool packed_keys; // keys and values are packed, too; else they are a dense batch
    int sequences, most_q,
        most_kv;           // how many, and the longest, or the caller's bounds of them; keys with their past
    int total_q, total_kv; // rows of the packed tensors
    int32_t *words;        // owned: copies of the host's arrays, lengths, and the order of the work
    int32_t *q_length, *kv_length, *order, *before; // parts of it
    int from_rows,
        to_rows;   // sequences of that many rows have work in this call: the others have a call of their own
    int working;   // sequences that have work: entries of order, and one more of before
    cl_mem limits; // the host's part of a table that is made on the device
} ragged_batch;

// Check which of its arrays and numbers are given, before the tensors are looked at.
clattn_status cla_ragged_check_given(clattn_context *context, const clattn_attention_params *p);
// A count of 0 beside an array on the host is one that the caller forgot, where there are packed rows.
clattn_status cla_ragged_check_count(clattn_context *context, const int32_t *cu_seqlens_q, int32_t sequences,
                                     int64_t rows);
// Check the views against one another, and the arrays on the host, which are copied where the call will run.
clattn_status cla_ragged_check(struct call *c, bool planning);
// Then the lengths of clattn_score, which are within those of the sequences.
clattn_status cla_ragged_take_lengths(struct call *c, bool planning);

// The order of the work (ragged_order.c), once it is planned; before the table is filled. Whether a sequence of it has work in this
// call; query heads whose rows share a unit of work.
clattn_status cla_ragged_order(struct call *c);
bool cla_ragged_has_work(const ragged_batch *r, int b);
int cla_ragged_unit_heads(const struct call *c);

// A launch of the main kernel: its groups of the call's, and what its rows see, together, in one head. Where the work is more
// than `most`, sequences whose groups cost about the same have one of their own, which may be cut further.
typedef struct ragged_part {
    int from, to; // of the order
    int64_t first_group, groups;
    double seen;
} ragged_part;
// The first is made of zeros; false behind the last.
bool cla_ragged_next(const struct call *c, bool apart, ragged_part *part);
#endif
