// probes.c: the table of probes: kernels, conditions, inputs and expected results. Inputs are small
// integers, so every product and sum is exact and the result is known to the bit.
#include <string.h>

#include "args/args.h"
#include "args/fragments.h"
#include "probe/int8_dot_gpu.h"
#include "probe/fragments.h"
#include "probe/lane_widths.h"
#include "probe/probe.h"
#include "probe/subgroups.h"

#define WORDS 16

static uint32_t float_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static uint32_t bf16_pair(float low, float high) {
    return float_bits(low) >> 16 | (float_bits(high) & 0xffff0000u);
}

// Multiply-adds in vectors of the device's width. They are correct everywhere. Only the rate
// matters.
static bool fma_applies(const clattn_capabilities *device) {
    return cla_lanes_possible(device);
}
static knobs fma_knobs(const clattn_capabilities *device) {
    const uint32_t width = device->float_vector_width;
    return (knobs){.lanes = width >= 16 ? 16 : width >= 8 ? 8 : 4};
}
static void fma_fill(uint32_t in[PROBE_WORDS]) {
    for (int i = 0; i < WORDS; i++) {
        const float n = (float)i;
        in[i] = float_bits(n + 1);
        in[WORDS + i] = float_bits(3 - n);
        in[2 * WORDS + i] = float_bits(2 * n);
    }
}
static void fma_expect(const knobs *k, uint32_t out[PROBE_WORDS]) {
    for (int i = 0; i < k->lanes; i++) {
        const float n = (float)i;
        out[i] = float_bits((n + 1) * (3 - n) + 2 * n);
    }
}
static double fma_flops(const knobs *k) {
    return 2.0 * 12 * k->lanes; // twelve accumulators
}

// Multiply-adds with the loads of a matrix product, in tiles for 32 registers.
#define LOADS_STEPS 32
static bool loads_apply(const clattn_capabilities *device) {
    return device->is_cpu && device->float_vector_width >= WORDS;
}
static knobs loads_2x8(const clattn_capabilities *device) {
    (void)device;
    return (knobs){.lanes = WORDS, .row_vectors = 2, .key_block = 8};
}
static knobs loads_4x6(const clattn_capabilities *device) {
    (void)device;
    return (knobs){.lanes = WORDS, .row_vectors = 4, .key_block = 6};
}
static uint32_t loads_word(int i) {
    return (uint32_t)(i * 7 + 3) % 11;
}
static void loads_fill(uint32_t in[PROBE_WORDS]) {
    for (int i = 0; i < 2 * WORDS; i++) in[i] = loads_word(i);
}
static void loads_expect(const knobs *k, uint32_t out[PROBE_WORDS]) {
    for (int lane = 0; lane < k->lanes; lane++) {
        uint32_t sum = 0;
        for (int i = 0; i < k->key_block * k->row_vectors * LOADS_STEPS; i++) {
            const int step = i % LOADS_STEPS, a = i / LOADS_STEPS % k->key_block,
                      b = i / LOADS_STEPS / k->key_block;
            sum += (uint32_t)(a + b + 1) * loads_word((a + step) % WORDS) *
                   ((uint32_t)lane + loads_word(WORDS + (b + step) % WORDS));
        }
        out[lane] = float_bits((float)sum);
    }
}
static double loads_flops(const knobs *k) {
    return 2.0 * k->key_block * k->row_vectors * LOADS_STEPS * k->lanes;
}

// True if probes may use x86 inline assembly. A CPU device runs on the host's CPU, but its compiler
// may not accept assembly.
static bool takes_x86(const clattn_capabilities *device) {
    return device->is_cpu && device->assembly & CLATTN_ASSEMBLY_X86;
}

