#!/bin/sh
# Options that are not fully understood, have no effect, or would change the meaning of the request
# are refused with one line, and leave no file.
#
#   check_refusals.sh BUILD
set -u
. "$PWD/tests/program/options_files.sh"
attend --out o.npy || complain "attend"

for text in '' ' 1' '1 ' +1 1x 0x10 1e400 1e-400 1e-50 1e39 nan inf , 1,5; do
    for option in scale softcap; do no "--$option" --$option "$text"; done
done
for text in '' ' 5' 5x 0x5 5.0 99999999999999999999 -1; do no --splits --splits "$text"; done
for text in 4294967296,0 0,4294967296 -2,0 '1, 2' ' 1,2' 1,2x 1 1, ,1 0x1,0 +1,0 99999999999999999999,0; do no --window --window "$text"; \
    done
for text in -1 nan 1e-400 '' x; do no tolerance --tolerance "$text"; done
refused 2 'needs --expect' attend --q x.npy --k x.npy --v x.npy --out refused.npy --tolerance 0
refused 2 offset attend --q x.npy --k x.npy --v x.npy --out refused.npy --causal offset --offset 2147483648
refused 2 'milliseconds' bench --case plain --max-ms 1e-400
refused 2 'makes its own cases' verify --pairs --case plain
refused 2 'makes its own cases' verify --pairs --only unfused/plain
refused 2 'no effect without --pairs' verify --share 0/4 --case plain
for text in 4/4 -1/4 1 1/0 1/4x; do refused 2 'K/N is needed' verify --pairs --share "$text"; done
refused 2 'whole number' bench --case plain --repeat 5x
refused 2 'list such as' bench -n 99999999999999999999

no 'no effect' --positions counted.npy
no 'no effect' --rope-sections 1,2,1
no_rope() { word=$1; shift; refused 2 "$word" attend --q x.npy --k x.npy --v x.npy --out refused.npy --rope half "$@"; }
no_rope 'needs --positions' --rope-sections 1,2,1
no_rope 'needs --positions' --k-positions counted.npy
no_rope 'rank 2' --positions axes.npy
no_rope 'i32 or i64' --positions slopes2.npy
for text in 1,2 1,2,x 1,2,3,4 1,2,-1 1,2,1,; do no_rope 'three numbers' --positions axes.npy --rope-sections "$text"; done
no_rope 'their sum must be' --positions axes.npy --rope-sections 1,2,3

# Options without effect, and options that exclude each other.
refused 2 'too many' --version attend
refused 2 'no command' help nonesuch
no 'given twice' --q x.npy
no 'without --scores' --scores-at raw
no 'without --dropout' --seed 5
no 'without --dropout' --dropout-mask keep.npy
no 'align: has no effect' --align bottom-right
refused 2 'given twice' attend --q x.npy --k x.npy --v x.npy --out refused.npy --scale 1 --scale 2
refused 2 'given twice' bench -d 64 -d 128
refused 2 'its value is empty' devices --device ''
no 'is not a folder' --cache-dir x.npy
no 'cannot be written' --cache-dir no/folder
no 'off disables the cache; ./none is' --cache-dir none
no 'off disables the cache' --cache-dir 0
[ ! -e none ] || complain "--cache-dir none made a folder"
refused 2 'none of the' devices --device nonesuch
refused 2 'jsonl' bench --case plain --save refused.txt
refused 2 'one is accepted' bench --case plain --json -o csv
no 'multiple of 32' --kv-type q8_0
stored() { refused 2 "$1" attend --q x.npy --k x.npy --v x.npy --out refused.npy --kv-type "$2" "$3" $4; }
stored 'multiple of 32 that divides' q8 --kv-group 64
stored 'needs --kv-zeros' u4 --kv-scales f16
stored 'has no effect without a --kv-type' q4_0 --kv-zeros ''
no 'has no effect without a --kv-type' --kv-group 32
refused 2 'one is accepted' verify --only flash/plain --case plain
refused 2 'one of both' verify --backward --only flash
refused 2 'ran no case: one of decode_portable' verify --only decode --family flash
refused 2 'ran no case' verify --family nonesuch --case plain
refused 2 'no effect' tune --tuned off
refused 2 'linear case' tune --projection --case plain

