// table.h: the call's table, whose words args.h lays out: what differs from batch item to batch item and from head to head. The
// host fills it; where lengths or sinks lie on the device a small kernel completes it there. All that a call borrows it borrows
// before its first command: asking whether something may be lent again must not come between its commands.
#ifndef CLATTN_ATTENTION_CALL_TABLE_H
#define CLATTN_ATTENTION_CALL_TABLE_H
#include "attention/call/call.h"

// Its words: of batch items, and where those of heads, then of the past, begin.
typedef struct call_words {
    size_t before_heads, before_past, all;
} call_words;
call_words cla_call_words(const call *c);

// The table and memory for what completes it, where the call has one and it is not there yet, until the chain ends.
clattn_status cla_call_table(call *c, chain *steps);
// The table of a launch of the rows from `first` on, so many, which it counts from 0; NULL where there is none.
clattn_status cla_call_table_of(const call *c, chain *steps, int first, int rows, cl_mem *table);

// Lengths on the device: the command that makes the table of them. Nothing where there are none.
clattn_status cla_ragged_enqueue(call *c, chain *steps);

// Sinks on the device: memory for a table with them, before the first command; and what makes *table one, which it then is.
// Tables of the host are kept for other calls, so it is a copy that the kernel writes. Nothing where there are none.
clattn_status cla_sinks_prepare(const call *c);
clattn_status cla_sinks_borrow(const call *c, chain *steps, cl_mem *to);
clattn_status cla_sinks_enqueue(const call *c, chain *steps, cl_mem to, cl_mem *table);

// The rows of a table of RoPE that count k's rows from past_lengths on, instead of the call's.
clattn_status cla_kv_past_table(call *c, chain *steps);
#endif
