// families.c: the table of kernel families (src/lib/tables/families.def), and what families share:
// missing abilities, splitting of keys, grids of tiles. A family precedes those that are slower
// where both fit.
#include "plan/families/family.h"

#include "args/args.h"
#include "probe/int8_dot_gpu.h"
#include "probe/subgroups.h"
#include "program/unfit.h"

#define GROUPS_PER_UNIT 4  // work-groups per compute unit before keys are split
#define MIN_SPLIT_KEYS 256 // a smaller range is not worth a partial result
#define MAX_PARTIAL_BYTES ((uint64_t)32 << 20)

#define FAMILY(name) extern const family cla_family_##name;
#include "tables/families.def"

const family *const cla_families[] = {
#define FAMILY(name) &cla_family_##name,
#include "tables/families.def"
};
const int cla_family_count = (int)(sizeof cla_families / sizeof cla_families[0]);

// Messages for abilities that a family lacks. The most special ones come first.
static const struct {
    unsigned can;
    const char *text;
} lacks[] = {
    {CAN_SPLIT, "splits: only the decode kernel splits keys on request"},
    {CAN_TAPS, "returns no score taps: the unfused kernel does"},
    {CAN_SUMS, "sums no weights over rows: the unfused kernel does"},
    {CAN_WEIGHTS, "returns no weights here: the unfused kernel does"},
    {CAN_WEIGHTS_16, "returns no weights here: the unfused kernel does"},
    {CAN_MANY_ROWS, "at most 16 query rows: take flash or auto"},
    {CAN_PAST_MODS,
     "expressions with past keys of i8 or float8 need more kernel arguments than some devices allow"},
    {CAN_DROPOUT, "drops no weights: other kernels do"},
    {CAN_RAGGED, "takes no packed sequences of different lengths (cu_seqlens)"},
    {CAN_LARGE_HEADS, "head sizes up to 576: the unfused kernel takes any"},
};

static bool has_scales(const problem *p) {
    return CLATTN_TYPE_IS_SCALED(p->type_kv) || CLATTN_TYPE_IS_SCALED(cla_problem_type_v(p));
}

unsigned cla_problem_features(const problem *p) {
    const bool weights_16 = p->wants_weights && p->type_weights != CLATTN_TYPE_F32;
    return (p->splits > 0 ? CAN_SPLIT : 0u) | (p->wants_scores ? CAN_TAPS : 0u) |
           (p->wants_weights ? CAN_WEIGHTS : 0u) | (weights_16 ? CAN_WEIGHTS_16 : 0u) |
           (p->n_q > FAMILY_FEW_ROWS ? CAN_MANY_ROWS : 0u) | (p->dropout ? CAN_DROPOUT : 0u) |
           (p->ragged ? CAN_RAGGED : 0u) | (p->sums_weights ? CAN_SUMS : 0u) |
           (p->past && has_scales(p) && p->score_ops & ARGS_MODS ? CAN_PAST_MODS : 0u) |
           (p->head_dim > FAMILY_MAX_HEAD || p->head_dim_v > FAMILY_MAX_HEAD ? CAN_LARGE_HEADS : 0u);
}

const char *cla_family_missing_feature(const family *f, const problem *p, unsigned wants) {
    const unsigned missing = wants & ~f->can;
    for (size_t i = 0; missing && i < sizeof lacks / sizeof lacks[0]; i++)
        if (missing & lacks[i].can) return lacks[i].text;
    return p->score_ops & f->never_ops ? f->never_why : NULL;
}

// Check that the work-groups of a ragged batch, which are one-dimensional, fit 32 bits.
static const char *ragged_refusal(const problem *p, const variant *v) {
    const uint64_t rows = (uint64_t)(v->rows_per_group > 0 ? v->rows_per_group : 1),
                   units = (uint64_t)p->packed_rows / rows + (uint64_t)p->batch + 1,
                   heads = (uint64_t)p->heads * (uint64_t)v->splits, most = INT32_MAX;
    if (!p->ragged || heads == 0 || v->family->path == CLATTN_KERNEL_UNFUSED) return NULL;
    if (units <= most / heads && units * heads * (uint64_t)v->work_group <= SIZE_MAX) return NULL;
    return "tiles of packed query rows times heads and splits: must be below 2^31";
}

