// family_flash_fragments.c: both products of 16-bit attention on a matrix engine that 32 work-items share, by default only where the
// device proved one that is faster than tiles of multiply-adds; where a row of the caller's names the kernel, anywhere, if need be
// on the emulation.
#include <stdio.h>

#include "args/args.h"
#include "plan/families/family.h"

#define MOST_HEAD 256
// The emulation shows that indices are right, and compiles in a fifth of the time so (PoCL 3.1).
#define EMULATION_OPTIONS "-cl-std=CL1.2 -cl-opt-disable"
#define WARP 32       // work-items
#define MOST_WARPS 16 // of a group
#define MANY_COLUMNS 64
#define MOST_COLUMNS 128 // beyond these fewer keys leave their registers to the output

static probe_id engine_of(const problem *p) {
    return p->type_kv == CLATTN_TYPE_BF16 ? PROBE_MMA_BF16 : PROBE_MMA_F16;
}

// What a row leaves open.
static void complete(const problem *p, knobs *k, const knobs *row) {
    const int widest = p->head_dim > p->head_dim_v ? p->head_dim : p->head_dim_v;
    k->group_rows = 4;
    k->row_vectors = widest <= MANY_COLUMNS ? 2 : 1;
    k->tile_kv = widest <= MOST_COLUMNS ? 64 : 32;
    if (row) cla_knobs_override(k, row);
}

static const char *knobs_refusal(const knobs *row) {
    if (row->group_rows > MOST_WARPS) return "asks for more than 16 warps, GROUP_ROWS";
    if (row->row_vectors > 2) return "asks for ROW_VECTORS that are neither 1 nor 2";
    if (row->tile_kv % 16 || row->tile_kv > 64) return "asks for a TILE_KV that is none of 16, 32, 48, 64";
    if (row->matrix_engine == MATRIX_ENGINE_AMX) return "asks for a MATRIX_ENGINE that is none of 1, 3";
    return NULL;
}

static const char *choose_engine(const plan_input *in, const problem *p, const tuned_row *row, knobs *k) {
    const probe_id id = engine_of(p);
    const bool proven = in->probes.proven >> id & 1u, own = row && row->id == KERNEL_FLASH_FRAGMENTS;
    if (k->matrix_engine == MATRIX_ENGINE_MMA && !proven)
        return "its tuned row asks for an engine that the device has not proven";
    if (!own && !proven) return "no matrix engine of 32 work-items is proven";
    if (!own && in->probes.rate[id] < in->probes.rate[PROBE_TILES])
        return "the device's matrix engine is not faster than tiles of multiply-adds";
    if (!k->matrix_engine) k->matrix_engine = proven ? MATRIX_ENGINE_MMA : MATRIX_ENGINE_EMULATION;
    return NULL;
}

// Rows are read by eights, or one number after the other.
static int reads_by(const problem *p) {
    return p->align_q >= 8 && p->align_k >= 8 && p->align_v >= 8 ? 2 : 0;
}

static const char *fit(const plan_input *in, const problem *p, const tuned_row *row, variant *v) {
    const char *refusal = cla_family_gpu_refusal(in, row, KERNEL_FLASH_FRAGMENTS);
    if (refusal) return refusal;
    if (p->type_q != p->type_kv || p->type_v ||
        (p->type_kv != CLATTN_TYPE_F16 && p->type_kv != CLATTN_TYPE_BF16))
        return "its products are of q, k and v that are all float16 or all bfloat16";
    if (p->head_dim > MOST_HEAD || p->head_dim_v > MOST_HEAD) return "head sizes up to 256";
    complete(p, &v->knobs, row ? &row->knobs : NULL);
    refusal = choose_engine(in, p, row, &v->knobs);
    if (refusal) return refusal;
    v->knobs.wide = reads_by(p);
    v->work_group = WARP * v->knobs.group_rows;
    v->rows_per_group = 16 * v->knobs.row_vectors * v->knobs.group_rows;
    v->local_bytes =
        (size_t)FRAGMENTS_LOCAL_BYTES(v->rows_per_group, v->knobs.tile_kv, p->head_dim, p->head_dim_v) +
        FRAGMENTS_FLAG_BYTES;
    if (v->knobs.matrix_engine == MATRIX_ENGINE_EMULATION) {
        v->local_bytes += (size_t)(FRAGMENTS_EXCHANGE_BYTES * v->work_group);
        v->options = EMULATION_OPTIONS;
    }
    if (v->local_bytes > in->device->local_memory_bytes)
        return "its tiles are too large for the device's local memory";
    if ((uint64_t)v->work_group > cla_family_group_limit(in, KERNEL_FLASH_FRAGMENTS))
        return "its work-group is too large for the device";
    return cla_family_tile_grid(in, p, v);
}

static void explain(const plan_input *in, const variant *v, char why[200]) {
    const probe_id id = v->knobs.type_kv == CLATTN_TYPE_BF16 ? PROBE_MMA_BF16 : PROBE_MMA_F16;
    char engine[64] = "emulated: a tuned row";
    if (v->knobs.matrix_engine == MATRIX_ENGINE_MMA)
        snprintf(engine, sizeof engine, "%.0f GFLOP/s a work-group", (double)in->probes.rate[id]);
    snprintf(why, 200,
             "%d warps of %d rows and tiles of %d keys on a matrix engine (%s), in %llu of %llu bytes of "
             "local memory; %s",
             v->knobs.group_rows, 16 * v->knobs.row_vectors, v->knobs.tile_kv, engine,
             (unsigned long long)v->local_bytes, (unsigned long long)in->device->local_memory_bytes,
             v->knobs.wide ? "rows are read by eights" : "rows are read one by one");
}

const family cla_family_flash_fragments = {.name = "flash_fragments",
                                           .tunes = "GROUP_ROWS ROW_VECTORS TILE_KV MATRIX_ENGINE ",
                                           .id = KERNEL_FLASH_FRAGMENTS,
                                           .path = CLATTN_KERNEL_FLASH,
                                           .can = CAN_MANY_ROWS | CAN_DROPOUT | CAN_RAGGED,
                                           .knobs_refusal = knobs_refusal,
                                           .fit = fit,
                                           .explain = explain};
