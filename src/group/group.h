// group.h: what a group holds, and a call of one while it runs. begin.c checks it, call.c deals the work, slice.c
// makes a piece of it, run.c brings pieces to their devices and back, merge.c puts partial results together.
#ifndef CLATTN_GROUP_GROUP_H
#define CLATTN_GROUP_GROUP_H
#include "attention/call/call.h"
#include "device/context.h"
#include "group/deal.h"

#define GROUP_MOST_MEMBERS 64
#define GROUP_SLOTS 3 // pieces that a device holds at once: one comes, one is computed, one goes
#define GROUP_PARTS 32
#define GROUP_KINDS (2 * CLATTN_TYPE_COUNT) // few rows and many, of each storage type

// What a member was seen to do. Its first sample may have a compiler in it that a driver runs late: the second takes its place.
typedef struct group_rate {
    double ops; // operations a second; 0: not known
    int samples;
    int idle; // calls since it had work last: after GROUP_MOST_IDLE it is tried again
} group_rate;
#define GROUP_MOST_IDLE 16

typedef struct group_member {
    clattn_context *context;
    uint64_t max_bytes, largest;         // of all buffers, of one
    cl_command_queue queue[GROUP_SLOTS]; // in order: a piece's copies and kernels need no events to wait for
    cl_mem arena[GROUP_SLOTS];           // kept for the next call
    uint64_t arena_bytes[GROUP_SLOTS];
    group_rate rate[GROUP_KINDS];
    // Of the call that runs:
    clattn_status status; // why it does no more
    int slots;
    uint64_t first_ns, last_ns; // of its commands, by its clock; 0: none
    double timed_work;
    clattn_group_share share;
} group_member;

struct clattn_group {
    clattn_log log;
    clattn_host_memory host; // its first context's
    os_mutex lock;           // one call at a time
    os_mutex error_lock;
    bool locks_ready;
    char last_error[1024];
    int count;
    group_member members[GROUP_MOST_MEMBERS];
};

clattn_status cla_group_fail(clattn_group *g, clattn_status status, const char *format, ...)
    PRINTF_LIKE(3, 4);
// The context's own line becomes the group's.
clattn_status cla_group_fail_as(clattn_group *g, clattn_status status, clattn_context *context);
// A member failed, and others do what it leaves.
void cla_group_tell(const clattn_group *g, int d);

// One tensor of a piece: a box of the caller's memory, and where it lies in the piece's buffer.
typedef struct group_part {
    size_t field; // in clattn_attention_params
    bool in, out;
    bool direct; // the box is contiguous in host memory, and lies as on the device
    int rank;
    size_t element;
    char *host, *staged; // staged: in the piece's host memory
    int64_t shape[CLATTN_MAX_RANK], host_stride[CLATTN_MAX_RANK], stride[CLATTN_MAX_RANK];
    uint64_t at, bytes; // in the buffer
} group_part;

typedef struct piece {
    box box;
    int member;
    bool partial;      // some of its keys: results are `out` and `lse` below
    bool done, merged; // merged: `out` and `lse` are of all keys
    double work;
    clattn_attention_params params; // of the device, whose views still lack their buffer
    group_part parts[GROUP_PARTS];
    int part_count;
    uint64_t bytes, workspace_bytes, bytes_in, bytes_out;
    const clattn_host_memory *host;
    int32_t *arrays;  // owned, as all below
    float *out, *lse; // [b, h, i, Dv] and [b, h, i] of its box
    char *staging;
    cl_event events[2 * GROUP_PARTS + 1]; // of its copies to the device, its kernels, and its copies back
    int event_count;
} piece;

typedef struct group_call {
    clattn_group *group;
    const clattn_group_attention_params *params;
    clattn_attention_params host; // a copy without absent views; buffers are host memory
    call whole;                   // as a context checked and planned it
    deal_problem problem;
    deal_axis axis;
    double busy, work;
    bool ragged, keeps; // some rows of the results are not written: the caller's come to the device first
    int kind;
    piece **pieces; // owned
    int count, room;
    int handed, merged;
    double done;
} group_call;

// begin.c: check the call, and say what can be dealt of it; the operations of a box. Release c->whole in any case.
clattn_status cla_group_begin(group_call *c, bool planning);
double cla_group_work(group_call *c, const box *b);

// slice.c. The table of tensors knows every view of the call, else UNSUPPORTED.
clattn_status cla_slice_check(group_call *c);
clattn_status cla_slice_make(const group_call *c, piece *p);
void cla_slice_pack(piece *p); // from the caller's memory to the staging
void cla_slice_bind(piece *p, cl_mem buffer);
void cla_slice_unbind(clattn_attention_params *p); // views without memory, to plan with
// When all is done: results into the caller's memory, which no call that fails has touched.
void cla_slice_store_all(const group_call *c);

// run.c: all pieces that are not done, each by its member; a member that fails has its status. Otherwise OK or CANCELLED.
clattn_status cla_run_pieces(group_call *c);
clattn_status cla_run_open(group_member *m);
void cla_run_close(group_member *m);
void cla_piece_forget(piece *p); // what slice_make and a run took
void cla_piece_free(piece *p);

// merge.c: the partial results, by the order of their keys.
clattn_status cla_merge_pieces(group_call *c);
#endif
