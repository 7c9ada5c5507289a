// reference_recurrent.c: see reference_recurrent.h.
#include "verification/reference/reference_recurrent.h"

#include <math.h>
#include <string.h>

int64_t reference_recurrent_state_heads(const struct reference_recurrent *r) {
    return r->k_heads > r->v_heads ? r->k_heads : r->v_heads;
}

int64_t reference_recurrent_out_heads(const struct reference_recurrent *r) {
    const int64_t state_heads = reference_recurrent_state_heads(r);
    return r->q_heads > state_heads ? r->q_heads : state_heads;
}

static double norm_of(const struct reference_recurrent *r, const double *row) {
    double sum = 0;
    for (int64_t d = 0; d < r->head_dim; d++) sum += row[d] * row[d];
    return r->l2_norm ? 1 / sqrt(sum + (r->l2_epsilon > 0 ? r->l2_epsilon : 1e-6)) : 1;
}

// Token t changes the state s [Dk, Dv] of head h.
static void update(const struct reference_recurrent *r, int64_t h, int64_t t, double *s) {
    const int64_t dk = r->head_dim, dv = r->head_dim_v, heads = reference_recurrent_state_heads(r);
    const double *k = r->k + (h / (heads / r->k_heads) * r->tokens + t) * dk,
                 *v = r->v + (h / (heads / r->v_heads) * r->tokens + t) * dv;
    const double by = norm_of(r, k);
    if (r->decay) {
        const double *g = r->decay + ((r->decay_heads == 1 ? 0 : h) * r->tokens + t) * r->decay_columns;
        for (int64_t d = 0; d < dk; d++)
            for (int64_t c = 0; c < dv; c++) s[d * dv + c] *= exp(g[r->decay_columns == 1 ? 0 : d]);
    }
    for (int64_t c = 0; c < dv; c++) {
        double u = v[c], found = 0;
        for (int64_t d = 0; d < dk; d++) found += s[d * dv + c] * k[d] * by;
        if (r->beta) u = r->beta[(r->beta_heads == 1 ? 0 : h) * r->tokens + t] * (u - found);
        for (int64_t d = 0; d < dk; d++) s[d * dv + c] += k[d] * by * u;
    }
}

static void read_state(const struct reference_recurrent *r, int64_t h, int64_t t, const double *s,
                       double *out) {
    const int64_t dk = r->head_dim, dv = r->head_dim_v;
    const double *q = r->q + (h / (reference_recurrent_out_heads(r) / r->q_heads) * r->tokens + t) * dk;
    const double by = norm_of(r, q) * (r->scale != 0 ? r->scale : 1 / sqrt((double)dk));
    for (int64_t c = 0; c < dv; c++) {
        double sum = 0;
        for (int64_t d = 0; d < dk; d++) sum += s[d * dv + c] * q[d];
        out[(h * r->tokens + t) * dv + c] = by * sum;
    }
}

void reference_recurrent_attention(const struct reference_recurrent *r, int64_t first, int64_t count,
                                   double *state, double *out, double *states) {
    const int64_t heads = reference_recurrent_state_heads(r), size = r->head_dim * r->head_dim_v;
    const int64_t group = reference_recurrent_out_heads(r) / heads;
    for (int64_t t = first; t < first + count; t++) {
        for (int64_t h = 0; h < heads; h++) {
            update(r, h, t, state + h * size);
            for (int64_t g = 0; g < group; g++) read_state(r, h * group + g, t, state + h * size, out);
        }
        if (states)
            memcpy(states + (t - first) * heads * size, state, (size_t)(heads * size) * sizeof *state);
    }
}
