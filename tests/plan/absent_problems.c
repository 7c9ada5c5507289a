// absent_problems.c: the problems and projections that are planned for absent devices. Each line
// tests something different in the planner.
#include "plan/absent_devices.h"
#include "args/args.h"

#define F32 CLATTN_TYPE_F32
#define F16 CLATTN_TYPE_F16
#define BF16 CLATTN_TYPE_BF16
#define I8 CLATTN_TYPE_I8

#define SIZES(b, h, hkv, nq, nkv, d, dv)                                                                     \
    .batch = b, .heads = h, .kv_heads = hkv, .n_q = nq, .n_kv = nkv, .head_dim = d, .head_dim_v = dv
#define TYPES(q, kv, out) .type_q = q, .type_kv = kv, .type_out = out
#define ALIGNED(n) .align_q = n, .align_k = n, .align_v = n
#define EVERY_OP (ARGS_SOFTCAP | ARGS_BIAS | ARGS_ALIBI | ARGS_MASK)

const absent_problem absent_problems[] = {
    // Prefill: head sizes, types, lengths.
    {"prefill-d64", {SIZES(1, 12, 12, 1024, 1024, 64, 64), ALIGNED(16)}},
    {"prefill-d128", {SIZES(1, 32, 8, 2048, 2048, 128, 128), ALIGNED(16)}},
    {"prefill-d64-f16", {SIZES(1, 12, 12, 1024, 1024, 64, 64), TYPES(F16, F16, F16), ALIGNED(16)}},
    {"prefill-d128-f16", {SIZES(1, 32, 8, 2048, 2048, 128, 128), TYPES(F16, F16, F16), ALIGNED(16)}},
    {"prefill-d64-bf16", {SIZES(1, 12, 12, 1024, 1024, 64, 64), TYPES(BF16, BF16, BF16), ALIGNED(16)}},
    {"prefill-d128-bf16", {SIZES(1, 32, 8, 2048, 2048, 128, 128), TYPES(BF16, BF16, BF16), ALIGNED(16)}},
    {"prefill-d128-i8", {SIZES(1, 32, 8, 2048, 2048, 128, 128), TYPES(F16, I8, F16), ALIGNED(16)}},
    {"prefill-d32", {SIZES(4, 8, 8, 512, 512, 32, 32), ALIGNED(16)}},
    {"prefill-d40", {SIZES(2, 8, 8, 4096, 4096, 40, 40), TYPES(F16, F16, F16), ALIGNED(8)}},
    {"prefill-d80", {SIZES(1, 32, 32, 2048, 2048, 80, 80), TYPES(F16, F16, F16), ALIGNED(16)}},
    {"prefill-d96", {SIZES(1, 32, 32, 2048, 2048, 96, 96), TYPES(BF16, BF16, BF16), ALIGNED(16)}},
    {"prefill-d192-dv128", {SIZES(1, 16, 16, 1024, 1024, 192, 128), TYPES(BF16, BF16, BF16), ALIGNED(16)}},
    {"prefill-d256", {SIZES(1, 8, 4, 1024, 1024, 256, 256), TYPES(BF16, BF16, BF16), ALIGNED(16)}},
    {"prefill-d576-dv512", {SIZES(1, 16, 1, 512, 512, 576, 512), TYPES(BF16, BF16, BF16), ALIGNED(16)}},
    {"prefill-d577", {SIZES(1, 2, 2, 64, 64, 577, 577), ALIGNED(1)}},
    {"prefill-dv1", {SIZES(1, 4, 4, 100, 100, 64, 1), ALIGNED(1)}},
    {"prefill-d1-dv256", {SIZES(1, 4, 4, 100, 100, 1, 256), ALIGNED(1)}},
    {"prefill-d77-dv33", {SIZES(3, 5, 5, 131, 257, 77, 33), ALIGNED(1)}},
    {"prefill-misaligned", {SIZES(1, 12, 12, 1024, 1024, 64, 64), ALIGNED(1)}},
    {"prefill-misaligned-k",
     {SIZES(1, 12, 12, 1024, 1024, 64, 64), .align_q = 16, .align_k = 2, .align_v = 16}},
    {"prefill-align4-f16", {SIZES(1, 12, 12, 1024, 1024, 128, 128), TYPES(F16, F16, F16), ALIGNED(4)}},
    {"prefill-mixed", {SIZES(1, 12, 12, 1024, 1024, 64, 64), TYPES(F32, F16, BF16), ALIGNED(16)}},
    // Operations on scores, and returned scores.
    {"causal-mask", {SIZES(2, 12, 12, 384, 384, 64, 64), .score_ops = ARGS_MASK, ALIGNED(16)}},
    {"bias-f16",
     {SIZES(2, 12, 12, 384, 384, 64, 64), TYPES(F16, F16, F16), .type_bias = F16, .score_ops = ARGS_BIAS,
      ALIGNED(16)}},
    {"alibi",
     {SIZES(1, 16, 16, 2048, 2048, 128, 128), TYPES(F16, F16, F16), .score_ops = ARGS_ALIBI, ALIGNED(16)}},
    {"softcap",
     {SIZES(1, 8, 4, 4096, 4096, 256, 256), TYPES(BF16, BF16, BF16), .score_ops = ARGS_SOFTCAP, ALIGNED(16)}},
    {"every-op",
     {SIZES(2, 6, 3, 333, 777, 64, 64), TYPES(F16, F16, F16), .type_bias = BF16, .score_ops = EVERY_OP,
      ALIGNED(16)}},
    {"head-scales", {SIZES(2, 6, 3, 333, 777, 128, 128), .score_ops = ARGS_HEAD_SCALES, ALIGNED(16)}},
    {"weights", {SIZES(1, 12, 12, 128, 128, 64, 64), .wants_weights = true, ALIGNED(16)}},
    {"weights-f16",
     {SIZES(1, 12, 12, 128, 128, 64, 64), TYPES(F16, F16, F16), .type_weights = F16, .wants_weights = true,
      ALIGNED(16)}},
    {"taps", {SIZES(1, 12, 12, 128, 128, 64, 64), .wants_scores = true, ALIGNED(16)}},
    // Few rows over many keys.
    {"decode-d64", {SIZES(1, 12, 12, 1, 4096, 64, 64), ALIGNED(16)}},
    {"decode-d128", {SIZES(1, 32, 8, 1, 8192, 128, 128), ALIGNED(16)}},
    {"decode-d128-f16", {SIZES(1, 32, 8, 1, 8192, 128, 128), TYPES(F16, F16, F16), ALIGNED(16)}},
    {"decode-d128-bf16", {SIZES(8, 32, 8, 1, 8192, 128, 128), TYPES(BF16, BF16, BF16), ALIGNED(16)}},
    {"decode-d128-i8", {SIZES(1, 32, 8, 1, 32768, 128, 128), TYPES(F16, I8, F16), ALIGNED(16)}},
    {"decode-mqa", {SIZES(1, 71, 1, 1, 2048, 64, 64), TYPES(F16, F16, F16), ALIGNED(16)}},
    {"decode-d576-dv512", {SIZES(1, 128, 1, 1, 4096, 576, 512), TYPES(BF16, BF16, BF16), ALIGNED(16)}},
    {"decode-5-rows", {SIZES(1, 32, 8, 5, 4096, 128, 128), TYPES(F16, F16, F16), ALIGNED(16)}},
    {"decode-16-rows", {SIZES(1, 32, 8, 16, 4096, 128, 128), TYPES(F16, F16, F16), ALIGNED(16)}},
    {"decode-7-splits",
     {SIZES(1, 32, 8, 1, 8192, 128, 128), .kernel = CLATTN_KERNEL_DECODE, .splits = 7, ALIGNED(16)}},
    {"decode-misaligned", {SIZES(1, 6, 2, 1, 1000, 65, 63), TYPES(F16, F16, F16), ALIGNED(1)}},
    {"decode-mask", {SIZES(2, 8, 2, 1, 3000, 128, 128), .score_ops = ARGS_MASK, ALIGNED(16)}},
    // flash with split keys
    {"few-rows-many-keys", {SIZES(1, 1, 1, 32, 1 << 20, 64, 64), ALIGNED(16)}},
    // Forced kernels, where possible.
    {"asked-flash", {SIZES(1, 4, 4, 1, 64, 64, 64), .kernel = CLATTN_KERNEL_FLASH, ALIGNED(16)}},
    {"asked-unfused", {SIZES(1, 4, 4, 64, 64, 64, 64), .kernel = CLATTN_KERNEL_UNFUSED, ALIGNED(16)}},
    {"asked-decode-d300", {SIZES(1, 4, 4, 3, 640, 300, 300), .kernel = CLATTN_KERNEL_DECODE, ALIGNED(4)}},
    // Extremes: sizes of zero, of one, and near INT_MAX.
    {"one", {SIZES(1, 1, 1, 1, 1, 1, 1), ALIGNED(1)}},
    {"no-keys", {SIZES(1, 2, 2, 16, 0, 64, 64), ALIGNED(16)}},
    {"no-rows", {SIZES(1, 2, 2, 0, 16, 64, 64), ALIGNED(16)}},
    {"no-batch", {SIZES(0, 2, 2, 5, 16, 64, 64), ALIGNED(16)}},
    {"long", {SIZES(1, 32, 8, 131072, 131072, 128, 128), TYPES(F16, F16, F16), ALIGNED(16)}},
    {"long-row", {SIZES(1, 1, 1, 1 << 24, 1 << 24, 64, 64), TYPES(F16, F16, F16), ALIGNED(16)}},
    {"many-items", {SIZES(4096, 12, 12, 64, 64, 64, 64), TYPES(F16, F16, F16), ALIGNED(16)}},
    {"many-heads", {SIZES(1, 32768, 32768, 16, 16, 64, 64), ALIGNED(16)}},
    {"70000-items", {SIZES(70000, 1, 1, 64, 64, 64, 64), ALIGNED(16)}},
    {"70000-heads", {SIZES(1, 70000, 70000, 1, 64, 64, 64), ALIGNED(16)}},
    {"huge-decode", {SIZES(1024, 128, 8, 1, 1 << 20, 128, 128), TYPES(F16, I8, F16), ALIGNED(16)}},
};
const int absent_problem_count = (int)(sizeof absent_problems / sizeof absent_problems[0]);

