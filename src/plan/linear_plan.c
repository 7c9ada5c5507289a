// linear_plan.c: the planner's choice for one projection: who computes it, and the shape of the work.
#include "linear_args.h"
#include "plan/variant.h"

// Accumulators in registers, rows times columns, and the time per product against the best, in percent (linear_lanes.cl
// has the measurements).
typedef struct block_shape {
    int row_vectors, column_block, percent;
} block_shape;
static const block_shape wide_shapes[] = {{4, 6, 100}, {5, 4, 100}, {3, 8, 102}, {2, 12, 104}, {1, 16, 118}};
static const block_shape narrow_shapes[] = {
    {3, 4, 100}, {2, 6, 102}, {1, 12, 175}}; // sixteen registers; AVX2 code
#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

static int64_t divide_up(int64_t n, int64_t by) {
    return (n + by - 1) / by;
}

static int common_multiple(int a, int b) {
    int x = a, y = b;
    while (y) {
        const int rest = x % y;
        x = y, y = rest;
    }
    return a / x * b;
}

// When the busiest compute unit is done, in arbitrary units, all tiles taking as long as whole ones: packing x costs as
// much as 6.4 columns of each tile, and a block of W that no second panel shares 3 %.
static int64_t time_of(const plan_input *in, const linear_problem *p, const knobs *k, int tile, int percent) {
    const int64_t rows = (int64_t)k->lanes * k->row_vectors * k->row_panels;
    const int64_t tiles = divide_up(p->rows, rows) * divide_up(p->columns, tile);
    const int64_t units = in->device->compute_units ? in->device->compute_units : 1;
    return divide_up(tiles, units) * rows * (10 * tile + 64) * percent * (k->row_panels == 1 ? 103 : 100);
}

// The best tile of whole steps; equal parts of the columns are the candidates, ever more of them.
static int64_t choose_tile(const plan_input *in, const linear_problem *p, const knobs *k, int step,
                           int percent, int *column_tile) {
    const int64_t first = divide_up(p->columns, LINEAR_TILE_COLUMNS);
    const int most = LINEAR_TILE_COLUMNS / step * step;
    int64_t least = INT64_MAX, tile = 0;
    for (int64_t parts = first; tile != step; parts += parts < first + 3 ? 1 : parts / 2 + 1) {
        tile = divide_up(divide_up(p->columns, parts), step) * step;
        if (tile > most) tile = most;
        const int64_t time = time_of(in, p, k, (int)tile, percent);
        if (time >= least) continue;
        least = time;
        *column_tile = (int)tile;
    }
    return least;
}

// Rows in lanes. Where RoPE turns the heads, a tile holds whole ones. False: it cannot, or the row asks for blocks that no
// tile holds.
static bool choose_many_rows(const plan_input *in, const linear_problem *p, const knobs *row, int head,
                             linear_choice *choice) {
    const bool wide = choice->knobs.lanes == 16;
    const block_shape *const shapes = wide ? wide_shapes : narrow_shapes;
    const knobs base = choice->knobs;
    int64_t least = INT64_MAX;
    if (head > LINEAR_TILE_COLUMNS) return false;
    for (int i = 0; i < 2 * (wide ? COUNT(wide_shapes) : COUNT(narrow_shapes)); i++) {
        knobs k = base;
        int tile = 0;
        k.row_vectors = shapes[i / 2].row_vectors, k.column_block = shapes[i / 2].column_block;
        k.row_panels = 2 - i % 2, k.reduction_tile = 256;
        cla_knobs_override(&k, row);
        const int block = common_multiple(k.lanes, k.column_block),
                  step = head ? common_multiple(block, head) : block;
        if (step > LINEAR_TILE_COLUMNS) continue;
        int64_t time = choose_tile(in, p, &k, step, shapes[i / 2].percent, &tile);
        if (k.column_tile) tile = (int)divide_up(k.column_tile, step) * step;
        if (tile > LINEAR_TILE_COLUMNS) tile = LINEAR_TILE_COLUMNS / step * step;
        // Another kernel has to be compiled, too: it must be 5 % better.
        if (least != INT64_MAX && time + time / 20 >= least) continue;
        least = time;
        k.column_tile = 0; // no knob of this kernel, which is told at run time
        choice->knobs = k, choice->column_tile = tile;
    }
    return least != INT64_MAX;
}

