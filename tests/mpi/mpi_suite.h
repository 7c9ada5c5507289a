// mpi_suite.h: what the files of test_mpi share: ranks, counts of checks, and the world of most of them.
#ifndef CLATTN_TESTS_MPI_SUITE_H
#define CLATTN_TESTS_MPI_SUITE_H
#include <clattn/mpi.h>

extern struct suite {
    clattn_mpi *world;
    int rank, ranks, checks, failures;
} suite;

// `good` must be the same on all ranks, or false on those where it failed.
void suite_check(bool good, const char *what, const char *why);
void suite_plans(void);
void suite_memory(bool quick);
void suite_faults(void);
void suite_layers(bool quick);
// So many calls of a covering array of options over sizes by chance.
void suite_random_calls(int count);
uint64_t suite_random(uint64_t *seed);
#endif
