// variant.c: which kernel a call takes. The order of preference is: what the caller asks for; the unfused
// path where scores or weights are wanted; decode for few query rows; else flash. Which kernel of a family,
// and its tile, is what the tuned rows say, checked against the device's limits; without a row the portable
// kernel.
#include "plan/variant.h"

#include <string.h>

#include "args.h"

// Scores that the unfused path holds at once when the caller does not keep the weights. 64 MiB: measured on
// PoCL, larger chunks gain nothing because a chunk no longer fits any cache.
#define UNFUSED_CHUNK_BYTES ((uint64_t)64 << 20)
#define ROW_BLOCK 4        // rows that a work-item of scores.cl and values.cl owns
#define MAX_GRID 32768     // work-groups of the second and third dimension; GPUs take 65,535
#define MAX_HEAD 576       // beyond this a head does not fit a tile; the unfused path takes any
#define GROUPS_PER_UNIT 4  // work-groups a compute unit should get before keys are split for more
#define MIN_SPLIT_KEYS 256 // fewer keys are not worth a partial result
#define MAX_PARTIAL_BYTES ((uint64_t)32 << 20)
#define DECODE_MAX_ROWS 16 // query rows of the decode kernels

static clattn_status cannot(variant *v, const char *why) {
    v->refusal = why;
    return CLATTN_UNSUPPORTED;
}

int cla_variant_lanes(const clattn_capabilities *device) {
    return device->float_vector_width >= 16 ? 16 : device->float_vector_width >= 8 ? 8 : 4;
}

static void attention_knobs(const problem *p, knobs *k) {
    k->type_q = (int)p->type_q;
    k->type_kv = (int)p->type_kv;
    k->type_out = (int)p->type_out;
    k->type_bias = (p->score_ops & ARGS_BIAS) ? (int)p->type_bias : 0;
    k->score_ops = p->score_ops;
    k->head_dim = p->head_dim;
    k->head_dim_v = p->head_dim_v;
}

static const tuned_row *find_row(const plan_input *in, const problem *p, unsigned kernels) {
    const tuned_key key = {in->device->is_cpu, (int)in->device->float_vector_width, (int)p->type_kv,
                           p->head_dim > p->head_dim_v ? p->head_dim : p->head_dim_v, p->n_q};
    return cla_tuned_find(in->own, in->shipped, kernels, &key);
}

// A power of two not above the device's limit; one work-item on a CPU, where a core walks a row alone.
static int softmax_group(const clattn_capabilities *device) {
    int group = 64;
    if (device->is_cpu) return 1;
    while (group > 1 &&
           ((uint64_t)group > device->max_work_group || (uint64_t)group > device->max_work_item[0]))
        group /= 2;
    return group;
}

static clattn_status choose_unfused(const clattn_capabilities *device, const problem *p, variant *v) {
    v->kernel = CLATTN_KERNEL_UNFUSED;
    v->id = KERNEL_SCORES;
    v->splits = 1;
    v->softmax_group = v->work_group = softmax_group(device);
    const uint64_t items = (uint64_t)p->batch * (uint64_t)p->heads;
    const uint64_t row = (uint64_t)p->n_kv * sizeof(float), item = row * (uint64_t)p->n_q;
    v->chunk_rows = p->n_q < MAX_GRID ? p->n_q : MAX_GRID;
    v->chunk_items = items < MAX_GRID ? (int)items : MAX_GRID;
    const bool scores_have_a_home = p->wants_weights && p->type_weights == CLATTN_TYPE_F32;
    if (scores_have_a_home || item == 0) return CLATTN_OK;
    const uint64_t chunk = row * (uint64_t)v->chunk_rows; // of one item
    if (chunk > UNFUSED_CHUNK_BYTES) {
        const uint64_t rows = UNFUSED_CHUNK_BYTES / row / ROW_BLOCK * ROW_BLOCK;
        v->chunk_items = 1;
        v->chunk_rows = (int)(rows < ROW_BLOCK ? ROW_BLOCK : rows);
        if (v->chunk_rows > p->n_q) v->chunk_rows = p->n_q;
    } else if (v->chunk_rows < p->n_q) {
        v->chunk_items = 1;
    } else if (items * chunk > UNFUSED_CHUNK_BYTES) {
        const int fit = (int)(UNFUSED_CHUNK_BYTES / chunk);
        v->chunk_items = fit < v->chunk_items ? fit : v->chunk_items;
    }
    v->workspace_bytes = (size_t)((uint64_t)v->chunk_items * (uint64_t)v->chunk_rows * row);
    return CLATTN_OK;
}

