// family_flash_tiles.c: the register-tiled kernel for GPUs, on the flash path with or without
// sub-groups. On the decode path its rows are those of all query heads of a key/value head. CPUs
// with vectors use it only if a tuned row of the caller names it.
#include <stdio.h>

#include "args/args.h"
#include "probe/subgroups.h"
#include "plan/families/family.h"

#define MOST_QUADS 8 // limit on column quads of the output per work-item
#define MOST_COLUMNS 512
#define MANY_COLUMNS 256 // for wider heads the tile must fit registers
#define MOST_GROUP 1024
#define MOST_CHUNK 64
#define LARGE_LOCAL (64 << 10)
// with fewer query rows of all heads of a key/value head, most of a tile is idle
#define LEAST_ROWS 16

#define NO_SUBGROUPS "no sub-groups were probed right, or of a size that holds a row's work-items"

// In order of preference. The first tile halves the traffic of K and V. With less than 64 KiB of
// local memory, only one group of this tile fits a compute unit. The fourth tile needs 16,016 bytes
// of local memory.
static const tile_shape shapes[] = {{8, 16, 16, 32}, {8, 8, 16, 32}, {4, 16, 16, 32},
                                    {8, 8, 8, 32},   {4, 8, 16, 16}, {4, 16, 8, 32},
                                    {4, 4, 16, 16},  {4, 8, 8, 16},  {4, 4, 8, 16}};
#define SHAPES (sizeof shapes / sizeof shapes[0])

static int sums_of(const tile_shape *s, int head_dim_v) {
    return 4 * s->micro_rows * (1 + FLASH_TILES_QUADS(s->group_columns, head_dim_v));
}
// The bytes of local memory. Dropout needs one more word per work-item. For rows of several heads,
// each row's place is stored.
static uint64_t bytes_of(const tile_shape *s, const problem *p, enum kernel_id id, int subgroup) {
    const int dropped = p->dropout ? s->group_rows * s->group_columns : 0;
    const uint64_t places =
        id == KERNEL_DECODE_TILES ? (uint64_t)DECODE_TILES_PLACES_BYTES(s->micro_rows, s->group_rows) : 0;
    return places + sizeof(float) *
                        (uint64_t)(FLASH_TILES_LOCAL_FLOATS(s->micro_rows, s->group_rows, s->group_columns,
                                                            s->chunk, p->head_dim_v,
                                                            FLASH_TILES_LINES(s->group_columns, subgroup)) +
                                   dropped);
}

static bool in_registers(const plan_input *in, const problem *p, enum kernel_id id, const tile_shape *s,
                         int subgroup) {
    return cla_family_in_registers(in, id, sums_of(s, p->head_dim_v), s->micro_rows, subgroup);
}

static bool fits_device(const plan_input *in, const problem *p, enum kernel_id id, const tile_shape *s) {
    return FLASH_TILES_QUADS(s->group_columns, p->head_dim_v) <= MOST_QUADS &&
           bytes_of(s, p, id, 0) <= cla_family_local_limit(in, id) &&
           (uint64_t)s->group_rows * (uint64_t)s->group_columns <= cla_family_group_limit(in, id);
}

// True if the tile is small or at least half full, and its accumulators fit registers. The largest
// tile also needs 64 KiB of local memory, and four groups per compute unit.
static bool suits(const plan_input *in, const problem *p, enum kernel_id id, const tile_shape *s,
                  int subgroup) {
    const int rows = cla_family_tile_rows(s);
    if (rows > 16 && rows / 2 >= p->n_q) return false;
    if (!in_registers(in, p, id, s, subgroup)) return false;
    return s != &shapes[0] || (in->device->local_memory_bytes >= LARGE_LOCAL &&
                               cla_family_tiles(p, rows) >= 4 * (uint64_t)in->device->compute_units);
}

// Set the knobs for sub-groups that contain all work-items of a row. False: there are none.
static bool has_subgroups(const plan_input *in, const tuned_row *row, const tile_shape *s, variant *v) {
    const int size = cla_family_subgroup(in, row, s->group_rows * s->group_columns, v);
    const unsigned shuffles = SUBGROUPS_INTEL | SUBGROUPS_SHUFFLE_KHR | SUBGROUPS_SHUFFLE_QCOM;
    return size == s->group_columns || (size > s->group_columns && in->device->subgroup_ways & shuffles);
}

// The first shape that suits, else the shape with the fewest accumulators that fits the device. If
// `subgroups`, only shapes with sub-groups count.
static bool choose_shape(const plan_input *in, const problem *p, enum kernel_id id, bool subgroups,
                         const tuned_row *row, tile_shape *s, variant *v) {
    const tile_shape *least = NULL;
    for (size_t i = 0; i < SHAPES; i++) {
        const tile_shape *x = &shapes[i];
        if (!fits_device(in, p, id, x) || (subgroups && !has_subgroups(in, row, x, v))) continue;
        if (suits(in, p, id, x, v->knobs.subgroup)) {
            *s = *x;
            return true;
        }
        if (!least || sums_of(x, p->head_dim_v) < sums_of(least, p->head_dim_v)) least = x;
    }
    if (least) *s = *least;
    return least != NULL;
}

const char *cla_family_tiles_refusal(const knobs *row) {
    const tile_shape s = cla_family_row_tile(row);
    const int columns = s.group_columns, size = row->subgroup;
    if (s.micro_rows != 4 && s.micro_rows != 8) return "asks for MICRO_ROWS that are neither 4 nor 8";
    if (columns != 8 && columns != 16 && columns != 32 && columns != 64)
        return "asks for GROUP_COLUMNS that are none of 8, 16, 32, 64";
    if (s.group_rows > MOST_GROUP / columns)
        return "asks for a work-group, GROUP_ROWS * GROUP_COLUMNS, of more than 1024";
    if (s.chunk % 4 || s.chunk > MOST_CHUNK) return "asks for a CHUNK that is no multiple of 4, or above 64";
    if (size > 1 && size != 8 && size != 16 && size != 32 && size != 64)
        return "asks for a SUBGROUP that is none of 1 (no sub-groups), 8, 16, 32, 64";
    return NULL;
}

