#!/bin/sh
# A program under mpirun with several numbers of ranks, one after the other, so that kernels are compiled once.   $1 program, $2... numbers
set -u
program=$1
shift
export POCL_MAX_PTHREAD_COUNT=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_mpi_yield_when_idle=1
# Open MPI's shared memory between processes that may not look into one another asks for no rights so.
export OMPI_MCA_btl_vader_single_copy_mechanism=none
status=0
for ranks in "$@"; do
    mpirun --oversubscribe -n "$ranks" "$program" || status=$?
done
exit $status
