#!/bin/sh
# clattn verify: the hard cases in the kernel variants that the device suites rarely run; with
# CLATTN_THOROUGH=on in all. Other suites have the other variants: case the kernel of the planner
# and unfused, linear and layer linear-lanes, hostile most of the rest. The emulation of matrix
# engines may be unoptimised (driver.sh). An optimiser's effect on it proves nothing about the
# engines.
#   $1 build folder; $2 half: without decode-rows-16, which guard pages also run, without
#   linear-tiles, which Oclgrind runs, and with the emulation unoptimised
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