static const char *fit_tile(const plan_input *in, const problem *p, enum kernel_id id, bool subgroups,
                            const tuned_row *row, variant *v) {
    const char *refusal = cla_family_gpu_refusal(in, row, id);
    const bool own = row && cla_family_row_has_tile(&row->knobs);
    tile_shape s;
    if (refusal) return refusal;
    if (p->head_dim_v > MOST_COLUMNS) return "at most 512 columns of v: the plain kernel takes more";
    if (own) {
        s = cla_family_row_tile(&row->knobs);
        if (!fits_device(in, p, id, &s)) return "the tile of its tuned row is too large for the device";
    } else if (!choose_shape(in, p, id, subgroups, row, &s, v))
        return "no tile of this head size fits the device's local memory and work-groups";
    if (subgroups && !has_subgroups(in, row, &s, v)) return NO_SUBGROUPS;
    const bool kept = in_registers(in, p, id, &s, v->knobs.subgroup);
    if (subgroups && !own && cla_subgroup_least(in->device) && !kept)
        return "no tile of this head size stays in the registers of the device's sub-groups";
    if ((p->head_dim_v > MANY_COLUMNS || id == KERNEL_DECODE_TILES) && !own && !kept)
        return "no tile of so many columns of v stays in registers: another kernel takes them";
    cla_family_take_tile(in, p, &s, &v->knobs);
    v->work_group = s.group_rows * s.group_columns;
    v->rows_per_group = cla_family_tile_rows(&s);
    v->sums = !own && kept ? sums_of(&s, p->head_dim_v) : 0;
    v->local_bytes = (size_t)bytes_of(&s, p, id, v->knobs.subgroup);
    return cla_family_tile_grid(in, p, v);
}

static const char *fit(const plan_input *in, const problem *p, const tuned_row *row, variant *v) {
    return fit_tile(in, p, KERNEL_FLASH_TILES, false, row, v);
}

static const char *fit_subgroups(const plan_input *in, const problem *p, const tuned_row *row, variant *v) {
    if (!(in->probes.proven & PROBES_SUBGROUPS)) return NO_SUBGROUPS;
    return fit_tile(in, p, KERNEL_FLASH_TILES, true, row, v);
}

// Treat the rows of all query heads of a key/value head as rows of one head. With fewer than 16
// rows most of a tile would be idle, so decode_groups is preferred (an estimate).
static const char *fit_heads(const plan_input *in, const problem *p, const tuned_row *row, variant *v) {
    const int64_t all = (int64_t)p->n_q * (p->kv_heads ? p->heads / p->kv_heads : 1);
    const bool own = row && row->id == KERNEL_DECODE_TILES;
    problem heads = *p;
    if (row && !own) return "a tuned row names another kernel";
    if (all > INT32_MAX / 2) return "query rows that share a key/value head: must be below 2^30";
    if (!own && all < LEAST_ROWS) return "for 16 query rows or more on a key/value head";
    heads.n_q = (int)all, heads.heads = p->kv_heads;
    return fit_tile(in, &heads, KERNEL_DECODE_TILES, false, row, v);
}

static void explain(const plan_input *in, const variant *v, char why[200]) {
    const knobs *k = &v->knobs;
    char subgroups[40] = "";
    if (k->subgroup) snprintf(subgroups, sizeof subgroups, ", sub-groups of %d", k->subgroup);
    snprintf(why, 200,
             "a tile of %d rows and %d keys, %d x 4 a work-item%s, in %llu of %llu bytes of local memory; %s",
             v->rows_per_group, 4 * k->group_columns, k->micro_rows, subgroups,
             (unsigned long long)v->local_bytes, (unsigned long long)in->device->local_memory_bytes,
             cla_family_reads(k));
}

const family cla_family_flash_subgroups = {.name = "flash_subgroups",
                                           .id = KERNEL_FLASH_TILES,
                                           .path = CLATTN_KERNEL_FLASH,
                                           .can = CAN_MANY_ROWS | CAN_DROPOUT | CAN_RAGGED,
                                           .subgroups = true,
                                           .fit = fit_subgroups,
                                           .explain = explain};

const family cla_family_flash_tiles = {.name = "flash_tiles",
                                       .tunes = "MICRO_ROWS GROUP_ROWS GROUP_COLUMNS CHUNK SUBGROUP ",
                                       .id = KERNEL_FLASH_TILES,
                                       .path = CLATTN_KERNEL_FLASH,
                                       .can = CAN_MANY_ROWS | CAN_DROPOUT | CAN_RAGGED,
                                       .knobs_refusal = cla_family_tiles_refusal,
                                       .fit = fit,
                                       .explain = explain};

const family cla_family_decode_tiles = {
    .name = "decode_tiles",
    .tunes = "MICRO_ROWS GROUP_ROWS GROUP_COLUMNS CHUNK ",
    .id = KERNEL_DECODE_TILES,
    .path = CLATTN_KERNEL_DECODE,
    .can = CAN_SPLIT,
    .never_ops = ARGS_SCORE_OPS & ~ARGS_SOFTCAP,
    .never_why = "options of a score that differ among rows of several heads: decode_groups takes them",
    .knobs_refusal = cla_family_tiles_refusal,
    .fit = fit_heads,
    .explain = explain};
