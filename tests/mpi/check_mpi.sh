#!/bin/sh
# Runs a program under mpirun with several numbers of ranks, one after another, so that kernels are
# compiled once.
#
#   check_mpi.sh PROGRAM ARGUMENT RANKS...
#
# RANKS: "mixed" runs two ranks on the default driver and two on Intel's CPU runtime, if INTEL, a
# folder like build/intel, has it.
set -u
program=$1 argument=$2
shift 2
export POCL_MAX_PTHREAD_COUNT=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_mpi_yield_when_idle=1
# These settings of Open MPI's shared memory work without the right to read another process's
# memory.
export OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_btl=^tcp
command -v mpirun >/dev/null || { echo "no mpirun: install openmpi-bin"; exit 77; }
status=0
for ranks in "$@"; do
    if [ "$ranks" = mixed ]; then
        [ -s "${INTEL:-build/intel}/intel.icd" ] || { echo "no Intel CPU runtime in ${INTEL:-build/intel}"; [ $# = 1 ] &&
            exit 77; continue; }
        export CLATTN_TEST_MIXED=1
        mpirun --oversubscribe -n 2 "$program" "$argument" : -n 2 env "OCL_ICD_VENDORS=${INTEL:-build/intel}/intel.icd" \
            "LD_LIBRARY_PATH=${INTEL:-build/intel}/libraries" CL_CONFIG_CPU_TBB_NUM_WORKERS=1 "$program" "$argument" || status=$?
    else
        unset CLATTN_TEST_MIXED
        mpirun --oversubscribe -n "$ranks" "$program" "$argument" || status=$?
    fi
done
exit $status
