/* backward.h: the gradients of an attention call. Included by clattn.h, which tells the letters and the rules. */
#ifndef CLATTN_BACKWARD_H
#define CLATTN_BACKWARD_H

#include "attention.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------------------------------- backward --- */

/* Gradients of L, of which dout and dlse are the derivatives with respect to the results of a forward call. With its scores
 * s[i,j], as clattn_score says, p[i,j] = exp(s[i,j] - lse[i]), and z[i,j] what dropout multiplies a weight by (1 without):
 *   delta[i]  = sum_c dout[i,c] out[i,c] - dlse[i]
 *   ds[i,j]   = p[i,j] (z[i,j] sum_c dout[i,c] v[j,c] - delta[i])      the gradient of the score that the softmax takes
 *   dt[i,j]   = ds[i,j] * score_mod'(s) * (1 - tanh^2(..))             that of scale * dot(q[i], k[j])
 *   dq[i]     = scale * sum_j dt[i,j] k[j]           dk[j] = scale * sum_i dt[i,j] q[i]          dv[j] = sum_i z p[i,j] dout[i]
 *   dbias     = ds * score_mod'(s), summed over the axes that repeat
 *   dsinks[h] = - sum_bi exp(sink[h] - lse[i]) delta[i]
 *   dalibi_slopes[h] = - sum_bij ds * score_mod'(s) |p - j|            dhead_scales[h] = sum_bij dt[i,j] dot(q[i], k[j])
 * dk and dv are summed over the query heads of a group. Where the call turns q and k by RoPE, dq and dk are turned back.
 *
 * A sum has one order, which sizes alone decide: the same call gives the same bits each time, with any number of compute units.
 * Nothing is added by atomics, and no memory is Nq times Nkv large.
 * A row that sees no key, and a key that no row sees, has gradients of exactly 0, and so have rows past q_lengths and keys past
 * kv_lengths; of a packed batch those that lie past a length, or are no sequence's, are not written. What lies in hidden rows and keys
 * reaches nothing, NaN or not. A weight is made of its score and lse, which are float32: where scores are in the millions, lse is
 * rounded to whole numbers, and gradients are off by the factor that this makes.
 * Storage is f32, f16 or bf16; sums are float32. Each result may have any of these types, dk and dv one.
 * Sources: Dao et al. 2022 (FlashAttention, appendix B.4); Dao 2023 (FlashAttention-2). */
typedef struct clattn_attention_backward_params {
    /* The forward call. out and lse hold what it wrote, both are needed, and all of it is only read.
     *   read      q, kv.k, kv.v, out, lse, score, rope, cu_seqlens of host and device, sequences, max_q, max_kv
     *   refused   what has no gradient here: block_table, past_k, k_new, k and v of a byte, weights, scores, and a `kernel` or `splits`
     *             of its own; cascade, workspace and progress are not looked at */
    clattn_attention_params forward;
    /* Of score_mod, which it needs: the derivative of its value with respect to `score`, an expression of the same language that
     * knows the same names. NULL: the library derives it where it understands the text; else UNSUPPORTED, with the place.
     * At a kink it takes one side: fabs'(0) is 0, clamp' at its bounds 1, and fmin and fmax of equals are the first; a whole number
     * has none, nor has floor, round, sign or what a buffer gives. Not derived are vectors, lgamma, tgamma, nextafter, bitselect, the
     * bits of a score (as_int), texts that mods_unchecked alone allows, and a derivative that is too large for a text. */
    const char *score_mod_gradient;

    clattn_tensor dout; /* [B, H, Nq, Dv], f32, f16 or bf16 */
    clattn_tensor dlse; /* optional, f32 [B, H, Nq]; that of a row whose lse is -inf is not looked at */

    /* The results, each optional, but one at least. */
    clattn_tensor dq;            /* [B, H, Nq, D] */
    clattn_tensor dk, dv;        /* [B, Hkv, Nkv, D] and [B, Hkv, Nkv, Dv] */
    clattn_tensor dbias;         /* f32, the axes and sizes of bias as it was given */
    clattn_tensor dsinks;        /* f32 [H], with sinks or sinks_device */
    clattn_tensor dalibi_slopes; /* f32 [H], with alibi_slopes */
    clattn_tensor dhead_scales;  /* f32 [H], with head_scales */

    /* Optional scratch memory of at least clattn_attention_backward_workspace() bytes, as in clattn_attention_params. */
    cl_mem workspace;
    const clattn_progress *progress; /* optional: as in clattn_attention_params */
} clattn_attention_backward_params;

/* Plan a call without doing it.   As clattn_attention_plan: `kernel_name` is that of the family which makes dq, dk and dv, `splits`
 * the parts in which sums over keys are made and then added in order. */
CLATTN_API clattn_status clattn_attention_backward_plan(clattn_context *context,
                                                        const clattn_attention_backward_params *params,
                                                        clattn_plan *plan);

/* Scratch bytes of the call.   As clattn_attention_workspace. */
CLATTN_API clattn_status clattn_attention_backward_workspace(clattn_context *context,
                                                             const clattn_attention_backward_params *params,
                                                             size_t *bytes);

/* Compile ahead what the call needs.   As clattn_attention_prepare. */
CLATTN_API clattn_status clattn_attention_backward_prepare(clattn_context *context,
                                                           const clattn_attention_backward_params *params);

/* Enqueue it. Sizes of zero: B or H of 0 does nothing and succeeds; Nq of 0 makes dk, dv and sums 0, Nkv of 0 dq and sums but
 * dsinks; D or Dv of 0 is refused.
 * Lifetime, threads, blocking, returns: as clattn_attention_enqueue. */
CLATTN_API clattn_status clattn_attention_backward_enqueue(clattn_context *context, cl_command_queue queue,
                                                           const clattn_attention_backward_params *params,
                                                           cl_uint wait_count, const cl_event *wait_list,
                                                           cl_event *event);
#ifdef __cplusplus
}
#endif
#endif
