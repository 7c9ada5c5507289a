// family_linear_fragments.c: a projection with many rows and 16-bit numbers on a GPU's matrix
// engine, which a whole warp drives. Used by default only if a proven engine is faster than
// linear_tiles. A tuned row of the caller can select the kernel anywhere, even emulated. If the
// call permits it, float32 is computed as a sum of bfloat16 terms.
#include "args/args.h"
#include "args/fragments.h"
#include "plan/families/family_fragments.h"
#include "probe/fragments.h"

#define MOST_WARPS 16   // per work-group
#define MOST_VECTORS 4  // row fragments per warp
#define MOST_COLUMNS 64 // per warp
#define LEAST_COLUMNS 32
#define BF16_TERMS 3
// For terms: with a shorter reduction, plain multiply-adds have a smaller error.
#define FEWEST_REDUCTION 64
// Estimated share of the engine's rate with terms: each tile converts its numbers again. Not timed
// on a GPU yet.
#define REACHED_BY_TERMS 0.5f

// Set the largest tile of an engine. Its accumulators use half of a work-item's registers, on Intel
// a quarter, because the compiler spills more (ocloc 22.43). With terms the tile is smaller,
// because they need registers too.
static void set_largest(knobs *k) {
    const int engine = cla_fragments_engine(k);
    const bool dpas = engine == MATRIX_ENGINE_DPAS_8 || engine == MATRIX_ENGINE_DPAS_16;
    k->group_rows = dpas ? 4 : 2, k->group_columns = 2;
    k->row_vectors = engine == MATRIX_ENGINE_MFMA || dpas ? 2 : MOST_VECTORS;
    k->column_tile = dpas ? LEAST_COLUMNS : MOST_COLUMNS;
    k->chunk = 32;
    if (!k->bf16_terms) return;
    k->row_vectors = engine == MATRIX_ENGINE_MMA ? 2 : 1;
    k->column_tile = engine == MATRIX_ENGINE_MFMA ? MOST_COLUMNS : LEAST_COLUMNS;
}

// Halve the longer side of a warp's tile, unless the row sets that side. False: the tile is the
// smallest.
static bool shrink(knobs *k, const knobs *row) {
    const int rows = FRAGMENTS_ROWS(cla_fragments_engine(k)) * k->row_vectors;
    const bool fewer_rows = k->row_vectors > 1 && !row->row_vectors,
               fewer_columns = k->column_tile > LEAST_COLUMNS && !row->column_tile;
    if (fewer_rows && (rows >= k->column_tile || !fewer_columns))
        k->row_vectors /= 2;
    else if (fewer_columns)
        k->column_tile /= 2;
    return fewer_rows || fewer_columns;
}
// Halve the number of warps, unless the row sets it. False: it is the smallest.
static bool use_fewer_warps(knobs *k, const knobs *row) {
    const bool fewer_rows = k->group_rows > 2 && !row->group_rows,
               fewer_columns = k->group_columns > 1 && !row->group_columns;
    if (fewer_rows)
        k->group_rows /= 2;
    else if (fewer_columns)
        k->group_columns = 1;
    return fewer_rows || fewer_columns;
}

static int rows_of(const knobs *k) {
    return FRAGMENTS_ROWS(cla_fragments_engine(k)) * k->row_vectors * k->group_rows;
}
static int columns_of(const knobs *k) {
    return k->column_tile * k->group_columns;
}
static int items_of(const knobs *k) {
    return FRAGMENTS_ITEMS(cla_fragments_engine(k)) * k->group_rows * k->group_columns;
}
static uint64_t local_bytes(const knobs *k) {
    const int engine = cla_fragments_engine(k), rows = rows_of(k), columns = columns_of(k);
    const int exchanged =
        k->matrix_engine == MATRIX_ENGINE_EMULATION ? FRAGMENTS_EXCHANGE_BYTES(engine) * items_of(k) : 0;
    const int all = LINEAR_FRAGMENTS_TERMS(k->bf16_terms, k->type_q == CLATTN_TYPE_F32) * rows +
                    LINEAR_FRAGMENTS_TERMS(k->bf16_terms, k->type_kv == CLATTN_TYPE_F32) * columns;
    return (uint64_t)LINEAR_FRAGMENTS_LOCAL_BYTES(engine, all, k->chunk) + (uint64_t)exchanged +
           (k->bf16_terms ? LINEAR_FRAGMENTS_SEEN_BYTES : 0);
}

