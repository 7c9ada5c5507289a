#!/bin/sh
# ONNX Runtime with the library of custom operators: ONNX's own cases, com.microsoft's operators
# compared with ONNX Runtime's own kernels, refusals, threads, memory. Every case must fail if its
# expected numbers are changed.
#
#   check_onnxruntime.sh BUILD
#
# onnx and onnxruntime come from PyPI into an environment in the build folder.
set -eu
folder=$1/onnxruntime library=$1/libclattn-onnxruntime.so
python=$folder/python/bin/python
if [ ! -x "$folder/python/bin/pip" ] || ! "$python" -c 'import onnx, onnxruntime' 2>/dev/null; then
    python3 -m venv "$folder/python"
    "$folder/python/bin/pip" install -q --require-hashes --only-binary :all: -r tests/requirements/onnx.txt \
        -r tests/requirements/onnxruntime.txt >/dev/null 2>&1 || { echo "onnx and onnxruntime are not to be had"; exit 77; }
fi
mkdir -p "$folder/cache"
XDG_CACHE_HOME=$(cd "$folder/cache" && pwd) # ONNX Runtime also caches files there
export XDG_CACHE_HOME
# Run the lines of docs/onnxruntime.md with this library.
"$python" -B - "$(cd "$1" && pwd)" <<'PYTHON' || exit 1
import re, sys
import onnxruntime
options = onnxruntime.SessionOptions()
lines = re.search("^```python\n(.*?)^```", open("docs/onnxruntime.md").read(), re.M | re.S)[1].replace("/usr/lib/", sys.argv[1] + "/")
exec(lines.replace('"1"', '"0"'))  # the device that exists
assert lines.count("libclattn-onnxruntime.so") == 2 and any(d.ep_name == "clattn" for d in onnxruntime.get_ep_devices())
PYTHON
said=$(mktemp)
trap 'rm -f "$said"' EXIT
"$python" -B tests/onnx/onnxruntime_cases.py "$library" >"$said" 2>&1 || { cat "$said"; exit 1; }
cat "$said"
cases=$(sed -n 's/^counted: .*: \([0-9]*\) cases, 0 failed$/\1/p' "$said" | awk '{n += $1} END {print n + 0}')
[ "$cases" -ge 346 ] || { echo "$cases cases, at least 346 are wanted"; exit 1; }

status=0
"$python" -B tests/onnx/onnxruntime_cases.py "$library" wrong >"$said" 2>&1 || status=$?
[ $status = 1 ] || { cat "$said"; echo "wrong numbers: exit status $status, not 1"; exit 1; }
failed=$(sed -n 's/^counted: .*: \([0-9]*\) cases, \1 failed$/\1/p' "$said" | awk '{n += $1} END {print n + 0}')
[ "$failed" = "$cases" ] || { grep '^counted' "$said"; echo "of $cases cases with wrong numbers $failed fail"; exit 1; }
