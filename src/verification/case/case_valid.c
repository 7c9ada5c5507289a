// case_valid.c: check that the tokens of a case fit together. Conditions that the library itself
// rejects are not checked: a case is a call that the library should accept.
#include <math.h>
#include <stdio.h>

#include "verification/case/case_ragged.h"
#include "verification/case/case_shape.h"

#define MOST_BACKWARD 0x1p29

static bool refuse(char why[256], const char *what) {
    snprintf(why, 256, "%s", what);
    return false;
}

static bool given_fit(const struct test_case *t, char why[256]) {
    for (int h = 0; h < CASE_HOSTS; h++) {
        const int64_t wanted = case_hosts[h].of_heads ? t->heads : t->batch;
        if (!(t->hosts & CASE_HOST_BIT(h)) || t->given[h].count == 0 || t->given[h].count == wanted) continue;
        snprintf(why, 256, "%s: %d numbers are given, %lld are needed", case_hosts[h].key, t->given[h].count,
                 (long long)wanted);
        return false;
    }
    return true;
}

// Lengths must be inside the tensors, and an item's keys include at least its past and appended
// rows.
static bool lengths_valid(const struct test_case *t, char why[256]) {
    const double *q = t->given[CASE_Q_LENGTHS].x, *keys = t->given[CASE_KV_LENGTHS].x;
    const int q_count = t->given[CASE_Q_LENGTHS].count;
    for (int b = 0; b < q_count; b++)
        if (q[b] < 0 || q[b] > (double)t->n_q) return refuse(why, "qlen: from 0 to the rows of q");
    for (int b = 0; b < t->given[CASE_KV_LENGTHS].count; b++) {
        const double past = t->past_count > 0 ? t->past_length[b] : (double)t->past,
                     rows = t->append == t->n_q && q_count > 0 ? q[b] : t->append;
        if (keys[b] < 0 || keys[b] > past + (double)(t->n_kv - t->past))
            return refuse(why, "kvlen: from 0 to the keys that an item has");
        if (t->append && keys[b] < past + rows)
            return refuse(why, "kvlen: counts past rows and those of append, which are its last");
    }
    return true;
}

static bool places_valid(const struct test_case *t, char why[256]) {
    bool fits = true;
    for (int b = 0; b < t->past_count; b++) fits = fits && t->past_length[b] <= (double)t->past;
    if (t->past_count > 0 && t->past_count != t->batch)
        snprintf(why, 256, "past: %d lengths are given, %lld are needed", t->past_count, (long long)t->batch);
    else if (!fits || t->past > t->n_kv)
        snprintf(why, 256, "past: %lld rows: lengths are at most that, and nkv counts them, too",
                 (long long)t->past);
    else if (t->has_past && t->page_size > 0)
        snprintf(why, 256, "past: not with pages");
    else if (t->past_shared && !t->has_past)
        snprintf(why, 256, "sharedpast: needs past, such as past64");
    else if (t->has_past && t->append > t->n_kv - t->past)
        snprintf(why, 256, "append: at most nkv without past rows");
    else if (t->page_size > 0 && t->n_kv % t->page_size != 0)
        snprintf(why, 256, "pages: nkv must be whole pages of %lld keys", (long long)t->page_size);
    else if (case_has_places(t) && t->packed)
        snprintf(why, 256, "packed: q, k and v of one buffer have no past and no pages");
    else
        return true;
    return false;
}

// If a layer computes its keys from x, query and key lengths must be equal.
static bool has_same_lengths(const struct test_case *t) {
    bool same = t->given[CASE_Q_LENGTHS].count == t->batch && t->given[CASE_KV_LENGTHS].count == t->batch;
    for (int64_t b = 0; same && b < t->batch; b++)
        same = t->given[CASE_Q_LENGTHS].x[b] == t->given[CASE_KV_LENGTHS].x[b];
    return same;
}