// x86's bfloat16 dot product.
static bool dot_applies(const clattn_capabilities *device) {
    return takes_x86(device) && device->float_vector_width >= WORDS && cla_os_cpu_has_dot_bf16();
}
static knobs dot_knobs(const clattn_capabilities *device) {
    (void)device;
    return (knobs){.lanes = WORDS};
}
static void dot_fill(uint32_t in[PROBE_WORDS]) {
    for (int i = 0; i < WORDS; i++) {
        const float n = (float)i;
        in[i] = bf16_pair(n + 1, n + 2);
        in[WORDS + i] = bf16_pair(2 - n, 3);
        in[2 * WORDS + i] = float_bits(n - 5);
        in[3 * WORDS + i] = float_bits(7 * n);
    }
}
static void dot_expect(const knobs *k, uint32_t out[PROBE_WORDS]) {
    (void)k;
    for (int i = 0; i < WORDS; i++) {
        const float n = (float)i;
        out[i] = float_bits((n + 1) * (2 - n) + (n + 2) * 3);
        out[WORDS + i] = bf16_pair(n - 5, 7 * n);
    }
}
static double dot_flops(const knobs *k) {
    return 4.0 * 12 * k->lanes;
}

// x86's integer dot products of bytes and of words.
static bool integers_apply(const clattn_capabilities *device) {
    return takes_x86(device) && cla_os_cpu_dot_i8_lanes() >= 8 && device->float_vector_width >= 8;
}
static knobs integers_knobs(const clattn_capabilities *device) {
    const int lanes = cla_os_cpu_dot_i8_lanes(), width = device->float_vector_width >= WORDS ? WORDS : 8;
    return (knobs){.lanes = lanes < width ? lanes : width, .dot_i8 = DOT_I8_VNNI};
}
static uint32_t integers_word(int i) {
    return (uint32_t)(i + 1) * 2654435761u; // bytes and halves of both signs
}
static void integers_fill(uint32_t in[PROBE_WORDS]) {
    for (int i = 0; i < 2 * WORDS; i++) in[i] = integers_word(i);
}
static void integers_expect(const knobs *k, uint32_t out[PROBE_WORDS]) {
    for (int i = 0; i < k->lanes; i++) {
        const uint32_t a = integers_word(i), b = integers_word(WORDS + i);
        int bytes = 5, words = 5;
        for (int n = 0; n < 32; n += 8) bytes += (int)(a >> n & 255) * (int8_t)(b >> n & 255);
        for (int n = 0; n < 32; n += 16) words += (int16_t)(a >> n & 65535) * (int16_t)(b >> n & 65535);
        out[i] = (uint32_t)bytes, out[WORDS + i] = (uint32_t)words;
    }
}
// Two products per lane and instruction. A kernel's number is one word or two bytes. With bytes two
// instructions compute four products.
static double integers_flops(const knobs *k) {
    return 4.0 * 12 * k->lanes;
}

// One probe for each sub-group size.
#define SUBGROUPS_OF(size)                                                                                   \
    static bool applies_##size(const clattn_capabilities *device) {                                          \
        return cla_subgroup_possible(device, size);                                                          \
    }                                                                                                        \
    static knobs knobs_##size(const clattn_capabilities *device) {                                           \
        knobs k = {0};                                                                                       \
        cla_subgroup_knobs(device, size, &k);                                                                \
        return k;                                                                                            \
    }
SUBGROUPS_OF(8)
SUBGROUPS_OF(16)
SUBGROUPS_OF(32)
SUBGROUPS_OF(64)
static double subgroup_flops(const knobs *k) {
    return (double)k->subgroup; // one sum over a sub-group
}
#define SUBGROUPS_PROBE(size)                                                                                \
    {                                                                                                        \
        "sub-groups of " #size, KERNEL_PROBE_SUBGROUPS, applies_##size, knobs_##size, cla_subgroup_fill,     \
            cla_subgroup_expect, subgroup_flops, cla_subgroup_options, SUBGROUP_PROBE_ITEMS, 0, NULL, false  \
    }

#define AMX_WORDS 64

