// pool.h: device memory that calls borrow from their context, so that a call like one before it creates no buffer:
// scratch memory, and small tables that the host writes. A buffer is lent to one call at a time, and again to a command
// queue where nothing that used it can still be running: to the same in-order queue at once, to any other when the last
// event of an out-of-order call is complete. Used by chain.c, which gives everything back when a call ends.
#ifndef CLATTN_DEVICE_POOL_H
#define CLATTN_DEVICE_POOL_H
#include "device/context.h"

// The most that a context keeps. More is made for one call, and the longest unused goes first.
#define POOL_TABLES 128
#define POOL_TABLE_BYTES ((uint64_t)8 << 20)
#define POOL_SCRATCHES 16
#define POOL_SCRATCH_BYTES ((uint64_t)512 << 20) // and at most an eighth of the device's memory

// Tables of different contents that are kept before one of them is written anew.
#define POOL_KEPT_TABLES 8

typedef struct pool_slot {
    cl_mem buffer; // NULL: an empty place
    uint64_t bytes;
    void *words; // of a table: what it holds, or what a command is reading meanwhile
    size_t word_bytes;
    cl_event written;       // of the command that reads `words`; NULL: it is done
    cl_command_queue queue; // the in-order queue whose commands use it
    cl_event last;          // of an out-of-order queue: the last command that does
    uint64_t used;          // when, by the pool's clock
    bool held;              // lent
    bool spare;             // on no shelf: made for one call, or for a recording
    bool stale;             // the words are not in the buffer yet, and nobody writes them
    struct pool_slot *next; // what the same call has borrowed
} pool_slot;

// The borrower. A handle names a queue until all its commands are done, so that the handle of a released queue is nobody
// else's while one of them runs (OpenCL 1.2, clReleaseCommandQueue).
typedef struct pool_user {
    clattn_context *context;
    cl_command_queue queue;
    bool in_order;
} pool_user;

// `memory`: how much, and who makes the buffers; copied.
bool cla_pool_create(clattn_context *context, const clattn_memory *memory);
// Its commands are done.
void cla_pool_destroy(clattn_context *context);

clattn_status cla_pool_scratch(const pool_user *user, uint64_t bytes, pool_slot **slot);
// A table that holds these words, or, where it is stale, one that does when the borrower has written slot->words to it: the
// event of that goes to slot->written, and it is stale no more.
clattn_status cla_pool_table(const pool_user *user, const void *words, size_t bytes, pool_slot **slot);

// A buffer of so many bytes that is on no shelf, a table where there are words. Giving it back releases it.
clattn_status cla_pool_apart(clattn_context *context, uint64_t bytes, const void *words, pool_slot **slot);

// Give one back. `ran`: commands that may use it were enqueued; `last` is the newest one's event on an out-of-order queue,
// and stays the caller's.
void cla_pool_return(const pool_user *user, pool_slot *slot, bool ran, cl_event last);
#endif
