#!/bin/sh
# clattn verify: the hard cases in the kernel variants that the device suites have least of; with
# CLATTN_THOROUGH=on in all. The planner's own choice and unfused are the suite `case`, linear-lanes
# the suites linear and layer; suites hostile run on most.   $1 build folder; $2 half: without
# decode-rows-16, which guard pages run, too, without linear-tiles, which Oclgrind runs, and the
# emulation of matrix engines unoptimised (driver.sh): what an optimiser makes of it says nothing of
# the engines
set -eu
clattn=$1/clattn
[ "${CLATTN_THOROUGH:-off}" = off ] || exec "$clattn" verify --cache-dir off
for variant in flash-matrix decode-rows-16 linear-rows linear-tiles linear-matrix; do
    how=
    case ${2:-}:$variant in
    half:decode-rows-16 | half:linear-tiles) continue ;;
    half:*-matrix) how=${plainly:-} ;;
    esac
    # shellcheck disable=SC2086
    env $how "$clattn" verify --cache-dir off --only "$variant"
done
