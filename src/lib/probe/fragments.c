// fragments.c: see fragments.h.
#include "probe/fragments.h"

#include <string.h>

#include "args/args.h"
#include "args/fragments.h"

#define SIDE PROBE_FRAGMENTS_SIDE
#define ROWS 32      // reserved in the input
#define MMA_FIRST 80 // minimum compute capability
#define WGMMA_ALONE 90
#define DPAS_WAYS (CLATTN_SUBGROUPS_INTEL | CLATTN_SUBGROUPS_SIZE_INTEL | CLATTN_SUBGROUPS_MATRIX_INTEL)

// The engine that the device's properties allow for a probe. 0: none. For DPAS, chips that offer
// sub-groups of 8 require this size, and other chips require 16.
static int engine_of(const clattn_capabilities *device, probe_id id) {
    const unsigned bit = 1u << id;
    if (bit & PROBES_MMA) return device->compute_capability >= MMA_FIRST ? MATRIX_ENGINE_MMA : 0;
    if (bit & PROBES_WGMMA) return device->compute_capability == WGMMA_ALONE ? MATRIX_ENGINE_WGMMA : 0;
    const uint32_t wavefront = device->assembly & CLATTN_ASSEMBLY_AMD ? device->wavefront_width : 0;
    if (bit & PROBES_WMMA) return wavefront == 32 ? MATRIX_ENGINE_WMMA : 0;
    if (bit & PROBES_MFMA) return wavefront == 64 ? MATRIX_ENGINE_MFMA : 0;
    if (!(bit & PROBES_DPAS) || (device->subgroup_ways & DPAS_WAYS) != DPAS_WAYS) return 0;
    return device->subgroup_sizes & 8u    ? MATRIX_ENGINE_DPAS_8
           : device->subgroup_sizes & 16u ? MATRIX_ENGINE_DPAS_16
                                          : 0;
}

bool cla_fragments_apply(const clattn_capabilities *device, probe_id id) {
    return engine_of(device, id) != 0 && device->max_work_group >= PROBE_FRAGMENTS_ITEMS;
}

knobs cla_fragments_knobs(const clattn_capabilities *device, probe_id id) {
    const unsigned bf16 = 1u << PROBE_MMA_BF16 | 1u << PROBE_WMMA_BF16 | 1u << PROBE_MFMA_BF16 |
                          1u << PROBE_DPAS_BF16 | 1u << PROBE_WGMMA_BF16;
    return (knobs){.type_kv = bf16 >> id & 1u ? CLATTN_TYPE_BF16 : CLATTN_TYPE_F16,
                   .matrix_engine = engine_of(device, id)};
}

bool cla_fragments_possible(const clattn_capabilities *device) {
    for (int id = PROBE_NONE + 1; id < PROBE_COUNT; id++)
        if (PROBES_FRAGMENTS >> id & 1u && engine_of(device, (probe_id)id)) return true;
    return false;
}

// Number i of A, from -1 to 1, then of B, from -3 to 3. The last eight are 0, because the probe
// does not copy them. No two rows or columns are equal.
static int number(int i) {
    const uint32_t mixed = ((uint32_t)i + 1) * 2654435761u;
    if (i < ROWS * SIDE) return (int)(mixed >> 13) % 3 - 1;
    return i < 2 * ROWS * SIDE - 8 ? (int)(mixed >> 15) % 7 - 3 : 0;
}
static uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static uint32_t f16_bits(int n) {
    static const uint16_t whole[] = {0, 0x3c00, 0x4000, 0x4200};
    return n < 0 ? 0x8000u | whole[-n] : whole[n];
}
void cla_fragments_fill_f16(uint32_t *in) {
    for (int i = 0; i < ROWS * SIDE; i++) in[i] = f16_bits(number(2 * i)) | f16_bits(number(2 * i + 1)) << 16;
}
void cla_fragments_fill_bf16(uint32_t *in) {
    for (int i = 0; i < ROWS * SIDE; i++)
        in[i] = bits_of((float)number(2 * i)) >> 16 | (bits_of((float)number(2 * i + 1)) & 0xffff0000u);
}

int cla_fragments_engine(const knobs *k) {
    if (k->matrix_engine != MATRIX_ENGINE_EMULATION) return k->matrix_engine;
    return k->emulated ? k->emulated : MATRIX_ENGINE_MMA;
}

void cla_fragments_expect(const knobs *k, uint32_t *out) {
    const int rows = FRAGMENTS_ROWS(cla_fragments_engine(k));
    for (int r = 0; r < rows; r++) {
        int p[SIDE] = {0}, most = -1000;
        for (int c = 0; c < SIDE; c++) {
            for (int d = 0; d < SIDE; d++) p[c] += number(SIDE * r + d) * number(SIDE * (ROWS + c) + d);
            if (p[c] > most) most = p[c];
            out[SIDE * r + c] = bits_of((float)p[c]);
        }
        for (int c = 0; c < SIDE; c++) {
            int sum = 0;
            for (int d = 0; d < SIDE; d++) sum += p[d] * number(SIDE * (ROWS + d) + c);
            out[SIDE * (rows + r) + c] = bits_of((float)sum);
        }
        out[2 * rows * SIDE + r] = bits_of((float)most);
    }
}

#define WHOLE_SIDE 64
static int number_of(int piece, int column) {
    return number(8 * (piece % 128) + column % 8);
}
static int whole_a(int row, int column) {
    return number_of(37 * row + 11 * (column / 8), column);
}
static int whole_b(int row, int column) {
    return number_of(29 * row + 5 * (column / 8) + 3, column);
}
void cla_wgmma_expect(const knobs *k, uint32_t *out) {
    (void)k;
    for (int n = 0; n < WHOLE_SIDE / 4; n++) {
        int p[WHOLE_SIDE] = {0};
        for (int j = 0; j < WHOLE_SIDE; j++)
            for (int d = 0; d < WHOLE_SIDE; d++) p[j] += whole_a(4 * n, d) * whole_b(j, d);
        for (int c = 0; c < WHOLE_SIDE; c++) {
            int sum = 0;
            for (int j = 0; j < WHOLE_SIDE; j++) sum += p[j] * whole_b(j, c);
            out[WHOLE_SIDE * n + c] = bits_of((float)sum);
        }
    }
}

// Operations per round of the whole work-group. A warp's product has 16 rows, 8 columns and an
// inner size of 16, or the engine's larger equivalent.
double cla_fragments_flops(const knobs *k) {
    const int engine = cla_fragments_engine(k), rows = FRAGMENTS_ROWS(engine);
    const int warps = PROBE_FRAGMENTS_ITEMS / FRAGMENTS_ITEMS(engine);
    const int columns = engine == MATRIX_ENGINE_MFMA     ? 32
                        : engine <= MATRIX_ENGINE_MMA    ? 8
                        : engine == MATRIX_ENGINE_WGMMA  ? WHOLE_SIDE
                        : engine >= MATRIX_ENGINE_DPAS_8 ? 8
                                                         : 16;
    const int products = engine <= MATRIX_ENGINE_WGMMA ? 8 : 4;
    return 2.0 * rows * columns * (engine == MATRIX_ENGINE_MFMA ? 8 : 16) * products * warps;
}
