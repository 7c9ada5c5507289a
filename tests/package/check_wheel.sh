#!/bin/sh
# A wheel: built for an old glibc, checked as the package index does, and installed into
# environments whose PATH has no compiler. There the module and the program find Intel's runtime,
# installed from PyPI, by themselves, and run a real layer, `verify` and `bench`. Without a runtime
# they say in one sentence what to install.
#
#   check_wheel.sh BUILD       CLATTN_INTEL=off skips everything that needs Intel's runtime
set -eu
root=$(pwd)
mkdir -p "$1/wheel"
here=$(cd "$1/wheel" && pwd)
tools=$here/tools
wrong() { echo "$1"; exit 1; }
unreachable() { echo "PyPI is not reachable"; exit 77; }
fetch() { "$1/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r "$2"; }

[ -x "$tools/bin/python" ] || python3 -m venv "$tools"
fetch "$tools" tests/requirements/wheel.txt >"$here/tools.log" 2>&1 || { tail -n 1 "$here/tools.log"; unreachable; }
PATH=$tools/bin:$PATH

# Debian's headers follow the compiler's own. From glibc 2.38 on, Debian's static libraries need
# C23's strtoll. jansson passes a base for which it equals strtoll, so this object defines the name.
printf 'long long strtoll(const char *, char **, int);\nlong long __isoc23_strtoll(const char *, char **, int);\n%s\n' \
    'long long __isoc23_strtoll(const char *text, char **end, int base) { return strtoll(text, end, base); }' >"$here/c23.c"
python -m ziglang cc -target "$(uname -m)-linux-gnu.2.17" -O2 -fvisibility=hidden -c "$here/c23.c" -o "$here/c23.o"
rm -rf "$here/made" "$here/repaired" "$here/meson" # a configured folder keeps its compiler
start=$(date +%s)
CC="$tools/bin/python -m ziglang cc -target $(uname -m)-linux-gnu.2.17" CFLAGS="-idirafter /usr/include" LDFLAGS="-s $here/c23.o" \
    ZIG_GLOBAL_CACHE_DIR=$here/zig ZIG_LOCAL_CACHE_DIR=$here/zig \
    python -m build --wheel --no-isolation -Cbuild-dir="$here/meson" --outdir "$here/made" . >"$here/build.log" 2>&1 ||
    { tail -n 20 "$here/build.log"; wrong "no wheel was built"; }
built=$(($(date +%s) - start))
auditwheel repair -w "$here/repaired" "$here"/made/*.whl >"$here/repair.log" 2>&1 || { cat "$here/repair.log"; wrong "auditwheel"; }
wheel=$(ls "$here"/repaired/*.whl)
case $wheel in *-py3-none-manylinux*_2_17_*.whl) ;; *) wrong "the wheel is ${wheel##*/}, not py3-none of manylinux_2_17" ;; esac
twine check --strict "$wheel" >"$here/twine.log" || { cat "$here/twine.log"; wrong "twine"; }
check-wheel-contents "$wheel" >"$here/contents.log" || { cat "$here/contents.log"; wrong "check-wheel-contents"; }

# environment NAME FILE...: create an environment with numpy, the wheel and the requirements in
# FILE...
environment() {
    bare=$here/$1
    shift
    rm -rf "$bare"
    python3 -m venv "$bare"
    printf '%s --hash=sha256:%s\n' "$wheel" "$(sha256sum "$wheel" | cut -d' ' -f1)" >"$here/wheel.txt"
    for file in tests/requirements/numpy.txt "$@"; do fetch "$bare" "$file" || unreachable; done
    fetch "$bare" "$here/wheel.txt" || wrong "pip does not install the wheel"
}
# Run a command in the environment, from an empty folder. Only the folder for compiled kernels is
# set, and the system's OpenCL shows no device.
mkdir -p "$here/empty" "$here/hidden"
for name in libOpenCL.so.1 libOpenCL.so; do echo "no library" >"$here/hidden/$name"; done
inside() { (cd "$here/empty" && env -i HOME="$here/home" PATH="$bare/bin" OCL_ICD_VENDORS="$here/empty/" "$@"); }
without_loader() { inside LD_LIBRARY_PATH="$here/hidden" "$@"; }

# Without OpenCL, the program and the module print one sentence that begins with $2. The function $1
# runs them in the environment.
told() {
    for program in clattn "python -m clattn"; do
        # shellcheck disable=SC2086
        if "$1" $program devices >"$here/out" 2>"$here/error"; then wrong "$program finds a device"; fi
        [ "$(wc -l <"$here/error")" = 1 ] && grep -q "^clattn devices: $2.*intel-opencl-rt intel-cmplr-lib-rt" "$here/error" ||
            { cat "$here/error"; wrong "$program does not say what to install"; }
    done
    "$1" python -c '
import sys, clattn
try: clattn.attention(*[clattn.np.ones((1, 1, 2, 8), "float32")] * 3)
except clattn.Error as error: sys.exit(not (str(error).startswith("UNSUPPORTED: " + sys.argv[1]) and "intel-opencl-rt intel-cmplr-lib-rt" in str(error)))
sys.exit("it has an OpenCL")' "$2" || wrong "the module does not say what to install"
}
environment bare
inside clattn --version >"$here/out" && grep -q '^clattn [0-9]' "$here/out" || wrong "the command does not run"
inside python -c 'import clattn, ctypes; ctypes.CDLL(clattn.onnxruntime_library()).RegisterCustomOps' || wrong "no library of ONNX Runtime's"
told inside "no OpenCL platform: "
told without_loader "no OpenCL: looked for "

