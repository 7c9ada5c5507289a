// variant.c: which kernel a call takes. The order of preference is: what the caller asks for; the unfused
// path where scores or weights are wanted; else flash, with the largest tile that the device's local memory
// and work-group hold.
#include "plan/variant.h"

#include <stdio.h>
#include <string.h>

#include "args.h"

// Scores that the unfused path holds at once when the caller does not keep the weights. 64 MiB: measured on
// PoCL, larger chunks gain nothing because a chunk no longer fits any cache.
#define UNFUSED_CHUNK_BYTES ((uint64_t)64 << 20)
#define ROW_BLOCK 4 // rows that a work-item of scores.cl and values.cl owns

static clattn_status cannot(variant *v, const char *why) {
    snprintf(v->why, sizeof v->why, "%s", why);
    return CLATTN_UNSUPPORTED;
}

static void type_knobs(const problem *p, knobs *k) {
    k->type_q = (int)p->type_q;
    k->type_kv = (int)p->type_kv;
    k->type_out = (int)p->type_out;
    k->type_bias = p->extras ? (int)p->type_bias : 0;
    k->extras = p->extras;
}

// A power of two not above the device's limit; one work-item on a CPU, where a core walks a row alone.
static int softmax_group(const clattn_capabilities *device) {
    int group = 64;
    if (device->is_cpu) return 1;
    while (group > 1 &&
           ((uint64_t)group > device->max_work_group || (uint64_t)group > device->max_work_item[0]))
        group /= 2;
    return group;
}

static clattn_status choose_unfused(const clattn_capabilities *device, const problem *p, variant *v) {
    v->kernel = CLATTN_KERNEL_UNFUSED;
    v->id = KERNEL_SCORES;
    v->splits = 1;
    v->softmax_group = softmax_group(device);
    const uint64_t items = (uint64_t)p->batch * (uint64_t)p->heads;
    const uint64_t row = (uint64_t)p->n_kv * sizeof(float), item = row * (uint64_t)p->n_q;
    v->chunk_rows = p->n_q;
    v->chunk_items = (int)(items < INT32_MAX ? items : INT32_MAX);
    const bool scores_have_a_home = (p->wants_weights && p->type_weights == CLATTN_TYPE_F32);
    if (scores_have_a_home || item == 0) return CLATTN_OK;
    if (item > UNFUSED_CHUNK_BYTES) {
        const uint64_t rows = UNFUSED_CHUNK_BYTES / row / ROW_BLOCK * ROW_BLOCK;
        v->chunk_items = 1;
        v->chunk_rows = (int)(rows < ROW_BLOCK ? ROW_BLOCK : rows);
        if (v->chunk_rows > p->n_q) v->chunk_rows = p->n_q;
    } else if (items * item > UNFUSED_CHUNK_BYTES) {
        v->chunk_items = (int)(UNFUSED_CHUNK_BYTES / item);
    }
    v->workspace_bytes = (size_t)((uint64_t)v->chunk_items * (uint64_t)v->chunk_rows * row);
    return CLATTN_OK;
}

static clattn_status choose_flash_portable(const clattn_capabilities *device, const problem *p, variant *v) {
    static const struct {
        int tile_q, tile_kv, row_items;
    } tiles[] = {{16, 32, 8}, {16, 16, 8}, {8, 16, 8}, {8, 8, 8}, {4, 8, 8}, {2, 8, 8}, {1, 8, 8}, {1, 1, 1}};
    v->kernel = CLATTN_KERNEL_FLASH;
    v->id = KERNEL_FLASH;
    v->splits = 1;
    v->split_keys = p->n_kv;
    for (size_t i = 0; i < sizeof tiles / sizeof tiles[0]; i++) {
        const int group = tiles[i].tile_q * tiles[i].row_items;
        const uint64_t bytes = sizeof(float) * (uint64_t)FLASH_LOCAL_FLOATS(tiles[i].tile_q, tiles[i].tile_kv,
                                                                            p->head_dim, p->head_dim_v);
        if (bytes > device->local_memory_bytes || (uint64_t)group > device->max_work_group ||
            (uint64_t)group > device->max_work_item[0])
            continue;
        type_knobs(p, &v->knobs);
        v->knobs.head_dim = p->head_dim;
        v->knobs.head_dim_v = p->head_dim_v;
        v->knobs.tile_q = tiles[i].tile_q;
        v->knobs.tile_kv = tiles[i].tile_kv;
        v->knobs.row_items = tiles[i].row_items;
        v->work_group = group;
        v->rows_per_group = tiles[i].tile_q;
        v->local_bytes = (size_t)bytes;
        return CLATTN_OK;
    }
    return cannot(v, "flash: no tile of this head size fits the device's local memory");
}

// A whole head must fit a tile; beyond this the unfused path is the one that works.
#define FLASH_MAX_HEAD 576

static clattn_status choose_flash(const clattn_capabilities *device, const problem *p, variant *v) {
    if (p->wants_weights || p->wants_scores)
        return cannot(v, "flash: returns no weights and no score taps: the unfused kernel does");
    if (p->head_dim > FLASH_MAX_HEAD || p->head_dim_v > FLASH_MAX_HEAD)
        return cannot(v, "flash: head sizes up to 576: the unfused kernel takes any");
    return choose_flash_portable(device, p, v);
}

clattn_status variant_choose(const clattn_capabilities *device, const problem *p, variant *v) {
    memset(v, 0, sizeof *v);
    if (p->splits > 1 && p->kernel != CLATTN_KERNEL_DECODE)
        return cannot(v, "splits: only the decode kernel splits keys on request");
    if (p->kernel == CLATTN_KERNEL_DECODE)
        return cannot(v, "kernel: decode is not built yet: take auto, flash or unfused");
    if (p->kernel == CLATTN_KERNEL_FLASH) {
        const clattn_status status = choose_flash(device, p, v);
        if (status == CLATTN_OK) snprintf(v->why, sizeof v->why, "flash: as asked");
        return status;
    }
    if (p->kernel == CLATTN_KERNEL_AUTO && choose_flash(device, p, v) == CLATTN_OK) {
        snprintf(
            v->why, sizeof v->why,
            "flash: no weights are wanted, and a tile of %d rows and %d keys fits %llu bytes of local memory",
            v->knobs.tile_q, v->knobs.tile_kv, (unsigned long long)device->local_memory_bytes);
        return CLATTN_OK;
    }
    char reason[sizeof v->why];
    memcpy(reason, v->why, sizeof reason);
    memset(v, 0, sizeof *v);
    const clattn_status status = choose_unfused(device, p, v);
    snprintf(v->why, sizeof v->why, "unfused: %.200s",
             p->kernel == CLATTN_KERNEL_UNFUSED    ? "as asked"
             : p->wants_weights || p->wants_scores ? "weights or scores are wanted"
                                                   : reason);
    return status;
}
