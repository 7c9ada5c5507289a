// backward_tiles.c: whether the register-tiled kernel for gradients fits, and with which tile. dq
// uses the same tile as dk and dv, which need more accumulators.
#include <stdio.h>

#include "args/backward_args.h"
#include "plan/backward_plan.h"

#define MOST_HEAD 256
#define MOST_QUADS 8  // limit on column quads of a result per work-item
#define SPILLED 160   // with more accumulators, spilling costs more than tiles gain
#define SMALL_TILE 16 // a tile this small need not be full

// In order of preference: fewest reads per multiply-add first. Wide heads need more columns of
// work-items, or fewer rows per work-item.
static const tile_shape shapes[] = {{8, 8, 16, 32}, {8, 8, 32, 32}, {4, 16, 16, 32}, {4, 8, 32, 32},
                                    {4, 8, 16, 16}, {4, 8, 8, 16},  {4, 4, 16, 16},  {4, 4, 8, 16}};
#define SHAPES (sizeof shapes / sizeof shapes[0])

static int widest(const problem *p) {
    return p->head_dim > p->head_dim_v ? p->head_dim : p->head_dim_v;
}
// Accumulators per work-item: scores, dout . v, dk and dv.
static int sums_of(const tile_shape *s, const problem *p) {
    return 4 * s->micro_rows *
           (2 + FLASH_TILES_QUADS(s->group_columns, p->head_dim) +
            FLASH_TILES_QUADS(s->group_columns, p->head_dim_v));
}
static uint64_t bytes_of(const tile_shape *s, const problem *p) {
    return sizeof(float) * (uint64_t)BACKWARD_TILES_LOCAL_FLOATS(s->micro_rows, s->group_rows,
                                                                 s->group_columns, s->chunk, widest(p));
}

static bool fits_device(const plan_input *in, const problem *p, const tile_shape *s) {
    return FLASH_TILES_QUADS(s->group_columns, widest(p)) <= MOST_QUADS &&
           bytes_of(s, p) <= cla_family_local_limit(in, KERNEL_BACKWARD_TILES) &&
           (uint64_t)s->group_rows * (uint64_t)s->group_columns <=
               cla_family_group_limit(in, KERNEL_BACKWARD_TILES);
}

// True if the tile is small or at least half full, and its accumulators fit registers.
static bool suits(const plan_input *in, const problem *p, const tile_shape *s) {
    const int rows = cla_family_tile_rows(s), most = p->n_q > p->n_kv ? p->n_q : p->n_kv;
    return (rows <= SMALL_TILE || rows / 2 < most) &&
           cla_family_in_registers(in, KERNEL_BACKWARD_TILES, sums_of(s, p), s->micro_rows, 0);
}

// The first shape that suits, else the shape with the fewest accumulators that fits the device.
static const tile_shape *choose_shape(const plan_input *in, const problem *p) {
    const tile_shape *least = NULL;
    for (const tile_shape *s = shapes; s < shapes + SHAPES; s++) {
        if (!fits_device(in, p, s)) continue;
        if (suits(in, p, s)) return s;
        if (!least || sums_of(s, p) < sums_of(least, p)) least = s;
    }
    return least && sums_of(least, p) <= SPILLED ? least : NULL;
}

static void take_shape(const plan_input *in, const problem *p, const tile_shape *s, backward_variant *v) {
    cla_family_take_tile(in, p, s, &v->knobs);
    v->work_group = s->group_rows * s->group_columns;
    v->own_rows = cla_family_tile_rows(s), v->other_rows = 4 * s->group_columns;
    v->local_bytes = (size_t)bytes_of(s, p);
    snprintf(v->why, sizeof v->why,
             "a tile of %d rows and %d others, %d x 4 a work-item, in %llu of %llu bytes of local memory; %s",
             v->own_rows, v->other_rows, s->micro_rows, (unsigned long long)v->local_bytes,
             (unsigned long long)in->device->local_memory_bytes, cla_family_reads(&v->knobs));
}

const char *cla_backward_fit_tiles(const plan_input *in, const problem *p, const tuned_row *row,
                                   backward_variant *v) {
    const char *refusal = cla_family_gpu_refusal(in, row, KERNEL_BACKWARD_TILES);
    if (refusal) return refusal;
    if (widest(p) > MOST_HEAD) return "tiles in registers take head sizes up to 256";
    if (row && cla_family_row_has_tile(&row->knobs)) {
        const tile_shape own = cla_family_row_tile(&row->knobs);
        if (!fits_device(in, p, &own)) return "the tile of its tuned row is too large for the device";
        take_shape(in, p, &own, v);
        return NULL;
    }
    const tile_shape *s = choose_shape(in, p);
    if (!s) return "no tile of this head size fits the device's registers, local memory and work-groups";
    take_shape(in, p, s, v);
    v->sums = sums_of(s, p);
    return NULL;
}
