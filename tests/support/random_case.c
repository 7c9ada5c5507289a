// random_case.c: see random_case.h.
#include "support/random_case.h"

#include <math.h>

#define F32 CLATTN_TYPE_F32
#define F16 CLATTN_TYPE_F16
#define BF16 CLATTN_TYPE_BF16
#define I8 CLATTN_TYPE_I8
#define F8 CLATTN_TYPE_F8E4M3

enum { SOFTCAP = 1, BIAS = 2, MASK = 4, ALIBI = 8, SINKS = 16, HEAD_SCALES = 32, WEIGHTS = 64 };

static const struct {
    clattn_type q, kv, out, matrix, weights;
    // decode_rows times group is at most 8, so decode needs one pass
    int d, dv, group, decode_rows, width, options;
    clattn_rope_layout rope;
} kinds[RANDOM_KINDS] = {
    {F32, F32, F32, F32, F32, 64, 64, 1, 1, 50, WEIGHTS, CLATTN_ROPE_HALF},
    {F16, F16, F16, F16, F16, 40, 24, 2, 2, 33, MASK | WEIGHTS, CLATTN_ROPE_NONE},
    {BF16, BF16, BF16, BF16, BF16, 64, 32, 3, 1, 64, BIAS, CLATTN_ROPE_INTERLEAVED},
    {F32, I8, F16, BF16, F32, 33, 17, 1, 5, 0, ALIBI | SINKS, CLATTN_ROPE_NONE},
    {F16, F8, BF16, F32, F32, 48, 48, 2, 4, 0, HEAD_SCALES, CLATTN_ROPE_NONE},
    {F16, BF16, F32, F32, F32, 80, 33, 2, 3, 0, MASK | BIAS | ALIBI | SOFTCAP, CLATTN_ROPE_NONE}};

static int64_t pick(struct random *r, int64_t below) {
    return (int64_t)random_uniform(r, 0, (double)below);
}
// Sizes of all magnitudes are equally likely.
static int64_t size(struct random *r, int64_t most) {
    return (int64_t)exp(random_uniform(r, 0, log((double)most + 1)));
}

static void pick_options(struct random *r, int options, struct test_case *t) {
    const bool twice = t->batch * t->heads > 1;
    if (options & SOFTCAP) t->score.softcap = 5;
    if (options & MASK) t->mask = (struct score_map){1 + (int)pick(r, 4), (int)pick(r, 8), F32};
    if (options & BIAS)
        t->bias = (struct score_map){1 + (int)pick(r, 4), (int)pick(r, 8),
                                     (clattn_type)(t->q_type == BF16 ? F16 : F32)};
    if (t->mask.rank) t->mask.repeat &= (1 << t->mask.rank) - 1;
    if (t->bias.rank) t->bias.repeat &= (1 << t->bias.rank) - 1;
    if (options & ALIBI) t->hosts |= CASE_HOST_BIT(CASE_ALIBI);
    if (options & SINKS) t->hosts |= CASE_HOST_BIT(CASE_SINKS);
    if (options & HEAD_SCALES) t->hosts |= CASE_HOST_BIT(CASE_HEAD_SCALES);
    if (twice && pick(r, 3) == 0) t->hosts |= CASE_HOST_BIT(CASE_KV_LENGTHS);
    if (twice && pick(r, 3) == 0) t->hosts |= CASE_HOST_BIT(CASE_Q_LENGTHS);
    t->score.causal = pick(r, 2);
    t->score.alignment = t->score.causal ? (clattn_alignment)pick(r, 2) : CLATTN_ALIGN_TOP_LEFT;
    t->score.window = pick(r, 4) == 0;
    t->score.window_left = (int32_t)size(r, 100), t->score.window_right = (int32_t)size(r, 100);
}

