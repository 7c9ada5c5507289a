#!/bin/sh
# clattn_torch with PyTorch and within transformers. A wheel of these sources is installed by pip,
# without any other part of this project.
#
#   check_torch.sh BUILD
#
# The build folder's own environment has 600 MB of packages from PyPI, 1.7 GB on disk.
# CLATTN_INSTALL=off creates none. CLATTN_TORCH=PYTHON is a Python with torch, and perhaps
# transformers. It uses the build folder's module, and nothing is installed.
set -eu
build=$(cd "$1" && pwd)
here=$build/torch
wrong() { echo "$1"; exit 1; }

# PyTorch's wheels are linked with gigabytes of CUDA libraries that are never used on a CPU.
# stand_in FOLDER creates one library that replaces all of them. It defines each function that
# torch's libraries in FOLDER import. They return 100, cudaErrorNoDevice.
stand_in() {
    nm -D --undefined-only "$1"/*.so 2>/dev/null | sed -nE 's/^ +[Uw] (_*(cu|nv|nccl)[A-Za-z0-9_]*)(@(.*))?$/\1 \4/p' | sort -u >"$here/names"
    sed -E -e 's/^([^ ]*Error(String|Name)) .*$/const char *\1(int status) { return status ? "there is no CUDA" : ""; }/' \
        -e 's/^([^ ]*) [^ ]*$/int \1(void) { return 100; }/' "$here/names" >"$here/stand_in.c"
    awk '{ of[$2] = of[$2] $1 "; " } END { for (v in of) print (v ? v : "unnamed") " { " of[v] "};" }' "$here/names" >"$here/stand_in.map"
    cc -shared -fPIC -w -fno-builtin "$here/stand_in.c" -o "$1/no_cuda.so" -Wl,--version-script="$here/stand_in.map"
    for name in $(readelf -d "$1"/*.so | sed -nE 's/.*NEEDED.*\[(lib(cu|nv|nccl)[^]]*)\]/\1/p' | sort -u); do
        [ -e "$1/$name" ] || ln -sf no_cuda.so "$1/$name"
    done
}

python=${CLATTN_TORCH:-$here/python/bin/python} own=$build
if [ -z "${CLATTN_TORCH:-}" ]; then
    own=
    fetch() { # $1 a file of requirements
        "$python" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary :all: --force-reinstall \
            -r "$1" >"$here/pip.log" 2>&1
    }
    mkdir -p "$here"
    if ! "$python" -c 'import torch, transformers, expecttest, mesonpy' 2>/dev/null; then
        [ "${CLATTN_INSTALL:-on}" = on ] || { echo "no Python here has torch, and CLATTN_INSTALL=off: CLATTN_TORCH=PYTHON names one"; exit 77; }
        rm -rf "$here/python"
        python3 -m venv "$here/python"
        if ! fetch tests/requirements/torch.txt; then
            if grep -q 'DO NOT MATCH THE HASHES' "$here/pip.log"; then wrong "what PyPI has is not what tests/requirements/torch.txt names"; fi
            echo "PyPI is not reachable, or has no torch for this machine"
            exit 77
        fi
        stand_in "$(echo "$here"/python/lib/python3*/site-packages/torch/lib)"
        "$python" -c 'import torch' || wrong "torch is not to be imported"
    fi
    rm -rf "$here/made"
    PATH=$here/python/bin:$PATH "$python" -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation \
        -w "$here/made" --config-settings=build-dir="$here/meson" --config-settings=setup-args=-Dtool=disabled . >"$here/wheel.log" 2>&1 ||
        { tail -n 20 "$here/wheel.log"; wrong "no wheel"; }
    wheel=$(echo "$here"/made/*.whl)
    echo "$wheel --hash=sha256:$(sha256sum "$wheel" | cut -d' ' -f1)" >"$here/wheel.txt"
    fetch "$here/wheel.txt" || { cat "$here/pip.log"; wrong "pip does not install the wheel"; }
fi
"$python" tests/source/check_porting.py || exit 1
"$python" -I tests/python/check_torch.py ${own:+"$own"} || exit 1
"$python" -I tests/python/check_torch_edges.py ${own:+"$own"} || exit 1
"$python" -I -c 'import transformers' 2>/dev/null || exit 0
"$python" -I tests/python/check_transformers.py ${own:+"$own"} || exit 1
"$python" tests/program/make_kinds.py
