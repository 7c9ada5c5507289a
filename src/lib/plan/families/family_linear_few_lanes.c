// family_linear_few_lanes.c: a projection with few rows. Its speed is limited by reading W once.
#include "plan/families/family_linear.h"

#define SHARED_ROWS 8 // from here on W is mostly read from the first-level cache

// True if W has bytes, false if it has 4-bit numbers.
static bool is_of_bytes(const linear_problem *p) {
    return p->type_w == CLATTN_TYPE_Q8_0 || p->type_w == CLATTN_TYPE_I8;
}
// Vector instructions for 64 numbers of W, counted in the machine code for sixteen lanes: a part
// shared by all rows (decoding W), and a part for each row.
static double float_work(const linear_problem *p, int rows) {
    return (is_of_bytes(p) ? 14.0 : 16.0) + 6.0 * rows;
}
static double integer_work(const linear_problem *p, int rows) {
    const int digits = p->type_x == CLATTN_TYPE_F32 ? 3 : 2;
    return is_of_bytes(p) ? 5.0 + (2.0 * digits + 3.0) * rows : 5.0 + (1.5 * digits + 1.5) * rows;
}

// True if integer products are predicted to be at least 10 % faster for a block of rows. An
// instruction counts as 4 operations per lane for integers, and 2 for floats.
static bool integers_win(const plan_input *in, const linear_problem *p) {
    // with floats, memory limits the speed too, so integers gain nothing
    if (p->type_w == CLATTN_TYPE_I8) return false;
    const int rows = p->rows < 1 ? 1 : p->rows > 4 ? 4 : (int)p->rows;
    const double floats = in->probes.rate[PROBE_FMA] / 2.0, integers = in->probes.rate[PROBE_DOT_I8] / 4.0;
    return float_work(p, rows) * integers > 1.1 * integer_work(p, rows) * floats;
}

// Columns per work-item, for one row or for integer products. More columns share the conversion of
// x. But each core should get eight work-items, so that all finish together. Integer products share
// more, so their minimum is higher.
#define MOST_COLUMNS 64
static int shared_tile(const plan_input *in, const linear_problem *p, bool integers) {
    const uint32_t units = in->device->compute_units;
    const int least = !integers || units > 16 ? 8 : units > 4 ? 16 : 32;
    int tile = MOST_COLUMNS;
    while (tile > least && p->columns < 8 * (int64_t)units * tile) tile /= 2;
    return tile;
}

// Choose register blocks for few rows. With float32 W and 8 rows or more, blocks of 2 rows x 8
// columns were faster than 4 x 4.
static void choose_few_rows(const plan_input *in, const linear_problem *p, const knobs *row,
                            linear_choice *choice) {
    knobs *k = &choice->knobs;
    const bool wide = p->rows >= SHARED_ROWS && k->lanes == 16 && p->type_w == CLATTN_TYPE_F32;
    k->row_block = p->rows <= 1 ? 1 : p->rows == 2 || wide ? 2 : p->rows % 5 == 0 && p->rows % 4 != 0 ? 5 : 4;
    k->column_block = p->rows <= 2 || wide ? 8 : 4;
    k->column_tile = wide ? 16 : 8;
    // The hardware's prefetcher does not follow the parallel rows of a block of W. With more rows
    // than a block, W is cached after the first block, so prefetching is off.
    k->prefetch_level = p->rows <= k->row_block ? PREFETCH_SECOND_LEVEL : PREFETCH_NOTHING;
    const int dot_i8 = k->dot_i8;
    if (dot_i8 || p->rows <= 1) k->column_tile = shared_tile(in, p, dot_i8 != 0);
    cla_knobs_override(k, row);
    k->dot_i8 = dot_i8;
    choice->column_tile = k->column_tile;
}

static const char *knobs_refusal(const knobs *row) {
    if (!cla_family_is_vector(row->lanes)) return "asks for LANES that are none of 4, 8, 16";
    if (row->row_block > 8 || row->column_block > 16)
        return "asks for a ROW_BLOCK above 8 or a COLUMN_BLOCK above 16";
    if (row->dot_i8 > DOT_I8_VNNI) return "asks for a DOT_I8 that is none of 1, 2";
    if (row->dot_i8 && row->column_tile > 128) return "asks for DOT_I8 and a COLUMN_TILE above 128";
    if (row->column_tile > 1024) return "asks for a COLUMN_TILE above 1024";
    if (!cla_family_divides(row->lanes, row->column_tile) ||
        !cla_family_divides(row->column_block, row->column_tile))
        return "asks for a COLUMN_TILE that is no multiple of LANES and COLUMN_BLOCK";
    return NULL;
}

// RoPE is fused if no pair is cut: heads of an even size, and blocks of whole pairs.
static void shape(const plan_input *in, const linear_problem *p, const tuned_row *row,
                  linear_choice *choice) {
    const int head = p->rope_head % 2 ? 0 : p->rope_head;
    knobs *k = &choice->knobs;
    k->lanes = row->knobs.lanes ? row->knobs.lanes : cla_variant_lanes(in);
    k->dot_i8 =
        cla_family_linear_integers(in, row, k->lanes, cla_family_linear_integers_can(p), integers_win(in, p));
    choose_few_rows(in, p, &row->knobs, choice);
    const bool whole = k->column_block % 2 == 0 && k->column_tile % k->column_block == 0;
    if (head && whole && k->row_block * k->column_block <= 32) k->rope = p->rope_interleaved ? 2 : 1;
    k->epilogue = p->epilogue && !k->rope;
}

const family cla_family_linear_few_lanes = {
    .name = "linear_few_lanes",
    .tunes = "LANES ROW_BLOCK COLUMN_BLOCK COLUMN_TILE PREFETCH_LEVEL DOT_I8 ",
    .id = KERNEL_LINEAR_FEW_LANES,
    .knobs_refusal = knobs_refusal,
    .shape = shape};