// AMX needs the engine bit too, which a context has only after the system granted the AMX
// registers.
static bool amx_applies(const clattn_capabilities *device) {
    return takes_x86(device);
}
static knobs amx_knobs(const clattn_capabilities *device) {
    (void)device;
    return (knobs){.lanes = WORDS, .matrix_engine = MATRIX_ENGINE_AMX};
}
// The first or second number of the pair in word i. Words 0 to 31 belong to A, the next 32 to B.
static int amx_number(int word, int second) {
    return word < 32 ? (word * 5 + second * 3) % 17 - 8 : (word * 7 + second * 2) % 13 - 6;
}
static void amx_fill(uint32_t in[PROBE_WORDS]) {
    for (int i = 0; i < AMX_WORDS; i++) in[i] = bf16_pair((float)amx_number(i, 0), (float)amx_number(i, 1));
}
static void amx_expect(const knobs *k, uint32_t out[PROBE_WORDS]) {
    int sums[AMX_WORDS] = {0};
    (void)k;
    for (int r = 0; r < 16; r++)
        for (int n = 0; n < 16; n++)
            for (int x = 0; x < 32; x++) { // element x of A's row and B's column
                const int a = amx_number((r + x / 2) % 32, x % 2);
                const int b = amx_number(32 + (x / 2 * 3 + n) % 32, x % 2);
                sums[16 * (r % 4) + n] += (r + 1) * a * b;
            }
    for (int i = 0; i < AMX_WORDS; i++) out[i] = float_bits((float)sums[i]);
}
static double amx_flops(const knobs *k) {
    (void)k;
    return 4.0 * 2.0 * 16 * 16 * 32;
}

// AMX tiles of bytes. The input has both signs, and the extreme values -128 and 127. No four
// adjacent bytes are equal.
static bool amx_i8_applies(const clattn_capabilities *device) {
    return takes_x86(device) && cla_os_cpu_has_amx_i8();
}
static knobs amx_i8_knobs(const clattn_capabilities *device) {
    (void)device;
    return (knobs){.type_kv = CLATTN_TYPE_I8, .lanes = WORDS, .matrix_engine = MATRIX_ENGINE_AMX};
}
static uint32_t amx_i8_word(int i) {
    return i % 32 == 5 ? 0x7f80807fu : (uint32_t)(i + 1) * 2654435761u;
}
static void amx_i8_fill(uint32_t in[PROBE_WORDS]) {
    for (int i = 0; i < AMX_WORDS; i++) in[i] = amx_i8_word(i);
}
static void amx_i8_expect(const knobs *k, uint32_t out[PROBE_WORDS]) {
    (void)k;
    for (int i = 0; i < AMX_WORDS; i++) out[i] = 0;
    for (int r = 0; r < 16; r++)
        for (int n = 0; n < 16; n++)
            for (int x = 0; x < 64; x++) { // byte x of A's row and B's column
                const int a = (int8_t)(amx_i8_word((r + x / 4) % 32) >> x % 4 * 8 & 255);
                const int b = (int8_t)(amx_i8_word(32 + (x / 4 * 3 + n) % 32) >> x % 4 * 8 & 255);
                out[16 * (r % 4) + n] += (uint32_t)((r + 1) * a * b);
            }
}
static double amx_i8_flops(const knobs *k) {
    return 2.0 * amx_flops(k);
}

// Vectors on a CPU device, as the lanes kernels use them. One probe for each width.
#define LANES_PROBE(width)                                                                                   \
    {                                                                                                        \
        "kernels in vectors of " #width " floats", KERNEL_PROBE_LANES, cla_lanes_possible, lanes_##width,    \
            cla_lanes_fill, cla_lanes_expect, cla_lanes_flops, NULL, 0, 0, cla_lanes_worth, false            \
    }
#define LANES_OF(width)                                                                                      \
    static knobs lanes_##width(const clattn_capabilities *device) {                                          \
        (void)device;                                                                                        \
        return cla_lanes_knobs(width);                                                                       \
    }
LANES_OF(4)
LANES_OF(8)
LANES_OF(16)

