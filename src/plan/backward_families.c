// backward_families.c: see backward_families.h.
#include "plan/backward_families.h"

void cla_backward_complete_lanes(knobs *k, const knobs *row) {
    k->row_vectors = k->lanes == 16 ? 2 : 1, k->key_block = 8, k->tile_kv = k->lanes == 16 ? 256 : 128;
    cla_knobs_override(k, row);
}

static const char *lanes_refusal(const knobs *row) {
    knobs k = {.lanes = row->lanes};
    cla_backward_complete_lanes(&k, row);
    return cla_family_tile_refusal(&k);
}

const family cla_backward_families[CLA_BACKWARD_FAMILIES] = {
    [BACKWARD_LANES] = {.name = "backward_lanes",
                        .tunes = "LANES ROW_VECTORS KEY_BLOCK TILE_KV ",
                        .id = KERNEL_BACKWARD_LANES,
                        .knobs_refusal = lanes_refusal},
    [BACKWARD_TILES] = {.name = "backward_tiles",
                        .tunes = "MICRO_ROWS GROUP_ROWS GROUP_COLUMNS CHUNK ",
                        .id = KERNEL_BACKWARD_TILES,
                        .knobs_refusal = cla_family_tiles_refusal},
    [BACKWARD_PORTABLE] = {.name = "backward", .tunes = "", .id = KERNEL_BACKWARD}};
