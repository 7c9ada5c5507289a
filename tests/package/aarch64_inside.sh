# aarch64_inside.sh: run by aarch64.sh inside the tree: build, host suites, some cases of verify on
# PoCL.
set -u
export CK_TIMEOUT_MULTIPLIER=20 # qemu is slow
export HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8
cd /clattn || exit 2
failed=0
build=/build
log=/tmp/step.log

# step NAME COMMAND...: run and report one check.
step() {
    name=$1
    shift
    start=$(date +%s)
    if "$@" >$log 2>&1; then
        echo "ok    aarch64: $name ($(($(date +%s) - start)) s)"
    else
        echo "FAIL  aarch64: $name ($(($(date +%s) - start)) s)"
        tail -n 30 $log
        failed=1
    fi
}

configure() {
    [ -f $build/build.ninja ] || meson setup --werror -Dtests=enabled -Dtool=enabled $build
}

# Build only the program and the host suites. Other suites would run for hours, and compile for half
# an hour.
build() {
    # shellcheck disable=SC2046
    ninja -C $build clattn $(. tests/runner.sh && programs_of $build host)
}

# Verify each family with its vector widths on aarch64, each with one type, and the planner's
# choice. --only forces kernels, so that a wrong choice cannot hide one.
verify() {
    $build/clattn verify --only "$1" --case "$2" || return 1
}

# Use the files that aarch64_doors.sh put there. From the tree only Python and OpenCL are used.
wheel() {
    from=$(PYTHONPATH=/doors/wheel:/doors/packages python3 -B tests/package/attend_installed.py Portable) || return 1
    case $from in /doors/wheel/*) /doors/wheel/clattn/clattn --version ;; *) echo "clattn is $from" && return 1 ;; esac
}
# ONNX Runtime detects CPUs through /sys, and crashes under qemu because /sys describes the real
# machine. These two files are hidden, so that it skips the detection. PoCL needs the rest of the
# folder.
onnx_cases() {
    for file in possible present; do mount --bind /dev/null /sys/devices/system/cpu/$file || return 1; done
    PYTHONPATH=/doors/packages XDG_CACHE_HOME=/tmp/onnx python3 -B tests/onnx/onnxruntime_cases.py /doors/libclattn-onnxruntime.so few
    status=$?
    umount /sys/devices/system/cpu/possible /sys/devices/system/cpu/present
    return $status
}
if [ -d /doors/wheel ]; then
    step "wheel: attention from Python" wheel
    step "ONNX Runtime: some cases" onnx_cases
    sed -n 's/^counted: /      /p' $log
fi
if [ -f /doors/libggml-clattn.so ]; then
    step "ggml: ggml_host" env LD_LIBRARY_PATH=/doors /doors/ggml_host /doors/libggml-cpu.so /doors/libggml-clattn.so
fi
step "configure" configure
step "build" build
step "host suites" meson test -C $build --no-rebuild --suite host --timeout-multiplier 20
step "devices" $build/clattn devices --verbose
cat $log
for variant in flash-lanes-4 flash-lanes-8 planner; do
    step "verify $variant, float32" verify $variant attend-f32-b1-h2-n40-nkv50-d20-causal
    step "verify $variant, bfloat16" verify $variant attend-bf16-b1-h4-hkv2-n40-nkv150-d20-full
done
for variant in decode-lanes-4 decode-lanes-8 planner; do
    step "verify $variant, decode" verify $variant attend-f16-b1-h4-hkv2-n1-nkv150-d20-full
done
for variant in linear-lanes linear-few-lanes; do
    step "verify $variant" verify $variant linear-f32-b1-h1-n40-d64-m48-full
done
exit $failed
