// family_flash_fragments.c: both products of attention with 16-bit queries on a GPU's matrix
// engine, which a whole warp drives. Used by default only if the device has proven an engine that
// is faster than flash_tiles. A tuned row of the caller can select the kernel anywhere, even
// emulated. On the decode path its rows are those of all query heads of a key/value head.
#include <stdio.h>

#include "args/args.h"
#include "args/fragments.h"
#include "plan/families/family_fragments.h"
#include "probe/fragments.h"

#define MOST_HEAD 256
#define MOST_WGMMA_HEAD 128
// The emulation only verifies indices. Without optimisation it compiles in a fifth of the time
// (PoCL 3.1).
#define EMULATION_OPTIONS "-cl-std=CL1.2 -cl-opt-disable"
// Intel's option halves the number of hardware threads, and doubles the registers of each.
#define DPAS_OPTIONS "-cl-std=CL1.2 -cl-intel-256-GRF-per-thread"
#define MOST_WARPS 16 // per work-group
#define MANY_COLUMNS 64
#define MOST_COLUMNS 128 // wider heads need registers for the output, so fewer keys
// float32 as a sum of three bfloat16 terms. Six of the nine products are computed
// (flash_fragments.cl).
#define BF16_TERMS 3
#define TERM_PRODUCTS 6

static bool is_dpas(int engine) {
    return engine == MATRIX_ENGINE_DPAS_8 || engine == MATRIX_ENGINE_DPAS_16;
}

const char *cla_family_fragments_options(const knobs *k) {
    if (k->matrix_engine == MATRIX_ENGINE_EMULATION) return EMULATION_OPTIONS;
    return is_dpas(k->matrix_engine) ? DPAS_OPTIONS : NULL;
}

static int widest_head(const problem *p) {
    return p->head_dim > p->head_dim_v ? p->head_dim : p->head_dim_v;
}

// Defaults for the knobs that a row does not set. If a work-item has one row or half a row, the
// output needs more registers, so there are fewer rows or keys. With few rows of several heads,
// each fragment has a warp and no warp is idle.
static void complete(const problem *p, enum kernel_id id, knobs *k, const knobs *row) {
    const int widest = widest_head(p), engine = cla_fragments_engine(k);
    const int most = k->bf16_terms || engine > MATRIX_ENGINE_WGMMA ? MANY_COLUMNS : MOST_COLUMNS;
    k->group_rows = is_dpas(engine) ? (k->bf16_terms ? 4 : 8) : engine == MATRIX_ENGINE_WGMMA ? 12 : 4;
    k->row_vectors = widest <= MANY_COLUMNS && engine == MATRIX_ENGINE_MMA && !k->bf16_terms ? 2 : 1;
    if (id == KERNEL_DECODE_FRAGMENTS && engine != MATRIX_ENGINE_WGMMA &&
        p->n_q <= FRAGMENTS_ROWS(engine) * k->group_rows) {
        k->group_rows = (p->n_q + FRAGMENTS_ROWS(engine) - 1) / FRAGMENTS_ROWS(engine);
        k->row_vectors = 1;
    }
    k->tile_kv = (widest <= most ? 64 : 32) / (is_dpas(engine) || k->bf16_terms ? 2 : 1);
    if (!row) return;
    const int terms = k->bf16_terms;
    cla_knobs_override(k, row);
    k->bf16_terms = terms;
}

const char *cla_family_halves_refusal(const problem *p) {
    const clattn_type q = p->type_q, k = p->type_kv, v = cla_problem_type_v(p);
    if (q != CLATTN_TYPE_F16 && q != CLATTN_TYPE_BF16)
        return "its products are of 16 bits, to which float32 queries are not rounded";
    if (p->scale_group || p->scale_group_v)
        return "its scales are float32 and of whole rows: other kernels have groups, zero points and 4 bits";
    if (k != q && (!TYPE_IS_QUANTISED(k) || k == CLATTN_TYPE_Q4_1))
        return "keys that are neither of q's type nor int8, float8, q8_0 or q4_0 would be rounded";
    if (v != q && q == CLATTN_TYPE_F16 && !TYPE_IS_QUANTISED(v))
        return "its products are of float16, in which not all values of other floating types have a place";
    return NULL;
}
static bool converts(const problem *p) {
    return p->type_q == CLATTN_TYPE_F32 || p->type_kv != p->type_q || cla_problem_type_v(p) != p->type_q;
}
static int key_scales(const problem *p) {
    if (p->type_q == CLATTN_TYPE_F32) return 0;
    const int numbers = clattn_type_numbers(p->type_kv);
    return numbers > 1 ? p->head_dim / numbers : CLATTN_TYPE_IS_SCALED(p->type_kv);
}

