// family_decode_lanes.c: few query rows over many keys, on CPUs with vector registers. The query
// rows of a key/value head share a pass over its keys.
#include <stdio.h>

#include "args/args.h"
#include "plan/families/family.h"

#define MOST_ROWS 8 // query rows per pass

// Prefetching is switched off only if it is slower by more than this factor. A needless prefetch
// costs less than a missing one.
#define FASTER_UNASKED 1.1f

// Choose the cache level for prefetching the next tile's rows, from the measured rates of this
// kernel on bfloat16. Measurements are needed because CPUs differ: Zen 5 prefers the first level,
// Zen 4 loses half of its rate with it. Without reliable measurements: the second level. Paged rows
// always need prefetching. Types that become float32 prefer the first level.
static int asked_cache(const plan_input *in, const problem *p, bool integers) {
    static const float unmeasured[PROBE_COUNT] = {0};
    const bool sure = !(in->probes.ran & ~in->probes.sure & PROBES_ASK);
    const float *rate = sure ? in->probes.rate : unmeasured, first = rate[PROBE_ASK_FIRST],
                second = rate[PROBE_ASK_SECOND], asked = first > second ? first : second;
    if (asked > 0.0f && rate[PROBE_ASK_NOTHING] > FASTER_UNASKED * asked && !p->paged)
        return PREFETCH_NOTHING;
    const bool widened =
        !integers && (TYPE_IS_QUANTISED(p->type_kv) || TYPE_IS_QUANTISED(cla_problem_type_v(p)));
    if (first > second || widened) return PREFETCH_FIRST_LEVEL;
    return p->paged && p->type_kv == CLATTN_TYPE_F32 ? PREFETCH_FIRST_LEVEL : PREFETCH_SECOND_LEVEL;
}

static const char *knobs_refusal(const knobs *row) {
    if (!cla_family_is_vector(row->lanes)) return "asks for LANES that are none of 4, 8, 16";
    if (row->rows > MOST_ROWS) return "asks for more than 8 ROWS";
    if (row->prefetch_level > PREFETCH_SECOND_LEVEL)
        return "asks for an PREFETCH_LEVEL that is none of 1, 2, 3";
    if (row->dot_i8 > DOT_I8_VNNI) return "asks for a DOT_I8 that is none of 1, 2";
    if (row->key_block && (row->key_block > 8 || !cla_family_divides(row->key_block, 32)))
        return "asks for a KEY_BLOCK that is none of 1, 2, 4, 8";
    return NULL;
}

static const char *fit_rows(const plan_input *in, const problem *p, const tuned_row *row, variant *v) {
    const int64_t group = p->kv_heads ? p->heads / p->kv_heads : 1;
    const int64_t all = group * p->n_q > 0 ? group * p->n_q : 1;
    const int64_t passes = (all + MOST_ROWS - 1) / MOST_ROWS;
    v->knobs.lanes = cla_variant_lanes(in);
    // Head sizes should be multiples of two vectors. The remainder is loaded element by element.
    while (v->knobs.lanes > 4 && (p->head_dim % (2 * v->knobs.lanes) || p->head_dim_v % (2 * v->knobs.lanes)))
        v->knobs.lanes /= 2;
    v->knobs.rows = (int)((all + passes - 1) / passes); // passes of equal size
    v->knobs.prefetch_level = asked_cache(in, p, v->family->engine == PROBE_DOT_I8);
    cla_knobs_override(&v->knobs, &row->knobs);
    v->knobs.dot_i8 = 0;
    v->work_group = 1;
    v->rows_per_group = v->knobs.rows;
    if (all > INT32_MAX - MOST_ROWS) return "query rows that share a key/value head: must be below 2^31";
    const uint64_t heads = (uint64_t)p->kv_heads * (uint64_t)((all + v->knobs.rows - 1) / v->knobs.rows);
    if (heads > INT32_MAX) return "key/value heads times passes over their rows: must be below 2^31";
    const char *refusal = cla_family_split(in, p, (uint64_t)p->batch * heads, v);
    v->groups[0] = (size_t)v->splits, v->groups[1] = (size_t)heads, v->groups[2] = (size_t)p->batch;
    return refusal;
}

