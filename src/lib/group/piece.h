// piece.h: a piece of a group's call: one box on one device. slice.c makes the piece. run.c copies
// it to its device, runs it, and copies results back.
#ifndef CLATTN_GROUP_PIECE_H
#define CLATTN_GROUP_PIECE_H
#include "group/group.h"

#define GROUP_PARTS GROUP_RULES

// One tensor of a piece: a box of the caller's memory, and its place in the piece's buffer.
typedef struct group_part {
    size_t field; // offset in group_params
    bool in, out;
    bool direct; // the box is contiguous in host memory and has the device's layout
    bool beside; // the part is in the piece's second buffer
    int rank;
    size_t element;
    char *host, *staged; // staged: in the piece's host memory
    // Owned float32 result of this piece, dense, if other pieces contribute to the same result.
    // `host` then points to it.
    float *own;
    int64_t first[CLATTN_MAX_RANK]; // index of the box's first element in the whole tensor
    int64_t shape[CLATTN_MAX_RANK], host_stride[CLATTN_MAX_RANK], stride[CLATTN_MAX_RANK];
    uint64_t at, bytes; // place in the piece's buffer
} group_part;

struct piece {
    box box;
    int member;
    bool partial;      // the piece has only some of the keys
    bool done, merged; // merged: `own` has the results over all keys
    double work;
    group_params params; // for the device; views have no buffer yet
    group_part parts[GROUP_PARTS];
    int part_count;
    uint64_t bytes, workspace_bytes, bytes_in, bytes_out;
    // Size of the second buffer. It stores zero points of a past at the offsets that their scales
    // have in the first buffer.
    uint64_t beside_bytes;
    const clattn_host_memory *host;
    int32_t *arrays; // owned, like all fields below
    char *staging;
    // Events of the copies to the device, the kernels and the copies back.
    cl_event events[2 * GROUP_PARTS + 1];
    int event_count;
};

// slice.c:
clattn_status cla_slice_check(group_call *c);
clattn_status cla_slice_make(const group_call *c, piece *p);
void cla_slice_pack(piece *p); // copy from the caller's memory to the staging
void cla_slice_bind(const group_op *op, piece *p, cl_mem buffer, cl_mem beside);
// Set all views' buffers to NULL, so that the parameters can be planned without memory.
void cla_slice_unbind(const group_op *op, group_params *p);
// The part with `own` for this field; NULL: no other piece contributes.
group_part *cla_piece_own(piece *p, size_t field);
void cla_piece_release_events(piece *p);
void cla_piece_forget(piece *p); // release what cla_slice_make and a run allocated
void cla_piece_free(piece *p);
// When all pieces are done: copy results that belong to one piece to the caller's memory. A call
// that fails never gets here.
void cla_slice_unpack(const group_call *c);

// Run all unfinished pieces, each on its member (run.c). A member that fails gets an error status.
// Returns OK or CANCELLED.
clattn_status cla_run_pieces(group_call *c);
clattn_status cla_run_open(group_member *m);
void cla_run_close(group_member *m);
#endif