static void pick_kernel(struct random *r, int kind, struct test_case *t) {
    const int options = kinds[kind].options;
    t->kernel = (clattn_kernel)pick(r, CLATTN_KERNEL_COUNT);
    if (t->kernel == CLATTN_KERNEL_AUTO && t->n_q < 9) t->n_q += 8; // fewer rows would be decode
    if (pick(r, 2)) t->rope.layout = kinds[kind].rope;
    if (t->kernel == CLATTN_KERNEL_DECODE) {
        t->n_q = kinds[kind].decode_rows;
        if (pick(r, 2)) t->splits = 1 + (int32_t)pick(r, 4);
    }
    if (t->kernel != CLATTN_KERNEL_UNFUSED) return;
    t->weights = options & WEIGHTS && pick(r, 2);
    t->scores = options & WEIGHTS && pick(r, 2);
    t->scores_at = (clattn_tap)pick(r, CLATTN_TAP_COUNT);
}

// Halve the longest axis until the case is quick.
static void cut(struct test_case *t, double work) {
    while ((double)(t->batch * t->heads * t->n_q) * (double)(t->n_kv * (t->head_dim + t->head_dim_v)) >
           work) {
        if (t->batch > 1)
            t->batch = 1;
        else if (t->kv_heads > 1)
            t->heads /= 2, t->kv_heads = 1;
        else if (t->n_q > t->n_kv && t->n_q > 16)
            t->n_q = (t->n_q + 1) / 2;
        else
            t->n_kv = (t->n_kv + 1) / 2;
    }
}

// Choose from few numbers of rows: each number may need another kernel.
static void pick_projection(struct random *r, int kind, struct test_case *t) {
    static const int64_t rows[] = {21, 300};
    const bool is_layer = kinds[kind].rope && pick(r, 2);
    struct test_case p = {
        .name = t->name, .op = is_layer ? CASE_LAYER : CASE_LINEAR, .heads = 2 * kinds[kind].group};
    p.n_q = rows[pick(r, 2)], p.n_kv = p.n_q;
    p.head_dim = t->head_dim, p.width = kinds[kind].width;
    p.q_type = t->q_type, p.matrix_type = p.bias_type = kinds[kind].matrix;
    p.biases = (int)pick(r, p.op == CASE_LAYER ? 16 : 2);
    p.projection = CLATTN_PROJECTION_NATIVE;
    p.precision = t->seed & 1 ? CLATTN_PRECISION_SPLIT : CLATTN_PRECISION_EXACT, p.packs = t->seed >> 1 & 1;
    p.layout = t->layout, p.seed = t->seed;
    if (p.op == CASE_LAYER) {
        p.kv_heads = 2, p.head_dim_v = t->head_dim_v;
        p.kv_type = p.out_type = p.q_type;
        p.rope = t->rope, p.score = t->score;
        p.no_lse = true;
        if (pick(r, 2)) p.width_y = p.width, p.n_kv = rows[pick(r, 2)];
    }
    *t = p;
}

struct test_case random_case(struct random *r, int kind, int64_t most, double work) {
    for (;;) {
        char why[256];
        struct test_case t = {.name = "random", .batch = 1 + pick(r, 2), .kv_heads = 2};
        t.heads = t.kv_heads * kinds[kind].group;
        t.n_q = size(r, most), t.n_kv = size(r, most);
        t.head_dim = kinds[kind].d, t.head_dim_v = kinds[kind].dv;
        t.q_type = kinds[kind].q, t.kv_type = kinds[kind].kv, t.out_type = kinds[kind].out;
        t.weights_type = kinds[kind].weights;
        t.layout = pick(r, 2)   ? (enum layout)pick(r, 2)
                   : pick(r, 2) ? LAYOUT_SCATTERED
                                : (enum layout)pick(r, LAYOUT_COUNT);
        t.seed = 1 + (uint64_t)pick(r, 1 << 30);
        pick_kernel(r, kind, &t);
        cut(&t, work);
        pick_options(r, kinds[kind].options, &t);
        if (kinds[kind].width && pick(r, 4) == 0) pick_projection(r, kind, &t);
        const struct test_case whole = case_complete(&t);
        if (case_valid(&whole, why)) return t;
    }
}