// Integers have 16 bits for a query and 15 for a weight, enough for 16-bit results. float32 would
// need more bytes, and was slower than float products.
static const char *integer_refusal(const problem *p) {
    const bool halves = p->type_q != CLATTN_TYPE_F32 && p->type_out != CLATTN_TYPE_F32;
    return halves ? cla_family_integer_refusal(p) : "its integer products are of q and out of 16 bits";
}

// Integer products: proven on the device, or emulated if a tuned row selects the emulation.
static const char *fit_integers(const plan_input *in, const problem *p, const tuned_row *row, variant *v) {
    const bool proven = in->probes.proven >> PROBE_DOT_I8 & 1u;
    const char *refusal = integer_refusal(p);
    if (!refusal) refusal = fit_rows(in, p, row, v);
    if (refusal) return refusal;
    if (!proven && row->knobs.dot_i8 != DOT_I8_EMULATION) return "its integer dot product is not proven here";
    if (v->knobs.lanes == 4) return "needs 8 or 16 lanes";
    v->knobs.dot_i8 = row->knobs.dot_i8 ? row->knobs.dot_i8 : DOT_I8_VNNI;
    v->knobs.key_block = 0; // 0: as many keys as lanes
    return NULL;
}

static const char *fit_lanes(const plan_input *in, const problem *p, const tuned_row *row, variant *v) {
    if (row->knobs.dot_i8 && !integer_refusal(p)) return "a tuned row asks for integer products";
    return fit_rows(in, p, row, v);
}

static const char *fit_dot(const plan_input *in, const problem *p, const tuned_row *row, variant *v) {
    const char *refusal = fit_rows(in, p, row, v);
    if (refusal) return refusal;
    v->knobs.dot_bf16 = 1;
    if (v->knobs.lanes != 16 || p->head_dim % (2 * v->knobs.lanes))
        return "needs 16 lanes and a head size of whole pairs of vectors";
    if (v->knobs.key_block % 2) return "needs whole pairs of keys, an even KEY_BLOCK";
    return cla_family_dot_refusal(p);
}

static void explain(const plan_input *in, const variant *v, char why[200]) {
    static const char *const caches[] = {[PREFETCH_NOTHING] = "left to the CPU",
                                         [PREFETCH_FIRST_LEVEL] = "asked for into the first-level cache",
                                         [PREFETCH_SECOND_LEVEL] = "asked for into the second-level cache"};
    const char *integers = cla_family_integers_word(&v->knobs);
    (void)in;
    snprintf(why, 200,
             "a tuned row: %d query rows share a pass over the keys, in %d ranges, what follows %s%s%s",
             v->knobs.rows, v->splits, caches[v->knobs.prefetch_level], integers ? "; " : "",
             integers ? integers : "");
}

#define EITHER                                                                                               \
    .id = KERNEL_DECODE_LANES, .path = CLATTN_KERNEL_DECODE, .reach = 0.8f,                                  \
    .can = CAN_SPLIT | CAN_DROPOUT | CAN_RAGGED, .shares_heads = true, .needs_row = true, .explain = explain

const family cla_family_decode_lanes = {.name = "decode_lanes",
                                        .tunes = "LANES ROWS KEY_BLOCK PREFETCH_LEVEL DOT_I8 ",
                                        .engine = PROBE_FMA,
                                        .knobs_refusal = knobs_refusal,
                                        .fit = fit_lanes,
                                        EITHER};
const family cla_family_decode_lanes_dot = {
    .name = "decode_lanes_dot", .needs = PROBE_DOT_BF16, .engine = PROBE_DOT_BF16, .fit = fit_dot, EITHER};
const family cla_family_decode_lanes_i8 = {
    .name = "decode_lanes_i8", .engine = PROBE_DOT_I8, .fit = fit_integers, EITHER};
