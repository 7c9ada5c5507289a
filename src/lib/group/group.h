// group.h: a group, and a running call of it.
//    begin.c           checks the call
//    call.c            partitions the work
//    merge.c, sum.c    combine partial results
//    piece.h           the pieces of a call
//    op.h              the differences between attention and its gradients
#ifndef CLATTN_GROUP_GROUP_H
#define CLATTN_GROUP_GROUP_H
#include "device/context.h"
#include "group/partition.h"
#include "group/op.h"

#define GROUP_MOST_MEMBERS 64
// Pieces on a device at once: one is copied in, one computes, one is copied out.
#define GROUP_SLOTS 3
#define GROUP_KINDS                                                                                          \
    (4 * CLATTN_TYPE_COUNT) // for every storage type: few or many rows; attention or its gradients

// A member's measured rate. The second sample replaces the first, which may include a driver's late
// compilation.
typedef struct group_rate {
    double ops; // operations a second; 0: unknown
    int samples;
    int idle; // calls since it last had work; the rate is forgotten after GROUP_MOST_IDLE
} group_rate;
#define GROUP_MOST_IDLE 16

typedef struct group_member {
    clattn_context *context;
    uint64_t max_bytes, largest;         // most bytes of all buffers, and of one buffer
    cl_command_queue queue[GROUP_SLOTS]; // in-order, so a piece's copies and kernels need no events
    cl_mem arena[GROUP_SLOTS], beside[GROUP_SLOTS]; // two buffers of a piece; kept for later calls
    uint64_t arena_bytes[GROUP_SLOTS], beside_bytes[GROUP_SLOTS];
    group_rate rate[GROUP_KINDS];
    // Fields of the running call:
    clattn_status status; // not OK: the member does no more work in this call
    int slots;
    // start and end of this member's commands, on the device's clock; 0: none
    uint64_t first_ns, last_ns;
    double timed_work;
    clattn_group_share share;
} group_member;

struct clattn_group {
    clattn_log log;
    clattn_host_memory host; // allocation functions of the first member's context
    os_mutex lock;           // serialises calls
    os_mutex error_lock;
    bool locks_ready;
    char last_error[1024];
    int count;
    group_member members[GROUP_MOST_MEMBERS];
};

// Record an error for clattn_group_last_error (error.c). Returns the status.
clattn_status cla_group_fail(clattn_group *g, clattn_status status, const char *format, ...)
    PRINTF_LIKE(3, 4);
// Record the context's last error as the group's.
clattn_status cla_group_fail_as(clattn_group *g, clattn_status status, clattn_context *context);
// Log that a member failed and others do its work.
void cla_group_tell(const clattn_group *g, int d);

typedef struct piece piece;

typedef struct group_call {
    clattn_group *group;
    const group_op *op;
    group_params host; // a copy in which absent views are cleared; buffers are host memory
    clattn_partition partition;
    const double *shares;
    const clattn_progress *progress;
    call whole; // the whole call, checked and planned by one member
    partition_problem problem;
    partition_axis axis;
    double busy, work;
    bool empty;   // no query row sees a key: one device runs the call
    bool nothing; // there is nothing to compute or append
    // keeps: some rows of the results are not written, so the caller's are first copied to the
    // device.
    bool ragged, keeps;
    int kind;
    piece **pieces; // owned by the call
    int count, room;
    int handed, merged;
    double done;
    float *sums[GROUP_RULES]; // owned; sums of results to which several pieces contribute (sum.c)
} group_call;

// begin.c: check the call and describe it for partitioning. The caller must release c->whole, also
// after an error. The second function returns the operations in a box.
clattn_status cla_group_begin(group_call *c, bool planning);
double cla_group_work(group_call *c, const box *b);
#endif
