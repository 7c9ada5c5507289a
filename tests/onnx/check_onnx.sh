#!/bin/sh
# ONNX's own cases of its attention operators, with every kernel family of the device, at ONNX's
# tolerance. A wrong case must fail, and so must a run without cases.
#
#   check_onnx.sh BUILD [intel]     intel: on Intel's CPU runtime, if build/intel has it
#
# onnx comes from PyPI into an environment in the build folder. Each compiled kernel runs with a
# part of the families, or with all if CLATTN_THOROUGH=on.
set -eu
build=$(cd "$1" && pwd)
folder=$build/onnx runtime=${2:-}
attend() {
    if [ "$runtime" = intel ]; then
        env OCL_ICD_VENDORS="$PWD/build/intel/intel.icd" LD_LIBRARY_PATH="$PWD/build/intel/libraries" "$build/tests/onnx_cases" "$@"
    else
        "$build/tests/onnx_cases" "$@"
    fi
}
if [ ! -x "$folder/python/bin/pip" ] || ! "$folder/python/bin/python" -c 'import onnx' 2>/dev/null; then
    python3 -m venv "$folder/python"
    "$folder/python/bin/pip" install -q --require-hashes --only-binary :all: -r tests/requirements/onnx.txt >/dev/null 2>&1 ||
        { echo "onnx is not to be had"; exit 77; }
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# needs this Python, which has ONNX's definition of the operator
"$folder/python/bin/python" tests/source/check_porting.py
"$folder/python/bin/python" tests/onnx/onnx_cases.py "$work" || { echo "onnx_cases.py failed"; exit 1; }
share=quick
[ "${CLATTN_THOROUGH:-off}" = off ] || share=
attend "$work" $share

# A folder without cases, and one whose first case has a mask that ONNX's case does not have.
mkdir "$work/none" "$work/wrong"
for other in none wrong; do cp "$work/cases.bin" "$work/$other/"; done
python3 - "$work" <<'PYTHON'
import json, sys
manifest = json.load(open(f"{sys.argv[1]}/cases.json"))
for name, cases in ("none", []), ("wrong", [dict(manifest["cases"][0], causal=True)]):
    json.dump(dict(manifest, cases=cases), open(f"{sys.argv[1]}/{name}/cases.json", "w"))
PYTHON
for other in none wrong; do
    status=0
    attend "$work/$other" quick >"$work/said" 2>&1 || status=$?
    [ $status = 1 ] || { cat "$work/said"; echo "$other: exit status $status, not 1"; exit 1; }
done
grep -q '^FAIL  test_attention_4d by ' "$work/said" || { cat "$work/said"; echo "the wrong case is not named"; exit 1; }