static bool is_wgmma(const knobs *k) {
    return k->matrix_engine == MATRIX_ENGINE_WGMMA || k->emulated == MATRIX_ENGINE_WGMMA;
}

static const char *knobs_refusal(const knobs *row) {
    const int engine = row->matrix_engine;
    if (row->group_rows > MOST_WARPS) return "asks for more than 16 warps, GROUP_ROWS";
    if (row->row_vectors > 2) return "asks for ROW_VECTORS that are neither 1 nor 2";
    if (row->bf16_terms && row->bf16_terms != BF16_TERMS) return "asks for BF16_TERMS that are not 3";
    if (row->tile_kv % 16 || row->tile_kv > (is_wgmma(row) ? 128 : 64))
        return "asks for a TILE_KV that is none of 16, 32, 48, 64";
    if (is_wgmma(row) && (row->group_rows % 4 || row->row_vectors > 1 || row->tile_kv % 64))
        return "asks for wgmma with GROUP_ROWS that are no fours, ROW_VECTORS=2, or a TILE_KV other than 64 "
               "and 128";
    if (engine == MATRIX_ENGINE_AMX || engine == MATRIX_ENGINE_WMMA_12)
        return "asks for a MATRIX_ENGINE that is none of 1, 3, 4, 5, 7, 8, 9";
    if (row->emulated && engine != MATRIX_ENGINE_EMULATION)
        return "asks for an EMULATED without MATRIX_ENGINE=1";
    return NULL;
}

probe_id cla_family_fragments_proven(const plan_input *in, int type, int number) {
    probe_id best = PROBE_NONE;
    for (int id = PROBE_NONE + 1; id < PROBE_COUNT; id++) {
        if (!((PROBES_FRAGMENTS & in->probes.proven) >> id & 1u)) continue;
        const knobs k = cla_fragments_knobs(in->device, (probe_id)id);
        if (k.type_kv != type || !k.matrix_engine || (number && k.matrix_engine != number)) continue;
        // No whole kernel with wgmma has been timed yet, so a tuned row must name it.
        if (!number && k.matrix_engine == MATRIX_ENGINE_WGMMA) continue;
        if (best == PROBE_NONE || in->probes.rate[id] > in->probes.rate[best]) best = (probe_id)id;
    }
    return best;
}

static const char *choose_engine(const plan_input *in, const problem *p, const tuned_row *own, knobs *k) {
    const int asked = own ? own->knobs.matrix_engine : 0;
    const int type = p->type_q == CLATTN_TYPE_F32 ? CLATTN_TYPE_BF16 : (int)p->type_q;
    const probe_id id = cla_family_fragments_proven(in, type, asked == MATRIX_ENGINE_EMULATION ? 0 : asked);
    k->matrix_engine = asked ? asked : MATRIX_ENGINE_EMULATION;
    if (own) k->emulated = own->knobs.emulated;
    if (asked == MATRIX_ENGINE_EMULATION) return NULL;
    if (asked && id == PROBE_NONE) return "its tuned row asks for an engine that the device has not proven";
    if (!own && id == PROBE_NONE) return "no matrix engine that a warp shares is proven";
    if (!own && in->probes.rate[id] < in->probes.rate[PROBE_TILES])
        return "the device's matrix engine is not faster than tiles of multiply-adds";
    if (id != PROBE_NONE) k->matrix_engine = cla_fragments_knobs(in->device, id).matrix_engine;
    return NULL;
}