// The row's knobs, on top of the engine's largest tile.
static knobs completed(const knobs *row, const knobs *data) {
    knobs k = *data;
    if (!k.matrix_engine) k.matrix_engine = row->matrix_engine;
    if (!k.matrix_engine) k.matrix_engine = MATRIX_ENGINE_EMULATION;
    if (k.matrix_engine == MATRIX_ENGINE_EMULATION) k.emulated = row->emulated;
    set_largest(&k);
    cla_knobs_override(&k, row);
    return k;
}

static bool are_whole_fragments(const knobs *k) {
    const int engine = cla_fragments_engine(k), fold = LINEAR_FRAGMENTS_FOLD(engine, k->chunk);
    const int step = engine == MATRIX_ENGINE_MFMA ? 32 : 16; // columns of a fragment
    return k->column_tile % step == 0 && columns_of(k) / fold % step == 0 &&
           rows_of(k) % (fold * FRAGMENTS_ROWS(engine)) == 0;
}

static const char *refusal_of(const knobs *k) {
    const int engine = k->matrix_engine;
    if (engine == MATRIX_ENGINE_AMX || engine == MATRIX_ENGINE_WGMMA || engine == MATRIX_ENGINE_WMMA_12 ||
        k->emulated == MATRIX_ENGINE_WGMMA)
        return "asks for a MATRIX_ENGINE that is none of 1, 3, 5, 7, 8, 9, or for EMULATED=4";
    if (k->emulated && engine != MATRIX_ENGINE_EMULATION)
        return "asks for an EMULATED without MATRIX_ENGINE=1";
    if (k->group_rows > MOST_WARPS || k->group_columns > MOST_WARPS ||
        k->group_rows * k->group_columns > MOST_WARPS)
        return "asks for more than 16 warps, GROUP_ROWS times GROUP_COLUMNS";
    if (k->row_vectors > MOST_VECTORS) return "asks for more than 4 ROW_VECTORS";
    if (k->chunk != 32 && k->chunk != 64) return "asks for a CHUNK that is neither 32 nor 64";
    if (k->column_tile > MOST_COLUMNS || !are_whole_fragments(k))
        return "asks for a COLUMN_TILE above 64, or for a tile of which half is no whole fragments";
    return NULL;
}

static const char *knobs_refusal(const knobs *row) {
    static const knobs none = {0};
    const knobs k = completed(row, &none);
    if (row->emulated && !row->matrix_engine) return "asks for an EMULATED without MATRIX_ENGINE=1";
    return refusal_of(&k);
}

static bool fits(const plan_input *in, const knobs *k) {
    return !refusal_of(k) && (uint64_t)items_of(k) <= cla_family_group_limit(in, KERNEL_LINEAR_FRAGMENTS) &&
           local_bytes(k) <= cla_family_local_limit(in, KERNEL_LINEAR_FRAGMENTS);
}

static bool fills(const plan_input *in, const linear_problem *p, const knobs *k) {
    const int64_t rows = p->rows / rows_of(k) + 1, columns = p->columns / columns_of(k) + 1;
    return rows > INT32_MAX || rows * columns >= (int64_t)in->device->compute_units;
}

// Choose the first tile that fits and has a work-group for every compute unit, from large to small.
// If there is none: the smallest that fits. The row's own knobs are fixed.
static bool choose_tile(const plan_input *in, const linear_problem *p, const knobs *row, knobs *best) {
    knobs k = completed(row, best);
    bool found = false;
    while ((uint64_t)items_of(&k) > cla_family_group_limit(in, KERNEL_LINEAR_FRAGMENTS) &&
           use_fewer_warps(&k, row)) {
    }
    do {
        if (!fits(in, &k)) continue;
        found = true, *best = k;
        if (fills(in, p, &k)) break;
    } while (shrink(&k, row));
    return found;
}

