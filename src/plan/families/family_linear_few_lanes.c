// family_linear_few_lanes.c: a projection of few rows, bound by reading W once.
#include "plan/families/family_linear.h"

#define SHARED_ROWS 8 // from here on W is in the first-level cache for most of its rows' products

// Few rows: blocks whose accumulators fill the registers. Of more rows and W of float32 two rows by eight columns, whose sums
// are one vector: 20 rows of 512 take 0.83 times as long as by blocks of 4 x 4, 8 rows as long, 4 rows 1.15 times (Zen 5, PoCL 3.1).
static void choose_few_rows(const linear_problem *p, const knobs *row, linear_choice *choice) {
    knobs *k = &choice->knobs;
    const bool wide = p->rows >= SHARED_ROWS && k->lanes == 16 && p->type_w == CLATTN_TYPE_F32;
    k->row_block = p->rows <= 1 ? 1 : p->rows == 2 || wide ? 2 : p->rows % 5 == 0 && p->rows % 4 != 0 ? 5 : 4;
    k->column_block = p->rows <= 2 || wide ? 8 : 4;
    k->column_tile = wide ? 16 : 8;
    // The hardware's prefetcher does not follow a block of W, whose rows are read side by side and are seldom longer than a page. Asking takes 0.5 to
    // 0.9 of the time from memory, and 0.9 to 1.2 from the second-level cache (Zen 4). With more rows a block is there after the first ones.
    k->ask_ahead = p->rows <= k->row_block ? ASK_SECOND_LEVEL : ASK_NOTHING;
    cla_knobs_override(k, row);
    choice->column_tile = k->column_tile;
}

static const char *knobs_refusal(const knobs *row) {
    if (!cla_family_is_vector(row->lanes)) return "asks for LANES that are none of 4, 8, 16";
    if (row->row_block > 8 || row->column_block > 16)
        return "asks for a ROW_BLOCK above 8 or a COLUMN_BLOCK above 16";
    if (row->column_tile > 1024) return "asks for a COLUMN_TILE above 1024";
    if (!cla_family_divides(row->lanes, row->column_tile) ||
        !cla_family_divides(row->column_block, row->column_tile))
        return "asks for a COLUMN_TILE that is no multiple of LANES and COLUMN_BLOCK";
    return NULL;
}

// RoPE joins in where pairs are not cut: heads of an even size, blocks of whole pairs.
static void shape(const plan_input *in, const linear_problem *p, const tuned_row *row,
                  linear_choice *choice) {
    const int head = p->rope_head % 2 ? 0 : p->rope_head;
    knobs *k = &choice->knobs;
    k->lanes = cla_variant_lanes(in);
    choose_few_rows(p, &row->knobs, choice);
    const bool whole = k->column_block % 2 == 0 && k->column_tile % k->column_block == 0;
    if (head && whole && k->row_block * k->column_block <= 32) k->rope = p->rope_interleaved ? 2 : 1;
    k->epilogue = p->epilogue && !k->rope;
}

const family cla_family_linear_few_lanes = {.name = "linear_few_lanes",
                                            .tunes = "LANES ROW_BLOCK COLUMN_BLOCK COLUMN_TILE ASK_AHEAD ",
                                            .id = KERNEL_LINEAR_FEW_LANES,
                                            .knobs_refusal = knobs_refusal,
                                            .shape = shape};