# Completion in editors, and type checking.
cat >"$here/empty/good.py" <<'END'
import numpy as np
import clattn

q = np.ones((1, 2, 4, 8))
out = clattn.attention(q, q, q, causal=True, alignment="bottom_right", window=(3, 0), kv_lengths=[4], rope={"layout": "half"})
with clattn.Context("cpu", cache_dir="/tmp") as context:
    plan: str = context.attention_plan(q, q, q)["why"]
    part: clattn.Buffer = clattn.Buffer.zeros((1, 2, 4, 8), "float16", context)[:, :1]
END
types() { mypy --strict --python-executable "$bare/bin/python" --cache-dir "$here/mypy" "$here/empty/$1.py" >"$here/types.log"; }
types good || { cat "$here/types.log"; wrong "mypy refuses what is right"; }
for change in s/causal=True/casual=True/ s/bottom_right/middle/ 's/"layout"/"layuot"/' s/cache_dir/cache_folder/; do
    sed "$change" "$here/empty/good.py" >"$here/empty/bad.py"
    if types bad; then wrong "mypy takes $change"; fi
done
rm -f "$here"/empty/*.py

# The package's own sources. The build folder has them with the generated module, and without the
# types of __init__.pyi.
ruff check --quiet --no-cache src/bindings/python src/bindings/torch >"$here/ruff.log" || { cat "$here/ruff.log"; wrong "ruff"; }
for file in src/bindings/torch/clattn_torch.py "$here/../src/bindings/python/clattn"; do
    MYPYPATH=$here/../src/bindings/python mypy --python-executable "$bare/bin/python" --cache-dir "$here/mypy" "$file" >"$here/types.log" ||
        { cat "$here/types.log"; wrong "mypy, $file"; }
done

if [ "${CLATTN_INTEL:-on}" = off ]; then
    rm -rf "$bare" "$here/made"
    echo "counted: ${wheel##*/}, built in $built s; not run: CLATTN_INTEL=off"
    exit 0
fi
python -m pip download --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r tests/requirements/intel.txt -d "$here/intel" ||
    unreachable
start=$(date +%s)
environment cpu tests/requirements/intel.txt
# shellcheck disable=SC2016
inside python -c '
import importlib.metadata as known
from pip._vendor.packaging.requirements import Requirement
wanted = [one for one in map(Requirement, known.requires("clattn")) if not one.marker or one.marker.evaluate({"extra": "cpu"})]
assert len(wanted) >= 3 and all(one.specifier.contains(known.version(one.name)) for one in wanted), wanted' ||
    wrong "clattn[cpu] asks for other packages than those of tests/requirements"
data=$root/tests/data
layer() {
    "$1" clattn layer --weights "$data/minilm_layer0.safetensors" --names bert:encoder.layer.0.attention --heads 12 \
        --x "$data/minilm_layer0_x.npy" --kv-lengths "$data/minilm_layer0_lengths.npy" --expect "$data/minilm_layer0_out.npy" \
        --expect-rows "$data/minilm_layer0_lengths.npy" --out "$here/out.npy" >"$here/layer.log" 2>&1 ||
        { cat "$here/layer.log"; wrong "MiniLM's layer, $1"; }
    grep -q 'largest difference to .*minilm_layer0_out.npy: .*at most' "$here/layer.log" || { cat "$here/layer.log"; wrong "no difference"; }
}
rm -rf "${here:?}/home"
layer inside
first=$(($(date +%s) - start))
layer without_loader
inside python -m clattn verify --only flash --cache-dir off >"$here/verify.log" 2>&1 || { tail -n 20 "$here/verify.log"; wrong "verify"; }
passed=$(grep -c '^ *pass ' "$here/verify.log") || wrong "verify passed no case"
inside clattn bench -n 128 -d 64 --heads 4 --max-ms 20 >"$here/bench.log" 2>&1 || { cat "$here/bench.log"; wrong "bench"; }
grep -q '^| attend-f32-' "$here/bench.log" || { cat "$here/bench.log"; wrong "bench measured nothing"; }
for run in inside without_loader; do
    $run python "$root/tests/package/attend_installed.py" Intel >/dev/null || wrong "attention from Python, $run"
done
# A session of ONNX Runtime, whose library uses the OpenCL that the module found.
for file in onnx onnxruntime; do fetch "$bare" "tests/requirements/$file.txt" || unreachable; done
inside python -c '
import clattn, numpy as np, onnxruntime as ort
from onnx import TensorProto, helper
values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 2, 8, 16]) for name in "qkvy"]
graph = helper.make_graph([helper.make_node("Attention", list("qkv"), ["y"])], "one", values[:3], values[3:])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10).SerializeToString()
options = ort.SessionOptions()
options.register_custom_ops_library(clattn.onnxruntime_library())
q, k, v = np.random.default_rng(0).standard_normal((3, 1, 2, 8, 16), np.float32)
y = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run(None, {"q": q, "k": k, "v": v})[0]
assert np.abs(y - clattn.attention(q, k, v)).max() < 1e-5' || wrong "attention by ONNX Runtime"
rm -rf "$here/bare" "$here/cpu" "$here/intel" "$here/made"
echo "counted: ${wheel##*/}, built in $built s; $passed cases verified; beside downloads $first s from no environment to MiniLM's layer"
