// family_linear_matrix.c: a projection with many rows on AMX tiles, with packed weights. Used by
// default only if the device has proven AMX and its rate promises a shorter time than
// multiply-adds. A tuned row of the caller can select the kernel on any CPU, even emulated.
#include "args/args.h"
#include "plan/families/family_linear.h"

#define FEWEST_ROWS 32           // with fewer rows, reading W dominates
#define FEWEST_ROWS_UNPACKED 128 // with fewer, packing W in each call is too slow
// least reduction for split float32: shorter chains are more exact as multiply-adds
#define FEWEST_REDUCTION 64
// Achieved shares of the peak rates (Xeon with AMX, PoCL 3.1). One product is limited by loads,
// several products by the engine.
#define REACHED_BY_ONE 0.2f
#define REACHED_BY_SEVERAL 0.4f
#define REACHED_BY_LANES 0.85f
#define MOST_TIMED ((int64_t)1 << 21) // cap for rows and columns: more change no choice

static bool is_wide(clattn_type type) {
    return type == CLATTN_TYPE_F32;
}
static int products_of(const linear_problem *p) {
    return is_wide(p->type_x) && is_wide(p->type_w) ? 6 : is_wide(p->type_x) || is_wide(p->type_w) ? 3 : 1;
}

bool cla_family_linear_matrix_can(const plan_input *in, const linear_problem *p) {
    const bool types = (is_wide(p->type_x) || p->type_x == CLATTN_TYPE_BF16) &&
                       (is_wide(p->type_w) || p->type_w == CLATTN_TYPE_BF16);
    if (!in->device->is_cpu || !types) return false;
    return products_of(p) == 1 || (p->split && p->reduction >= FEWEST_REDUCTION);
}

bool cla_family_linear_matrix_wins(const plan_input *in, const linear_problem *p) {
    const int products = products_of(p);
    const float reached = products == 1 ? REACHED_BY_ONE : REACHED_BY_SEVERAL;
    if (!cla_family_linear_matrix_can(in, p) || !(in->probes.proven >> PROBE_AMX & 1u)) return false;
    const float lanes = in->probes.rate[cla_family_linear_dot_wins(in, p) ? PROBE_DOT_BF16 : PROBE_FMA];
    return p->rows >= (p->packed ? FEWEST_ROWS : FEWEST_ROWS_UNPACKED) &&
           in->probes.rate[PROBE_AMX] * reached / (float)products > lanes * REACHED_BY_LANES;
}

static int64_t divide_up(int64_t n, int64_t by) {
    return (n + by - 1) / by;
}

// Choose the widest tile with which the busiest compute unit finishes first. Tiles are whole
// blocks, and whole heads if RoPE is fused. Copying the rows of x costs as much as 48 columns.
static int choose_columns(const plan_input *in, const linear_problem *p, int step) {
    const int64_t units = in->device->compute_units ? in->device->compute_units : 1;
    const int64_t rows = p->rows < MOST_TIMED ? p->rows : MOST_TIMED,
                  columns = p->columns < MOST_TIMED ? p->columns : MOST_TIMED;
    int64_t least = INT64_MAX;
    int best = step;
    for (int tile = LINEAR_MATRIX_TILE_COLUMNS / step * step; tile > 0; tile -= step) {
        const int64_t tiles = divide_up(rows, LINEAR_MATRIX_TILE_ROWS) * divide_up(columns, tile);
        const int64_t time = divide_up(tiles, units) * (tile + 48);
        if (time >= least) continue;
        least = time, best = tile;
    }
    return best;
}

static int blocks_of_heads(int head) {
    int step = LINEAR_MATRIX_COLUMNS;
    while (step <= LINEAR_MATRIX_TILE_COLUMNS && step % head) step += LINEAR_MATRIX_COLUMNS;
    return step;
}

static const char *knobs_refusal(const knobs *row) {
    if (row->matrix_engine > MATRIX_ENGINE_AMX) return "asks for a MATRIX_ENGINE that is none of 1, 2";
    if (row->column_tile % LINEAR_MATRIX_COLUMNS || row->column_tile > LINEAR_MATRIX_TILE_COLUMNS)
        return "asks for a COLUMN_TILE that is no multiple of 32 up to 512";
    if (row->reduction_tile % LINEAR_MATRIX_STEP || row->reduction_tile > 1024)
        return "asks for a REDUCTION_TILE that is no multiple of 32 up to 1024";
    return NULL;
}

// RoPE is fused for even head sizes, if a tile contains whole heads.
static void shape(const plan_input *in, const linear_problem *p, const tuned_row *row,
                  linear_choice *choice) {
    const int head = p->rope_head % 2 ? 0 : p->rope_head;
    int step = head ? blocks_of_heads(head) : LINEAR_MATRIX_COLUMNS;
    knobs *k = &choice->knobs;
    if (head && step <= LINEAR_MATRIX_TILE_COLUMNS)
        k->rope = p->rope_interleaved ? 2 : 1;
    else
        step = LINEAR_MATRIX_COLUMNS;
    cla_knobs_override(k, &row->knobs);
    if (!k->matrix_engine)
        k->matrix_engine = in->probes.proven >> PROBE_AMX & 1u ? MATRIX_ENGINE_AMX : MATRIX_ENGINE_EMULATION;
    choice->column_tile =
        k->column_tile ? (int)divide_up(k->column_tile, step) * step : choose_columns(in, p, step);
    if (choice->column_tile > LINEAR_MATRIX_TILE_COLUMNS)
        choice->column_tile = LINEAR_MATRIX_TILE_COLUMNS / step * step;
    k->column_tile = 0; // an argument of the kernel, not a knob
    choice->row_tile = LINEAR_MATRIX_TILE_ROWS;
}

const family cla_family_linear_matrix = {.name = "linear_matrix",
                                         .tunes = "MATRIX_ENGINE COLUMN_TILE REDUCTION_TILE ",
                                         .id = KERNEL_LINEAR_MATRIX,
                                         .knobs_refusal = knobs_refusal,
                                         .shape = shape};
