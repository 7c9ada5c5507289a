// ways.h: the ways beside the ring, and who chooses. Each runs from the second exchange on.
#ifndef CLATTN_MPI_WAYS_H
#define CLATTN_MPI_WAYS_H
#include "mpi/ring.h"

clattn_status cla_mpi_gather_run(job *j);
clattn_status cla_mpi_heads_run(job *j);
// Why the way cannot be; NULL: it can.
const char *cla_mpi_heads_refusal(const job *j);
const char *cla_mpi_gather_refusal(const job *j);

// Rates that are not known yet, measured on all ranks: the slowest's.
bool cla_mpi_measured(const clattn_mpi *w);
clattn_status cla_mpi_measure(clattn_mpi *w);
// cost.c: what each way takes, by the rates; and the choice, rank 0's, in j->plan. UNSUPPORTED where the way asked for cannot be.
clattn_status cla_mpi_choose(job *j);
#endif
