// family_linear_lanes.c: a projection with many rows, in vector lanes. Chooses the tile and the
// register block that fit the shape of the product best.
#include "args/args.h"
#include "plan/families/family_linear.h"

// Accumulators in registers (row vectors x columns), and the measured time per product in percent
// of the best (linear_lanes.cl).
typedef struct block_shape {
    int row_vectors, column_block, percent;
} block_shape;
static const block_shape wide_shapes[] = {{4, 6, 100}, {5, 4, 100}, {3, 8, 102}, {2, 12, 104}, {1, 16, 118}};
static const block_shape narrow_shapes[] = {
    {3, 4, 100}, {2, 6, 102}, {1, 12, 175}}; // for sixteen registers (AVX2)
#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

#define MOST_TIMED                                                                                           \
    ((int64_t)1 << 21) // cap for rows and columns: more changes no choice, and may exceed 64 bits

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

// Time until the busiest compute unit is finished, in arbitrary units. Per tile, packing x costs as
// much as 6.4 columns, and converting it to integers as 16. A block of W used by only one panel
// costs 3 % more.
static int64_t time_of(const plan_input *in, const linear_problem *p, const knobs *k, int tile, int percent) {
    const int64_t rows = (int64_t)k->lanes * k->row_vectors * k->row_panels;
    const int64_t tiles = divide_up(p->rows < MOST_TIMED ? p->rows : MOST_TIMED, rows) *
                          divide_up(p->columns < MOST_TIMED ? p->columns : MOST_TIMED, tile);
    const int64_t units = in->device->compute_units ? in->device->compute_units : 1;
    return divide_up(tiles, units) * rows * (10 * tile + (k->dot_i8 ? 160 : 64)) * percent *
           (k->row_panels == 1 ? 103 : 100);
}

// Choose the tile width, a multiple of `step`. Candidates divide the columns into equal parts, in
// increasing number.
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

// Choose the tile. If RoPE is fused, a tile must contain whole heads. False: that is impossible, or
// the row's block fits no tile.
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
        k.row_panels = 2 - i % 2,
        // x has the same number of bytes in both cases
            k.reduction_tile = k.dot_bf16 || k.dot_i8 ? 512 : 256;
        cla_knobs_override(&k, row);
        k.dot_i8 = base.dot_i8;
        const int block = common_multiple(k.lanes, k.column_block),
                  step = head ? common_multiple(block, head) : block;
        if (step > LINEAR_TILE_COLUMNS) continue;
        int64_t time = choose_tile(in, p, &k, step, shapes[i / 2].percent, &tile);
        if (k.column_tile) tile = (int)divide_up(k.column_tile, step) * step;
        if (tile > LINEAR_TILE_COLUMNS) tile = LINEAR_TILE_COLUMNS / step * step;
        // Another kernel costs compile time, so it must be 5 % faster.
        if (least != INT64_MAX && time + time / 20 >= least) continue;
        least = time;
        k.column_tile = 0; // an argument of this kernel, not a knob
        choice->knobs = k, choice->column_tile = tile;
        choice->row_tile = k.lanes * k.row_vectors * k.row_panels;
    }
    return least != INT64_MAX;
}

static const char *knobs_refusal(const knobs *row) {
    if (!cla_family_is_vector(row->lanes)) return "asks for LANES that are none of 4, 8, 16";
    if (row->row_vectors > 8) return "asks for more than 8 ROW_VECTORS";
    if (row->column_block > 32) return "asks for a COLUMN_BLOCK above 32";
    if (row->row_panels > 2) return "asks for more than 2 ROW_PANELS";
    if (row->column_block % 2 && row->row_panels != 1)
        return "asks for a COLUMN_BLOCK that is no multiple of ROW_PANELS, which is 1 or 2 unless the row "
               "says it";
    if (!cla_family_divides(row->lanes, row->column_tile) ||
        !cla_family_divides(row->column_block, row->column_tile))
        return "asks for a COLUMN_TILE that is no multiple of LANES and COLUMN_BLOCK";
    if (row->reduction_tile > 1024 || !cla_family_divides(row->lanes ? row->lanes : 16, row->reduction_tile))
        return "asks for a REDUCTION_TILE above 1024 or no multiple of LANES";
    if (row->dot_i8 > DOT_I8_VNNI) return "asks for a DOT_I8 that is none of 1, 2";
    if (row->dot_i8 && row->reduction_tile % 32)
        return "asks for DOT_I8 and a REDUCTION_TILE of no whole blocks of 32";
    return NULL;
}

