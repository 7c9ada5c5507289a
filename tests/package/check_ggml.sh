#!/bin/sh
# libggml-clattn, the backend that ggml loads: built for a llama.cpp of PyPI, beside that ggml's own CPU backend on the same nodes, and
# where there is no OpenCL.   $1 build folder; CLATTN_GGML=FOLDER holds a ggml (include, src) in place of PyPI's
set -eu
mkdir -p "$1/ggml"
here=$(cd "$1/ggml" && pwd)
wrong() { echo "$1"; exit 1; }
unreachable() {
    if grep -q 'DO NOT MATCH THE HASHES' "$here/pip.log"; then wrong "what PyPI has is not what tests/requirements/ggml.txt names"; fi
    echo "PyPI is not reachable"
    exit 77
}

# Sources have no name and version of their own before their build backend tells them: pip asks it, and builds nothing.
ggml=${CLATTN_GGML:-$here/sources/vendor/llama.cpp/ggml}
if [ ! -d "$ggml/src" ]; then
    [ -x "$here/python/bin/python" ] || python3 -m venv "$here/python"
    sed '/^llama-cpp-python/,+1d' tests/requirements/ggml.txt >"$here/tools.txt"
    grep -A 1 '^llama-cpp-python' tests/requirements/ggml.txt >"$here/sources.txt"
    pip() { "$here/python/bin/python" -m pip "$@" --quiet --disable-pip-version-check >"$here/pip.log" 2>&1; }
    pip install --require-hashes --only-binary :all: -r "$here/tools.txt" || unreachable
    pip download --require-hashes --no-deps --no-build-isolation -r "$here/sources.txt" -d "$here" || unreachable
    mkdir -p "$here/sources"
    tar xzf "$here"/llama_cpp_python-*.tar.gz -C "$here/sources" --strip-components=1
    rm "$here"/llama_cpp_python-*.tar.gz
fi

# ggml alone, as libraries and without a file that its sources on PyPI lack: it is a part of another project.
cat >"$here/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.18)
project(host C CXX)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY \${CMAKE_BINARY_DIR})
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY \${CMAKE_BINARY_DIR})
add_subdirectory("$ggml" ggml)
END
cmake -S "$here" -B "$here/libraries" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON -DGGML_BACKEND_DL=ON \
    -DGGML_NATIVE=OFF -DGGML_OPENMP=OFF >"$here/cmake.log" 2>&1 || { tail -n 5 "$here/cmake.log"; wrong "ggml is not configured"; }
ninja -C "$here/libraries" -j1 ggml ggml-cpu >"$here/ggml.log" 2>&1 || { tail -n 20 "$here/ggml.log"; wrong "ggml is not built"; }

[ -f "$here/clattn/build.ninja" ] || meson setup "$here/clattn" -Dwerror=true -Dtests=disabled -Dtool=disabled -Dmpi=disabled \
    -Dclblast=disabled -Dggml="$ggml,$here/libraries" >"$here/meson.log" 2>&1 || { tail -n 5 "$here/meson.log"; wrong "clattn is not configured"; }
ninja -C "$here/clattn" -j1 src/ggml/libggml-clattn.so >"$here/clattn.log" 2>&1 || { tail -n 20 "$here/clattn.log"; wrong "it is not built"; }
cc -std=c11 -O1 -Wall -Wextra -Werror -Wno-missing-field-initializers -D_POSIX_C_SOURCE=200809L -isystem "$ggml/include" \
    tests/package/ggml_host.c -o "$here/host" -L"$here/libraries" -lggml -lggml-base -lm -Wl,-rpath,"$here/libraries"

backend=$here/clattn/src/ggml/libggml-clattn.so
exported=$(nm -D --defined-only "$backend" | sed 's/.* //' | tr '\n' ' ')
[ "$exported" = "ggml_backend_init " ] || wrong "it exports $exported"
"$here/host" "$here/libraries/libggml-cpu.so" "$backend" || wrong "ggml_host: exit status $?"

# Without a device it is loaded, has none, and says so in one line.
mkdir -p "$here/empty"
if OCL_ICD_VENDORS="$here/empty/" "$here/host" "$here/libraries/libggml-cpu.so" "$backend" >"$here/out" 2>&1; then wrong "it has a device"; fi
[ "$(grep -c '^clattn: .*no OpenCL' "$here/out")" = 1 ] && [ "$(tail -n 1 "$here/out")" = "ggml_host: a device failed" ] ||
    { cat "$here/out"; wrong "without a device it does not say so in one line"; }
