// table.h: the call's device table, with one entry per batch item and one per head; args.h defines
// its words. The host fills the table. If lengths or sinks are on the device, a small kernel
// completes it. All memory is borrowed before the call's first command, because the pool must not
// wait for memory between commands.
#ifndef CLATTN_ATTENTION_CALL_TABLE_H
#define CLATTN_ATTENTION_CALL_TABLE_H
#include "attention/call/call.h"

// Word index at which the heads begin, at which the past lengths begin, and the size of the table
// in words.
typedef struct call_table_layout {
    size_t before_heads, before_past, all;
} call_table_layout;
call_table_layout cla_call_table_layout(const call *c);

// Allocate and fill the call's table, and the memory for the kernels that complete it. Does nothing
// if it exists. Valid until the chain ends.
clattn_status cla_call_table(call *c, chain *steps);
// Fill a table for a launch of `rows` query rows from `first` on. *table stays NULL if the call
// needs none.
clattn_status cla_call_table_of(const call *c, chain *steps, int first, int rows, cl_mem *table);

// Enqueue the kernel that completes the table from lengths on the device. Does nothing if the host
// knows all lengths.
clattn_status cla_ragged_enqueue(call *c, chain *steps);

// Copy the table with sinks_device added. The host's table is shared with other calls, so the
// kernel writes a copy, and *table becomes that copy. Borrow the memory before the first command.
// All three do nothing without sinks_device.
clattn_status cla_sinks_prepare(const call *c);
clattn_status cla_sinks_borrow(const call *c, chain *steps, cl_mem *to);
clattn_status cla_sinks_enqueue(const call *c, chain *steps, cl_mem to, cl_mem *table);

// Fill c->past_table: for RoPE, the positions of k's rows start at past_lengths[b].
clattn_status cla_kv_past_table(call *c, chain *steps);
#endif
