// ways.h: all_to_all and all_gather, from the second exchange on, and the choice of a way. ring.h
// has the third way.
#ifndef CLATTN_MPI_WAYS_H
#define CLATTN_MPI_WAYS_H
#include "mpi/ring.h"

clattn_status cla_mpi_gather_run(job *j);
clattn_status cla_mpi_heads_run(job *j);
// Why the strategy is impossible for this job; NULL: it is possible.
const char *cla_mpi_heads_refusal(const job *j);
const char *cla_mpi_gather_refusal(const job *j);

// Measure the unknown rates on all ranks. The slowest rank's are used.
bool cla_mpi_measured(const clattn_mpi *w);
clattn_status cla_mpi_measure(clattn_mpi *w);
// Predict each way's time and let rank 0 choose, into j->plan (cost.c). UNSUPPORTED if the caller's
// strategy is impossible.
clattn_status cla_mpi_choose(job *j);
#endif
