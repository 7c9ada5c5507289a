#!/bin/sh
# The Python module: its structs compared with a C compiler's, its keywords, help and errors, and
# its calls compared with NumPy. Also its buffers, each function of the header, a decoder, and a
# layer that learns. If Python has no NumPy, it is installed from PyPI into the build folder's own
# environment.
#   $1 build folder; $2 some: the decoder only with float32 weights
set -eu
build=$(cd "$1" && pwd)
python=python3
if ! python3 -c 'import numpy' 2>/dev/null; then
    python=$build/numpy/bin/python
    [ -x "$python" ] || python3 -m venv "$build/numpy"
    "$python" -c 'import numpy' 2>/dev/null ||
        "$python" -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r tests/requirements/numpy.txt
fi
for check in words python buffers calls decoder; do
    "$python" "tests/python/check_$check.py" "$build" $([ "$check" != decoder ] || echo "${2:-}")
done
PYTHONPATH=$build "$python" tests/examples/train.py
