// ragged.h: ragged batches: sequences of different lengths, packed back to back. The rest of the
// library treats them as a dense batch of the longest sequence, with lengths. Two things differ.
// The call's table (args.h) holds each sequence's first row. The grid has work-groups only for rows
// that exist. cl/call/items.clh is the device's part.
#ifndef CLATTN_ATTENTION_KV_RAGGED_H
#define CLATTN_ATTENTION_KV_RAGGED_H
#include <clattn/clattn.h>

#include "launch/chain.h"

struct call;

typedef struct ragged_batch {
    bool given;       // this batch is ragged; else all fields are 0
    bool on_device;   // the lengths are in device memory
    bool packed_keys; // keys and values are packed, else a dense batch
    // Number of sequences. Longest lengths, or the caller's bounds on them; keys include the past.
    int sequences, most_q, most_kv;
    int total_q, total_kv; // rows of the packed tensors
    // Owned memory: copies of the host's arrays, lengths, and the order of work.
    int32_t *words;
    int32_t *q_length, *kv_length, *order, *before; // parts of `words`
    // This call computes only sequences with from_rows to to_rows query rows. A second call
    // computes the others (ragged_decode.c).
    int from_rows, to_rows;
    int working;   // number of those sequences; `before` has one entry more
    cl_mem limits; // the host's part of a table that the device completes
} ragged_batch;

// Check which arrays and counts the caller passed, before the tensors are checked.
clattn_status cla_ragged_check_given(clattn_context *context, const clattn_attention_params *p);
// Reject a `sequences` of 0 next to cu_seqlens_q if there are packed rows: the caller forgot it.
clattn_status cla_ragged_check_count(clattn_context *context, const int32_t *cu_seqlens_q, int32_t sequences,
                                     int64_t rows);
// Check the views against each other, and the host arrays. Copies the host arrays unless
// `planning`.
clattn_status cla_ragged_check(struct call *c, bool planning);
// Check the lengths of clattn_score against those of the sequences.
clattn_status cla_ragged_take_lengths(struct call *c, bool planning);

// Sort the sequences by work (ragged_order.c), after planning and before the table is filled.
clattn_status cla_ragged_order(struct call *c);
// True if this call computes sequence b.
bool cla_ragged_has_work(const ragged_batch *r, int b);
// Number of query heads whose rows share a unit of work.
int cla_ragged_unit_heads(const struct call *c);

// One launch of the main kernel: its range of work-groups, and the keys that its rows see, summed,
// in one head. If the work exceeds the pace limit, each launch has sequences of similar cost, so
// that it can be cut further.
typedef struct ragged_part {
    int from, to; // range of `order`
    int64_t first_group, groups;
    double seen;
} ragged_part;
// Get the next launch. Start with a zeroed `part`. False after the last launch. `apart`: cut by
// cost.
bool cla_ragged_next(const struct call *c, bool apart, ragged_part *part);
#endif
