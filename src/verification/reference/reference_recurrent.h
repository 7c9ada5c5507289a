// reference_recurrent.h: linear attention with a recurrent state in double precision, by its
// definition: token by token, with plain loops. Written from ONNX LinearAttention (opset 27),
// independently of the kernels.
#ifndef CLATTN_VERIFICATION_REFERENCE_REFERENCE_RECURRENT_H
#define CLATTN_VERIFICATION_REFERENCE_REFERENCE_RECURRENT_H

#include <clattn/clattn.h>

// Dense arrays. `tokens` is that of the whole batch item, as in clattn_linear_attention_params.
struct reference_recurrent {
    int64_t q_heads, k_heads, v_heads, tokens, head_dim, head_dim_v;
    const double *q, *k, *v; // [Hq, T, Dk], [Hk, T, Dk], [Hv, T, Dv]
    // [Hs or 1, T, Dk or 1] and [Hs or 1, T]; NULL: the rule has none
    const double *decay, *beta;
    int64_t decay_heads, decay_columns, beta_heads;
    clattn_linear_rule rule;
    double scale; // 0: 1 / sqrt(Dk)
    bool l2_norm;
    double l2_epsilon;
};

// Compute the tokens `first` to `first + count - 1` of one item. `state` [Hs, Dk, Dv] has the
// states before them, and receives the states after them. `out` is [H, T, Dv]. `states`, if not
// NULL, is [count, Hs, Dk, Dv]: the states after each token.
void reference_recurrent_attention(const struct reference_recurrent *r, int64_t first, int64_t count,
                                   double *state, double *out, double *states);
// Hs and H.
int64_t reference_recurrent_state_heads(const struct reference_recurrent *r);
int64_t reference_recurrent_out_heads(const struct reference_recurrent *r);

#endif