#define PRODUCT(m, n, k, x, w)                                                                               \
    .rows = m, .columns = n, .reduction = k, .type_x = x, .type_w = w, .type_y = x, .align_x = 16,           \
    .align_w = 16
const absent_projection absent_projections[] = {
    {"token", {PRODUCT(1, 4096, 4096, F32, F32)}},
    {"token-f16", {PRODUCT(1, 4096, 4096, F16, F16)}},
    {"token-bf16", {PRODUCT(1, 1024, 4096, BF16, BF16), .rope_head = 128}},
    {"token-mixed", {PRODUCT(1, 4096, 4096, F32, F16)}},
    {"few-f16", {PRODUCT(7, 4096, 4096, F16, F16), .rope_head = 128, .rope_interleaved = true}},
    {"few-16", {PRODUCT(16, 4096, 4096, F16, F16)}},
    {"few-17", {PRODUCT(17, 4096, 4096, F16, F16)}},
    {"bert", {PRODUCT(512, 768, 768, F32, F32)}},
    {"bert-f16", {PRODUCT(512, 768, 768, F16, F16)}},
    {"llama", {PRODUCT(2048, 4096, 4096, F16, F16), .rope_head = 128}},
    {"llama-bf16", {PRODUCT(2048, 1024, 4096, BF16, BF16), .rope_head = 128}},
    {"llama-split", {PRODUCT(2048, 4096, 4096, F32, F32), .rope_head = 128, .split = true}},
    {"llama-split-bf16", {PRODUCT(2048, 1024, 4096, F32, BF16), .split = true}},
    {"odd", {.rows = 33, .columns = 77, .reduction = 131, .type_w = F16, .align_x = 1, .align_w = 1}},
    {"token-odd",
     {.rows = 1, .columns = 77, .reduction = 131, .type_x = F16, .type_w = F16, .align_x = 1, .align_w = 1}},
    {"one", {PRODUCT(1, 1, 1, F32, F32)}},
    {"none", {PRODUCT(0, 64, 64, F32, F32)}},
    {"tall", {PRODUCT((int64_t)1 << 31, 64, 64, F16, F16)}},
    {"wide", {PRODUCT(4, 1 << 24, 64, F16, F16)}},
};
const int absent_projection_count = (int)(sizeof absent_projections / sizeof absent_projections[0]);