// Types: 16 bits, or float32 as terms. Terms have different rounding from multiply-adds and have
// not been timed on a device, so a tuned row must request them with BF16_TERMS=3.
static const char *types_refusal(const plan_input *in, const problem *p, const tuned_row *row) {
    if (p->type_q != CLATTN_TYPE_F32) return cla_family_halves_refusal(p);
    if (p->scale_group || p->scale_group_v)
        return "its scales are float32 and of whole rows: other kernels have groups, zero points and 4 bits";
    if (row && row->knobs.bf16_terms) return NULL;
    const probe_id id = cla_family_fragments_proven(in, CLATTN_TYPE_BF16, 0);
    if (id == PROBE_NONE) return cla_family_halves_refusal(p);
    return in->probes.rate[id] < TERM_PRODUCTS * in->probes.rate[PROBE_TILES]
               ? "six products of the device's matrix engine, of terms of float32, are not faster than one "
                 "of tiles"
               : "a tuned row with BF16_TERMS=3 asks for float32 queries as sums of three bfloat16";
}

// Limits of particular engines.
static const char *tile_refusal(const problem *p, const knobs *k) {
    const int engine = cla_fragments_engine(k);
    if (engine == MATRIX_ENGINE_WGMMA && widest_head(p) > MOST_WGMMA_HEAD)
        return "its tuned row asks for wgmma, whose registers hold heads of up to 128";
    if (engine == MATRIX_ENGINE_WGMMA && converts(p))
        return "its tuned row asks for wgmma, which reads keys and values as they are";
    if (engine == MATRIX_ENGINE_MFMA && k->tile_kv % 32)
        return "its tuned row asks for a TILE_KV that is neither 32 nor 64";
    return NULL;
}

// Value of the knob ALIGNED_VECTORS: 2 loads eight elements at a time, 0 one element.
static int reads_by(const problem *p) {
    return p->align_q >= 8 && p->align_k >= 8 && p->align_v >= 8 ? 2 : 0;
}

static const char *fit_rows(const plan_input *in, const problem *p, enum kernel_id id, const tuned_row *row,
                            variant *v) {
    const char *refusal = cla_family_gpu_refusal(in, row, id);
    if (refusal) return refusal;
    refusal = types_refusal(in, p, row);
    if (refusal) return refusal;
    if (p->type_q == CLATTN_TYPE_F32) v->knobs.bf16_terms = BF16_TERMS;
    if (p->head_dim > MOST_HEAD || p->head_dim_v > MOST_HEAD)
        return "head sizes up to 256: the registers of no engine hold a latent's (docs/engines.md)";
    refusal = choose_engine(in, p, row, &v->knobs);
    if (refusal) return refusal;
    const int engine = cla_fragments_engine(&v->knobs);
    if (engine != MATRIX_ENGINE_MMA && (p->head_dim > MOST_COLUMNS || p->head_dim_v > MOST_COLUMNS) && !row)
        return "heads above 128 leave the device's matrix engine no registers";
    complete(p, id, &v->knobs, row ? &row->knobs : NULL);
    refusal = tile_refusal(p, &v->knobs);
    if (refusal) return refusal;
    v->knobs.aligned_vectors = reads_by(p);
    v->work_group = FRAGMENTS_ITEMS(engine) * v->knobs.group_rows;
    v->rows_per_group = FRAGMENTS_ROWS(engine) * v->knobs.row_vectors * v->knobs.group_rows;
    const int turn_rows =
        v->rows_per_group / FRAGMENTS_ROUNDS(engine, v->knobs.group_rows, v->knobs.bf16_terms);
    v->local_bytes =
        (size_t)((v->knobs.bf16_terms ? BF16_TERMS : 1) *
                 FRAGMENTS_LOCAL_BYTES(engine, turn_rows, v->knobs.tile_kv, p->head_dim, p->head_dim_v)) +
        sizeof(float) * (size_t)(v->knobs.tile_kv * key_scales(p)) +
        (engine == MATRIX_ENGINE_WGMMA ? 0 : FRAGMENTS_FLAG_BYTES);
    if (v->knobs.matrix_engine == MATRIX_ENGINE_EMULATION)
        v->local_bytes += (size_t)(FRAGMENTS_EXCHANGE_BYTES(engine) * v->work_group);
    v->options = cla_family_fragments_options(&v->knobs);
    if (v->local_bytes > cla_family_local_limit(in, id))
        return "its tiles are too large for the device's local memory";
    if ((uint64_t)v->work_group > cla_family_group_limit(in, id))
        return "its work-group is too large for the device";
    return cla_family_tile_grid(in, p, v);
}

