// family_decode_rows.c: many query rows on one key/value head, as in multi-query and latent
// attention, on CPUs with vector registers. Each vector lane has one query row, and all rows share
// every tile of keys. It uses x86's bfloat16 dot product if proven and faster.
#include <stdio.h>

#include "args/args.h"
#include "plan/families/family.h"

#define MOST_ROWS                                                                                            \
    128 // per work-item; with D = 576, queries and output have 557 KB and fit a second-level cache
// For the split of keys, a work-group counts as this many groups, because partial results of so
// many rows are costly.
#define WORTH 2
#define KEYS_OF_A_RANGE 256 // least keys of a split: see MIN_SPLIT_KEYS in families.c

// Accumulators for 32 registers, for 16, and for 32 registers of four lanes, as in flash_lanes.
static void complete(knobs *k, const knobs *row, int64_t all) {
    const int wide = k->lanes >= 16, narrow = k->lanes <= 4;
    const int vectors = wide ? 2 : narrow ? 4 : 3;
    const int64_t filled = (all + k->lanes - 1) / k->lanes;
    k->row_vectors = filled < vectors ? (int)filled : vectors;
    k->key_block = wide ? 8 : narrow ? 6 : 4;
    k->tile_kv = narrow ? 60 : 64;
    cla_knobs_override(k, row);
}

static const char *knobs_refusal(const knobs *row) {
    knobs k = {.row_vectors = 2, .key_block = 1, .tile_kv = 64};
    if ((row->tile_kv != 0) != (row->key_block != 0))
        return "asks for a TILE_KV that is no multiple of its KEY_BLOCK";
    cla_knobs_override(&k, row);
    return cla_family_tile_refusal(&k);
}

// Tiles of rows per work-item: as many as the cache holds, but fewer if compute units would be
// idle. A power of two, so that calls of similar sizes share a binary.
static int64_t choose_tiles(const plan_input *in, const problem *p, int64_t tiles, int64_t most) {
    const uint64_t ranges = p->splits > 0                ? (uint64_t)p->splits
                            : p->n_kv >= KEYS_OF_A_RANGE ? (uint64_t)p->n_kv / KEYS_OF_A_RANGE
                                                         : 1;
    const uint64_t heads = (uint64_t)p->batch * (uint64_t)p->kv_heads * ranges;
    int64_t each = 1;
    while (each < tiles && 2 * each <= most) each *= 2;
    while (each > 1 && heads * (uint64_t)((tiles + each - 1) / each) < in->device->compute_units) each /= 2;
    return each;
}

static const char *fit_rows(const plan_input *in, const problem *p, const tuned_row *row, variant *v) {
    const int64_t all = (int64_t)p->n_q * (p->kv_heads ? p->heads / p->kv_heads : 1);
    const int most = row->knobs.tile_q ? row->knobs.tile_q : MOST_ROWS;
    if (all > INT32_MAX - MOST_ROWS) return "query rows that share a key/value head: must be below 2^31";
    v->knobs.lanes = cla_variant_lanes(in);
    complete(&v->knobs, &row->knobs, all > 0 ? all : 1);
    const int lane_rows = v->knobs.lanes * v->knobs.row_vectors;
    const int64_t tiles = all > 0 ? (all + lane_rows - 1) / lane_rows : 1;
    const int64_t each = choose_tiles(in, p, tiles, most > lane_rows ? most / lane_rows : 1);
    if (ROWS_PRIVATE_BYTES(each * lane_rows, (int64_t)v->knobs.tile_kv, p->head_dim, p->head_dim_v) >
        PRIVATE_BYTES_MOST)
        return "the tiles of its tuned row take more than 4 MiB with such heads";
    v->knobs.tile_q = v->rows_per_group = (int)each * lane_rows;
    v->knobs.shared_kv = p->shared_kv;
    v->work_group = 1;
    const uint64_t heads = (uint64_t)p->kv_heads * (uint64_t)((tiles + each - 1) / each);
    if (heads > INT32_MAX) return "key/value heads times blocks of their rows: must be below 2^31";
    const char *refusal = cla_family_split(in, p, (uint64_t)p->batch * heads * WORTH, v);
    v->groups[0] = (size_t)v->splits, v->groups[1] = (size_t)heads, v->groups[2] = (size_t)p->batch;
    return refusal ? refusal : cla_family_take_dot(p, v);
}

static void explain(const plan_input *in, const variant *v, char why[200]) {
    (void)in;
    snprintf(why, 200,
             "a tuned row: up to %d query rows of a head's group, in lanes, share each tile of keys%s, in %d "
             "ranges%s",
             v->knobs.tile_q, v->knobs.shared_kv ? " and values" : "", v->splits,
             v->knobs.dot_bf16 ? ", bfloat16 dot product" : "");
}

#define EITHER                                                                                               \
    .id = KERNEL_DECODE_ROWS, .path = CLATTN_KERNEL_DECODE, .reach = 0.8f, .can = CAN_SPLIT | CAN_DROPOUT,   \
    .shares_heads = true, .all_keys = true, .needs_row = true, .fit = fit_rows, .explain = explain

const family cla_family_decode_rows = {.name = "decode_rows",
                                       .tunes = "LANES ROW_VECTORS KEY_BLOCK TILE_KV TILE_Q ",
                                       .engine = PROBE_FMA,
                                       .knobs_refusal = knobs_refusal,
                                       EITHER};
const family cla_family_decode_rows_dot = {
    .name = "decode_rows_dot", .needs = PROBE_DOT_BF16, .engine = PROBE_DOT_BF16, EITHER};