// Decode from more memory than a last-level cache holds. All keys are equal and all values are
// equal, so all weights are 1.
#define ASK_MEMORY (sizeof(uint32_t) * 2 * PROBE_ASK_TILES * PROBE_ASK_WORDS)
static bool ask_applies(const clattn_capabilities *device) {
    return cla_lanes_possible(device) && device->max_allocation_bytes / 2 >= ASK_MEMORY;
}
// False for an interpreter, on which the machine's caches have no measurable effect.
static bool ask_worth(const clattn_capabilities *device, const probe_results *known) {
    (void)device;
    return !(known->ran >> PROBE_FMA & 1u) || known->rate[PROBE_FMA] > 1.0f;
}
static knobs ask_knobs(const clattn_capabilities *device, int prefetch_level) {
    return (knobs){.type_q = CLATTN_TYPE_BF16,
                   .type_kv = CLATTN_TYPE_BF16,
                   .head_dim = PROBE_ASK_DIM,
                   .head_dim_v = PROBE_ASK_DIM,
                   .lanes = fma_knobs(device).lanes,
                   .rows = PROBE_ASK_ROWS,
                   .dot_bf16 = dot_applies(device),
                   .prefetch_level = prefetch_level};
}
static knobs ask_nothing(const clattn_capabilities *device) {
    return ask_knobs(device, PREFETCH_NOTHING);
}
static knobs ask_first(const clattn_capabilities *device) {
    return ask_knobs(device, PREFETCH_FIRST_LEVEL);
}
static knobs ask_second(const clattn_capabilities *device) {
    return ask_knobs(device, PREFETCH_SECOND_LEVEL);
}
static void ask_fill(uint32_t in[PROBE_WORDS]) {
    for (int i = 0; i < PROBE_ASK_ROWS * PROBE_ASK_DIM / 2; i++) in[i] = bf16_pair((float)(i % 3), 1.0f);
}
static void ask_expect(const knobs *k, uint32_t out[PROBE_WORDS]) {
    (void)k;
    for (int i = 0; i < PROBE_ASK_ROWS * PROBE_ASK_DIM; i++)
        out[i] = i % 2 ? float_bits((float)(i / 2 % 16 + 1)) : 0;
}
static double ask_flops(const knobs *k) {
    return 4.0 * 2 * PROBE_ASK_WORDS * k->rows;
}
#define ASK_PROBE(name, knobs)                                                                               \
    {                                                                                                        \
        name, KERNEL_PROBE_ASK, ask_applies, knobs, ask_fill, ask_expect, ask_flops, NULL, 0, 0, ask_worth,  \
            ASK_MEMORY                                                                                       \
    }

// Matrix fragments: see fragments.h.
#define FRAGMENTS_OF(engine)                                                                                 \
    static bool engine##_applies(const clattn_capabilities *device) {                                        \
        return cla_fragments_apply(device, PROBE_##engine##_F16);                                            \
    }                                                                                                        \
    static knobs engine##_f16(const clattn_capabilities *device) {                                           \
        return cla_fragments_knobs(device, PROBE_##engine##_F16);                                            \
    }                                                                                                        \
    static knobs engine##_bf16(const clattn_capabilities *device) {                                          \
        return cla_fragments_knobs(device, PROBE_##engine##_BF16);                                           \
    }
FRAGMENTS_OF(MMA)
FRAGMENTS_OF(WMMA)
FRAGMENTS_OF(MFMA)
FRAGMENTS_OF(DPAS)
FRAGMENTS_OF(WGMMA)
#define FRAGMENTS_PROBE(type, engine, words, way)                                                            \
    {                                                                                                        \
        "matrix fragments of " type " (" words ")", KERNEL_PROBE_FRAGMENTS, engine##_applies,                \
            engine##_##way, cla_fragments_fill_##way, cla_fragments_expect, cla_fragments_flops, NULL,       \
            PROBE_FRAGMENTS_ITEMS, 0, NULL, false                                                            \
    }
#define WGMMA_PROBE(type, way)                                                                               \
    {                                                                                                        \
        "matrix fragments of " type " (wgmma)", KERNEL_PROBE_WGMMA, WGMMA_applies, WGMMA_##way,              \
            cla_fragments_fill_##way, cla_wgmma_expect, cla_fragments_flops, NULL, PROBE_FRAGMENTS_ITEMS, 0, \
            NULL, false                                                                                      \
    }

