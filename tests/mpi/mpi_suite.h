// mpi_suite.h: the parts of test_mpi beside calls that are compared with the reference.
#ifndef CLATTN_TESTS_MPI_SUITE_H
#define CLATTN_TESTS_MPI_SUITE_H
#include "mpi/mpi_shard.h"

void suite_plans(bool quick);
void suite_faults(void);
void suite_layers(bool quick);
#endif