# Storage of keys.
no 'prefix-v: needs --prefix-k' --prefix-v past.npy
refused 2 'prefix-k: not with --past-v' attend --q x.npy --k x.npy --v x.npy --out refused.npy --prefix-k past.npy --prefix-v past.npy \
    --past-v past.npy
refused 2 'prefix-k: has 2 items' attend --q x.npy --k x.npy --v x.npy --out refused.npy --prefix-k items_new.npy --prefix-v past.npy
no 'past-k: needs --past-v' --past-k past.npy
no 'past-lengths: has no effect' --past-lengths three.npy
no 'page-size: has no effect' --page-size 2
no 'must fit 32 bits' --block-table far.npy
refused 2 'must be 0 to 3' attend --q x.npy --k new.npy --v new.npy --out refused.npy --past-k past.npy --past-v past.npy --past-lengths \
    five.npy
refused 2 'page_size: 3' attend --q x.npy --k pool.npy --v pool.npy --out refused.npy --block-table table.npy --page-size 3

no 'item 2 is 1 after 4' --cu-seqlens cu_falls.npy
no 'needs --cu-seqlens' --cu-seqlens-kv cu.npy

for rows in minus zero five; do
    refused 2 expect-rows attend --q x.npy --k x.npy --v x.npy --out refused.npy --expect o.npy --expect-rows $rows.npy
done
refused 2 'nothing would be compared' attend --q none.npy --k none.npy --v none.npy --out refused.npy --expect none.npy
refused 2 'expect: has shape' attend --q x.npy --k x.npy --v x.npy --out refused.npy --expect slopes.npy

# Outputs are checked before any work. Each needs its own file, and stdout must accept its data.
for path in no/o.npy . x.npy/o.npy ''; do
    refused 2 out attend --q missing.npy --k x.npy --v x.npy --out "$path"
    refused 2 save bench --save "$path"
    refused 2 out tune --out "$path"
done
refused 2 'no/w.npy' layer --x missing.npy --heads 1 --out refused.npy --attention-weights no/w.npy
refused 2 'file of --out' attend --q x.npy --k x.npy --v x.npy --out refused.npy --lse ./refused.npy
refused 2 'file of --weights' attend --q x.npy --k x.npy --v x.npy --out refused.npy --weights later.npy --scores link.npy

# With tensor names alone, a layer belongs to another model if names do not determine how it
# attends.
by_names() { # $1 word, then options
    word=$1
    shift
    refused 2 "$word" layer --weights "$smollm2" --names llama:$prefix --heads 9 --kv-heads 3 --x "$data/smollm2_layer0_x.npy" --out \
        refused.npy "$@"
}
by_names 'needs --causal'
by_names 'needs --rope,' --causal top-left
by_names 'needs --rope-base' --causal top-left --rope half
by_names 'no effect' --causal top-left --rope none --rope-base 100000
by_names 'from 1' --causal top-left --rope half --rope-base 0
by_names 'for --model' --causal none --rope none --layer 0
by_names 'block: needs --model DIR' --causal top-left --rope half --rope-base 100000 --block
refused 2 missing.npy layer --weights "$smollm2" --names llama:$prefix --heads 9 --kv-heads 3 --x missing.npy --out refused.npy --causal \
    none --rope none
# Small tensors of other naming schemes: [3E, E] with E = 4, and unsupported tensors.
torch() { # $1 word, then options
    word=$1
    shift
    refused 2 "$word" layer --weights torch.safetensors --names torch:a --heads 2 --x t.npy --out refused.npy "$@"
}
refused 2 missing.npy layer --weights torch.safetensors --names torch:a --heads 2 --x missing.npy --out refused.npy
torch 'wk: has no effect' --wk k
torch 'bk: has no effect' --bk kb
torch 'wq: has no effect' --wq k
refused 2 'a.bias_k' layer --weights torch_bias.safetensors --names torch:a --heads 2 --x t.npy --out refused.npy
refused 2 'q_norm' layer --weights norm.safetensors --names llama:$prefix --heads 9 --kv-heads 3 --x "$data/smollm2_layer0_x.npy" \
    --out refused.npy --causal top-left --rope half --rope-base 100000
