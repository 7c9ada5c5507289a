// family_linear_tiles.c: a projection with many rows on GPUs: the largest tile that fits the device
// and leaves no compute unit idle.
#include "plan/families/family_linear.h"

// From 128 x 64 down to a tile that fits any device.
static const tile_shape shapes[] = {{8, 16, 16, 32}, {8, 8, 16, 32}, {8, 8, 16, 16},
                                    {8, 8, 8, 32},   {8, 8, 8, 16},  {4, 8, 8, 16},
                                    {4, 4, 4, 16},   {4, 4, 2, 16},  {4, 1, 1, 8}};
#define SHAPES ((int)(sizeof shapes / sizeof shapes[0]))

static void set_shape(knobs *k, const tile_shape *shape, const knobs *row) {
    k->micro_rows = shape->micro_rows;
    k->group_rows = shape->group_rows;
    k->group_columns = shape->group_columns;
    k->chunk = shape->chunk;
    cla_knobs_override(k, row);
}
static int64_t rows_of(const knobs *k) {
    return (int64_t)k->micro_rows * k->group_rows;
}
static int64_t columns_of(const knobs *k) {
    return (int64_t)4 * k->group_columns;
}

// Local memory of linear_tiles.cl in bytes: the transposed chunk of x, the chunk of W, and the
// places of rows and columns.
static int64_t transposed_bytes(const knobs *k) {
    return 16 * (int64_t)k->chunk * (rows_of(k) / 4 + 1);
}
static int64_t chunk_bytes(const knobs *k) {
    return 16 * columns_of(k) * (k->chunk / 4 + 1);
}
static int64_t local_bytes(const knobs *k) {
    const int64_t places = rows_of(k) * 16 + columns_of(k) * (k->scale_group ? 28 : 20),
                  turned = k->rope ? rows_of(k) * 8 + columns_of(k) * 4 : 0;
    return transposed_bytes(k) + chunk_bytes(k) + places + turned;
}

static const char *refusal_of(const knobs *k) {
    if (k->micro_rows != 4 && k->micro_rows != 8) return "asks for MICRO_ROWS that are none of 4, 8";
    if (k->group_rows > 64 || k->group_columns > 64 || k->group_rows * k->group_columns > 1024)
        return "asks for more than 64 GROUP_ROWS or GROUP_COLUMNS, or for more than 1024 work-items";
    if (k->chunk % 4 || k->chunk > 128) return "asks for a CHUNK above 128 or no multiple of 4";
    if (2 * k->group_columns * 16 * (rows_of(k) / 4 + 1) > transposed_bytes(k) + chunk_bytes(k))
        return "asks for a CHUNK too short for its tile: half a tile of the result must fit in its place";
    return NULL;
}

static const char *knobs_refusal(const knobs *row) {
    knobs k = {0};
    set_shape(&k, &shapes[1], row);
    return refusal_of(&k);
}

// True if the tile fits the device, and the compiled kernel's limits if known.
static bool fits(const plan_input *in, const knobs *k) {
    const uint64_t group = (uint64_t)k->group_rows * (uint64_t)k->group_columns;
    return !refusal_of(k) && group <= cla_family_group_limit(in, KERNEL_LINEAR_TILES) &&
           (uint64_t)local_bytes(k) <= cla_family_local_limit(in, KERNEL_LINEAR_TILES);
}

static int64_t groups_of(const linear_problem *p, const knobs *k) {
    const int64_t rows = p->rows / rows_of(k) + 1, columns = p->columns / columns_of(k) + 1;
    return rows > INT32_MAX ? rows : rows * columns;
}

// Choose a tile, from large to small: the first that fits and has two groups per compute unit, else
// the last that fits and has 64 work-items or more. False: none fits.
static bool choose_tile(const plan_input *in, const linear_problem *p, const knobs *row, knobs *best) {
    bool found = false;
    for (int i = 0; i < SHAPES; i++) {
        knobs k = *best;
        set_shape(&k, &shapes[i], row);
        if (!fits(in, &k) || (found && k.group_rows * k.group_columns < 64)) continue;
        found = true, *best = k;
        if (groups_of(p, &k) >= 2 * (int64_t)in->device->compute_units) return true;
    }
    return found;
}

bool cla_family_linear_tiles_fit(const plan_input *in) {
    knobs k = {.rope = 1};
    static const knobs none = {0};
    set_shape(&k, &shapes[SHAPES - 1], &none);
    return fits(in, &k);
}

// RoPE is fused for even head sizes, because tiles then contain whole pairs.
static void shape(const plan_input *in, const linear_problem *p, const tuned_row *row,
                  linear_choice *choice) {
    static const knobs none = {0};
    knobs *k = &choice->knobs;
    if (p->rope_head > 0 && p->rope_head % 2 == 0) k->rope = p->rope_interleaved ? 2 : 1;
    if (!choose_tile(in, p, &row->knobs, k) && !choose_tile(in, p, &none, k))
        set_shape(k, &shapes[SHAPES - 1], &none); // the compiler will report what is missing
    k->aligned_vectors = p->align_x >= 4 && p->align_w >= 4;
    if (p->align_x >= 8 && p->align_w >= 8 && p->type_w != CLATTN_TYPE_F32 && k->chunk % 8 == 0)
        k->aligned_vectors = 2;
    cla_family_ask_subgroup(in, k);
    choice->work_group = k->group_rows * k->group_columns;
    choice->row_tile = (int)rows_of(k);
    choice->local_bytes = (size_t)local_bytes(k);
    choice->column_tile = (int)columns_of(k);
}

const family cla_family_linear_tiles = {.name = "linear_tiles",
                                        .tunes = "MICRO_ROWS GROUP_ROWS GROUP_COLUMNS CHUNK ",
                                        .id = KERNEL_LINEAR_TILES,
                                        .knobs_refusal = knobs_refusal,
                                        .shape = shape};