static bool ragged_valid(const struct test_case *t, char why[256]) {
    const bool cache = !case_ragged_has(t, CASE_K);
    const char *refusal = NULL;
    if (!t->ragged) return true;
    if ((t->page_size > 0 || t->append) && !cache)
        refusal = "pages and appended keys are a cache's";
    else if (t->append && t->append != t->n_q)
        refusal = "appended keys are as many as rows";
    else if (t->ready)
        refusal = "keys of a layer are not computed beforehand";
    else if (case_is_self(t) && !t->append && (cache || !has_same_lengths(t)))
        refusal = "keys made of x are packed, and as many as rows: qlen9:4-kvlen9:4";
    if (refusal != NULL) snprintf(why, 256, "ragged: %s", refusal);
    return refusal == NULL;
}

static const char *refusal_of_append(const struct test_case *t) {
    if (!case_layer_appends(t)) return NULL;
    if (t->ready) return "append: keys that a layer appends are not computed beforehand";
    if (t->width_y == 0 && t->append != t->n_q) return "append: all rows of x are appended";
    if (t->width_y != 0 && t->ragged) return "append: sequences append rows of x";
    return t->batch * t->n_kv * case_layer_width_y(t) <= GUARDED_PERIOD
               ? NULL
               : "append: y has up to a million elements";
}

// Byte types have no gradient. With huge scores, rounding alone changes the weights.
static bool backward_valid(const struct test_case *t, char why[256]) {
    const double rows = (double)t->batch * (double)t->heads * (double)t->n_q,
                 keys = (double)t->batch * (double)t->kv_heads * (double)t->n_kv;
    const bool huge = t->contents == CASE_HUGE || t->contents == CASE_HUGE_NEGATIVE;
    if (t->op != CASE_BACKWARD) return true;
    if (clattn_type_size(t->kv_type) < 2 || clattn_type_numbers(t->kv_type) > 1)
        return refuse(why, "backward: k and v of a byte or of blocks have no gradient");
    if (case_has_places(t) || t->append)
        return refuse(why, "backward: past rows, pages and appended keys have no gradient");
    if (t->weights || t->scores || t->kernel || t->splits || t->composed)
        return refuse(why, "backward: has no weights, scores, kernel or splits");
    if (huge && t->score.softcap == 0.0f)
        return refuse(why, "backward: the weights of huge scores are not known");
    if (t->mods_gradient && !t->mods) return refuse(why, "modsgradient: needs mods");
    return fmax(rows, keys) * (double)(t->head_dim + t->head_dim_v) <= MOST_BACKWARD ||
           refuse(why, "backward: tensors of at most 2^29 elements, since some are read whole");
}

// Rows of matrices must consist of whole blocks.
static bool columns_fit(const struct test_case *t) {
    const int numbers = clattn_type_numbers(t->matrix_type);
    return t->width % numbers == 0 && case_layer_width_y(t) % numbers == 0 &&
           (t->op == CASE_LINEAR || t->heads * t->head_dim_v % numbers == 0);
}

static bool layer_valid(const struct test_case *t, char why[256]) {
    const char *no = refusal_of_append(t);
    if (no != NULL)
        ;
    else if (case_projects(t) && !columns_fit(t))
        no = "matrix: for blocks the widths, and heads times dv, are multiples of 32, for 4 bits even";
    else if (t->norm == CLATTN_NORM_NONE && (t->norm_plain || t->norm_plus_one || t->norm_epsilon != 0.0f))
        no = "normplain, normplus and normeps: need normheads or normwidth";
    else if (t->norm_plain && t->norm_plus_one)
        no = "normplus: there are no weights with normplain";
    else if (t->gate_bias && t->gate == CASE_NO_GATE)
        no = "gatebias: needs gateheads or gateall";
    snprintf(why, 256, "%s", no ? no : "");
    return no == NULL;
}

