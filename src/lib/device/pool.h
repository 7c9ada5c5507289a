// pool.h: device memory that calls borrow from their context, so that repeated calls allocate no
// buffers. There is scratch memory, and small tables that the host writes. One call at a time
// borrows a buffer. The buffer is free again when no earlier command can still use it. For the same
// in-order queue that is at once. Otherwise it is after the last event of the earlier call.
// `chain.c` uses this, and returns everything when a call ends.
#ifndef CLATTN_DEVICE_POOL_H
#define CLATTN_DEVICE_POOL_H
#include "device/context.h"

// Limits of what a context keeps. A buffer beyond them serves one call. The least recently used
// buffer is released first.
#define POOL_TABLES 128
#define POOL_TABLE_BYTES ((uint64_t)8 << 20)
#define POOL_SCRATCHES 16
#define POOL_SCRATCH_BYTES ((uint64_t)512 << 20) // and at most an eighth of the device's memory

// Number of tables with different contents that are kept before one is overwritten.
#define POOL_KEPT_TABLES 8

typedef struct pool_slot {
    cl_mem buffer; // NULL: empty slot
    uint64_t bytes;
    void *words; // a table's contents on the host, which the writing command may still read
    size_t word_bytes;
    cl_event written;       // event of the command that reads `words`; NULL: that command has ended
    cl_command_queue queue; // the in-order queue whose commands use the buffer
    cl_event last;          // out-of-order queue: the last command that uses the buffer
    uint64_t used;          // time of last use, on the pool's clock
    bool held;              // borrowed
    bool spare;             // outside the shelves: for one call or one recording
    bool stale;             // `words` must still be written to the buffer
    struct pool_slot *next; // next slot that the same call has borrowed
} pool_slot;

// The borrower. OpenCL keeps a released queue alive until its commands have ended (OpenCL 1.2,
// clReleaseCommandQueue). So no new queue can have the same handle while such a command runs.
typedef struct pool_user {
    clattn_context *context;
    cl_command_queue queue;
    bool in_order;
} pool_user;

// `memory`: the size limit and the allocation functions. Copied.
bool cla_pool_create(clattn_context *context, const clattn_memory *memory);
// All commands that use the pool's buffers must have ended.
void cla_pool_destroy(clattn_context *context);

clattn_status cla_pool_scratch(const pool_user *user, uint64_t bytes, pool_slot **slot);
// Borrow a table that contains `words`. If slot->stale is set, the borrower must write slot->words
// to the buffer, store that command's event in slot->written, and clear `stale`.
clattn_status cla_pool_table(const pool_user *user, const void *words, size_t bytes, pool_slot **slot);

// A buffer outside the shelves, filled with `words` unless NULL. Returning it releases it.
clattn_status cla_pool_allocate_unpooled(clattn_context *context, uint64_t bytes, const void *words,
                                         pool_slot **slot);

// Return a borrowed slot. `ran`: commands that may use the buffer were enqueued. `last`: the event
// of the last of them on an out-of-order queue. The caller keeps its own reference.
void cla_pool_return(const pool_user *user, pool_slot *slot, bool ran, cl_event last);
#endif