// Split the keys where `groups` work-groups are too few for the device, or as the caller says; then lay out
// the partial results: float32 [splits][B, H, Nq, Dv] and [splits][B, H, Nq].
static void choose_splits(const plan_input *in, const problem *p, uint64_t groups, variant *v) {
    const uint64_t wanted = (uint64_t)GROUPS_PER_UNIT * in->device->compute_units;
    const uint64_t rows = (uint64_t)p->batch * (uint64_t)p->heads * (uint64_t)p->n_q;
    const uint64_t bytes = rows * ((uint64_t)p->head_dim_v + 1) * sizeof(float);
    uint64_t splits = 1;
    if (p->wants_weights)
        splits = 1; // a row's scores become weights when all of them are known
    else if (p->splits > 0)
        splits = (uint64_t)p->splits;
    else if (groups && groups < wanted) {
        splits = (wanted + groups - 1) / groups;
        const uint64_t most = (uint64_t)p->n_kv / MIN_SPLIT_KEYS;
        if (splits > most) splits = most;
        while (splits > 1 && splits * bytes > MAX_PARTIAL_BYTES) splits--;
    }
    if (splits < 1) splits = 1;
    if (splits > (uint64_t)p->n_kv) splits = p->n_kv > 0 ? (uint64_t)p->n_kv : 1;
    v->split_keys = (int)(((uint64_t)p->n_kv + splits - 1) / splits);
    if (p->splits == 0 && splits > 1) v->split_keys = (v->split_keys + 63) / 64 * 64; // whole tiles of keys
    v->splits = v->split_keys ? (int)(((int64_t)p->n_kv + v->split_keys - 1) / v->split_keys) : 1;
    splits = (uint64_t)v->splits;
    if (v->splits == 1) return;
    v->knobs.type_out = CLATTN_TYPE_F32;
    v->partial_lse = (size_t)(splits * rows * (uint64_t)p->head_dim_v * sizeof(float));
    v->workspace_bytes = v->partial_lse + (size_t)(splits * rows * sizeof(float));
}

static uint64_t row_tiles(const problem *p, int rows) {
    return (uint64_t)p->batch * (uint64_t)p->heads *
           (((uint64_t)p->n_q + (uint64_t)rows - 1) / (uint64_t)rows);
}

// The largest tile that local memory and work-group hold.
static clattn_status choose_flash_portable(const plan_input *in, const problem *p, variant *v) {
    static const struct {
        int tile_q, tile_kv, row_items;
    } tiles[] = {{16, 32, 8}, {16, 16, 8}, {8, 16, 8}, {8, 8, 8}, {4, 8, 8}, {2, 8, 8}, {1, 8, 8}, {1, 1, 1}};
    const clattn_capabilities *device = in->device;
    v->id = KERNEL_FLASH;
    for (size_t i = 0; i < sizeof tiles / sizeof tiles[0]; i++) {
        const int group = tiles[i].tile_q * tiles[i].row_items;
        const uint64_t bytes = sizeof(float) * (uint64_t)FLASH_LOCAL_FLOATS(tiles[i].tile_q, tiles[i].tile_kv,
                                                                            p->head_dim, p->head_dim_v);
        if (bytes > device->local_memory_bytes || (uint64_t)group > device->max_work_group ||
            (uint64_t)group > device->max_work_item[0])
            continue;
        attention_knobs(p, &v->knobs);
        v->knobs.tile_q = tiles[i].tile_q;
        v->knobs.tile_kv = tiles[i].tile_kv;
        v->knobs.row_items = tiles[i].row_items;
        v->work_group = group;
        v->rows_per_group = tiles[i].tile_q;
        v->local_bytes = (size_t)bytes;
        choose_splits(in, p, row_tiles(p, v->rows_per_group), v);
        return CLATTN_OK;
    }
    return cannot(v, "flash: no tile of this head size fits the device's local memory");
}

// The bfloat16 dot product: the device proved it, and all three inputs are bfloat16 in vectors of sixteen.
static bool can_dot(const plan_input *in, const problem *p, int lanes) {
    // The types first: a call that is not bfloat16 has not waited for the probe of another thread.
    return lanes == 16 && p->type_q == CLATTN_TYPE_BF16 && p->type_kv == CLATTN_TYPE_BF16 && in->dot_bf16;
}

// Query rows in vector lanes, for devices whose work-item owns vector registers.
static clattn_status choose_flash_lanes(const plan_input *in, const problem *p, const tuned_row *row,
                                        variant *v) {
    v->id = KERNEL_FLASH_LANES;
    attention_knobs(p, &v->knobs);
    v->knobs.lanes = cla_variant_lanes(in->device);
    v->knobs.row_vectors = 1, v->knobs.key_block = 8, v->knobs.tile_kv = 64;
    cla_knobs_override(&v->knobs, &row->knobs);
    v->knobs.dot_bf16 = can_dot(in, p, v->knobs.lanes) && v->knobs.tile_kv % 2 == 0;
    v->knobs.weights = p->wants_weights;
    v->work_group = 1;
    v->rows_per_group = v->knobs.lanes * v->knobs.row_vectors;
    choose_splits(in, p, row_tiles(p, v->rows_per_group), v);
    return CLATTN_OK;
}