// Check groups, scales and zero points of a projection's matrices.
static bool matrix_scales_valid(const struct test_case *t, char why[256]) {
    const int64_t group = t->scale_group > 1 ? t->scale_group : 32, columns = t->heads * t->head_dim_v,
                  width_y = case_layer_width_y(t);
    const bool fit =
        t->width % group == 0 && width_y % group == 0 && (t->op == CASE_LINEAR || columns % group == 0);
    if (!CLATTN_TYPE_IS_SCALED(t->matrix_type))
        return (!t->scale_group && !t->scale_type && !t->zeros) ||
               refuse(why, "groups, scales, zeros: need matrices of i8, float8, i4 or u4");
    if (t->zeros && t->scale_type == CLATTN_TYPE_BF16 && t->matrix_type == CLATTN_TYPE_I8)
        return refuse(why, "zeros: bf16 zero points are too coarse for i8");
    return t->scale_group <= 1 || (group % 32 == 0 && fit) ||
           refuse(why, "groups: multiples of 32 that divide the widths, and heads times dv, or 1");
}

// Check groups, scales and zero points, so that a group's numbers reproduce its scale.
static bool scales_valid(const struct test_case *t, char why[256]) {
    if (case_projects(t)) return matrix_scales_valid(t, why);
    const bool k = CLATTN_TYPE_IS_SCALED(t->kv_type), v = CLATTN_TYPE_IS_SCALED(case_v_type(t)),
               huge = t->contents == CASE_HUGE || t->contents == CASE_HUGE_NEGATIVE;
    const int64_t of_k = t->scale_group > 1 ? t->scale_group : 32,
                  group_v = t->value_group ? t->value_group : t->scale_group,
                  of_v = group_v > 1 ? group_v : 32;
    if (!k && !v && (t->scale_group || t->value_group || t->scale_type || t->zeros))
        return refuse(why, "groups, scales, zeros: need k or v of i8, float8, i4 or u4");
    if (of_k % 32 || of_v % 32 || (k && t->scale_group > 1 && t->head_dim % of_k) ||
        (v && group_v > 1 && t->head_dim_v % of_v))
        return refuse(why, "groups: multiples of 32 that divide d, and dv, or 1");
    if (t->value_group && (t->latent || !v)) return refuse(why, "valuegroups: v is a tensor of its own");
    if (huge && (t->scale_type || t->zeros))
        return refuse(why, "scales, zeros: 16-bit scales and zero points hold no huge numbers");
    if (t->zeros && t->scale_type == CLATTN_TYPE_BF16 &&
        (t->kv_type == CLATTN_TYPE_I8 || case_v_type(t) == CLATTN_TYPE_I8))
        return refuse(why, "zeros: bf16 zero points are too coarse for i8");
    return !t->append || t->zeros || (t->kv_type != CLATTN_TYPE_U4 && case_v_type(t) != CLATTN_TYPE_U4) ||
           refuse(why, "append: u4 needs zeros");
}

// Check a separate type of v, and k and v in blocks, whose scales are float16.
static bool types_valid(const struct test_case *t, char why[256]) {
    const int of_k = clattn_type_numbers(t->kv_type), of_v = clattn_type_numbers(case_v_type(t));
    if (t->values && (t->packed || t->latent))
        return refuse(why, "values: v is a tensor of its own, without packed and latent");
    if (!scales_valid(t, why)) return false;
    if ((of_k == 1 && of_v == 1) || case_projects(t)) return true;
    if (t->head_dim % of_k != 0 || t->head_dim_v % of_v != 0)
        return refuse(why, "kv: for blocks d and dv are multiples of 32, for 4 bits even");
    if (t->append && t->rope.layout != CLATTN_ROPE_NONE)
        return refuse(why, "append: with RoPE, keys show the rounding of a cache in blocks");
    return (t->contents != CASE_HUGE && t->contents != CASE_HUGE_NEGATIVE) || (of_k <= 2 && of_v <= 2) ||
           refuse(why, "kv: the scale of a block holds no huge numbers");
}

// Check the blocks of Hadamard-transformed caches. The library itself rejects RoPE of transformed
// keys.
static bool rotation_valid(const struct test_case *t, char why[256]) {
    const int32_t blocks[] = {t->k_rotation, t->v_rotation};
    const int64_t sizes[] = {t->head_dim, t->head_dim_v};
    for (int n = 0; n < 2; n++)
        if (blocks[n] &&
            (blocks[n] < 2 || (blocks[n] & (blocks[n] - 1)) || sizes[n] % blocks[n] || sizes[n] > 1024))
            return refuse(
                why, "krotation and vrotation: a power of two that divides d or dv, which are at most 1024");
    if (!t->k_rotation && !t->v_rotation) return true;
    if (case_projects(t) && !t->ready && !t->append)
        return refuse(why, "rotation: a layer needs ready or append");
    if (t->latent && t->k_rotation != t->v_rotation)
        return refuse(why, "rotation: k and v of a latent are alike");
    return true;
}

