#!/bin/sh
# Run clattn on real input, from a fresh Debian or Ubuntu machine. Install packages (as root or
# through sudo), build, and list the devices. Then run layer 0 of MiniLM and of SmolLM2 on each
# device, draw their heads, and measure attention.
#
#    sh bench/run.sh
set -eu
cd "$(dirname "$0")/.."
. tests/runner.sh

install_packages build-essential meson ninja-build pkg-config python3 ocl-icd-opencl-dev opencl-headers pocl-opencl-icd \
    libclblast-dev libjansson-dev libpng-dev
echo "building"
# Reuse the build folder of tests/run.sh. Reconfigure it if it was configured without the program.
[ -f build/build.ninja ] || meson setup build -Dtool=enabled >/dev/null
ninja -C build -t targets all | grep -q '^clattn:' || meson setup --reconfigure build -Dtool=enabled >/dev/null
ninja -C build clattn >/dev/null
clattn=build/clattn data=tests/data pictures=build/heatmaps
mkdir -p "$pictures"

echo
echo "== devices"
$clattn devices

number=0
devices=$($clattn devices --json | python3 -c 'import json, sys; print(len(json.load(sys.stdin)["devices"]))')
[ "$devices" -gt 0 ] || { echo "no OpenCL device" >&2; exit 1; }
while [ "$number" -lt "$devices" ]; do
    echo
    echo "== device $number: one attention layer of two real models, against their float64 results"
    # The first run compiles; the second shows the time.
    for round in compile measure; do
        if [ $round = compile ]; then quiet=--quiet; else quiet=; fi
        [ $round = measure ] && echo "MiniLM, layer 0 (12 heads, 3 sentences, padding hidden):"
        $clattn layer --device "$number" --weights "$data/minilm_layer0.safetensors" --names bert:encoder.layer.0.attention \
            --heads 12 --x "$data/minilm_layer0_x.npy" --kv-lengths "$data/minilm_layer0_lengths.npy" --out "$pictures/minilm.npy" \
            --attention-weights "$pictures/minilm_weights.npy" \
            --expect "$data/minilm_layer0_out.npy" --expect-rows "$data/minilm_layer0_lengths.npy" $quiet
        [ $round = measure ] && echo "SmolLM2, layer 0 (9 heads on 3 key/value heads, causal, RoPE):"
        $clattn layer --device "$number" --weights "$data/smollm2_layer0.safetensors" --names llama:model.layers.0.self_attn \
            --heads 9 --kv-heads 3 --rope half --rope-base 100000 --causal top-left --x "$data/smollm2_layer0_x.npy" \
            --out "$pictures/smollm2.npy" --attention-weights "$pictures/smollm2_weights.npy" \
            --expect "$data/smollm2_layer0_out.npy" $quiet
    done
    number=$((number + 1))
done

echo
echo "== heads"
$clattn heatmap "$pictures/minilm_weights.npy" --tokens "$data/minilm_tokens.txt" --out "$pictures/minilm.png"
$clattn heatmap "$pictures/smollm2_weights.npy" --tokens "$data/smollm2_tokens.txt" --out "$pictures/smollm2.png"
echo "pictures: $pictures/minilm.png $pictures/smollm2.png"
$clattn heatmap "$pictures/minilm_weights.npy" --tokens "$data/minilm_tokens.txt" --heads 0 --out -

echo
echo "== attention speeds of this machine"
$clattn bench
