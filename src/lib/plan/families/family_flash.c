// family_flash.c: the tiled kernel for any OpenCL 1.2 device. It serves the flash path, and with
// split keys the decode path.
#include <stdio.h>

#include "args/args.h"
#include "plan/families/family.h"

// Choose the largest tile that fits local memory and the work-group limit.
static const char *fit(const plan_input *in, const problem *p, const tuned_row *row, variant *v) {
    static const struct {
        int tile_q, tile_kv, row_items;
    } tiles[] = {{16, 32, 8}, {16, 16, 8}, {8, 16, 8}, {8, 8, 8}, {4, 8, 8}, {2, 8, 8}, {1, 8, 8}, {1, 1, 1}};
    const uint64_t most = cla_family_group_limit(in, KERNEL_FLASH);
    (void)row;
    for (size_t i = 0; i < sizeof tiles / sizeof tiles[0]; i++) {
        const int group = tiles[i].tile_q * tiles[i].row_items;
        const uint64_t bytes = sizeof(float) * (uint64_t)FLASH_LOCAL_FLOATS(tiles[i].tile_q, tiles[i].tile_kv,
                                                                            p->head_dim, p->head_dim_v);
        if (bytes > cla_family_local_limit(in, KERNEL_FLASH) || (uint64_t)group > most) continue;
        v->knobs.tile_q = tiles[i].tile_q;
        v->knobs.tile_kv = tiles[i].tile_kv;
        v->knobs.row_items = tiles[i].row_items;
        v->work_group = group;
        v->rows_per_group = tiles[i].tile_q;
        v->local_bytes = (size_t)bytes;
        return cla_family_tile_grid(in, p, v);
    }
    return "no tile of this head size fits the device's local memory";
}

static void explain(const plan_input *in, const variant *v, char why[200]) {
    snprintf(why, 200, "a tile of %d rows and %d keys takes %llu of %llu bytes of local memory",
             v->knobs.tile_q, v->knobs.tile_kv, (unsigned long long)v->local_bytes,
             (unsigned long long)in->device->local_memory_bytes);
}

const family cla_family_flash = {.name = "flash",
                                 .tunes = "",
                                 .id = KERNEL_FLASH,
                                 .path = CLATTN_KERNEL_FLASH,
                                 .can = CAN_MANY_ROWS | CAN_DROPOUT | CAN_RAGGED,
                                 .fit = fit,
                                 .explain = explain};

const family cla_family_decode_portable = {.name = "decode_portable",
                                           .id = KERNEL_FLASH,
                                           .path = CLATTN_KERNEL_DECODE,
                                           .can = CAN_SPLIT | CAN_DROPOUT | CAN_RAGGED,
                                           .fit = fit,
                                           .explain = explain};
