// backward_plan.c: see backward_plan.h.
#include "plan/backward_plan.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "args/args.h"
#include "program/unfit.h"

#define PARTS_MOST 8 // largest number of partial dq sums over key ranges
#define MATRIX_MOST_HEAD 256
#define PARTS_UNITS 32 // sufficient work-groups for any device: results must not depend on it

static int divide_up(int n, int by) {
    return (n + by - 1) / by;
}

static int round_up(int n, int to) {
    return divide_up(n, to) * to;
}

// Bytes of a work-item's tiles in backward_lanes.cl, and approximately in backward_matrix.cl. Rows
// are padded to multiples of `step`.
static int64_t lanes_bytes(const knobs *k, const problem *p, int step) {
    const int64_t rows = (int64_t)k->lanes * k->row_vectors, keys = k->tile_kv + k->key_block,
                  columns = round_up(p->head_dim, step) + round_up(p->head_dim_v, step);
    return (int64_t)sizeof(float) * (2 * (keys + rows) * columns + 5 * rows * k->tile_kv);
}

// Set the ranges of keys, for enough work-groups on many cores. Sizes alone decide, so that results
// are the same on every device.
static void take_parts(const problem *p, backward_variant *v) {
    const int64_t units = (int64_t)p->batch * p->kv_heads;
    const int tiles = divide_up(p->n_kv, v->knobs.tile_kv);
    int parts = units > 0 && units < PARTS_UNITS ? (int)((PARTS_UNITS + units - 1) / units) : 1;
    if (parts > PARTS_MOST) parts = PARTS_MOST;
    if (parts > tiles) parts = tiles > 0 ? tiles : 1;
    v->part_keys = divide_up(tiles, parts) * v->knobs.tile_kv;
    v->parts = v->part_keys > 0 ? divide_up(p->n_kv, v->part_keys) : 1;
}

// True if the bfloat16 dot product can be used: all operands are bfloat16, and the instruction is
// proven and faster than FMA.
static bool takes_dot(const plan_input *in, const problem *p, const knobs *k) {
    const float *rate = in->probes.rate;
    return !cla_family_dot_refusal(p) && p->type_out == CLATTN_TYPE_BF16 && k->lanes == 16 &&
           k->key_block % 2 == 0 && (in->probes.proven >> PROBE_DOT_BF16 & 1u) &&
           rate[PROBE_DOT_BF16] > rate[PROBE_FMA];
}

// Predicted time on this engine, in arbitrary units; 0: unknown.
static double time_by(const plan_input *in, const problem *p, int which, probe_id engine) {
    family f = cla_backward_families[which];
    f.engine = engine;
    const variant v = {.family = &f, .rows_per_group = 1};
    return cla_family_time(in, p, &v);
}

// Why AMX tiles are not used by default; NULL: they are proven, and predicted to be faster than
// vectors.
static const char *tiles_refusal(const plan_input *in, const problem *p) {
    knobs k = {.lanes = cla_variant_lanes(in)};
    static const knobs none;
    cla_backward_complete_lanes(&k, &none);
    const double tiles = time_by(in, p, BACKWARD_MATRIX, PROBE_AMX),
                 lanes = time_by(in, p, BACKWARD_LANES, takes_dot(in, p, &k) ? PROBE_DOT_BF16 : PROBE_FMA);
    if (!(in->probes.proven >> PROBE_AMX & 1u)) return "no matrix engine is proven";
    return tiles > lanes && lanes > 0.0 ? "vectors are predicted to be faster than its tiles" : NULL;
}

