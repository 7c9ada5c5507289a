/* linear_attention.h: linear attention with a recurrent state: gated delta nets, Kimi delta
 * attention, gated linear attention, RetNet. Included by clattn.h (letters, rules, contracts). */
#ifndef CLATTN_LINEAR_ATTENTION_H
#define CLATTN_LINEAR_ATTENTION_H

#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How a token changes the state. The values and their meaning are those of ONNX LinearAttention
 * (opset 27); see clattn_linear_attention_params. */
typedef enum clattn_linear_rule {
    CLATTN_LINEAR_RULE_GATED_DELTA = 0, /* S = e^g S;  S += k (beta (v - S^T k))^T */
    CLATTN_LINEAR_RULE_LINEAR,          /* S += k v^T */
    CLATTN_LINEAR_RULE_GATED,           /* S = e^g S;  S += k v^T */
    CLATTN_LINEAR_RULE_DELTA,           /* S += k (beta (v - S^T k))^T */
    CLATTN_LINEAR_RULE_COUNT
} clattn_linear_rule;

/* Linear attention. Each sequence and head has a state S of [Dk, Dv] numbers. The rule changes S
 * for each token in order. The token's result is then out = scale * S^T q.
 *
 * The decay g of a head is one number, or one for each key column. Row d of S is multiplied by
 * e^g[d]. A g of 0 keeps S, and -infinity clears a finite S.
 *
 * Heads: the state has Hs = max(Hk, Hv) heads, and out has H = max(Hq, Hs). Head h of out reads
 * head h / (H / Hs) of S and head h / (H / Hq) of q. Head s of S reads heads s / (Hs / Hk) of k and
 * s / (Hs / Hv) of v. Each division in brackets must have no remainder.
 *
 * Sequences: a batch of B sequences with T tokens each. Or, with cu_seqlens_device, B is 1 and the
 * T tokens are those of N sequences, one behind the other. Otherwise N is B.
 *
 * Arithmetic is float32, whatever the storage types. NaN and infinity propagate as IEEE 754 says. A
 * sequence without tokens copies its state. See docs/linear.md.
 *    Sources: ONNX LinearAttention-27; Katharopoulos et al. 2020; Yang et al. 2024 (delta rule),
 *    Yang et al. 2025, "Gated Delta Networks" */
typedef struct clattn_linear_attention_params {
    clattn_tensor q; /* [B, Hq, T, Dk], f32, f16 or bf16; Dk is 1 to 576 */
    clattn_tensor k; /* [B, Hk, T, Dk], q's type */
    clattn_tensor v; /* [B, Hv, T, Dv], q's type */
    /* [B, Hs or 1, T, Dk or 1]: g. Required by the gated rules, and an error with the others */
    clattn_tensor decay;
    /* [B, Hs or 1, T], any of these types, decay's if both are present. Required by the delta
     * rules, and an error with the others */
    clattn_tensor beta;
    clattn_tensor out; /* [B, H, T, Dv], any of these types */

    /* Optional [S, Hs, Dk, Dv], any of these types: states before the first token, in S slots.
     * Without it they are 0. Without state_indices S is N. */
    clattn_tensor state;
    /* Optional [S', Hs, Dk, Dv]: receives the states. Its type is that of `state` if both are
     * present. It may be `state` itself, but not overlap it otherwise. */
    clattn_tensor new_state;
    /* Optional i32 [N]: the slot of `state` from which sequence n starts. A number below 0 or above
     * S - 1 means a state of 0. */
    clattn_tensor state_indices;
    /* Optional i32 [N] or [N, C]. The slot of new_state for the last state of sequence n, or for
     * its state after token t < C: a draft that may be undone. A number outside of new_state
     * stores nothing. The default is state_indices, or n.
     *
     * A slot that one sequence writes must not be read or written by another one. */
    clattn_tensor new_state_indices;
    /* Optional i32 [N + 1]: the first token of each sequence. Values are clamped to 0 ... T, and a
     * sequence does not end before its first token. Sequences with wrong numbers may share tokens
     * of out. Tokens that no sequence has are not written. */
    clattn_tensor cu_seqlens_device;

    clattn_linear_rule rule;
    float scale; /* 0: 1 / sqrt(Dk) */
    /* Divide each row of q and k by sqrt(sum of squares + l2_epsilon) first [FLA] */
    bool l2_norm;
    float l2_epsilon;                /* 0: 1e-6; with l2_norm only */
    const clattn_progress *progress; /* optional: see clattn_progress */
} clattn_linear_attention_params;

/* The kernel of a call, and the reason. */
typedef struct clattn_linear_attention_choice {
    char kernel_name[32]; /* the .cl file, such as "linear_attention_lanes" */
    char why[256];        /* one line */
} clattn_linear_attention_choice;

/* Plan the call without running it. Buffers may be NULL; an optional tensor counts as present when
 * its rank is not 0.
 *    Threads: any.   Blocking: only for probes, on a CPU device that reports no vectors.
 *    Returns: as clattn_linear_attention_enqueue. */
CLATTN_API clattn_status clattn_linear_attention_plan(clattn_context *context,
                                                      const clattn_linear_attention_params *params,
                                                      clattn_linear_attention_choice *choice);

/* The prepare contract applies. */
CLATTN_API clattn_status clattn_linear_attention_prepare(clattn_context *context,
                                                         const clattn_linear_attention_params *params);

/* Enqueue the call. B, T or N of 0 computes nothing and succeeds; states of sequences without
 * tokens are copied. Dk above 576 is UNSUPPORTED. The call uses no scratch memory.
 *    The enqueue contract applies. After CANCELLED a state that changes in place is undefined. */
CLATTN_API clattn_status clattn_linear_attention_enqueue(clattn_context *context, cl_command_queue queue,
                                                         const clattn_linear_attention_params *params,
                                                         cl_uint wait_count, const cl_event *wait_list,
                                                         cl_event *event);
#ifdef __cplusplus
}
#endif
#endif
