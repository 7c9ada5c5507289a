#!/bin/sh
# clattn verify: the hard cases in the kernel variants that the device suites rarely run; with
# CLATTN_THOROUGH=on in all. The suite case has the kernel of the planner, and unfused. The suites
# linear and layer have linear-lanes, and the suites hostile most others. $1 is the build folder. $2
# half: without decode-rows-16, which guard pages also run, and linear-tiles, which Oclgrind runs.
# The emulation of matrix engines is then unoptimised (driver.sh). An optimiser's effect on it
# proves nothing about the engines.
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