static const char *fit_matrix(const plan_input *in, const problem *p, const tuned_row *row,
                              backward_variant *v) {
    static const knobs none;
    knobs *k = &v->knobs;
    const bool proven = in->probes.proven >> PROBE_AMX & 1u;
    if (cla_family_dot_refusal(p) || p->type_out != CLATTN_TYPE_BF16)
        return "its products are of bfloat16 q, k, v and dout";
    if (p->head_dim > MATRIX_MOST_HEAD || p->head_dim_v > MATRIX_MOST_HEAD) return "head sizes up to 256";
    const char *refusal = row ? NULL : tiles_refusal(in, p);
    if (refusal) return refusal;
    cla_backward_complete_matrix(k, row ? &row->knobs : &none);
    if (k->matrix_engine == MATRIX_ENGINE_AMX && !proven)
        return "its tuned row asks for AMX, which the device has not proven";
    if (!k->matrix_engine) k->matrix_engine = proven ? MATRIX_ENGINE_AMX : MATRIX_ENGINE_EMULATION;
    k->dot_bf16 = k->matrix_engine == MATRIX_ENGINE_AMX && (in->probes.proven >> PROBE_DOT_BF16 & 1u);
    while (k->tile_kv >= 2 * MATRIX_PACK_KEYS && k->tile_kv / 2 % MATRIX_PACK_KEYS == 0 &&
           lanes_bytes(k, p, MATRIX_PACK_KEYS) > PRIVATE_BYTES_MOST / 4)
        k->tile_kv /= 2;
    v->one_pass = true;
    v->work_group = 1;
    v->own_rows = k->tile_kv;
    take_parts(p, v);
    const int put = snprintf(v->why, sizeof v->why,
                             "query rows in tiles of %d, five products in one pass; keys in %d parts; ",
                             k->lanes * k->row_vectors, v->parts);
    if (k->matrix_engine == MATRIX_ENGINE_AMX)
        snprintf(v->why + put, sizeof v->why - (size_t)put, "AMX, %.0f GFLOP/s a work-item",
                 (double)in->probes.rate[PROBE_AMX]);
    else
        snprintf(v->why + put, sizeof v->why - (size_t)put, "a tuned row, emulated");
    return NULL;
}

static const char *fit_lanes(const plan_input *in, const problem *p, const tuned_row *row,
                             backward_variant *v) {
    if (!row && !cla_plan_has_lanes(in)) return "the device's work-items own no vector registers";
    v->knobs.lanes = cla_variant_lanes(in);
    if (row && row->knobs.lanes) v->knobs.lanes = row->knobs.lanes;
    static const knobs none;
    cla_backward_complete_lanes(&v->knobs, row ? &row->knobs : &none);
    while (v->knobs.tile_kv >= 32 && lanes_bytes(&v->knobs, p, v->knobs.lanes) > PRIVATE_BYTES_MOST / 4)
        v->knobs.tile_kv /= 2;
    v->knobs.dot_bf16 = takes_dot(in, p, &v->knobs);
    v->one_pass = true;
    v->work_group = 1;
    v->own_rows = v->knobs.tile_kv;
    take_parts(p, v);
    snprintf(v->why, sizeof v->why,
             "query rows in %d vectors of %d lanes, five products in one pass; keys in %d parts%s",
             v->knobs.row_vectors, v->knobs.lanes, v->parts,
             v->knobs.dot_bf16 ? "; bfloat16 dot product" : "");
    return NULL;
}

// Floats of local memory in backward.cl.
static uint64_t portable_floats(int own, int others, int d, int dv) {
    return (uint64_t)others * (uint64_t)(d + dv + 2) + 2 * (uint64_t)own * (uint64_t)(others + 1);
}

