// ring.h: keys and values travel from rank to rank in pieces; see ring.c.
#ifndef CLATTN_MPI_RING_H
#define CLATTN_MPI_RING_H
#include "mpi/partial.h"

enum { RING_LANES = 2 }; // spans of keys in a piece

// All ranks' pieces, as every rank lays them: the c-th piece of each goes once around before the next.
typedef struct ring_pieces {
    int most;     // of one rank
    int64_t rows; // of the largest
    size_t bytes; // likewise
    span *spans;  // [ranks][most][RING_LANES]; those that are not there have no rows
    int *hops;    // [ranks][most][RING_LANES]: how many ranks behind its owner it reaches
    int *unsent;  // [ranks]: hops that nobody behind needed, by the rank that would have sent
} ring_pieces;

// The part of an owner's c-th piece that reaches the rank `step` behind it; spans that go no further are left out.
typedef struct ring_load {
    const span *lanes[RING_LANES]; // NULL: left out
    size_t at[RING_LANES], bytes;
    int64_t rows;
} ring_load;
ring_load cla_mpi_ring_load(const job *j, const ring_pieces *p, int owner, int c, int step);

// Whether any row of a rank sees any of these keys.
bool cla_mpi_ring_sees(const job *j, int rank, const span *keys);

clattn_status cla_mpi_ring_lay(const job *j, ring_pieces *p);
void cla_mpi_ring_free(const job *j, ring_pieces *p);
// Do the job's prefill so, from the second exchange on.
clattn_status cla_mpi_ring_run(job *j);
#endif
