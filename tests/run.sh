#!/bin/sh
# Test on a fresh Debian or Ubuntu machine: install packages (as root or through sudo), build, test.
#
#   sh tests/run.sh          each promise once, each family and option with its best cases
#   sh tests/run.sh --all    everything; tests/README.md lists what only this finds
#   sh tests/run.sh [--all] --only 'wheel|^install'    build, and run the steps with matching names
#
# The last line is "N passed, N failed, N skipped". The exit status is 1 if anything failed.
#
#   CLATTN_INTEL=off       --all without Intel's CPU runtime, which is 830 MB from PyPI in the
#                          build folder
#   CLATTN_INTEL=full      every suite on that runtime, not only compiler tests: ten minutes
#   CLATTN_THOROUGH=on     also every kernel family in all device suites, every variant of
#                          clattn verify, and suite faults without sanitizers: hours
#   CLATTN_INSTALL=off     install no Debian packages, GPU compilers or PyTorch
#   CLATTN_AARCH64=FOLDER  a tree of tests/package/aarch64.sh for --all
#   CLATTN_TORCH=PYTHON    a Python with torch. Otherwise the step downloads 600 MB from PyPI
#   CLATTN_DRIVERS=FOLDER  use the OpenCL driver whose .icd file is in that folder, instead of PoCL
set -u
cd "$(dirname "$0")/.." || exit 2
. tests/runner.sh
. tests/driver.sh

all=off only=
while [ $# -gt 0 ]; do
    case $1:${2:-} in
    --all:*) all=on ;;
    --only:?*) only=$2 && shift ;;
    *) echo "tests/run.sh: $1: --all and --only NAMES are all that is taken" >&2 && exit 2 ;;
    esac
    shift
done
[ "${CLATTN_THOROUGH:-off}" = off ] || all=on
if [ $all = on ]; then plan_steps tests/run.sh ' *'; else plan_steps tests/run.sh ''; fi
if [ -n "$only" ]; then
    printf '%s\n' "$planned" | grep -Eq -e "$only" || { echo "tests/run.sh: $only: no step here has such a name" >&2; exit 2; }
    only="^(driver|build)\$|$only"
fi

install_packages build-essential meson ninja-build pkg-config python3 python3-numpy python3-venv ocl-icd-opencl-dev opencl-headers \
    pocl-opencl-icd libclblast-dev check libjansson-dev libpng-dev clang libclang-rt-dev llvm oclgrind binutils cmake groff-base zsh fish \
    libfreetype-dev libfontconfig-dev fonts-dejavu-core libopenmpi-dev openmpi-bin
[ $all = off ] || install_packages git gcc-mingw-w64-x86-64 g++-mingw-w64-x86-64 chromium fonts-wqy-microhei ruby
[ "${CLATTN_THOROUGH:-off}" = off ] || install_packages wine wine64

mkdir -p build
find_numpy
intel=
if [ $all = on ] && chosen "device, Intel's CPU runtime"; then
    intel_runtime build/intel >build/intel.log 2>&1 & # downloads during the first steps
    intel=$!
fi
step "driver" choose_driver
[ $all = on ] || kernels_to_memory
step "build" build_folder build
suite "host" build host
# Checks run two at a time. A check that compiles kernels runs beside one that does not, and before
# checks that use the same kernels.
later "bench and compare" sh tests/program/check_bench.sh build
later "Oclgrind: races and bounds" sh tests/kernels/check_oclgrind.sh build $([ $all = on ] || echo some)
later "verify: hard cases in every kernel" sh tests/program/check_verify.sh build $([ $all = on ] || echo half)
later "kernels compile to the instructions of their engines" sh tests/kernels/check_instructions.sh
later "kernels alone through clang" sh tests/kernels/check_kernels.sh $([ $all = on ] || echo 6)
later "engines of NVIDIA and Intel: PTX run by the manual" python3 tests/lab/check_ptx.py $([ $all = on ] || echo --share 6)
later "a newcomer's walk: every line of README, docs and --help" python3 tests/program/check_walk.py build
later "install; pkg-config, CMake and Meson consume it" sh tests/package/check_install.sh build
later "no OpenCL loader, no CLBlast" sh tests/package/check_no_loader.sh build
later "Python module" env $plainly sh tests/python/check_python.sh build $([ $all = on ] || echo some)
later "tuned rows, batches of cases, settings in turns" env $plainly sh tests/program/check_tune.sh build
later "answers: JSON, full disks, progress" env $plainly python3 tests/program/check_answers.py build
later "ONNX's own cases" env $plainly sh tests/onnx/check_onnx.sh build
later "program: real layers, refusals, JSON" env $plainly sh tests/program/check_program.sh build
later "examples" env $plainly sh tests/package/check_examples.sh build $([ $all = on ] || echo some)
later "options: each with its effect, checks that check" env $plainly sh tests/program/check_options.sh build
later "options: what is refused" sh tests/program/check_refusals.sh build
later "cookbook of masks and scores" env $plainly python3 tests/mods/check_cookbook.py build $([ $all = on ] || echo 6)
later "folders of published kinds of models, by numpy" env $plainly python3 tests/program/check_models.py build
later "config.json of every kind of model, recorded from transformers" \
    env $plainly python3 tests/program/check_kinds.py build $([ $all = off ] || echo all)