// Choose the largest tile that fits local memory and the work-group limit.
static const char *fit_portable(const plan_input *in, const problem *p, const tuned_row *row,
                                backward_variant *v) {
    static const struct {
        int own, others, items;
    } tiles[] = {{16, 32, 8}, {16, 16, 8}, {8, 16, 8}, {8, 8, 8}, {4, 8, 8}, {4, 4, 4}, {2, 2, 2}, {1, 1, 1}};
    const clattn_capabilities *device = in->device;
    const uint64_t most = cla_family_group_limit(in, KERNEL_BACKWARD);
    (void)row;
    for (size_t i = 0; i < sizeof tiles / sizeof tiles[0]; i++) {
        const int group = tiles[i].own * tiles[i].items;
        const uint64_t bytes =
            sizeof(float) * portable_floats(tiles[i].own, tiles[i].others, p->head_dim, p->head_dim_v);
        if (bytes > cla_family_local_limit(in, KERNEL_BACKWARD) || (uint64_t)group > most) continue;
        v->knobs.tile_q = tiles[i].own;
        v->knobs.tile_kv = tiles[i].others;
        v->knobs.row_items = tiles[i].items;
        v->work_group = group;
        v->own_rows = tiles[i].own;
        v->local_bytes = (size_t)bytes;
        snprintf(v->why, sizeof v->why,
                 "a tile of %d rows and %d others takes %llu of %llu bytes of local memory", tiles[i].own,
                 tiles[i].others, (unsigned long long)bytes, (unsigned long long)device->local_memory_bytes);
        return NULL;
    }
    return "no tile of this head size fits the device's local memory";
}

static const char *(*const fits[CLA_BACKWARD_FAMILIES])(const plan_input *in, const problem *p,
                                                        const tuned_row *row, backward_variant *v) = {
    [BACKWARD_MATRIX] = fit_matrix,
    [BACKWARD_LANES] = fit_lanes,
    [BACKWARD_TILES] = cla_backward_fit_tiles,
    [BACKWARD_PORTABLE] = fit_portable,
};

// The first tuned row that fits, for any gradient kernel.
static const tuned_row *find_row(const plan_input *in, const problem *p) {
    const tuned_key key = {.cpu = in->device->is_cpu,
                           .lanes = cla_plan_lanes_key(in),
                           .type = (int)p->type_kv,
                           .d = p->head_dim > p->head_dim_v ? p->head_dim : p->head_dim_v,
                           .nq = p->n_q,
                           .share = INT_MAX,
                           .band = p->band ? p->band : INT_MAX};
    tuned_kernels kernels = {.has = {false}};
    for (int i = 0; i < CLA_BACKWARD_FAMILIES; i++) kernels.has[cla_backward_families[i].id] = true;
    return cla_tuned_find(in->own, in->shipped, &kernels, &key, NULL);
}

// Append why a preferred family was not chosen.
static void add_refusal(const family *f, const char *refusal, char why[200]) {
    const size_t used = strlen(why);
    snprintf(why + used, 200 - used, "; not %s: %s", f->name, refusal);
}

// If a tuned row names a family that does not fit, the families after it are tried.
const char *cla_backward_choose(const plan_input *in, const problem *p, backward_variant *v) {
    const tuned_row *row = find_row(in, p);
    const char *refusal[CLA_BACKWARD_FAMILIES] = {NULL}, *unfit[CLA_BACKWARD_FAMILIES] = {NULL};
    const bool engine = in->probes.proven >> PROBE_AMX & 1u;
    bool reached = !row;
    if (p->head_dim > FAMILY_MAX_HEAD || p->head_dim_v > FAMILY_MAX_HEAD)
        return "head sizes above 576 have no gradients";
    for (int i = 0; i < CLA_BACKWARD_FAMILIES; i++) {
        const family *f = &cla_backward_families[i];
        const bool named = row && row->id == f->id;
        reached |= named;
        if (!reached) continue;
        *v = (backward_variant){.family = f, .parts = 1, .part_keys = p->n_kv};
        cla_family_data_knobs(p, &v->knobs);
        refusal[i] = fits[i](in, p, named ? row : NULL, v);
        // it is the last resort, so it is tried anyway
        if (!refusal[i] && in->unfit && i != BACKWARD_PORTABLE)
            refusal[i] = unfit[i] = cla_unfit_refusal(in->unfit, f->id, &v->knobs, NULL, p->inserted);
        if (refusal[i]) continue;
        for (int n = 0; n < i; n++)
            if (refusal[n] && (unfit[n] || n == BACKWARD_TILES || (n == BACKWARD_MATRIX && (row || engine))))
                add_refusal(&cla_backward_families[n], refusal[n], v->why);
        return NULL;
    }
    return refusal[CLA_BACKWARD_FAMILIES - 1];
}
