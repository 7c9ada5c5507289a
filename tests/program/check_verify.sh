#!/bin/sh
# `clattn verify`: the hard cases with the kernel variants that device suites cover least, or with
# all variants if CLATTN_THOROUGH=on. The suite `case` has the planner's choice and unfused, and the
# suites linear and layer have linear-lanes. The suites hostile run with most variants.
#
#   check_verify.sh BUILD [half]
#
# half: without decode-rows-16, which the suite `pages` also runs, and without linear-tiles, which
# Oclgrind runs. Emulations of matrix engines are compiled unoptimised (driver.sh), because
# optimising them tests nothing about the engines.
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