refused 2 'norm-eps' layer --weights "$smollm2" --names llama:$prefix --heads 9 --x t.npy --out refused.npy --norm heads --norm-eps 0
refused 2 'q-norm: has no effect' layer --wq t.npy --wk t.npy --wv t.npy --wo t.npy --heads 2 --x t.npy --out refused.npy --q-norm t.npy
refused 2 'norm-plus-one: has no effect' layer --wq t.npy --wk t.npy --wv t.npy --wo t.npy --heads 2 --x t.npy --out refused.npy \
    --norm-plus-one
refused 2 'gate-bias: has no effect' layer --wq t.npy --wk t.npy --wv t.npy --wo t.npy --heads 2 --x t.npy --out refused.npy --gate-bias \
    t.npy
preset() { # $1 word, $2 preset, then options
    word=$1 name=$2
    shift 2
    refused 2 "$word" layer --preset "$name" --weights "$smollm2" --names llama:$prefix --x "$data/smollm2_layer0_x.npy" --out \
        refused.npy "$@"
}
preset 'llama-3.1, qwen3' nonesuch
preset 'wq is .576, 576.' llama-3.1
preset 'heads: is not for --preset' llama-3.1 --heads 9
preset 'norm-eps: is not for --preset' qwen3 --norm-eps 1e-6
preset 'softcap: is not for --preset' gemma-2 --softcap 30
preset 'layer: is for --model' gemma-2 --layer 0
preset 'block: needs --model DIR' qwen3 --block
refused 2 'weights: has no effect' layer --weights torch.safetensors --wq t.npy --wk t.npy --wv t.npy --wo t.npy --heads 2 --x t.npy \
    --out refused.npy

by_names 'rope-scaling' --causal top-left --rope half --rope-base 100000 --rope-scaling yarn,beta=3
by_names 'original_length' --causal top-left --rope half --rope-base 100000 --rope-scaling yarn,factor=3
by_names 'no effect' --causal top-left --rope none --rope-scaling linear,factor=2
no_model() { # $1 word, $2 folder, then options
    word=$1 folder=$2
    shift 2
    refused 2 "$word" layer --model "$folder" --x "$data/smollm2_layer0_x.npy" --out refused.npy "$@"
}
no_model 'config.json needs .' heads --layer 0
no_model 'config.json needs .' head_dim --layer 0
no_model 'model_type' type --layer 0
no_model 'needs a q-norm' norm --layer 0
no_model 'rms_norm_eps' no_epsilon --layer 0
no_model 'needs learned sinks' sinks --layer 0
no_model 'preset: is not for --model' whole --layer 0 --preset qwen3
no_model 'norm: is not for --model' whole --layer 0 --norm heads
no_model 'low_freq_factor' llama3 --layer 0
no_model 'use_bidirectional_attention' stranger --layer 0
no_model 'needs a bq' bias --layer 0
no_model 'num_attention_heads' text --layer 0
no_model 'num_attention_heads' no_heads --layer 0
no_model 'neither' no_weights --layer 0
for n in 0 1 2 3 4 5 6 7 8 9; do no_model 'is not a plain name' shard$n --layer 0; done
# An output must never be an input, by any path or link, in any command.
mkdir sub linked
cp x.npy sub/in.npy; cp "$smollm2" sub/in.safetensors; cp t.npy tokens.txt
ln -s "$PWD/sub" linked/sub; ln -s sub/in.npy in_link.npy; ln -s in_link.npy in_twice.npy
echo '{"format_version": 1, "rows": []}' >sub/bench.json; cp slopes.npy slopes_in.npy; cp whole/config.json sub/config.json; ln -s \
    ../sub/in.safetensors sub/model.safetensors
