// family_flash_lanes.c: query rows in vector lanes, for devices whose work-item owns vector registers; with x86's
// bfloat16 dot product where the device proved it and it is the faster engine.
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
    return cla_family_tile_refusal(&k);
}

static const char *fit_lanes(const plan_input *in, const problem *p, const tuned_row *row, variant *v) {
    v->knobs.lanes = cla_variant_lanes(in);
    complete(&v->knobs, &row->knobs);
    v->knobs.weights = p->wants_weights;
    v->work_group = 1;
    v->rows_per_group = v->knobs.lanes * v->knobs.row_vectors;
    if (LANES_PRIVATE_BYTES((int64_t)v->rows_per_group, (int64_t)v->knobs.tile_kv, v->knobs.key_block,
                            p->head_dim, p->head_dim_v) > PRIVATE_BYTES_MOST)
        return "the tile of its tuned row takes more than 4 MiB with such heads";
    const char *refusal = cla_family_tile_grid(in, p, v);
    return refusal ? refusal : cla_family_take_dot(p, v);
}

static void explain(const plan_input *in, const variant *v, char why[200]) {
    (void)in;
    snprintf(why, 200, "a tuned row: query rows in %d vectors of %d lanes%s", v->knobs.row_vectors,
             v->knobs.lanes, v->knobs.dot_bf16 ? ", bfloat16 dot product" : "");
}

#define EITHER                                                                                               \
    .id = KERNEL_FLASH_LANES, .path = CLATTN_KERNEL_FLASH, .reach = 0.8f,                                    \
    .can = CAN_WEIGHTS | CAN_MANY_ROWS | CAN_DROPOUT | CAN_RAGGED, .needs_row = true, .fit = fit_lanes,      \
    .explain = explain

const family cla_family_flash_lanes = {.name = "flash_lanes",
                                       .tunes = "LANES ROW_VECTORS KEY_BLOCK TILE_KV ",
                                       .engine = PROBE_FMA,
                                       .knobs_refusal = knobs_refusal,
                                       EITHER};
const family cla_family_flash_lanes_dot = {
    .name = "flash_lanes_dot", .needs = PROBE_DOT_BF16, .engine = PROBE_DOT_BF16, EITHER};