const probe cla_probes[PROBE_COUNT] = {
    [PROBE_FMA] = {"multiply-add in vectors", KERNEL_PROBE_FMA, fma_applies, fma_knobs, fma_fill, fma_expect,
                   fma_flops, NULL, 0, 0, NULL, false},
    [PROBE_DOT_BF16] = {"bfloat16 dot product", KERNEL_PROBE_DOT_BF16, dot_applies, dot_knobs, dot_fill,
                        dot_expect, dot_flops, NULL, 0, 0, NULL, false},
    [PROBE_SUBGROUPS_8] = SUBGROUPS_PROBE(8),
    [PROBE_SUBGROUPS_16] = SUBGROUPS_PROBE(16),
    [PROBE_SUBGROUPS_32] = SUBGROUPS_PROBE(32),
    [PROBE_SUBGROUPS_64] = SUBGROUPS_PROBE(64),
    [PROBE_AMX] = {"bfloat16 matrix tiles (AMX)", KERNEL_PROBE_AMX, amx_applies, amx_knobs, amx_fill,
                   amx_expect, amx_flops, NULL, 0, CLATTN_ENGINE_AMX, NULL, false},
    [PROBE_TILES] = {"tiles through local memory", KERNEL_PROBE_TILES, cla_tiles_possible, cla_tiles_knobs,
                     cla_lanes_fill, cla_tiles_expect, cla_tiles_flops, NULL, TILES_PROBE_ITEMS, 0, NULL,
                     false},
    [PROBE_LANES_4] = LANES_PROBE(4),
    [PROBE_LANES_8] = LANES_PROBE(8),
    [PROBE_LANES_16] = LANES_PROBE(16),
    [PROBE_LOADS_2X8] = {"multiply-add with loads, 2 x 8 vectors", KERNEL_PROBE_LOADS, loads_apply, loads_2x8,
                         loads_fill, loads_expect, loads_flops, NULL, 0, 0, NULL, false},
    [PROBE_LOADS_4X6] = {"multiply-add with loads, 4 x 6 vectors", KERNEL_PROBE_LOADS, loads_apply, loads_4x6,
                         loads_fill, loads_expect, loads_flops, NULL, 0, 0, NULL, false},
    [PROBE_ASK_NOTHING] = ASK_PROBE("decode, nothing is asked for ahead", ask_nothing),
    [PROBE_ASK_FIRST] = ASK_PROBE("decode, asks ahead into the first cache", ask_first),
    [PROBE_ASK_SECOND] = ASK_PROBE("decode, asks ahead into the second cache", ask_second),
    [PROBE_MMA_F16] = FRAGMENTS_PROBE("float16", MMA, "mma.sync", f16),
    [PROBE_MMA_BF16] = FRAGMENTS_PROBE("bfloat16", MMA, "mma.sync", bf16),
    [PROBE_DOT_I8] = {"integer dot product (VNNI)", KERNEL_PROBE_DOT_I8, integers_apply, integers_knobs,
                      integers_fill, integers_expect, integers_flops, NULL, 0, 0, NULL, false},
    [PROBE_WMMA_F16] = FRAGMENTS_PROBE("float16", WMMA, "WMMA", f16),
    [PROBE_WMMA_BF16] = FRAGMENTS_PROBE("bfloat16", WMMA, "WMMA", bf16),
    [PROBE_MFMA_F16] = FRAGMENTS_PROBE("float16", MFMA, "MFMA", f16),
    [PROBE_MFMA_BF16] = FRAGMENTS_PROBE("bfloat16", MFMA, "MFMA", bf16),
    [PROBE_DPAS_F16] = FRAGMENTS_PROBE("float16", DPAS, "DPAS", f16),
    [PROBE_DPAS_BF16] = FRAGMENTS_PROBE("bfloat16", DPAS, "DPAS", bf16),
    [PROBE_WGMMA_F16] = WGMMA_PROBE("float16", f16),
    [PROBE_WGMMA_BF16] = WGMMA_PROBE("bfloat16", bf16),
    [PROBE_DOT_I8_OWN] = {"integer dot product (GPUs)", KERNEL_PROBE_EIGHTS, cla_eights_apply,
                          cla_eights_knobs_integers, cla_eights_fill, cla_eights_expect, cla_eights_flops,
                          cla_eights_options, EIGHTS_PROBE_ITEMS, 0, NULL, false},
    [PROBE_EIGHTS] = {"products of int8 in float32", KERNEL_PROBE_EIGHTS, cla_eights_apply, cla_eights_knobs,
                      cla_eights_fill, cla_eights_expect, cla_eights_flops, NULL, EIGHTS_PROBE_ITEMS, 0, NULL,
                      false},
    [PROBE_AMX_I8] = {"int8 matrix tiles (AMX)", KERNEL_PROBE_AMX, amx_i8_applies, amx_i8_knobs, amx_i8_fill,
                      amx_i8_expect, amx_i8_flops, NULL, 0, CLATTN_ENGINE_AMX, NULL, false},
};