const char *cla_family_try(const family *f, const plan_input *in, const problem *p, unsigned wants,
                           const tuned_row *row, variant *v) {
    const char *lack = cla_family_missing_feature(f, p, wants);
    if (lack) return lack;
    if (f->needs_row && (!row || row->id != f->id))
        return "no tuned row names its kernel for this device and problem";
    if (f->needs != PROBE_NONE && !(in->probes.proven >> f->needs & 1u))
        return in->probes.ran >> f->needs & 1u ? "the device failed the probe of its engine"
                                               : "its engine is not for these types, or was not probed";
    *v = (variant){.family = f, .splits = 1};
    cla_family_data_knobs(p, &v->knobs);
    if (f->path == CLATTN_KERNEL_UNFUSED || f->all_keys)
        // These kernels ignore the block mask, so one binary serves calls with and without it.
        v->knobs.score_ops &= ~ARGS_BLOCKS;
    const char *refusal = f->fit(in, p, row, v);
    if (!refusal) refusal = ragged_refusal(p, v);
    if (refusal || !in->unfit) return refusal;
    refusal =
        cla_unfit_refusal(in->unfit, f->id, &v->knobs, v->options ? v->options : f->options, p->inserted);
    v->unfit = refusal != NULL;
    return refusal;
}

void cla_family_data_knobs(const problem *p, knobs *k) {
    k->type_q = (int)p->type_q;
    k->type_kv = (int)p->type_kv;
    k->type_v = p->type_v;
    k->scale_group = p->scale_group;
    k->scale_group_v = p->scale_group_v;
    k->type_scale = p->type_scale;
    k->zero_points = p->zero_points;
    k->type_out = (int)p->type_out;
    k->type_bias = p->score_ops & ARGS_BIAS ? (int)p->type_bias : 0;
    k->score_ops = p->score_ops;
    k->dropout = p->dropout;
    k->ragged = p->ragged;
    k->head_dim = p->head_dim;
    k->head_dim_v = p->head_dim_v;
    k->past = p->past;
    k->paged = p->paged;
}

bool cla_family_partial_bytes(const problem *p, uint64_t splits, uint64_t *bytes, uint64_t *out_bytes) {
    const uint64_t batch = p->ragged ? 1 : (uint64_t)p->batch,
                   n = (uint64_t)(p->ragged ? p->packed_rows : p->n_q);
    const uint64_t rows = batch * (uint64_t)p->heads;                        // call.c: 31 bits
    const uint64_t each = n * ((uint64_t)p->head_dim_v + 2) * sizeof(float); // fits 64 bits
    const uint64_t most = (uint64_t)1 << 62;
    if (rows && each > most / rows) return false;
    if (splits && rows * each > most / splits) return false;
    *out_bytes = splits * rows * n * (uint64_t)p->head_dim_v * sizeof(float);
    *bytes = splits * rows * each;
    return true;
}

static uint64_t choose_splits(const plan_input *in, const problem *p, uint64_t groups) {
    const uint64_t wanted = (uint64_t)GROUPS_PER_UNIT * in->device->compute_units;
    uint64_t bytes, unused, splits = 1;
    if (p->wants_weights) return 1; // weights need the scores of all keys of a row
    if (p->splits > 0) return (uint64_t)p->splits;
    if (!groups || groups >= wanted || cla_unfit_has(in->unfit, KERNEL_COMBINE)) return 1;
    splits = (wanted + groups - 1) / groups;
    const uint64_t most = (uint64_t)p->n_kv / MIN_SPLIT_KEYS;
    if (splits > most) splits = most;
    while (splits > 1 &&
           !(cla_family_partial_bytes(p, splits, &bytes, &unused) && bytes <= MAX_PARTIAL_BYTES))
        splits--;
    return splits;
}

const char *cla_family_split(const plan_input *in, const problem *p, uint64_t groups, variant *v) {
    const uint64_t keys = (uint64_t)p->n_kv;
    uint64_t splits = choose_splits(in, p, groups), bytes = 0, out_bytes = 0;
    if (splits > keys) splits = keys;
    if (splits < 1) splits = 1;
    if (splits == 1) {
        v->splits = 1, v->split_keys = p->n_kv;
        return NULL;
    }
    uint64_t each = (keys + splits - 1) / splits;
    if (p->splits == 0) each = (each + 63) / 64 * 64; // whole tiles of keys
    v->split_keys = (int)each;
    v->splits = (int)((keys + each - 1) / each);
    if (v->splits == 1) return NULL;
    if (!cla_family_partial_bytes(p, (uint64_t)v->splits, &bytes, &out_bytes))
        return "splits: their partial results have more bytes than 64 bits count";
    v->knobs.type_out = CLATTN_TYPE_F32;
    v->partial_lse = out_bytes;
    v->workspace_bytes = bytes;
    return NULL;
}

uint64_t cla_family_tiles(const problem *p, int rows) {
    const uint64_t heads = (uint64_t)p->heads, each = (uint64_t)rows, batch = (uint64_t)p->batch,
                   dense = batch * (((uint64_t)p->n_q + each - 1) / each),
                   packed = (uint64_t)p->packed_rows / each + batch;
    return heads * (p->ragged && packed < dense ? packed : dense);
}

