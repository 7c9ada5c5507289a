#!/bin/sh
# libggml-clattn, the backend that ggml loads, built for a llama.cpp of PyPI. It is compared with
# ggml's own CPU backend on the same nodes, runs a whole model through llama.cpp's C API and through
# llama-cpp-python, and is loaded without OpenCL.
#
#   check_ggml.sh BUILD     CLATTN_GGML=FOLDER uses a ggml (include, src) instead of PyPI's, without
#                           a whole model
set -eu
mkdir -p "$1/ggml"
here=$(cd "$1/ggml" && pwd)
wrong() { echo "$1"; exit 1; }
unreachable() {
    if grep -q 'DO NOT MATCH THE HASHES' "$here/pip.log"; then wrong "what PyPI has is not what tests/requirements/ggml.txt names"; fi
    echo "PyPI is not reachable"
    exit 77
}

# pip must run a source package's build backend to learn its name and version, but builds nothing.
ggml=${CLATTN_GGML:-$here/sources/vendor/llama.cpp/ggml}
if [ ! -d "$ggml/src" ] || { [ -z "${CLATTN_GGML:-}" ] && ! "$here/python/bin/python" -c 'import diskcache, jinja2, numpy' 2>/dev/null; }; then
    [ -x "$here/python/bin/python" ] || python3 -m venv "$here/python"
    # and the package's own requirements
    sed '/^llama-cpp-python/,+1d' tests/requirements/ggml.txt >"$here/tools.txt"
    grep -A 1 '^llama-cpp-python' tests/requirements/ggml.txt >"$here/sources.txt"
    pip() { "$here/python/bin/python" -m pip "$@" --quiet --disable-pip-version-check >"$here/pip.log" 2>&1; }
    pip install --require-hashes --only-binary :all: -r "$here/tools.txt" || unreachable
    pip download --require-hashes --no-deps --no-build-isolation -r "$here/sources.txt" -d "$here" || unreachable
    mkdir -p "$here/sources"
    tar xzf "$here"/llama_cpp_python-*.tar.gz -C "$here/sources" --strip-components=1
    rm "$here"/llama_cpp_python-*.tar.gz
fi

# Build ggml, and llama.cpp's library, which uses it. The sources on PyPI lack a file of ggml,
# because ggml is part of another project. llama.cpp is unoptimised, because its own work on a small
# model is fast.
llama=
[ -n "${CLATTN_GGML:-}" ] || llama=${ggml%/ggml}
cat >"$here/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.18)
project(host C CXX)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY \${CMAKE_BINARY_DIR})
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY \${CMAKE_BINARY_DIR})
add_subdirectory("$ggml" ggml)
if(NOT "$llama" STREQUAL "")
    set(CMAKE_CXX_FLAGS_RELEASE -O0)
    add_subdirectory("$llama" llama EXCLUDE_FROM_ALL)
endif()
END
cmake -S "$here" -B "$here/libraries" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON -DGGML_BACKEND_DL=ON \
    -DGGML_NATIVE=OFF -DGGML_OPENMP=OFF -DLLAMA_BUILD_COMMON=OFF >"$here/cmake.log" 2>&1 || { tail -n 5 "$here/cmake.log"; wrong "ggml is not configured"; }
ninja -C "$here/libraries" -j1 ggml ggml-cpu ${llama:+llama} >"$here/ggml.log" 2>&1 || { tail -n 20 "$here/ggml.log"; wrong "ggml is not built"; }

[ -f "$here/clattn/build.ninja" ] || meson setup "$here/clattn" -Dwerror=true -Dtests=disabled -Dtool=disabled -Dmpi=disabled \
    -Dclblast=disabled -Dggml="$ggml,$here/libraries" >"$here/meson.log" 2>&1 || { tail -n 5 "$here/meson.log"; wrong "clattn is not configured"; }
ninja -C "$here/clattn" -j1 src/bindings/ggml/libggml-clattn.so >"$here/clattn.log" 2>&1 || { tail -n 20 "$here/clattn.log"; wrong "it is not built"; }
links=$here/libraries:$here/libraries/bin # llama.cpp installs its library in its own folder
program() { # $1 its name, then more words for the compiler
    name=$1
    shift
    cc -std=c11 -O1 -Wall -Wextra -Werror -Wno-missing-field-initializers -D_POSIX_C_SOURCE=200809L -isystem "$ggml/include" \
        "tests/package/ggml_$name.c" -o "$here/$name" "$@" -L"$here/libraries" -lggml -lggml-base -lm -Wl,-rpath,"$links"
}
program host

backend=$here/clattn/src/bindings/ggml/libggml-clattn.so
exported=$(nm -D --defined-only "$backend" | sed 's/.* //' | tr '\n' ' ')
[ "$exported" = "ggml_backend_init " ] || wrong "it exports $exported"
"$here/host" "$here/libraries/libggml-cpu.so" "$backend" || wrong "ggml_host: exit status $?"

if [ -n "$llama" ]; then
    program model -isystem "$llama/include" -L"$here/libraries/bin" -lllama
    "$here/model" "$here/libraries/libggml-cpu.so" "$backend" "$here/model.gguf" >"$here/out" || { cat "$here/out"; wrong "a whole model"; }
    sed '$d' "$here/out"
    # Run the Python package from its sources, with the libraries from above instead of those that
    # it would build.
    mkdir -p "$here/sources/llama_cpp/lib"
    ln -sf "$here"/libraries/libggml*.so* "$here"/libraries/bin/libllama.so* "$here/sources/llama_cpp/lib"
    "$here/python/bin/python" -I - "$here/sources" "$here/model.gguf" "$here/libraries/libggml-cpu.so" "$backend" "$(tail -n 1 "$here/out")" <<'PYTHON' || wrong "llama-cpp-python"
import ctypes, sys
sys.path.insert(0, sys.argv.pop(1))
import llama_cpp
import llama_cpp._ggml
model, *backends, wanted = sys.argv[1:]
load = llama_cpp._ggml.libggml.ggml_backend_load
load.argtypes, load.restype = [ctypes.c_char_p], ctypes.c_void_p
if not all(load(path.encode()) for path in backends):
    sys.exit("a backend is not loaded")
llama = llama_cpp.Llama(model, n_ctx=256, n_threads=1, n_threads_batch=1, n_gpu_layers=0, flash_attn=True, type_k=llama_cpp.GGML_TYPE_Q4_0,
                        type_v=llama_cpp.GGML_TYPE_Q4_0, verbose=False)
wanted = [int(word) for word in wanted.split()]
found = [token for token, _ in zip(llama.generate([(n * n * 31 + 17 * n + 5) % 384 for n in range(40)], temp=0), wanted)]
if found != wanted:
    sys.exit(f"other tokens over q4_0:\n{found}\n{wanted}")
print(f"llama-cpp-python {llama_cpp.__version__}: the same {len(found)} tokens over q4_0")
PYTHON
fi

# Without an OpenCL device the backend loads, has no device, and says so in one line.
mkdir -p "$here/empty"
if OCL_ICD_VENDORS="$here/empty/" "$here/host" "$here/libraries/libggml-cpu.so" "$backend" >"$here/out" 2>&1; then wrong "it has a device"; fi
[ "$(grep -c '^clattn: .*no OpenCL' "$here/out")" = 1 ] && [ "$(tail -n 1 "$here/out")" = "ggml_host: a device failed" ] ||
    { cat "$here/out"; wrong "without a device it does not say so in one line"; }