ln -s in_link.npy picture.svg; cp tokens.txt tokens.svg; cp tokens.txt batch.json
ls -lR --time-style=full-iso sub slopes_in.npy tokens.* batch.json >inputs.before
for out in sub/in.npy ./sub/../sub/in.npy linked/sub/in.npy in_link.npy in_twice.npy "$PWD/sub/in.npy"; do
    refused 2 'is the file of --q: an output does not replace an input' attend --q sub/in.npy --k x.npy --v x.npy --out "$out"
    refused 2 'is the file of --v: ' attend --q x.npy --k x.npy --v in_twice.npy --out refused.npy --lse "$out"
    refused 2 'is the file of --x: ' layer --weights "$smollm2" --names llama:$prefix --heads 9 --kv-heads 3 --causal top-left --rope \
        half --rope-base 1 --x sub/in.npy --out "$out"
done
refused 2 'is the file of sub/in.npy: ' heatmap sub/in.npy --out picture.svg
refused 2 'is the file of --expect: ' attend --q x.npy --k x.npy --v x.npy --out in_link.npy --expect sub/in.npy
refused 2 'is the file of --alibi: ' attend --q x.npy --k x.npy --v x.npy --out slopes_in.npy --alibi slopes_in.npy
refused 2 'is the file of --q: ' attend --q sub/in.safetensors#q --k x.npy --v x.npy --out sub/in.safetensors
refused 2 'is the file of --weights: ' layer --weights sub/in.safetensors --names llama:$prefix --heads 9 --x x.npy --out \
    linked/sub/in.safetensors
refused 2 'is the file of --model: ' layer --model sub --layer 0 --x x.npy --out linked/sub/config.json
refused 2 'is the file of --model: ' layer --model linked/sub --layer 0 --x x.npy --out sub/in.safetensors
refused 2 'is the file of --tokens: ' heatmap t.npy --tokens tokens.svg --out tokens.svg
refused 2 'is the file of sub/bench.json: ' report same.json sub/bench.json --out linked/sub/bench.json
refused 2 'is the file of --batch: ' bench --batch batch.json --save batch.json
ls -lR --time-style=full-iso sub slopes_in.npy tokens.* batch.json | cmp -s - inputs.before || complain "an input changed"
no_model 'config.json' no_config --layer 0
no_model 'below it' whole --layer 30
no_model 'intermediate_size is absent' whole --layer 0 --block
no_model 'needs --layer' whole
no_model 'layers.1.self_attn' whole --layer 1
no_model 'layers.1.self_attn' sharded --layer 1
no_model 'heads: is not for --model' whole --layer 0 --heads 9
no_model 'causal: is not for --model' whole --layer 0 --causal none
no_model 'wq: is not for --model' whole --layer 0 --wq k

# Words that users of torch, FlashAttention, ONNX, numpy and other programs try. The error names the
# intended option. Each row has the arguments and, after the bar, the text that the error must
# contain.
while IFS='|' read -r arguments word; do
    # shellcheck disable=SC2086
    refused 2 "$word" $arguments
