// family_flash_matrix.c: both products of attention on AMX tiles, of bfloat16 or of int8. Used by
// default only if the device has proven an engine that is fast enough. A tuned row of the caller
// can select the kernel on any device, even emulated.
#include <stdio.h>

#include "args/args.h"
#include "plan/families/family.h"

#define ROWS 32 // query rows per work-item
#define MOST_TILE_KV 512
#define MOST_HEAD 256
#define MOST_BYTES ((uint64_t)1 << 58) // more than any memory; sums stay below 2^64

static void complete(knobs *k, const knobs *row) {
    k->tile_kv = 64;
    if (row) cla_knobs_override(k, row);
}

static const char *knobs_refusal(const knobs *row) {
    knobs k = {0};
    complete(&k, row);
    if (k.tile_kv % MATRIX_PACK_KEYS || k.tile_kv > MOST_TILE_KV)
        return "asks for a TILE_KV that is no multiple of 32 up to 512";
    if (k.matrix_engine > MATRIX_ENGINE_AMX) return "asks for a MATRIX_ENGINE that is none of 1, 2";
    return NULL;
}

// A tuned row of the caller for any kernel of the path decides. The library's own rows do not
// consider this kernel.
static const char *choose_engine(const plan_input *in, const tuned_row *row, unsigned probes, knobs *k) {
    const bool own = cla_tuned_has(in->own, row);
    const bool proven = (in->probes.proven & probes) == probes;
    if (own && row->id != KERNEL_FLASH_MATRIX) return "a tuned row of the caller's names another kernel";
    if (own && k->matrix_engine == MATRIX_ENGINE_AMX && !proven)
        return "its tuned row asks for AMX, which the device has not proven";
    if (!own && !proven)
        return "no matrix engine is proven: there is none, or the context did not ask for it";
    if (!k->matrix_engine) k->matrix_engine = proven ? MATRIX_ENGINE_AMX : MATRIX_ENGINE_EMULATION;
    return NULL;
}

// Place the packed values behind the partial results. Returns NULL, or why not.
static const char *lay_out_values(const plan_input *in, const problem *p, variant *v) {
    const uint64_t buffer = in->device->max_allocation_bytes;
    const uint64_t most = buffer < MOST_BYTES ? buffer : MOST_BYTES,
                   heads = (uint64_t)p->batch * (uint64_t)p->kv_heads;
    const uint64_t blocks = ((uint64_t)p->n_kv + MATRIX_PACK_KEYS - 1) / MATRIX_PACK_KEYS;
    const uint64_t head = blocks *
                          MATRIX_PACK_BLOCK((uint64_t)p->head_dim_v, CLATTN_TYPE_IS_SCALED(p->type_kv)) *
                          sizeof(uint16_t);
    if (v->workspace_bytes > most || (heads && head > (most - v->workspace_bytes) / heads))
        return "the values in tiles are more than the device's largest buffer";
    v->packed_bytes = heads * head;
    if (v->packed_bytes == 0) return NULL;
    v->packed_values = (v->workspace_bytes + 255) / 256 * 256;
    v->workspace_bytes = v->packed_values + v->packed_bytes;
    return NULL;
}

static const char *fit_tiles(const plan_input *in, const problem *p, const tuned_row *row, unsigned probes,
                             variant *v) {
    if (p->head_dim > MOST_HEAD || p->head_dim_v > MOST_HEAD) return "head sizes up to 256";
    complete(&v->knobs, row && row->id == KERNEL_FLASH_MATRIX ? &row->knobs : NULL);
    const char *refusal = choose_engine(in, row, probes, &v->knobs);
    if (refusal) return refusal;
    v->knobs.weights = p->wants_weights;
    v->work_group = 1;
    v->rows_per_group = ROWS;
    refusal = cla_family_tile_grid(in, p, v);
    return refusal ? refusal : lay_out_values(in, p, v);
}

static const char *fit(const plan_input *in, const problem *p, const tuned_row *row, variant *v) {
    const char *refusal = cla_family_dot_refusal(p);
    return refusal ? refusal : fit_tiles(in, p, row, 1u << PROBE_AMX, v);
}

static const char *fit_integers(const plan_input *in, const problem *p, const tuned_row *row, variant *v) {
    const char *refusal = cla_family_matrix_integers_refusal(p);
    return refusal ? refusal : fit_tiles(in, p, row, PROBES_AMX_I8, v);
}

// Cost in byte products: the bytes of a query's number, and the terms of a weight
// (matrix_integers.clh). A bfloat16 tile product has half as many numbers as a byte product at the
// same speed, hence the factor 2.
static double integer_columns(const problem *p, const variant *v) {
    const int out = v->knobs.type_out, wide = p->type_q != CLATTN_TYPE_BF16,
              half = p->type_q == CLATTN_TYPE_F16 || out == CLATTN_TYPE_F16;
    const int digits = wide || p->wants_weights ? 3 : 2, terms = !wide || out == CLATTN_TYPE_BF16 ? 1
                                                                 : half                           ? 2
                                                                                                  : 3;
    return digits * ((p->head_dim + 63) / 64 * 64) + 2 * terms * MATRIX_PACK_ROWS(p->head_dim_v);
}

static void explain(const plan_input *in, const variant *v, char why[200]) {
    const bool bytes = v->family->engine == PROBE_AMX_I8;
    if (v->knobs.matrix_engine == MATRIX_ENGINE_AMX)
        snprintf(why, 200, "query rows in tiles of AMX%s, %.0f GFLOP/s a work-item",
                 bytes ? ", keys in integers" : "", (double)in->probes.rate[v->family->engine]);
    else
        snprintf(why, 200, "a tuned row: query rows in tiles%s, emulated", bytes ? ", keys in integers" : "");
}

#define EITHER                                                                                               \
    .id = KERNEL_FLASH_MATRIX, .path = CLATTN_KERNEL_FLASH,                                                  \
    .can = CAN_WEIGHTS | CAN_MANY_ROWS | CAN_DROPOUT | CAN_RAGGED, .explain = explain

const family cla_family_flash_matrix = {.name = "flash_matrix",
                                        .tunes = "TILE_KV MATRIX_ENGINE ",
                                        .engine = PROBE_AMX,
                                        .reach = 0.2f, // measured: Xeon with AMX, PoCL 3.1
                                        .head_step = MATRIX_PACK_KEYS,
                                        .knobs_refusal = knobs_refusal,
                                        .fit = fit,
                                        EITHER};
// Not timed on hardware: `reach` is that of bfloat16.
const family cla_family_flash_matrix_i8 = {.name = "flash_matrix_i8",
                                           .engine = PROBE_AMX_I8,
                                           .reach = 0.2f,
                                           .columns = integer_columns,
                                           .fit = fit_integers,
                                           EITHER};
