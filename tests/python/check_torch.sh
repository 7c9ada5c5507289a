#!/bin/sh
# clattn_torch beside PyTorch, where a Python has it: the system's, or that of bench/peers.py's environment in the build folder, which takes
# gigabytes and is not made for this.   $1 build folder
set -eu
build=$(cd "$1" && pwd)
for python in ${CLATTN_TORCH:-} python3 "$build/peers/bin/python"; do
    if "$python" -c 'import numpy, torch' 2>/dev/null; then
        "$python" tests/source/check_porting.py || exit 1
        exec "$python" tests/python/check_torch.py "$build"
    fi
done
echo "no Python here has torch: bench/peers.py makes one, or CLATTN_TORCH=PYTHON names one"
exit 77
