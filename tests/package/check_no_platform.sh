#!/bin/sh
# Without any OpenCL platform, a program that links clattn runs, gets a status, and never crashes.
#
#   check_no_platform.sh BUILD
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cc -std=c11 -Wall -Werror -Iinclude tests/runtime/test_consumer.c -o "$work/consumer" -L"$1" -lclattn
OCL_ICD_VENDORS=$work/none LD_LIBRARY_PATH=$1 "$work/consumer" >"$work/out"
grep -q UNSUPPORTED "$work/out" || { cat "$work/out"; exit 1; }
status=0
OCL_ICD_VENDORS=$work/none "$1/clattn" devices >"$work/out" 2>"$work/error" || status=$?
[ $status = 1 ] || { echo "exit status $status instead of 1"; exit 1; }
grep -q 'no OpenCL platform' "$work/error" || { cat "$work/error"; exit 1; }
[ "$(wc -l <"$work/error")" = 1 ]
