// family_flash_lanes.c: query rows in vector lanes, for CPUs with vector registers. It uses x86's
// bfloat16 dot product, or for integer caches the integer dot product, if proven and faster.
#include <stdio.h>

#include "args/args.h"
#include "plan/families/family.h"

static void complete(knobs *k, const knobs *row) {
    k->row_vectors = 1, k->key_block = 8, k->tile_kv = 64;
    cla_knobs_override(k, row);
}

static const char *knobs_refusal(const knobs *row) {
    knobs k = {0};
    complete(&k, row);
    if (k.dot_i8 > DOT_I8_VNNI) return "asks for a DOT_I8 that is none of 1, 2";
    if (k.dot_i8 && (k.tile_kv % 4 || k.tile_kv > 256 || 32 % k.key_block))
        return "asks for DOT_I8 and a TILE_KV that is no multiple of 4 up to 256, or a KEY_BLOCK that does "
               "not divide 32";
    return cla_family_tile_refusal(&k);
}

// Plan with the tile in v->knobs.
static const char *fit_tile(const plan_input *in, const problem *p, variant *v) {
    v->knobs.weights = p->wants_weights;
    v->work_group = 1;
    v->rows_per_group = v->knobs.lanes * v->knobs.row_vectors;
    if (LANES_PRIVATE_BYTES((int64_t)v->rows_per_group, (int64_t)v->knobs.tile_kv, v->knobs.key_block,
                            p->head_dim, p->head_dim_v) > PRIVATE_BYTES_MOST)
        return "the tile of its tuned row takes more than 4 MiB with such heads";
    return cla_family_tile_grid(in, p, v);
}

static const char *fit_lanes(const plan_input *in, const problem *p, const tuned_row *row, variant *v) {
    if (row->knobs.dot_i8 && !cla_family_integer_refusal(p)) return "a tuned row asks for integer products";
    v->knobs.lanes = cla_variant_lanes(in);
    complete(&v->knobs, &row->knobs);
    v->knobs.dot_i8 = 0;
    const char *refusal = fit_tile(in, p, v);
    return refusal ? refusal : cla_family_take_dot(p, v);
}

// Integer products need two or three sums per score, so the tile is smaller. A tuned row of the
// caller without DOT_I8 is a tile for float products.
static const char *fit_integers(const plan_input *in, const problem *p, const tuned_row *row, variant *v) {
    const bool own = cla_tuned_has(in->own, row);
    const char *refusal = cla_family_integer_refusal(p);
    if (refusal) return refusal;
    if (!(in->probes.proven >> PROBE_DOT_I8 & 1u) && row->knobs.dot_i8 != DOT_I8_EMULATION)
        return "its integer dot product is not proven here";
    if (own && !row->knobs.dot_i8) return "a tuned row asks for a tile of floats";
    v->knobs.lanes = cla_variant_lanes(in);
    v->knobs.dot_i8 = DOT_I8_VNNI, v->knobs.tile_kv = 128;
    v->knobs.key_block = v->knobs.lanes == 16 ? 4 : 2;
    v->knobs.row_vectors = p->n_q <= v->knobs.lanes ? 1 : 2;
    if (row->knobs.dot_i8) cla_knobs_override(&v->knobs, &row->knobs);
    if (v->knobs.lanes == 4) return "needs 8 or 16 lanes";
    return fit_tile(in, p, v);
}

// Columns of a row that share a scale; and columns of a key whose products are summed before
// scaling, as in lanes.clh.
static int scale_columns(clattn_type type, int group, int columns) {
    return clattn_type_numbers(type) > 2 ? 32 : group > 1 ? group : columns;
}
static int columns_together(clattn_type type, int group, int columns) {
    const int shared = scale_columns(type, group, columns);
    if (clattn_type_numbers(type) <= 2 && group <= 1) return columns;
    return shared % 64 ? 32 : shared % 128 ? 64 : shared % 256 ? 128 : 256;
}

// Cost per query row and key, in pairs of byte products. A query's number and a weight have 2 or 3
// bytes each (flash_lanes_integers.clh). Every group of columns with its own scale adds 12 units
// for a key and 17 for a value, and zero points add more. Checked on Zen 4: within 8 % of measured
// times.
static double integer_columns(const problem *p, const variant *v) {
    const bool wide = v->knobs.type_out == CLATTN_TYPE_F32;
    const bool all = wide || p->wants_weights || p->type_q != CLATTN_TYPE_BF16;
    const clattn_type type_v = cla_problem_type_v(p);
    const int digits = all ? 3 : 2, weight_digits = wide ? 3 : 2,
              parts = p->head_dim / columns_together(p->type_kv, p->scale_group, p->head_dim),
              parts_v = p->head_dim_v / scale_columns(type_v, p->scale_group_v, p->head_dim_v);
    return 0.5 * (digits * p->head_dim + weight_digits * p->head_dim_v) +
           (p->zero_points & 1 ? 14.0 : 12.0) * parts + (p->zero_points & 2 ? 33.0 : 17.0) * parts_v;
}

static void explain(const plan_input *in, const variant *v, char why[200]) {
    const char *by = v->knobs.dot_bf16 ? "bfloat16 dot product" : cla_family_integers_word(&v->knobs);
    (void)in;
    snprintf(why, 200, "a tuned row: query rows in %d vectors of %d lanes%s%s", v->knobs.row_vectors,
             v->knobs.lanes, by ? ", " : "", by ? by : "");
}

#define EITHER                                                                                               \
    .id = KERNEL_FLASH_LANES, .path = CLATTN_KERNEL_FLASH,                                                   \
    .can = CAN_WEIGHTS | CAN_MANY_ROWS | CAN_DROPOUT | CAN_RAGGED, .needs_row = true, .explain = explain

const family cla_family_flash_lanes = {.name = "flash_lanes",
                                       .tunes = "LANES ROW_VECTORS KEY_BLOCK TILE_KV DOT_I8 ",
                                       .engine = PROBE_FMA,
                                       .reach = 0.8f,
                                       .knobs_refusal = knobs_refusal,
                                       .fit = fit_lanes,
                                       EITHER};
const family cla_family_flash_lanes_dot = {.name = "flash_lanes_dot",
                                           .needs = PROBE_DOT_BF16,
                                           .engine = PROBE_DOT_BF16,
                                           .reach = 0.8f,
                                           .fit = fit_lanes,
                                           EITHER};
// 0.8 was measured. The lower value makes sure that integers win by a margin.
const family cla_family_flash_lanes_i8 = {.name = "flash_lanes_i8",
                                          .engine = PROBE_DOT_I8,
                                          .reach = 0.75f,
                                          .columns = integer_columns,
                                          .fit = fit_integers,
                                          EITHER};
