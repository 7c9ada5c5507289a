#!/bin/sh
# Builds what aarch64_inside.sh uses inside the tree. It is built on this machine, because qemu is
# slow. The wheel is built with the compiler of PyPI's ziglang, as in check_wheel.sh. The same
# compiler builds ONNX Runtime's library. If check_ggml.sh has fetched ggml's
# sources, ggml, its CPU backend, clattn's backend and ggml_host are built too. numpy and ONNX
# Runtime are fetched for the other processor.
#
#   sh tests/package/aarch64_doors.sh FOLDER BUILD
#
# FOLDER is the tree, and the script creates FOLDER/doors. Exit status 77: PyPI cannot be reached.
set -eu
tree=$(cd "$1" && pwd)
mkdir -p "$2/aarch64-doors" "$tree/doors"
# the tools of check_wheel.sh
work=$(cd "$2/aarch64-doors" && pwd) tools=$PWD/$2/wheel/tools doors=$tree/doors
[ -x "$tools/bin/python" ] || python3 -m venv "$tools"
pip() { "$tools/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: "$@" || exit 77; }
pip -r tests/requirements/wheel.txt
# Install packages for another machine, as pip would choose them there.
there() {
    folder=$1
    shift
    rm -rf "$folder"
    pip --no-deps --target "$folder" --python-version 311 --implementation cp --abi cp311 --abi abi3 --abi none --platform linux_aarch64 \
        --platform manylinux2014_aarch64 --platform manylinux_2_27_aarch64 --platform manylinux_2_28_aarch64 "$@"
}
[ -d "$doors/packages" ] || there "$doors/packages" -r tests/requirements/onnx.txt -r tests/requirements/onnxruntime.txt

export ZIG_GLOBAL_CACHE_DIR="$work/zig" ZIG_LOCAL_CACHE_DIR="$work/zig" PATH="$tools/bin:$PATH"
compiler="'$tools/bin/python', '-m', 'ziglang', 'cc', '-target', 'aarch64-linux-gnu.2.17'"
cat >"$work/cross.ini" <<END
[binaries]
c = [$compiler]
ar = ['$tools/bin/python', '-m', 'ziglang', 'ar']
strip = 'true'
pkg-config = 'pkg-config'
[built-in options]
c_args = ['-idirafter', '$tree/usr/include']
c_link_args = ['-s']
[properties]
pkg_config_libdir = '$tree/usr/lib/aarch64-linux-gnu/pkgconfig'
sys_root = '$tree'
[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'aarch64'
endian = 'little'
END
rm -rf "$work/made"
_PYTHON_HOST_PLATFORM=linux-aarch64 python -m build --wheel --no-isolation -Cbuild-dir="$work/wheel" \
    -Csetup-args=--cross-file="$work/cross.ini" --outdir "$work/made" .
wheel=$(ls "$work"/made/clattn-*-py3-none-linux_aarch64.whl)
printf '%s --hash=sha256:%s\n' "$wheel" "$(sha256sum "$wheel" | cut -d' ' -f1)" >"$work/wheel.txt"
there "$doors/wheel" -r "$work/wheel.txt"

# Build ONNX Runtime's library and ggml's backend.
ggml=${CLATTN_GGML:-$PWD/$2/ggml/sources/vendor/llama.cpp/ggml} with_ggml=
if [ -d "$ggml/src" ]; then
    for name in cc c++; do
        printf '#!/bin/sh\nexec "%s" -m ziglang %s -target aarch64-linux-gnu.2.17 "$@"\n' "$tools/bin/python" $name >"$work/$name"
        chmod +x "$work/$name"
    done
    cat >"$work/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.18)
project(host C CXX)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "$work/libraries")
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "$work/libraries")
add_subdirectory("$ggml" ggml)
END
    cmake -S "$work" -B "$work/libraries" -G Ninja -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_BUILD_TYPE=Release \
        -DCMAKE_C_COMPILER="$work/cc" -DCMAKE_CXX_COMPILER="$work/c++" -DBUILD_SHARED_LIBS=ON -DGGML_BACKEND_DL=ON -DGGML_NATIVE=OFF \
        -DGGML_OPENMP=OFF
    ninja -C "$work/libraries" -j1 ggml ggml-cpu
    "$work/cc" -std=c11 -O1 -D_POSIX_C_SOURCE=200809L -isystem "$ggml/include" tests/package/ggml_host.c -o "$doors/ggml_host" \
        -L"$work/libraries" -lggml -lggml-base -lm
    with_ggml="-Dggml=$ggml,$work/libraries"
fi
[ -f "$work/backend/build.ninja" ] || meson setup "$work/backend" --cross-file "$work/cross.ini" -Dwerror=true -Dtests=disabled \
    -Dtool=disabled -Dmpi=disabled -Dclblast=disabled $with_ggml
ninja -C "$work/backend" -j1 libclattn-onnxruntime.so ${with_ggml:+src/bindings/ggml/libggml-clattn.so}
cp "$work"/backend/libclattn.so.?.? "$work/backend/libclattn-onnxruntime.so" "$doors"
[ -z "$with_ggml" ] || cp "$work/libraries"/*.so* "$work/backend/src/bindings/ggml/libggml-clattn.so" "$doors"
