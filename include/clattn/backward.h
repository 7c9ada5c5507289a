/* backward.h: the gradients of an attention call. Included by clattn.h (letters, rules,
 * contracts). */
#ifndef CLATTN_BACKWARD_H
#define CLATTN_BACKWARD_H

#include "attention.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --------------------------------------------------------------------------------- backward --- */

/* Gradients of a scalar loss L with respect to the inputs of a forward call. dout is dL/dout, and
 * dlse is dL/dlse. With the scores s[i,j] of clattn_score, p[i,j] = exp(s[i,j] - lse[i]), and
 * z[i,j] the factor of dropout (1 without):
 *    delta[i]  = sum_c dout[i,c] out[i,c] - dlse[i]
 *    ds[i,j]   = p[i,j] (z[i,j] sum_c dout[i,c] v[j,c] - delta[i])      of the score before softmax
 *    dt[i,j]   = ds[i,j] * score_mod'(s) * (1 - tanh^2(..))             of scale * dot(q[i], k[j])
 *    dq[i]     = scale * sum_j dt[i,j] k[j]
 *    dk[j]     = scale * sum_i dt[i,j] q[i]          dv[j] = sum_i z p[i,j] dout[i]
 *    dbias     = ds * score_mod'(s), summed over the axes that repeat
 *    dsinks[h] = - sum_bi exp(sink[h] - lse[i]) delta[i]
 *    dalibi_slopes[h] = - sum_bij ds * score_mod'(s) |p - j|
 *    dhead_scales[h]  = sum_bij dt[i,j] dot(q[i], k[j])
 *
 * dk and dv are sums over the query heads of a group. With RoPE in the call, dq and dk are
 * gradients with respect to q and k before RoPE.
 *
 * The order of each sum depends on sizes only, and there are no atomics: a call returns the same
 * bits each time.
 *
 * A row without visible keys and a key that no row sees have gradients of exactly 0. So have rows
 * past q_lengths and keys past kv_lengths, which packed batches do not write. Hidden rows and keys
 * have no effect, NaN or not. Scores in the millions make gradients inexact, since lse is float32.
 *
 * Inputs are f32, f16 or bf16; sums are float32. Each result may have any of these types; dk and dv
 * share one.
 *    Sources: Dao et al. 2022 (FlashAttention, appendix B.4); Dao 2023 (FlashAttention-2) */
typedef struct clattn_attention_backward_params {
    /* The forward call with its results out and lse, both required. The call reads also q, k, v,
     * score, rope and ragged arrays. UNSUPPORTED: block_table, past_k, k_new, k_rotation, quantised
     * or different types of k and v, weights, scores, kernel, splits. Ignored: cascade, workspace,
     * progress. */
    clattn_attention_params forward;
    /* The derivative of score_mod with respect to `score`, in the same language. NULL: the library
     * derives score_mod, or returns UNSUPPORTED with the place. See docs/expressions.md,
     * "Derived". */
    const char *score_mod_gradient;

    clattn_tensor dout; /* [B, H, Nq, Dv], f32, f16 or bf16 */
    clattn_tensor dlse; /* optional, f32 [B, H, Nq]; ignored for rows whose lse is -inf */

    /* The results. Each is optional, but one is required. */
    clattn_tensor dq;            /* [B, H, Nq, D] */
    clattn_tensor dk, dv;        /* [B, Hkv, Nkv, D] and [B, Hkv, Nkv, Dv] */
    clattn_tensor dbias;         /* f32, the rank and sizes of bias */
    clattn_tensor dsinks;        /* f32 [H], with sinks or sinks_device */
    clattn_tensor dalibi_slopes; /* f32 [H], with alibi_slopes */
    clattn_tensor dhead_scales;  /* f32 [H], with head_scales */

    /* Optional: clattn_attention_backward_workspace() bytes, as in clattn_attention_params */
    cl_mem workspace;
    const clattn_progress *progress; /* optional: see clattn_progress */
} clattn_attention_backward_params;

/* As clattn_attention_plan. `kernel_name` is the family of dq, dk and dv, `splits` the number of
 * parts of sums over keys. */
CLATTN_API clattn_status clattn_attention_backward_plan(clattn_context *context,
                                                        const clattn_attention_backward_params *params,
                                                        clattn_plan *plan);

/* As clattn_attention_workspace. */
CLATTN_API clattn_status clattn_attention_backward_workspace(clattn_context *context,
                                                             const clattn_attention_backward_params *params,
                                                             size_t *bytes);

/* The prepare contract applies. */
CLATTN_API clattn_status clattn_attention_backward_prepare(clattn_context *context,
                                                           const clattn_attention_backward_params *params);

/* Enqueue the call. B or H of 0 does nothing and succeeds. Nq of 0 makes dk, dv and sums 0; Nkv of
 * 0 makes dq and sums but dsinks 0. D or Dv of 0 is INVALID_ARGUMENT.
 *    The enqueue contract applies. */
CLATTN_API clattn_status clattn_attention_backward_enqueue(clattn_context *context, cl_command_queue queue,
                                                           const clattn_attention_backward_params *params,
                                                           cl_uint wait_count, const cl_event *wait_list,
                                                           cl_event *event);
#ifdef __cplusplus
}
#endif
#endif
