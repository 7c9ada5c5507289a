// case.c: see case.h. case_name.c has the names, and case_valid.c checks which values fit together.
#include "verification/case/case.h"

#include <stddef.h>

#include "verification/case/case_fields.h"

const struct case_host_row case_hosts[CASE_HOSTS] = {
#define HOST(name, key, of_heads, per, low, high, field, option, help)                                       \
    [CASE_##name] = {key, of_heads, per, low, high, offsetof(clattn_score, field)},
#include "verification/sets/hosts.def"
#undef HOST
};

static void default_to(int64_t *value, int64_t other) {
    if (*value == 0) *value = other;
}

bool case_attends(const struct test_case *t) {
    return t->op == CASE_ATTEND || t->op == CASE_DECODE;
}

bool case_projects(const struct test_case *t) {
    return t->op == CASE_LAYER || t->op == CASE_LINEAR;
}

bool case_is_self(const struct test_case *t) {
    return t->op == CASE_LAYER && t->width_y == 0;
}

clattn_type case_v_type(const struct test_case *test) {
    return test->values ? (clattn_type)(test->values - 1) : test->kv_type;
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
    if (case_v_type(&t) == t.kv_type) t.values = 0;
    if (t.op == CASE_LAYER) default_to(&t.width_out, t.width);
    if (t.hosts & CASE_HOST_BIT(CASE_OFFSETS)) t.score.alignment = CLATTN_ALIGN_OFFSET;
    if (case_projects(&t)) t.no_lse = true;
    if (t.op == CASE_BACKWARD) t.no_lse = false; // backward reads lse
    if (t.rope.scaling == CLATTN_ROPE_SCALING_PAIRS) {
        t.rope.pair_factors = case_pair_factors;
        t.rope.pairs = (int)(t.rope.rotary_dim ? t.rope.rotary_dim : t.head_dim) / 2;
    }
    return t;
}

void case_give(struct test_case *test, case_host host, int count, const int32_t *x) {
    test->hosts |= CASE_HOST_BIT(host);
    test->given[host].count = count;
    for (int n = 0; n < count; n++) test->given[host].x[n] = x[n];
}
