// family_linear_rows.c: a projection with few rows on GPUs. Its speed is limited by reading W once.
#include "plan/families/family_linear.h"

#define COLUMNS 4     // per work-item
#define PIECE 8       // elements of the reduction per load of a work-item
#define MOST_BLOCK 16 // rows per block
// Usual work-items of a group: they have enough loads in flight, and their sums fit 16 KiB of local
// memory.
#define USUAL_GROUP 128
#define LONG_REDUCTION 8192 // for longer reductions 64 work-items share a reduction, else 32

// Sums of up to four rows, and the rows' places.
static uint64_t local_bytes(int row_block, int work_group) {
    const int pass = row_block < 4 ? row_block : 4;
    return (uint64_t)pass * (uint64_t)work_group * 4 * sizeof(float) +
           (uint64_t)row_block * 3 * sizeof(int64_t);
}

static int next_power(int64_t n, int most) {
    int power = 1;
    while (power < n && power < most) power *= 2;
    return power;
}

static bool is_power(int n) {
    return (n & (n - 1)) == 0;
}

static const char *knobs_refusal(const knobs *row) {
    if (row->work_group > 1024 || !is_power(row->work_group))
        return "asks for a WORK_GROUP above 1024 or no power of two";
    if (!is_power(row->row_items) || row->row_items > (row->work_group ? row->work_group : USUAL_GROUP))
        return "asks for ROW_ITEMS above the WORK_GROUP, 128 unless the row says it, or no power of two";
    if (row->row_block > MOST_BLOCK || !is_power(row->row_block))
        return "asks for a ROW_BLOCK above 16 or no power of two";
    return NULL;
}

// True if the rows of x and W permit aligned 16-byte loads.
static bool is_wide(const linear_problem *p) {
    return p->align_x >= (p->type_x == CLATTN_TYPE_F32 ? 4 : 8) &&
           p->align_w >= (p->type_w == CLATTN_TYPE_F32 ? 4 : 8);
}

// If the group exceeds the limits of the device or of the compiled kernel, halve it. RoPE is fused
// for even head sizes. The number of columns does not matter, so q, k and v can share a launch.
static void shape(const plan_input *in, const linear_problem *p, const tuned_row *row,
                  linear_choice *choice) {
    const uint64_t most = cla_family_group_limit(in, KERNEL_LINEAR_ROWS);
    knobs *k = &choice->knobs;
    k->row_block = next_power(p->rows, MOST_BLOCK);
    k->work_group = USUAL_GROUP;
    k->row_items = p->reduction >= LONG_REDUCTION ? 64 : 32;
    while (k->row_items > 1 && (int64_t)k->row_items / 2 * PIECE >= p->reduction) k->row_items /= 2;
    cla_knobs_override(k, &row->knobs);
    while (k->work_group > 1 &&
           ((uint64_t)k->work_group > most ||
            local_bytes(k->row_block, k->work_group) > cla_family_local_limit(in, KERNEL_LINEAR_ROWS)))
        k->work_group /= 2;
    if (k->row_items > k->work_group) k->row_items = k->work_group;
    k->aligned_vectors = is_wide(p);
    if (p->rope_head > 0 && p->rope_head % 2 == 0) k->rope = p->rope_interleaved ? 2 : 1;
    cla_family_ask_subgroup(in, k);
    choice->work_group = k->work_group;
    choice->row_tile = k->row_block;
    choice->local_bytes = (size_t)local_bytes(k->row_block, k->work_group);
    choice->column_tile = k->work_group / k->row_items * COLUMNS;
}

const family cla_family_linear_rows = {.name = "linear_rows",
                                       .tunes = "WORK_GROUP ROW_ITEMS ROW_BLOCK ",
                                       .id = KERNEL_LINEAR_ROWS,
                                       .knobs_refusal = knobs_refusal,
                                       .shape = shape};