static clattn_status choose_flash(const plan_input *in, const problem *p, variant *v) {
    v->kernel = CLATTN_KERNEL_FLASH;
    if (p->wants_scores) return cannot(v, "flash: returns no score taps: the unfused kernel does");
    if (p->head_dim > MAX_HEAD || p->head_dim_v > MAX_HEAD)
        return cannot(v, "flash: head sizes up to 576: the unfused kernel takes any");
    const tuned_row *row = find_row(in, p, 1u << KERNEL_FLASH_LANES | 1u << KERNEL_FLASH);
    const bool lanes = row && row->id == KERNEL_FLASH_LANES;
    if (p->wants_weights && !(lanes && p->type_weights == CLATTN_TYPE_F32))
        return cannot(v, "flash: returns no weights here: the unfused kernel does");
    return lanes ? choose_flash_lanes(in, p, row, v) : choose_flash_portable(in, p, v);
}

// A key/value head's query rows (its group times Nq) share a pass over the keys, at most eight a pass.
static clattn_status choose_decode_lanes(const plan_input *in, const problem *p, const tuned_row *row,
                                         variant *v) {
    const int group = p->kv_heads ? p->heads / p->kv_heads : 1;
    const int rows = group * p->n_q > 0 ? group * p->n_q : 1;
    v->id = KERNEL_DECODE_LANES;
    attention_knobs(p, &v->knobs);
    v->knobs.lanes = cla_variant_lanes(in->device);
    // The head sizes should be whole pairs of vectors: a rest is loaded element by element.
    while (v->knobs.lanes > 4 && (p->head_dim % (2 * v->knobs.lanes) || p->head_dim_v % (2 * v->knobs.lanes)))
        v->knobs.lanes /= 2;
    v->knobs.rows = (rows + (rows + 7) / 8 - 1) / ((rows + 7) / 8); // even passes
    cla_knobs_override(&v->knobs, &row->knobs);
    v->knobs.dot_bf16 = can_dot(in, p, v->knobs.lanes) && p->head_dim % (2 * v->knobs.lanes) == 0;
    v->work_group = 1;
    v->rows_per_group = v->knobs.rows;
    v->passes = (rows + v->knobs.rows - 1) / v->knobs.rows;
    choose_splits(in, p, (uint64_t)p->batch * (uint64_t)p->kv_heads * (uint64_t)v->passes, v);
    return CLATTN_OK;
}

// Without a lanes kernel, decode is the portable flash kernel with its keys split.
static clattn_status choose_decode(const plan_input *in, const problem *p, variant *v) {
    v->kernel = CLATTN_KERNEL_DECODE;
    if (p->wants_weights || p->wants_scores)
        return cannot(v, "decode: returns no weights and no score taps: the unfused kernel does");
    if (p->n_q > DECODE_MAX_ROWS) return cannot(v, "decode: at most 16 query rows: take flash or auto");
    if (p->head_dim > MAX_HEAD || p->head_dim_v > MAX_HEAD)
        return cannot(v, "decode: head sizes up to 576: the unfused kernel takes any");
    const tuned_row *row = find_row(in, p, 1u << KERNEL_DECODE_LANES | 1u << KERNEL_FLASH);
    if (row && row->id == KERNEL_DECODE_LANES) return choose_decode_lanes(in, p, row, v);
    return choose_flash_portable(in, p, v);
}

// Up to eight query rows share a pass over the keys. From sixteen on, rows in lanes are as fast, and faster
// where the keys are few: 64,12,16,64 took 1.2 ms by decode and 0.5 ms by flash (PoCL 3.1, Zen 4, Nov 2026).
static bool prefers_decode(const problem *p) {
    return !p->wants_weights && p->n_q <= DECODE_MAX_ROWS / 2 && p->n_kv > 0;
}

static clattn_status choose_fused(const plan_input *in, const problem *p, variant *v) {
    if (p->kernel == CLATTN_KERNEL_DECODE || (p->kernel == CLATTN_KERNEL_AUTO && prefers_decode(p))) {
        const clattn_status status = choose_decode(in, p, v);
        if (status == CLATTN_OK || p->kernel == CLATTN_KERNEL_DECODE) return status;
        memset(v, 0, sizeof *v);
    }
    return choose_flash(in, p, v);
}

clattn_status cla_variant_choose(const plan_input *in, const problem *p, variant *v) {
    const char *refusal = NULL;
    memset(v, 0, sizeof *v);
    if (p->splits > 0 && p->kernel != CLATTN_KERNEL_DECODE)
        return cannot(v, "splits: only the decode kernel splits keys on request");
    if (p->kernel != CLATTN_KERNEL_UNFUSED) {
        const clattn_status status = choose_fused(in, p, v);
        if (status == CLATTN_OK || p->kernel != CLATTN_KERNEL_AUTO) return status;
        refusal = v->refusal;
        memset(v, 0, sizeof *v);
    }
    v->refusal = refusal;
    return choose_unfused(in->device, p, v);
}
