// ring.h: sends keys and values from rank to rank in pieces; see ring.c.
#ifndef CLATTN_MPI_RING_H
#define CLATTN_MPI_RING_H
#include "mpi/partial.h"

enum { RING_LANES = 2 }; // most spans of keys in a piece

// The pieces of all ranks, which every rank computes alike. The c-th pieces of all ranks go around
// the ring before the next ones.
typedef struct ring_pieces {
    int most;     // most pieces of a rank
    int64_t rows; // rows of the largest piece
    size_t bytes; // bytes of the largest piece
    span *spans;  // [ranks][most][RING_LANES]; missing spans have no rows
    int *hops;    // [ranks][most][RING_LANES]: how many ranks the span is passed on
    int *unsent;  // [ranks]: transfers that each rank saves, because no later rank needs the span
} ring_pieces;

// The part of an owner's c-th piece that reaches the rank `step` behind it. Spans that are not
// passed so far are left out.
typedef struct ring_load {
    const span *lanes[RING_LANES]; // NULL: the lane is not passed this far
    size_t at[RING_LANES], bytes;
    int64_t rows;
} ring_load;
ring_load cla_mpi_ring_load(const job *j, const ring_pieces *p, int owner, int c, int step);

// True if any row of the rank sees any of these keys.
bool cla_mpi_ring_sees(const job *j, int rank, const span *keys);

clattn_status cla_mpi_ring_lay(const job *j, ring_pieces *p);
void cla_mpi_ring_free(const job *j, ring_pieces *p);
// Run the job, from its second exchange on.
clattn_status cla_mpi_ring_run(job *j);
#endif
