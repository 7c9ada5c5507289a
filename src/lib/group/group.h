// group.h: what a group holds, and a call of one while it runs. begin.c checks it, call.c deals the work, merge.c and sum.c put partial
// results together; its pieces are piece.h's, and op.h says what differs between attention and its gradients.
#ifndef CLATTN_GROUP_GROUP_H
#define CLATTN_GROUP_GROUP_H
#include "device/context.h"
#include "group/deal.h"
#include "group/op.h"

#define GROUP_MOST_MEMBERS 64
#define GROUP_SLOTS 3 // pieces that a device holds at once: one comes, one is computed, one goes
#define GROUP_KINDS                                                                                          \
    (4 * CLATTN_TYPE_COUNT) // few rows and many, of each storage type, of attention and of gradients

// The rate that a member was seen to have. Its first sample may have a compiler in it that a driver runs late: the second replaces it.
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
    cl_mem arena[GROUP_SLOTS], beside[GROUP_SLOTS]; // two buffers of a piece; kept for the next call
    uint64_t arena_bytes[GROUP_SLOTS], beside_bytes[GROUP_SLOTS];
    group_rate rate[GROUP_KINDS];
    // The call that runs:
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

// error.c: the line that clattn_group_last_error gives; returns the status.
clattn_status cla_group_fail(clattn_group *g, clattn_status status, const char *format, ...)
    PRINTF_LIKE(3, 4);
// The context's own line becomes the group's.
clattn_status cla_group_fail_as(clattn_group *g, clattn_status status, clattn_context *context);
// A member failed, and others do what it leaves.
void cla_group_tell(const clattn_group *g, int d);

typedef struct piece piece;

typedef struct group_call {
    clattn_group *group;
    const group_op *op;
    group_params host; // a copy without absent views; buffers are host memory
    clattn_deal deal;
    const double *shares;
    const clattn_progress *progress;
    call whole; // as a context checked and planned it
    deal_problem problem;
    deal_axis axis;
    double busy, work;
    bool empty;         // no query row sees a key: one device's
    bool nothing;       // nor is there anything else to do
    bool ragged, keeps; // some rows of the results are not written: the caller's come to the device first
    int kind;
    piece **pieces; // owned
    int count, room;
    int handed, merged;
    double done;
    float *sums[GROUP_RULES]; // owned, of results that pieces share: sum.c
} group_call;

// begin.c: check the call, and say what can be dealt of it; the operations of a box. Release c->whole in any case.
clattn_status cla_group_begin(group_call *c, bool planning);
double cla_group_work(group_call *c, const box *b);
#endif