// Products of terms per float32 product: 6 for float32 by float32, 3 for float32 by bfloat16.
static int products_of(const linear_problem *p) {
    return p->type_x == p->type_w ? 6 : 3;
}
static bool is_in_terms(const linear_problem *p) {
    return p->type_x == CLATTN_TYPE_F32 || p->type_w == CLATTN_TYPE_F32;
}
static int type_of_fragments(const linear_problem *p) {
    return is_in_terms(p) ? CLATTN_TYPE_BF16 : (int)p->type_w;
}

// The engine that the row names, if it is proven or the emulation. If the row names none: the
// fastest proven engine. 0: none.
static int proven_engine(const plan_input *in, const linear_problem *p, const knobs *row) {
    const int asked = row->matrix_engine;
    if (asked == MATRIX_ENGINE_EMULATION) return asked;
    const probe_id id = cla_family_fragments_proven(in, type_of_fragments(p), asked);
    return id == PROBE_NONE ? 0 : cla_fragments_knobs(in->device, id).matrix_engine;
}

static bool choose(const plan_input *in, const linear_problem *p, const knobs *row, knobs *k) {
    static const knobs none = {0};
    k->type_q = (int)p->type_x, k->type_kv = (int)p->type_w, k->bf16_terms = is_in_terms(p) ? BF16_TERMS : 0;
    k->matrix_engine = proven_engine(in, p, row);
    if (!k->matrix_engine && row->matrix_engine) return false;
    if (!k->matrix_engine) k->matrix_engine = MATRIX_ENGINE_EMULATION;
    const knobs own = {.matrix_engine = k->matrix_engine, .emulated = row->emulated};
    return choose_tile(in, p, row, k) || choose_tile(in, p, &own, k) || choose_tile(in, p, &none, k);
}

bool cla_family_linear_fragments_types(const linear_problem *p) {
    const bool x = p->type_x == CLATTN_TYPE_F32 || p->type_x == CLATTN_TYPE_BF16,
               w = p->type_w == CLATTN_TYPE_F32 || p->type_w == CLATTN_TYPE_BF16;
    if (is_in_terms(p)) return x && w && p->split && p->reduction >= FEWEST_REDUCTION;
    return p->type_x == p->type_w && (x || p->type_w == CLATTN_TYPE_F16);
}

bool cla_family_linear_fragments_can(const plan_input *in, const linear_problem *p, const knobs *row) {
    knobs k = {0};
    return cla_family_linear_fragments_types(p) && choose(in, p, row, &k);
}

bool cla_family_linear_fragments_wins(const plan_input *in, const linear_problem *p) {
    static const knobs none = {0};
    const probe_id id = cla_family_linear_fragments_types(p) && !in->device->is_cpu
                            ? cla_family_fragments_proven(in, type_of_fragments(p), 0)
                            : PROBE_NONE;
    const float share = is_in_terms(p) ? REACHED_BY_TERMS / (float)products_of(p) : 1.0f;
    return id != PROBE_NONE && p->rows > FAMILY_FEW_ROWS &&
           in->probes.rate[id] * share >= in->probes.rate[PROBE_TILES] &&
           cla_family_linear_fragments_can(in, p, &none);
}

// RoPE is fused for even head sizes, because tiles then contain whole pairs.
static void shape(const plan_input *in, const linear_problem *p, const tuned_row *row,
                  linear_choice *choice) {
    knobs *k = &choice->knobs;
    if (p->rope_head > 0 && p->rope_head % 2 == 0) k->rope = p->rope_interleaved ? 2 : 1;
    choose(in, p, &row->knobs, k);
    k->aligned_vectors = p->align_x >= 8 && p->align_w >= 8 ? 2 : 0;
    choice->options = cla_family_fragments_options(k);
    choice->work_group = items_of(k);
    choice->row_tile = rows_of(k);
    choice->column_tile = columns_of(k);
    choice->local_bytes = (size_t)local_bytes(k);
}

const family cla_family_linear_fragments = {
    .name = "linear_fragments",
    .tunes = "GROUP_ROWS GROUP_COLUMNS ROW_VECTORS COLUMN_TILE CHUNK MATRIX_ENGINE EMULATED ",
    .id = KERNEL_LINEAR_FRAGMENTS,
    .knobs_refusal = knobs_refusal,
    .shape = shape};
