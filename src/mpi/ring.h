// ring.h: keys and values travel from rank to rank in pieces; see ring.c.
#ifndef CLATTN_MPI_RING_H
#define CLATTN_MPI_RING_H
#include "mpi/partial.h"

// All ranks' pieces, as every rank lays them: the c-th piece of each goes once around before the next.
typedef struct ring_pieces {
    int most;     // of one rank
    int64_t rows; // of the largest
    span *spans;  // [ranks][most]; those that are not there have no rows
    int *hops;    // [ranks][most]: how many ranks behind its owner it reaches
} ring_pieces;

clattn_status cla_mpi_ring_lay(const job *j, ring_pieces *p);
void cla_mpi_ring_free(ring_pieces *p);
// Do the job's prefill so, from the second exchange on.
clattn_status cla_mpi_ring_run(job *j);
#endif
