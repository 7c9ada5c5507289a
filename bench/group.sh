#!/bin/sh
# Measure two OpenCL runtimes in one group against the faster one alone: prefill and decode,
# interleaved, from host memory to host memory. The runtimes are for CPUs of one machine, and each
# has half of the cores. The group thus adds the other half.
#
#    $1 build folder
#    $2 folder with the .icd files of both
#    $3 file for results (JSON; default none)
#    POCL_MAX_PTHREAD_COUNT and DPCPP_CPU_NUM_CUS set the threads of each; default half the cores
#
# CL_CONFIG_CPU_TBB_NUM_WORKERS makes Intel's runtime compute only on the calling thread.
set -eu
half=$(($(nproc) / 2))
[ "$half" -ge 1 ] || half=1
export OCL_ICD_VENDORS="$2/" POCL_MAX_PTHREAD_COUNT="${POCL_MAX_PTHREAD_COUNT:-$half}" DPCPP_CPU_NUM_CUS="${DPCPP_CPU_NUM_CUS:-$half}"
export CL_CONFIG_CPU_TBB_NUM_WORKERS="${CL_CONFIG_CPU_TBB_NUM_WORKERS:-$DPCPP_CPU_NUM_CUS}"
cases=attend-f32-b1-h12-n1024-d64-full,attend-f32-b1-h12-n2048-d64-causal,attend-f32-b1-h16-n4096-d128-full
cases=$cases,attend-bf16-b1-h12-n2048-d64-causal,attend-f32-b1-h8-n128-nkv8192-d64-full
exec "$1/clattn" bench --devices 0,1 --max-ms "${MAX_MS:-4000}" ${3:+--save "$3"} --case $cases
