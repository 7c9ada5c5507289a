// case.c: see case.h. Leaves out the names (case_name.c, case_parse.c).
#include "evidence/case/case.h"

#include "evidence/case/case_layer.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>

#include "evidence/case/case_places.h"
#include "evidence/case/case_ragged.h"

const struct case_host_row case_hosts[CASE_HOSTS] = {
#define HOST(name, key, of_heads, per, low, high, field)                                                     \
    [CASE_##name] = {key, of_heads, per, low, high, offsetof(clattn_score, field)},
#include "evidence/sets/hosts.def"
#undef HOST
};

static void default_to(int64_t *value, int64_t other) {
    if (*value == 0) *value = other;
}

bool case_projects(const struct test_case *t) {
    return t->op == CASE_LAYER || t->op == CASE_LINEAR;
}

bool case_is_self(const struct test_case *t) {
    return t->op == CASE_LAYER && t->width_y == 0;
}

struct test_case case_complete(const struct test_case *test) {
    struct test_case t = *test;
    default_to(&t.batch, 1);
    default_to(&t.heads, 1);
    default_to(&t.kv_heads, t.heads);
    if (!case_projects(&t)) default_to(&t.n_q, 1);
    if (case_is_self(&t) && !t.append) t.n_kv = t.n_q;
    default_to(&t.n_kv, case_projects(&t) ? t.n_q : 1);
    default_to(&t.head_dim, 1);
    default_to(&t.head_dim_v, t.head_dim);
    if (t.op == CASE_LAYER) default_to(&t.width_out, t.width);
    if (t.hosts & CASE_HOST_BIT(CASE_OFFSETS)) t.score.alignment = CLATTN_ALIGN_OFFSET;
    if (case_projects(&t)) t.no_lse = true;
    return t;
}

void case_give(struct test_case *test, case_host host, int count, const int32_t *x) {
    test->hosts |= CASE_HOST_BIT(host);
    test->given[host].count = count;
    for (int n = 0; n < count; n++) test->given[host].x[n] = x[n];
}

int64_t case_matrix_rows(const struct test_case *t, int matrix) {
    const int64_t rows[] = {t->heads * t->head_dim, t->kv_heads * t->head_dim, t->kv_heads * t->head_dim_v,
                            t->width_out};
    return rows[matrix];
}

int64_t case_matrix_columns(const struct test_case *t, int matrix) {
    if (matrix == LAYER_O) return t->heads * t->head_dim_v;
    return matrix == LAYER_Q || t->width_y == 0 ? t->width : t->width_y;
}

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
        return refuse(why, "append: new rows of a latent are turned before");
    else if (t->append && t->kv_type == CLATTN_TYPE_I8 && t->rope.layout != CLATTN_ROPE_NONE)
        return refuse(why, "append: keys that are turned are not i8 here: the cache's rounding would show");
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
        return case_layer_valid(t, why) && given_fit(t, why) && case_places_valid(t, why) &&
               case_ragged_valid(t, why);
    return false;
}