done <<'END'
attend --softmax-scale 1|mean --scale?
attend --softmax_scale=1|mean --scale?
attend -softmax_scale 1|mean --scale?
attend --sm-scale 1|mean --scale?
attend --scaling 1|mean --scale?
attend --is-causal|mean --causal?
attend --is_causal=True|mean --causal?
attend --attn-mask m.npy|mean --mask? A mask of floats is --bias FILE
attend --attention_mask m.npy|mean --mask?
attend --attn-bias m.npy|mean --bias?
attend --window-size 3|mean --window?
attend --sliding-window 3|mean --window?
attend --left_window_size 3|mean --window?
attend --logits-soft-cap 3|mean --softcap?
attend --attn_logit_softcapping 3|mean --softcap?
attend --dropout-p 0.5|mean --dropout?
attend --dropout-seed 1|mean --seed?
attend --alibi-slopes a.npy|mean --alibi?
attend --s_aux a.npy|mean --sinks?
attend --learnable-sink a.npy|mean --sinks?
attend --cu-seqlens-q a.npy|mean --cu-seqlens?
attend --cu_seqlens_k a.npy|mean --cu-seqlens-kv?
attend --max-seqlen-q 3|--cu-seqlens FILE determines it
attend --cache-seqlens a.npy|mean --kv-lengths?
attend --seqused_k a.npy|mean --kv-lengths?
attend --nonpad-kv-seqlen a.npy|mean --kv-lengths?
attend --seqused_q a.npy|mean --q-lengths?
attend --page-table a.npy|mean --block-table?
attend --block_size 16|mean --page-size?
attend --num-splits 2|mean --splits?
attend --past-key a.npy|mean --past-k?
attend --past_value a.npy|mean --past-v?
attend --return-lse|mean --lse?
attend --need-weights|mean --weights?
attend --output_attentions|mean --weights?
layer --need-weights|mean --attention-weights?
attend --qk-matmul-output a.npy|mean --scores?
attend --theta 10000|mean --rope-base?
attend --rope-theta 10000|mean --rope-base?
layer --rope_theta 10000|mean --rope-base?
attend --rotary-interleaved|mean --rope?
attend --rotary-dim 8|mean --rope-dim?
attend --rope-factor 4|mean --rope-scaling?
attend --position-ids a.npy|mean --positions?
attend --num-heads 8|the shape of --q, .B,H,Nq,D.
attend --heads 8|the shape of --q
attend --num-kv-heads 8|the shape of --k
attend --enable-gqa|the shape of --k
attend --head-dim 64|the shapes of the inputs
layer --num-heads 8|mean --heads?
layer --num_attention_heads 8|mean --heads?
layer --num-key-value-heads 8|mean --kv-heads?
layer --kv_num_heads 8|mean --kv-heads?
layer --rms-norm-eps 1|mean --norm-eps?
layer --hidden-states x.npy|mean --x?
layer --q-proj w|mean --wq?
layer --layer-idx 0|mean --layer?
bench --num-heads 8|mean --heads?
bench --n-head 8|mean --heads?
bench --num-kv-heads 8|mean --kv-heads?
bench --head-dim 64|mean -d?
bench --seq-len 64|mean -n?
bench --batch-size 2|mean -b?
bench --iters 3|mean --repeat?
bench --is-causal|mean --causal?
heatmap --num-heads 2|mean --heads?
heatmap --seqlen 8|mean --n?
heatmap --colormap viridis|mean --color?
attend --query q.npy|mean --q?
attend --key k.npy|mean --k?
attend --value v.npy|mean --v?
attend -q q.npy|mean --q?
attend --output o.npy|mean --out?
attend -o o.npy|mean --out?
report --output r.html|mean --out?
attend --torch-dtype f16|mean --dtype?
attend --kv-cache-dtype q8|mean --kv-type?
attend --cache-type-v q8|mean --v-type?
attend --qkv-format bshd|mean --layout?
attend --attn-implementation flash|mean --kernel?
attend --backend flash|mean --kernel?
attend --gpu|mean --device?
verify --cuda|mean --device?
attend --atol 1|mean --tolerance?
attend --dout d.npy|mean --grad-out?
attend --deterministic|always deterministic
attend --threads 2|POCL_MAX_PTHREAD_COUNT
attend --kv_type q8|mean --kv-type?
attend --rope_bsae 1|mean --rope-base?
attend --drop 1|--dropout: one must be written in full
attend --json=1|is a switch, which takes no value
attend --causal true|top-left is torch's is_causal=True, bottom-right FlashAttention's
attend --causal 1|top-left is torch's
attend --causal lower_right|mean bottom-right
attend --kernel flash_attention|mean flash?
attend --kernel math|mean unfused?
attend --kernel flsh|mean flash?
attend --rope neox|mean half?
attend --rope gptj|mean interleaved?
attend --layout bnsd|mean bhsd?
attend --dtype float64|must be one of f32, f16, bf16 (did you mean f32?)
attend --kv-type fp8|mean f8e4m3?
bench --dtype fp16,double|f32, f16, bf16 (did you mean f32?)
bench --causal True|mean yes?
attend --scale None|without the option its default holds
attend --splits auto|without the option its default holds
attend --window 3|L,R from -1
attend --window -5|L,R from -1
attend --window -2,0|-1 leaves a side open
attend --rope-scaling yarn|factor=X, which is 1 or more, is missing, as in --rope-scaling yarn,factor=4,original=4096
attend --rope-scaling linear|factor=X.*linear,factor=4
attend --rope-scaling llama3,factor=8|original=N .*llama3,factor=8,original=8192
attend --rope-scaling dynamic,factor=8,original=9|length=N .*length=4096
attend --rope-scaling yarn,beta=3|KEY one of factor, original
attend --rope-scaling su|linear, ntk, yarn, llama3 or dynamic
devices --device tpu|no such device: none of the .*0: .*; a number, gpu, cpu, or part of
verify --device nonesuch|no such device.*0: .*; a number, gpu, cpu, or part of
END
CLATTN_DEVICE=foo no '.CLATTN_DEVICE foo: no such device.*0: ' --kernel flash
refused 2 'q: t.npy has shape .1, 3, 4.: rank 4 is needed, .B,H,Nq,D. ' attend --q t.npy --k x.npy --v x.npy --out refused.npy
refused 2 'x: x.npy .*rank 3 is needed, .B,N,M.' layer --x x.npy --out refused.npy --heads 1 --wq eye.npy --wk eye.npy --wv eye.npy \
    --wo eye.npy