// Scaled values may exceed 65504 or be subnormal in float16. A caller who knows that the values fit
// selects the kernel with a tuned row.
static const char *fit(const plan_input *in, const problem *p, const tuned_row *row, variant *v) {
    if (!row && p->type_q == CLATTN_TYPE_F16 && TYPE_IS_QUANTISED(cla_problem_type_v(p)))
        return "values with scales may be more or less than float16 holds, and its products are of float16";
    return fit_rows(in, p, KERNEL_FLASH_FRAGMENTS, row, v);
}

// Treat the rows of all query heads of a key/value head as rows of one head. Not yet timed against
// decode_tiles and decode_groups, so a tuned row must name the kernel.
static const char *fit_heads(const plan_input *in, const problem *p, const tuned_row *row, variant *v) {
    const int64_t all = (int64_t)p->n_q * (p->kv_heads ? p->heads / p->kv_heads : 1);
    problem heads = *p;
    if (all > INT32_MAX / 2) return "query rows that share a key/value head: must be below 2^30";
    if (!row) return "no device has timed it beside decode_tiles yet: clattn tune does, and writes a row";
    heads.n_q = (int)all, heads.heads = p->kv_heads;
    return fit_rows(in, &heads, KERNEL_DECODE_FRAGMENTS, row, v);
}

static void explain(const plan_input *in, const variant *v, char why[200]) {
    const int number = v->knobs.matrix_engine;
    const int type = v->knobs.bf16_terms ? CLATTN_TYPE_BF16 : v->knobs.type_q;
    const probe_id id = cla_family_fragments_proven(in, type, number);
    char engine[64] = "emulated: a tuned row";
    if (number != MATRIX_ENGINE_EMULATION && id != PROBE_NONE)
        snprintf(engine, sizeof engine, "%.0f GFLOP/s a work-group%s", (double)in->probes.rate[id],
                 v->knobs.bf16_terms ? ", six products for one" : "");
    snprintf(why, 200,
             "%d warps of %d rows and tiles of %d keys on a matrix engine (%s), in %llu of %llu bytes of "
             "local memory; %s",
             v->knobs.group_rows, v->rows_per_group / v->knobs.group_rows, v->knobs.tile_kv, engine,
             (unsigned long long)v->local_bytes, (unsigned long long)in->device->local_memory_bytes,
             v->knobs.aligned_vectors ? "rows are read by eights" : "rows are read one by one");
}

const family cla_family_flash_fragments = {
    .name = "flash_fragments",
    .tunes = "GROUP_ROWS ROW_VECTORS TILE_KV MATRIX_ENGINE EMULATED BF16_TERMS ",
    .id = KERNEL_FLASH_FRAGMENTS,
    .path = CLATTN_KERNEL_FLASH,
    .can = CAN_MANY_ROWS | CAN_DROPOUT | CAN_RAGGED,
    .knobs_refusal = knobs_refusal,
    .fit = fit,
    .explain = explain};

const family cla_family_decode_fragments = {
    .name = "decode_fragments",
    .tunes = "GROUP_ROWS ROW_VECTORS TILE_KV MATRIX_ENGINE EMULATED BF16_TERMS ",
    .id = KERNEL_DECODE_FRAGMENTS,
    .path = CLATTN_KERNEL_DECODE,
    .can = CAN_SPLIT,
    .never_ops = ARGS_SCORE_OPS & ~ARGS_SOFTCAP,
    .never_why = "options of a score that differ among rows of several heads: decode_groups takes them",
    .knobs_refusal = knobs_refusal,
    .fit = fit_heads,
    .explain = explain};
