#!/bin/sh
# The Python module. Its structs are compared with a C compiler's, and its results with numpy's.
# Other checks cover its keywords, help and errors, its buffers, each function of the header, a
# decoder, and a layer that learns.
#
#   check_python.sh BUILD [some]     some: without the decoder
#
# If Python has no numpy, it is installed from PyPI into an environment in the build folder.
set -eu
build=$(cd "$1" && pwd)
python=python3
if ! python3 -c 'import numpy' 2>/dev/null; then
    python=$build/numpy/bin/python
    [ -x "$python" ] || python3 -m venv "$build/numpy"
    "$python" -c 'import numpy' 2>/dev/null ||
        "$python" -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r tests/requirements/numpy.txt
fi
for check in words python buffers calls; do "$python" "tests/python/check_$check.py" "$build"; done
[ "${2:-}" = some ] || "$python" tests/python/check_decoder.py "$build"
PYTHONPATH=$build "$python" tests/examples/train.py