no 'alibi: t.npy .*rank 1 is needed, .H.' --alibi t.npy
no 'mask: holds f32: bool is needed.*--bias' --mask slopes2.npy
no 'mask: holds i32: bool is needed.*astype(bool)' --mask moved.npy
no 'bias: holds i32: floats are needed' --bias moved.npy
no "'and': is no word of an expression: write &&" --mask-mod 'i and j'
no "'or': is no word of an expression: write ||" --score-mod '(i or j) * score'
no "'kv_idx': is no word of an expression: write j" --mask-mod 'kv_idx < 3'
# Spellings of types that all options accept, and types that only other libraries have.
attend --out f16.npy --dtype f16 || complain "--dtype f16"
for type in fp16 half float16 FP16 torch.float16; do
    attend --out o16.npy --dtype $type && cmp -s o16.npy f16.npy || complain "--dtype $type"
done
for type in fp32 float float32 bf16 bfloat16; do attend --out o16.npy --dtype $type || complain "--dtype $type"; done
for type in half int8 fp8_e4m3 bfloat16; do attend --out o16.npy --kv-type $type --v-type $type || complain "--kv-type $type"; done
"$clattn" bench -n 8 -d 8 --heads 1 --dtype half,float --max-ms 1 --check off --limits off --cache-dir off -o csv >o.csv &&
    grep -q attend-f16 o.csv && grep -q attend-f32 o.csv || complain "bench --dtype half,float"
# A cache folder that cannot be written leads to one line and no failure. PoCL's cache is elsewhere,
# because without one PoCL has no device.
: >plain_file
POCL_CACHE_DIR=${POCL_CACHE_DIR:-$PWD/pocl}
export POCL_CACHE_DIR
for name in XDG_CACHE_HOME HOME; do
    env -u XDG_CACHE_HOME "$name=$PWD/plain_file" "$clattn" attend --q x.npy --k x.npy --v x.npy --quiet --out o.npy 2>stderr ||
        complain "$name=FILE: exit status"
    [ "$(wc -l <stderr)" = 1 ] && grep -q "warning: the cache folder .*\$$name.* cannot be written" stderr ||
        complain "$name: $(cat stderr)"
done
if [ -d /proc/self ]; then
    attend --out o.npy --cache-dir /proc 2>stderr || complain "--cache-dir /proc: exit status"
    [ "$(wc -l <stderr)" = 1 ] && grep -q 'warning: the cache folder /proc ' stderr || complain "--cache-dir /proc: $(cat stderr)"
fi

[ $refusals -ge 250 ] || complain "$refusals refusals were asked for: too few"
[ $bad = 0 ] && echo "$refusals refusals, 0 failed"
exit $bad
