#!/bin/sh
# clattn verify: the hard cases in the kernel variants that the device suites have least of; with CLATTN_THOROUGH=on in all.
# The planner's own choice and unfused are the suite `case`, linear-lanes the suites linear and layer; suites hostile
# run on most.   $1 build folder; $2 half: without decode-rows-16, a minute's compiling, which guard pages run, too
set -eu
clattn=$1/clattn
[ "${CLATTN_THOROUGH:-off}" = off ] || exec "$clattn" verify --cache-dir off
for variant in flash-matrix decode-rows-16 linear-rows linear-tiles linear-matrix; do
    [ "$variant ${2:-}" = "decode-rows-16 half" ] || "$clattn" verify --cache-dir off --only "$variant"
done