bool cla_family_linear_dot_can(const plan_input *in, const linear_problem *p) {
    return in->device->is_cpu && in->device->float_vector_width >= 16 && p->type_x == CLATTN_TYPE_BF16 &&
           p->type_w == CLATTN_TYPE_BF16;
}

bool cla_family_linear_dot_wins(const plan_input *in, const linear_problem *p) {
    return cla_family_linear_dot_can(in, p) && (in->probes.proven >> PROBE_DOT_BF16 & 1u) &&
           in->probes.rate[PROBE_DOT_BF16] > in->probes.rate[PROBE_FMA];
}

bool cla_family_linear_integers_can(const linear_problem *p) {
    const bool scaled =
        p->type_w == CLATTN_TYPE_I8 || p->type_w == CLATTN_TYPE_I4 || p->type_w == CLATTN_TYPE_U4;
    return cla_family_linear_in_blocks(p) || (scaled && p->reduction % 32 == 0);
}

int cla_family_linear_integers(const plan_input *in, const tuned_row *row, int lanes, bool can, bool win) {
    const bool proven = in->probes.proven >> PROBE_DOT_I8 & 1u;
    const int asked = cla_tuned_has(in->own, row) ? row->knobs.dot_i8 : win ? DOT_I8_VNNI : 0;
    if (!can || lanes < 8) return 0;
    return asked == DOT_I8_VNNI && !proven ? 0 : asked;
}

// True if integer products are predicted to be at least 10 % faster. An instruction counts as 4
// operations per lane for integers, and 2 for floats. A block of 32 numbers needs 32 multiply-adds,
// or 24 integer products (16 if x has 16 bits) plus the conversion of the sum.
static bool integers_win(const plan_input *in, const linear_problem *p) {
    const double floats = in->probes.rate[PROBE_FMA] / 2.0, integers = in->probes.rate[PROBE_DOT_I8] / 4.0,
                 work = (p->type_x == CLATTN_TYPE_F32 ? 26.0 : 18.0) +
                        (p->type_w == CLATTN_TYPE_Q4_1 || p->type_w == CLATTN_TYPE_U4 || p->zero_points);
    return 32.0 * integers > 1.1 * work * floats;
}

// RoPE is fused for even head sizes, because tiles then contain whole pairs.
static void shape(const plan_input *in, const linear_problem *p, const tuned_row *row,
                  linear_choice *choice) {
    static const knobs none = {0};
    const int head = p->rope_head % 2 ? 0 : p->rope_head;
    choice->knobs.lanes = row->knobs.lanes ? row->knobs.lanes : cla_variant_lanes(in);
    choice->knobs.dot_bf16 =
        choice->knobs.lanes == 16 && row->knobs.reduction_tile % 32 == 0 && cla_family_linear_dot_wins(in, p);
    choice->knobs.dot_i8 = cla_family_linear_integers(in, row, choice->knobs.lanes,
                                                      cla_family_linear_integers_can(p), integers_win(in, p));
    if (head && choose_many_rows(in, p, &row->knobs, head, choice))
        choice->knobs.rope = p->rope_interleaved ? 2 : 1;
    else if (!choose_many_rows(in, p, &row->knobs, 0, choice))
        choose_many_rows(in, p, &none, 0, choice);
}

const family cla_family_linear_lanes = {
    .name = "linear_lanes",
    .tunes = "LANES ROW_VECTORS COLUMN_BLOCK COLUMN_TILE ROW_PANELS REDUCTION_TILE DOT_I8 ",
    .id = KERNEL_LINEAR_LANES,
    .knobs_refusal = knobs_refusal,
    .shape = shape};