// Kernels count the groups of a head in 32 bits, and the host counts work-items in size_t.
const char *cla_family_tile_grid(const plan_input *in, const problem *p, variant *v) {
    const uint64_t rows = (uint64_t)v->rows_per_group, tiles = ((uint64_t)p->n_q + rows - 1) / rows,
                   most = SIZE_MAX;
    const char *refusal = cla_family_split(in, p, cla_family_tiles(p, v->rows_per_group), v);
    const uint64_t groups = tiles * (uint64_t)v->splits;
    if (refusal) return refusal;
    if (groups > INT32_MAX || groups * (uint64_t)v->work_group > most)
        return "tiles of query rows times splits: must be below 2^31";
    v->groups[0] = (size_t)groups;
    v->groups[1] = (size_t)p->heads;
    v->groups[2] = (size_t)p->batch;
    return NULL;
}

const char *cla_family_gpu_refusal(const plan_input *in, const tuned_row *row, enum kernel_id id) {
    if (row && row->id != id) return "a tuned row names another kernel";
    if (row || !cla_plan_has_lanes(in)) return NULL;
    return "for devices that are no CPU, or where a tuned row names its kernel";
}

int cla_family_subgroup(const plan_input *in, const tuned_row *row, int work_group, variant *v) {
    static const int usual[] = {16, 32, 64, 8}, rising[] = {8, 16, 32, 64};
    const int *sizes = cla_subgroup_least(in->device) ? rising : usual;
    const int asked = row ? row->knobs.subgroup : 0;
    v->knobs.subgroup = v->knobs.subgroup_ways = 0, v->options = NULL;
    for (int i = 0; i < 4; i++) {
        const int size = sizes[i];
        if (asked && size != asked) continue;
        if (!(in->probes.proven >> cla_subgroup_probe(size) & 1u) || work_group % size != 0) continue;
        cla_subgroup_knobs(in->device, size, &v->knobs);
        v->options = cla_subgroup_options(in->device);
        return size;
    }
    return 0;
}

void cla_family_ask_subgroup(const plan_input *in, knobs *k) {
    k->subgroup_asked = k->subgroup ? 0 : cla_subgroup_least(in->device);
}

const char *cla_family_dot_refusal(const problem *p) {
    return p->type_q == CLATTN_TYPE_BF16 && p->type_kv == CLATTN_TYPE_BF16 && !p->type_v
               ? NULL
               : "its products are of bfloat16 q, k and v";
}

static bool is_integers(clattn_type type) {
    // includes four-bit types and blocks
    return type == CLATTN_TYPE_I8 || clattn_type_numbers(type) > 1;
}
const char *cla_family_integers_word(const knobs *k) {
    return k->dot_i8 > DOT_I8_EMULATION ? "integer dot product"
           : k->dot_i8                  ? "integer products, emulated"
                                        : NULL;
}

static bool is_eights(const problem *p) {
    return is_integers(p->type_kv) && p->head_dim % 8 == 0;
}

bool cla_family_eights_wanted(const plan_input *in, const problem *p) {
    return is_eights(p) && !in->device->is_cpu;
}

int cla_family_eights(const plan_input *in, const problem *p, const tuned_row *row, const char **language) {
    const bool proven = in->probes.proven >> PROBE_DOT_I8_OWN & 1u,
               win = in->probes.rate[PROBE_DOT_I8_OWN] > in->probes.rate[PROBE_EIGHTS];
    const int asked = cla_tuned_has(in->own, row) ? row->knobs.dot_i8 : win ? DOT_I8_OWN : 0;
    if (!is_eights(p)) return 0;
    if (asked <= DOT_I8_EMULATION) return asked;
    if (!proven) return 0;
    const char *options = cla_eights_options(in->device);
    if (options) *language = options;
    return cla_eights_knobs_integers(in->device).dot_i8;
}

const char *cla_family_integer_refusal(const problem *p) {
    return is_integers(p->type_kv) && is_integers(cla_problem_type_v(p)) && p->head_dim % 32 == 0 &&
                   p->head_dim_v % 32 == 0
               ? NULL
               : "its products are of int8, i4, u4 and blocks, D and Dv multiples of 32";
}

const char *cla_family_matrix_integers_refusal(const problem *p) {
    return p->type_kv == CLATTN_TYPE_I8 && !p->type_v && !p->scale_group && !p->scale_group_v &&
                   !p->type_scale && !p->zero_points
               ? NULL
               : "its products are of int8 k and v with a float32 scale a row";
}

const char *cla_family_take_dot(const problem *p, variant *v) {
    if (v->family->engine != PROBE_DOT_BF16) return NULL;
    v->knobs.dot_bf16 = 1;
    if (v->knobs.lanes != 16 || v->knobs.tile_kv % 2) return "needs 16 lanes and an even TILE_KV";
    return cla_family_dot_refusal(p);
}

