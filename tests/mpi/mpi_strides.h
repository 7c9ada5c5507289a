// mpi_strides.h: tests which last strides tensors may have, for each way to distribute rows.
#ifndef CLATTN_TESTS_MPI_STRIDES_H
#define CLATTN_TESTS_MPI_STRIDES_H
#include <stdbool.h>

void suite_strides(bool quick);
#endif