// Few rows: blocks whose accumulators fill the registers.
static void choose_few_rows(const linear_problem *p, const knobs *row, linear_choice *choice) {
    knobs *k = &choice->knobs;
    k->row_block = p->rows <= 1 ? 1 : p->rows == 2 ? 2 : p->rows % 5 == 0 && p->rows % 4 != 0 ? 5 : 4;
    k->column_block = p->rows <= 2 ? 8 : 4;
    k->column_tile = 8;
    cla_knobs_override(k, row);
    choice->column_tile = k->column_tile;
}

static bool clblast_measured_faster(const plan_input *in, enum kernel_id id) {
    return in->measured[id == KERNEL_LINEAR_FEW_LANES ? PLAN_FEW_ROWS : PLAN_MANY_ROWS] ==
           PLAN_CLBLAST_FASTER;
}

static const tuned_row *linear_row(const plan_input *in, const linear_problem *p, const tuned_rows *rows) {
    const tuned_key key = {in->device->is_cpu, (int)in->device->float_vector_width, (int)p->type_w,
                           (int)(p->reduction < INT32_MAX ? p->reduction : INT32_MAX),
                           (int)(p->rows < INT32_MAX ? p->rows : INT32_MAX)};
    const unsigned kernels = 1u << KERNEL_LINEAR_LANES | 1u << KERNEL_LINEAR_FEW_LANES | 1u << TUNED_CLBLAST;
    return cla_tuned_find(rows, NULL, kernels, &key);
}

bool cla_variant_linear_is_open(const plan_input *in, const linear_problem *p) {
    const tuned_row *row = linear_row(in, p, in->shipped);
    return row && row->id != TUNED_CLBLAST && !linear_row(in, p, in->own);
}

// RoPE joins in where pairs are not cut: heads of an even size, blocks of whole pairs.
static void choose_shape(const plan_input *in, const linear_problem *p, const tuned_row *row,
                         linear_choice *choice) {
    static const knobs none = {0};
    const int layout = p->rope_interleaved ? 2 : 1, head = p->rope_head % 2 ? 0 : p->rope_head;
    knobs *k = &choice->knobs;
    if (row->id == KERNEL_LINEAR_FEW_LANES) {
        choose_few_rows(p, &row->knobs, choice);
        const bool whole = k->column_block % 2 == 0 && k->column_tile % k->column_block == 0;
        if (head && whole && k->row_block * k->column_block <= 32) k->rope = layout;
        return;
    }
    if (head && choose_many_rows(in, p, &row->knobs, head, choice))
        k->rope = layout;
    else if (!choose_many_rows(in, p, &row->knobs, 0, choice))
        choose_many_rows(in, p, &none, 0, choice);
}

bool cla_variant_choose_linear(const plan_input *in, const linear_problem *p, bool forced,
                               linear_choice *choice) {
    static const tuned_row any_device = {.id = KERNEL_LINEAR_LANES};
    const tuned_row *own = linear_row(in, p, in->own);
    const tuned_row *row = own ? own : linear_row(in, p, in->shipped);
    const bool to_clblast = !row || row->id == TUNED_CLBLAST;
    if (!forced && (to_clblast || (!own && clblast_measured_faster(in, row->id)))) return false;
    if (to_clblast) row = &any_device;
    *choice = (linear_choice){
        .id = row->id,
        .knobs = {.type_q = (int)p->type_x,
                  .type_kv = (int)p->type_w,
                  .type_out = (int)p->type_y,
                  .type_bias = (int)p->type_bias,
                  .lanes = row->knobs.lanes ? row->knobs.lanes : cla_variant_lanes(in->device)}};
    choose_shape(in, p, row, choice);
    return true;
}
