// partial.h: the result of this rank's rows as it grows: the first part is written in place, each later one merged into it by the
// library's merge in float32, in the order in which parts come. Rows without a part are empty.
#ifndef CLATTN_MPI_PARTIAL_H
#define CLATTN_MPI_PARTIAL_H
#include "mpi/copy.h"

typedef struct partial {
    job *j;
    const span *q; // the rows, in parts that have positions of their own
    int q_count;
    span whole;  // where positions do not matter: one part
    bool *begun; // [q_count]
    int *parts;  // [q_count]: how many there will be
    clattn_tensor out, lse;
    cl_mem out_memory, lse_memory, part_memory, part_lse_memory; // NULL: the caller's own, or not needed
    int32_t *arrays;
    bool sinkless;  // sinks are another rank's
    int calls;      // so far: rows of numbers of mods are in this order
    cl_event event; // of the last command
    size_t bytes;
} partial;

// `q`: spans of this rank. `most` bounds the calls that cla_mpi_partial_expect will be told of.
clattn_status cla_mpi_partial_open(partial *a, job *j, const span_list *q, int most);
// Keys that will be added, in that order: plans and compiles, so that adding them does not fail. NULL views: of another rank.
clattn_status cla_mpi_partial_expect(partial *a, const span *keys, const clattn_tensor views[PIECE_PARTS]);
// Take what the parts need, once all are expected.
clattn_status cla_mpi_partial_ready(partial *a);
bool cla_mpi_partial_sees(const partial *a, const span *keys);
// Enqueue what the rows see of these keys.
clattn_status cla_mpi_partial_add(partial *a, const span *keys, const clattn_tensor views[PIECE_PARTS]);
// Enqueue rows that saw nothing; and then the way to the caller's tensors.
clattn_status cla_mpi_partial_empty(partial *a);
clattn_status cla_mpi_partial_end(partial *a);
void cla_mpi_partial_close(partial *a);
// Convert float32 rows to the caller's out and lse, but for rows past a length.
// `ahead`: compile what that takes, alone.
clattn_status cla_mpi_deliver(job *j, const clattn_tensor *out, const clattn_tensor *lse, int32_t *arrays,
                              bool ahead);
#endif
