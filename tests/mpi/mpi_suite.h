// mpi_suite.h: the parts of test_mpi that are not comparisons with the reference.
#ifndef CLATTN_TESTS_MPI_SUITE_H
#define CLATTN_TESTS_MPI_SUITE_H
#include "mpi/mpi_shard.h"

// Check a call's status, and the world's one-line error message.
void suite_expect(clattn_status got, clattn_status want, const char *says, const char *what);
extern long suite_sent; // number of large messages since the last reset
void suite_plans(bool quick);
void suite_faults(void);
void suite_layers(bool quick);
#endif