// Scores plus a bias or mask, twice this size, should stay in cache.
#define SCORE_BYTES_MOST (256 << 10)
#define MOST_VECTORS 8

const char *cla_family_tile_refusal(const knobs *k) {
    const long long lanes = k->lanes ? k->lanes : 16;
    if (!cla_family_is_vector(k->lanes)) return "asks for LANES that are none of 4, 8, 16";
    if (k->row_vectors > MOST_VECTORS) return "asks for more than 8 ROW_VECTORS";
    if (k->key_block > 32) return "asks for a KEY_BLOCK above 32";
    if (k->tile_kv % k->key_block) return "asks for a TILE_KV that is no multiple of its KEY_BLOCK";
    if ((long long)k->tile_kv * k->row_vectors * lanes * (long long)sizeof(float) > SCORE_BYTES_MOST)
        return "asks for a tile of scores, TILE_KV * ROW_VECTORS * LANES, of more than 65536";
    return NULL;
}

static double round_up(int n, int step) {
    return step > 1 ? (double)((n + (int64_t)step - 1) / step * step) : (double)n;
}

double cla_family_time(const plan_input *in, const problem *p, const variant *v) {
    const family *f = v->family;
    const double rate = f->engine == PROBE_NONE ? 0.0 : (double)(in->probes.rate[f->engine] * f->reach);
    const double columns = f->columns
                               ? f->columns(p, v)
                               : round_up(p->head_dim, f->head_step) + round_up(p->head_dim_v, f->head_step);
    const double work = round_up(p->n_q, v->rows_per_group) * columns;
    return rate > 0.0 ? work / rate : 0.0;
}

// Limit on accumulators per work-item. With as many registers again for other purposes, GPUs have
// enough.
#define MOST_SUMS 144
// Limit if the compiled kernel permitted smaller groups than planned, i.e. needs many registers.
#define FEW_SUMS 48
// Limit if the number of registers is known. Subtracted: the numbers loaded per step, the state of
// each row, and addresses.
#define KNOWN_SUMS(registers, micro_rows) ((registers)-40 - 5 * (micro_rows))

bool cla_family_in_registers(const plan_input *in, enum kernel_id id, int sums, int micro_rows,
                             int subgroup) {
    const int least = cla_subgroup_least(in->device), size = subgroup > least ? subgroup : least;
    if (least && sums > KNOWN_SUMS(SUBGROUP_LEAST_REGISTERS * least / size, micro_rows)) return false;
    if (in->spilled_sums && sums >= (int)in->spilled_sums) return false;
    return sums <= (in->group_limit[id] ? FEW_SUMS : MOST_SUMS);
}

bool cla_family_row_has_tile(const knobs *row) {
    return row->micro_rows || row->group_rows || row->group_columns || row->chunk;
}
tile_shape cla_family_row_tile(const knobs *row) {
    return (tile_shape){row->micro_rows ? row->micro_rows : 8, row->group_rows ? row->group_rows : 8,
                        row->group_columns ? row->group_columns : 16, row->chunk ? row->chunk : 32};
}

void cla_family_take_tile(const plan_input *in, const problem *p, const tile_shape *s, knobs *k) {
    const int first = p->align_q < p->align_k ? p->align_q : p->align_k,
              least = first < p->align_v ? first : p->align_v;
    cla_family_ask_subgroup(in, k);
    k->micro_rows = s->micro_rows, k->group_rows = s->group_rows;
    k->group_columns = s->group_columns, k->chunk = s->chunk;
    k->aligned_vectors =
        least >= 8 && (p->type_kv != CLATTN_TYPE_F32 || p->type_v) && s->chunk % 8 == 0 ? 2 : least >= 4;
}

const char *cla_family_reads(const knobs *k) {
    return k->aligned_vectors == 2 ? "rows are read by eights"
           : k->aligned_vectors    ? "rows are read by fours"
                                   : "rows do not all lie at multiples of four elements: read one by one";
}

uint64_t cla_family_group_limit(const plan_input *in, enum kernel_id id) {
    uint64_t most = in->device->max_work_group;
    if (in->device->max_work_item[0] < most) most = in->device->max_work_item[0];
    return in->group_limit[id] && in->group_limit[id] < most ? in->group_limit[id] : most;
}

uint64_t cla_family_local_limit(const plan_input *in, enum kernel_id id) {
    const uint64_t all = in->device->local_memory_bytes, own = in->own_local[id];
    return own < all ? all - own : 0;
}

bool cla_family_divides(int part, int whole) {
    return part == 0 || whole == 0 || whole % part == 0;
}
bool cla_family_is_vector(int lanes) {
    return lanes == 0 || lanes == 4 || lanes == 8 || lanes == 16;
}