static bool parts_valid(const struct test_case *t, char why[256]) {
    return layer_valid(t, why) && types_valid(t, why) && backward_valid(t, why) && given_fit(t, why) &&
           places_valid(t, why) && lengths_valid(t, why) && ragged_valid(t, why) && rotation_valid(t, why);
}

bool case_valid(const struct test_case *t, char why[256]) {
    const double rows = (double)t->batch * (double)t->heads * (double)t->n_q,
                 keys = (double)t->batch * (double)t->kv_heads * (double)t->n_kv,
                 size = (double)(t->head_dim > t->head_dim_v ? t->head_dim : t->head_dim_v),
                 model = (double)t->width + (double)t->width_y + (double)t->width_out,
                 elements = fmax(fmax(rows, keys) * size,
                                 model * fmax((double)t->heads * size, (double)t->batch * (double)t->n_q));
    const bool maps = t->mask.rank > 0 || t->bias.rank > 0 || t->weights || t->scores;
    if (t->heads % t->kv_heads != 0)
        snprintf(why, 256, "%lld key/value heads: must divide the %lld heads", (long long)t->kv_heads,
                 (long long)t->heads);
    else if (case_projects(t) && t->width < 1)
        return refuse(why, "a layer and a linear need a width, such as m768");
    else if (fmax(elements, maps ? rows * (double)t->n_kv : 0) > 1e12)
        return refuse(why, "a tensor of more than 10^12 elements");
    else if (t->contents != CASE_ORDINARY && (elements > GUARDED_PERIOD || case_projects(t)))
        return refuse(why, "hostile contents are for attention on tensors of up to a million elements");
    else if (t->contents == CASE_INF_BIAS && t->bias.rank == 0)
        return refuse(why, "infbias: needs a bias, such as biasqk");
    else if (t->blocks && t->mask.rank == 0 && !t->mods)
        return refuse(why, "blocks: needs a mask, such as maskqk, or mods");
    else if (t->mods_read && !t->mods)
        return refuse(why, "modsread: needs mods");
    else if (t->append && (t->append > t->n_kv || t->packed || elements > GUARDED_PERIOD))
        return refuse(why, "append: at most all keys, of up to a million elements, not packed");
    else if (t->append && t->latent && t->rope.layout != CLATTN_ROPE_NONE)
        return refuse(why, "append: with RoPE, new rows of a latent are unsupported");
    else if (t->append && CLATTN_TYPE_IS_SCALED(t->kv_type) && t->rope.layout != CLATTN_ROPE_NONE)
        return refuse(why, "append: with RoPE, keys have no scales here: the cache's rounding would show");
    else if (t->device_sinks && !(t->hosts & CASE_HOST_BIT(CASE_SINKS)))
        return refuse(why, "devicesinks: needs sinks");
    else if (t->positions && t->rope.layout == CLATTN_ROPE_NONE)
        return refuse(why, "positions: need a rope, such as ropehalf");
    else if ((t->rope.sections[0] || t->rope.sections[1] || t->rope.sections[2]) && !t->positions)
        return refuse(why, "sections: need positions");
    else if (t->ragged && (elements > GUARDED_PERIOD || t->packed))
        return refuse(why, "ragged: tensors of up to a million elements, q, k and v apart");
    else if (t->packed && (t->n_q != t->n_kv || t->head_dim != t->head_dim_v || t->q_type != t->kv_type))
        return refuse(why, "packed: q, k and v must have one size and type");
    else if (t->latent && (t->head_dim_v > t->head_dim || t->packed || t->composed))
        return refuse(why, "latent: v is a part of k's rows: dv is at most d, without packed and clblast");
    else
        return parts_valid(t, why);
    return false;
}
