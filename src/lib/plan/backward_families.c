// backward_families.c: see backward_families.h.
#include "plan/backward_families.h"

#include "args/args.h"

void cla_backward_complete_lanes(knobs *k, const knobs *row) {
    k->row_vectors = k->lanes == 16 ? 2 : 1, k->key_block = 8, k->tile_kv = k->lanes == 16 ? 256 : 128;
    cla_knobs_override(k, row);
}

void cla_backward_complete_matrix(knobs *k, const knobs *row) {
    k->lanes = 16, k->row_vectors = 4, k->key_block = 4, k->tile_kv = 256;
    cla_knobs_override(k, row);
}

static const char *matrix_refusal(const knobs *row) {
    knobs k = {0};
    cla_backward_complete_matrix(&k, row);
    if (k.matrix_engine > MATRIX_ENGINE_AMX) return "asks for a MATRIX_ENGINE that is none of 1, 2";
    if (k.tile_kv % MATRIX_PACK_KEYS) return "asks for a TILE_KV that is no multiple of 32";
    if (k.row_vectors % 2) return "asks for ROW_VECTORS that are not even";
    if (k.key_block % 2 || MATRIX_PACK_KEYS % k.key_block)
        return "asks for a KEY_BLOCK that is none of 2, 4, 8, 16, 32";
    return cla_family_tile_refusal(&k);
}

static const char *lanes_refusal(const knobs *row) {
    knobs k = {.lanes = row->lanes};
    cla_backward_complete_lanes(&k, row);
    return cla_family_tile_refusal(&k);
}

// `engine` computes the products; `reach` is the share of the engine's rate that attention
// achieves. Both values are those of the forward families. For AMX the share is not measured for
// gradients, so the forward share is used.
const family cla_backward_families[CLA_BACKWARD_FAMILIES] = {
    [BACKWARD_MATRIX] = {.name = "backward_matrix",
                         .tunes = "ROW_VECTORS KEY_BLOCK TILE_KV MATRIX_ENGINE ",
                         .id = KERNEL_BACKWARD_MATRIX,
                         .engine = PROBE_AMX,
                         .reach = 0.2f,
                         .head_step = MATRIX_PACK_KEYS,
                         .knobs_refusal = matrix_refusal},
    [BACKWARD_LANES] = {.name = "backward_lanes",
                        .tunes = "LANES ROW_VECTORS KEY_BLOCK TILE_KV ",
                        .id = KERNEL_BACKWARD_LANES,
                        .reach = 0.8f,
                        .knobs_refusal = lanes_refusal},
    [BACKWARD_TILES] = {.name = "backward_tiles",
                        .tunes = "MICRO_ROWS GROUP_ROWS GROUP_COLUMNS CHUNK ",
                        .id = KERNEL_BACKWARD_TILES,
                        .knobs_refusal = cla_family_tiles_refusal},
    [BACKWARD_PORTABLE] = {.name = "backward", .tunes = "", .id = KERNEL_BACKWARD}};