later "layers over matrices of 8 and 4 bits, of files and made" env $plainly python3 tests/program/check_stored.py build
later "decode reads K and V once" sh tests/kernels/check_decode_loads.sh build
later "clattn doctor, and drivers that end a process" sh tests/program/check_doctor.sh build $([ $all = on ] || echo some)
later "help, manual pages, completions" sh tests/program/check_shells.sh build
later "a left OpenCL object fails its suite" sh tests/cl_layer/check_layer.sh build
later "drivers that say and do other things: a zoo of them" sh tests/cl_layer/check_drivers.sh build $([ $all = on ] && echo all || echo few)
later "exported symbols" sh tests/package/check_exports.sh build
later "header alone as C11 and C++17, README example" sh tests/package/check_header.sh build
later "the rules of the house: includes, circles, sizes, columns, names" python3 tests/source/check_structure.py
later "plain English: what a program can check" python3 tests/source/check_prose.py
later "what is counted" sh tests/source/check_steps.sh
later "the cost model of several ranks" python3 tests/mpi/check_scale.py
later "docs: snippets run, the reference has every function" env $plainly python3 tests/source/check_guide.py build
later "formatting" sh tests/source/check_format.sh build
later "one door to OpenCL, CLBlast and the system" sh tests/source/check_bindings.sh
later "no OpenCL platform" sh tests/package/check_no_platform.sh build
[ $all = on ] || later "report: what is submitted, edited, hostile" sh tests/program/check_report.sh build quick
if [ $all = on ]; then
    later "ThreadSanitizer" sh tests/package/check_threads.sh build/threads
    later "PyTorch and transformers with a wheel of clattn" sh tests/python/check_torch.sh build
    later "ONNX Runtime: ONNX's own cases, and its own kernels" env $plainly sh tests/onnx/check_onnxruntime.sh build
    later "published models' layers, once more by numpy" python3 tests/program/check_presets.py build
    later "report: a page, and what a browser makes of it" sh tests/program/check_report.sh build
    later "docs: the pages, in a browser" python3 tests/source/check_guide.py build site
    later "docs: start.md from its first line on" python3 tests/source/check_guide.py build start
    later "bench/device.sh on this machine" sh tests/program/check_device.sh build
    later "Windows: DLL, headers, and a run under Wine" sh tests/package/check_windows.sh
    later "the library of 32 bits" sh tests/package/check_32_bit.sh build
    later "ggml loads clattn: flash_attn_ext on both" env $plainly sh tests/package/check_ggml.sh build
    later "a wheel, and pip that installs it" sh tests/package/check_wheel.sh build
    later "recipes: Conan, a wrap, vcpkg, conda, Homebrew" sh tests/package/check_recipes.sh build
fi
run_queued
suite "device, default, and guard pages around every buffer" build device
# By default only the targets that run, unoptimised: they run for a few minutes.
unoptimised=
[ $all = on ] || build_targets=$(programs_of build host sanitized) unoptimised="-Doptimization=0 -Dwerror=false"
step "build with sanitizers" build_folder build/sanitized -Dmpi=disabled -Db_sanitize=address,undefined -Db_lundef=false $unoptimised
build_targets=
if [ $all = on ]; then kind=once; else kind=sanitized; fi
suite "sanitized, host and device" build/sanitized $kind
if [ $all = on ]; then
    steps_of "other real drivers: PoCL 3.0 to 7.1, Mesa's rusticl" sh tests/real_drivers.sh build
    steps_of "fuzzers, 4 s each" sh tests/fuzz/check_fuzzers.sh 4
    [ "${CLATTN_THOROUGH:-off}" = off ] || suite "device, every family" build thorough
    steps_of "kernels through the compilers of devices that are not here" sh tests/lab/check_offline.sh build
    # This check uses tools that the wheel's check has installed.
    step "macOS: the library for both of its processors, by OpenCL 1.2" sh tests/package/check_macos.sh build
    step "aarch64 through qemu" sh tests/package/aarch64.sh "${CLATTN_AARCH64:-build/aarch64}" present
    steps_of "Debian packages" sh tests/package/check_debian_package.sh build
    build_targets="clattn tests/libclattn_layer.so tests/test_layer tests/test_errors_layer tests/test_linear tests/test_errors_linear"
    step "build without CLBlast, linked with OpenCL" build_folder build/no-clblast -Dclblast=disabled -Dopencl=link
    build_targets=
    suite "without CLBlast" build/no-clblast layer-only
    if [ -z "$intel" ]; then
        :
    elif wait "$intel"; then
        if [ "${CLATTN_INTEL:-on}" = full ]; then kind=everything; else kind=compiler; fi
        suite "device, Intel's CPU runtime" build $kind intel
        step "ONNX's own cases, Intel's CPU runtime" sh tests/onnx/check_onnx.sh build intel
    else
        tail -n 3 build/intel.log
        skip "device, Intel's CPU runtime"
    fi
fi
finish
