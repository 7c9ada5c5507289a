#!/bin/sh
# Two OpenCL runtimes in one group against the better one alone: prefill and decode, in turns, from host memory to host memory. The
# devices are CPU runtimes on one machine, so that each gets half of the cores, and the better one alone has its half: what a group
# adds is then the other half.   $1 build folder, $2 folder with the .icd files of both, $3 results (JSON; default none)
#   POCL_MAX_PTHREAD_COUNT and DPCPP_CPU_NUM_CUS say how many threads each has; default half of the cores.
#   Intel's runtime then computes on the thread that calls alone: 93 to 98 % of its CPU time (/proc/PID/task, two cores), 57 % without.
set -eu
half=$(($(nproc) / 2))
[ "$half" -ge 1 ] || half=1
export OCL_ICD_VENDORS="$2/" POCL_MAX_PTHREAD_COUNT="${POCL_MAX_PTHREAD_COUNT:-$half}" DPCPP_CPU_NUM_CUS="${DPCPP_CPU_NUM_CUS:-$half}"
export CL_CONFIG_CPU_TBB_NUM_WORKERS="${CL_CONFIG_CPU_TBB_NUM_WORKERS:-$DPCPP_CPU_NUM_CUS}"
cases=attend-f32-b1-h12-n1024-d64-full,attend-f32-b1-h12-n2048-d64-causal,attend-f32-b1-h16-n4096-d128-full
cases=$cases,attend-bf16-b1-h12-n2048-d64-causal,attend-f32-b1-h8-n128-nkv8192-d64-full
exec "$1/clattn" bench --devices 0,1 --max-ms "${MAX_MS:-4000}" ${3:+--save "$3"} --case $cases
