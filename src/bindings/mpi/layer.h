// layer.h: a layer with rows on several ranks, after its first exchange.
#ifndef CLATTN_MPI_LAYER_H
#define CLATTN_MPI_LAYER_H
#include "mpi/copy.h"

clattn_status cla_mpi_layer_rows(clattn_mpi *w, const clattn_mpi_layer_params *p, clattn_mpi_report *report);
#endif
