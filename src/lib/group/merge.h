// merge.h: combines results to which several pieces contribute, once all pieces are done. The store
// functions write them to the caller's memory, after everything that can fail.
#ifndef CLATTN_GROUP_MERGE_H
#define CLATTN_GROUP_MERGE_H
#include "group/piece.h"

// merge.c: attention's partial results, in the order of their keys.
clattn_status cla_merge_pieces(group_call *c);
void cla_merge_store(const group_call *c);
void cla_pieces_sort(group_call *c); // by their boxes' positions
void cla_put_number(const clattn_tensor *t, int64_t element, float x);

// sum.c: gradients of rows and keys to which several pieces contribute, in the order of the pieces.
clattn_status cla_sum_pieces(group_call *c);
void cla_sum_store(const group_call *c);
#endif
