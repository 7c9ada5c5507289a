// piece.h: a piece of a group's call: a box of it on one device. slice.c makes it, run.c brings it to its device and back.
#ifndef CLATTN_GROUP_PIECE_H
#define CLATTN_GROUP_PIECE_H
#include "group/group.h"

#define GROUP_PARTS GROUP_RULES

// One tensor of a piece: a box of the caller's memory, and where it lies in the piece's buffer.
typedef struct group_part {
    size_t field; // in group_params
    bool in, out;
    bool direct; // the box is contiguous in host memory, and lies as on the device
    bool beside; // in the piece's second buffer
    int rank;
    size_t element;
    char *host, *staged;            // staged: in the piece's host memory
    float *own;                     // owned; of a result that pieces share, in float32: `host` is this, dense
    int64_t first[CLATTN_MAX_RANK]; // of the whole, which the box begins with
    int64_t shape[CLATTN_MAX_RANK], host_stride[CLATTN_MAX_RANK], stride[CLATTN_MAX_RANK];
    uint64_t at, bytes; // in the buffer
} group_part;

struct piece {
    box box;
    int member;
    bool partial;      // some of its keys
    bool done, merged; // merged: its own out and lse are of all keys
    double work;
    group_params params; // of the device, whose views still lack their buffer
    group_part parts[GROUP_PARTS];
    int part_count;
    uint64_t bytes, workspace_bytes, bytes_in, bytes_out;
    // Of the second buffer, in which zero points of a past lie where their scales lie in the first.
    uint64_t beside_bytes;
    const clattn_host_memory *host;
    int32_t *arrays; // owned, as all below
    char *staging;
    cl_event events[2 * GROUP_PARTS + 1]; // of its copies to the device, its kernels, and its copies back
    int event_count;
};

// slice.c.
clattn_status cla_slice_check(group_call *c);
clattn_status cla_slice_make(const group_call *c, piece *p);
void cla_slice_pack(piece *p); // from the caller's memory to the staging
void cla_slice_bind(const group_op *op, piece *p, cl_mem buffer, cl_mem beside);
void cla_slice_unbind(const group_op *op, group_params *p); // views without memory, to plan with
group_part *cla_piece_own(piece *p, size_t field); // that of a result which pieces share; NULL: they do not
void cla_piece_release_events(piece *p);
void cla_piece_forget(piece *p); // what slice_make and a run took
void cla_piece_free(piece *p);
// When all is done: results that are one piece's into the caller's memory, which no call that fails has touched.
void cla_slice_unpack(const group_call *c);

// run.c: all pieces that are not done, each by its member; a member that fails has its status. Otherwise OK or CANCELLED.
clattn_status cla_run_pieces(group_call *c);
clattn_status cla_run_open(group_member *m);
void cla_run_close(group_member *m);
#endif
