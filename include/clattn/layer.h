/* layer.h: a multi-head attention layer with a model's weights, and one projection alone. Included
 * by clattn.h (letters, rules, contracts). */
#ifndef CLATTN_LAYER_H
#define CLATTN_LAYER_H

#include "attention.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------ layer --- */

/* Which kernel computes a projection y = x W^T + b. See docs/context.md, "Projections", also for
 * CLBlast's own output, environment variable and memory. */
typedef enum clattn_projection {
    /* The faster one, by tuned rows, measurements, then defaults. If CLBlast fails, clattn's kernel
     * replaces it. */
    CLATTN_PROJECTION_AUTO = 0,
    CLATTN_PROJECTION_CLBLAST, /* CLBlast's GEMM; UNSUPPORTED without CLBlast or its module */
    CLATTN_PROJECTION_NATIVE,  /* clattn's own linear kernels */
    CLATTN_PROJECTION_COUNT
} clattn_projection;

/* How projections multiply float32 x or weights. Sums are always float32. See docs/context.md,
 * "Precision of projections", for error bounds, also of integer products with quantised weights. */
typedef enum clattn_precision {
    CLATTN_PRECISION_EXACT = 0, /* multiply-adds */
    /* Allows a matrix engine where it is predicted to be faster and K is 64 or more. Errors are no
     * larger than those of EXACT, but the bits differ. */
    CLATTN_PRECISION_SPLIT,
    CLATTN_PRECISION_COUNT
} clattn_precision;

/* A weight matrix that clattn_linear_pack packed for one device. Absent if buffer is NULL. The
 * struct may be copied. Calls read the packed bytes or the matrix itself, which must stay
 * unchanged. They check everything but the packed bytes. */
typedef struct clattn_packed {
    cl_mem buffer;
    uint64_t layout_id[7]; /* private to the library; a change is detected */
} clattn_packed;

/* QK-norm: RMSNorm of q and k between their projections and RoPE, in float32:
 *    x = x / sqrt(mean(x^2) + norm_epsilon) * w       or (1 + w) with norm_plus_one [Gemma]
 *
 * w is q_norm or k_norm, or 1 where the tensor is absent. norm_plus_one requires one of them.
 * norm_epsilon, norm_plus_one and weights without a norm are INVALID_ARGUMENT.
 *    Source: Zhang and Sennrich 2019; Henry et al. 2020 for q and k */
typedef enum clattn_norm {
    CLATTN_NORM_NONE = 0,
    CLATTN_NORM_HEADS, /* mean over the D numbers of a head, weights [D] [Qwen3, Gemma 3] */
    CLATTN_NORM_WIDTH, /* mean over all heads of a row, weights [H*D] and [Hkv*D] [OLMo 2] */
    CLATTN_NORM_COUNT
} clattn_norm;

/* A multi-head attention layer:
 *    q = x Wq^T + bq,  k = y Wk^T + bk,  v = y Wv^T + bv      y = x if y is absent (self-attention)
 *    heads are consecutive columns; then QK-norm, RoPE and attention
 *    heads = heads * sigmoid(x Wgate^T + bgate)               with a gate [Qiu et al. 2025]
 *    out = concat(heads) Wo^T + bo
 *
 * Weight matrices are [out, in] with dense rows, or in blocks, or with scales as in
 * clattn_linear_params. Biases are optional. D is wq's rows / heads, and Dv is wv's rows /
 * kv_heads. M need not be heads * D.
 *
 * The tensors x, y and out share one type, and so do the weight matrices. Biases and norms may be
 * of any float type.
 *
 * Existing keys and values, such as a cache, are kv.k and kv.v, as clattn_layer_kv_enqueue writes
 * them. Then y, wk, wv, bk, bv, packed_wk, packed_wv and k_norm are absent. Norm and RoPE apply to
 * q only, row i at position rope.position + i + shift[b].
 *    Source: Vaswani et al. 2017, section 3.2.2 */
typedef struct clattn_layer_params {
    clattn_tensor x;              /* [B, Nq, M] */
    clattn_tensor y;              /* optional [B, Nkv, My]: cross-attention */
    clattn_tensor out;            /* [B, Nq, Mo] */
    clattn_tensor wq, wk, wv, wo; /* [H*D, M], [Hkv*D, My], [Hkv*Dv, My], [Mo, H*Dv] */
    clattn_tensor bq, bk, bv, bo; /* optional [H*D], [Hkv*D], [Hkv*Dv], [Mo] */
    int32_t heads, kv_heads;      /* kv_heads 0: heads */
    clattn_score score;           /* the steps of its scores */
    clattn_rope rope;             /* of q and k, after projections and norms */
    clattn_kv kv;                 /* existing keys and values; else k and v are absent */
    /* kv.k and kv.v are caches: the layer appends the keys and values of x, or of y, like k_new and
     * v_new (which are absent), then attends to all keys. */
    bool append;
    clattn_tensor lse, weights, scores; /* as in clattn_attention_params, down to splits */
    clattn_tap scores_at;
    clattn_kernel kernel;
    int32_t splits;
    /* Ragged batches, as in clattn_attention_params: x [1, T, M], out [1, T, Mo], lse with 1 in
     * place of B. Keys of x are packed like x, without kv.cu_seqlens_kv. y is packed [1, Tkv, My]
     * with kv.cu_seqlens_kv, else dense. Rows of out that belong to no sequence are undefined. */
    int32_t sequences, max_q, max_kv;
    const int32_t *cu_seqlens_q; /* [B+1], host memory */
    clattn_tensor cu_seqlens_q_device;
    clattn_projection projection;
    clattn_precision precision; /* of the projections */
    /* optional, from clattn_linear_pack */
    clattn_packed packed_wq, packed_wk, packed_wv, packed_wo;
    clattn_norm norm;
    clattn_tensor q_norm, k_norm; /* optional weights, f32, f16 or bf16: see clattn_norm */
    float norm_epsilon;           /* 0: 1e-6 */
    bool norm_plus_one;
    /* Optional [H, M], a gate a head; or [H*Dv, M], a gate a number of the heads' result */
    clattn_tensor w_gate;
    clattn_tensor b_gate;      /* optional [H] or [H*Dv] */
    clattn_packed packed_gate; /* optional: w_gate */
    /* Scales and zero points of quantised matrices, as w_scale and w_zero of
     * clattn_linear_params */
    clattn_tensor wq_scale, wk_scale, wv_scale, wo_scale, w_gate_scale;
    clattn_tensor wq_zero, wk_zero, wv_zero, wo_zero, w_gate_zero;
    /* Optional: clattn_layer_workspace() bytes or more, as in clattn_attention_params, without
     * CLBlast's own. */
    cl_mem workspace;
    /* Optional: of the whole layer. After CANCELLED, out, lse, weights and scores are undefined. */
    const clattn_progress *progress;
} clattn_layer_params;

/* Scratch memory of a layer, in bytes. As clattn_attention_workspace. */
CLATTN_API clattn_status clattn_layer_workspace(clattn_context *context, const clattn_layer_params *params,
                                                size_t *bytes);

/* Plan the layer's attention; buffers may be NULL. As clattn_attention_plan. */
CLATTN_API clattn_status clattn_layer_plan(clattn_context *context, const clattn_layer_params *params,
                                           clattn_plan *plan);

/* The prepare contract applies. CLBlast compiles at its first call instead. */
CLATTN_API clattn_status clattn_layer_prepare(clattn_context *context, const clattn_layer_params *params);

/* Enqueue one layer. B or Nq of 0 does nothing, not even append, and succeeds. Nkv of 0 writes bo,
 * or 0 without bo. Widths, heads and head sizes of 0 are INVALID_ARGUMENT.
 *    The enqueue contract applies, with CLBlast as in clattn_linear_enqueue. */
CLATTN_API clattn_status clattn_layer_enqueue(clattn_context *context, cl_command_queue queue,
                                              const clattn_layer_params *params, cl_uint wait_count,
                                              const cl_event *wait_list, cl_event *event);

/* Gradients of a scalar loss L with respect to a layer's inputs; dout is dL/dout. The call
 * computes q, k, v, gates and heads again in float32, or reads `kept`
 * (clattn_layer_forward_enqueue), which is faster. See docs/training.md, "Formulas of a layer".
 *
 * The order of each sum depends on sizes only, and there are no atomics. Rows past q_lengths and
 * kv_lengths have no effect, NaN or not. dx and dy are 0 there. In self-attention, a row of x
 * may be past only one of them, and then has a gradient.
 *
 * Inputs are f32, f16 or bf16; sums and intermediates are float32. Each result may have any of
 * these types. */
typedef struct clattn_layer_backward_params {
    /* The forward call. UNSUPPORTED: existing k and v, append, pages, past, ragged batches, lse,
     * weights, scores, kernel, splits, matrices in blocks or with scales. Ignored: out, values of
     * bo, packed weights, workspace, progress. */
    clattn_layer_params forward;
    const char *score_mod_gradient; /* as in clattn_attention_backward_params */
    clattn_tensor dout;             /* [B, Nq, Mo] */
    /* The results: each is optional and has the shape of its input, but one is required. */
    clattn_tensor dx, dy;             /* without y, keys and values contribute to dx */
    clattn_tensor dwq, dwk, dwv, dwo; /* dense rows */
    clattn_tensor dbq, dbk, dbv, dbo;
    clattn_tensor dq_norm, dk_norm;
    clattn_tensor dw_gate, db_gate;
    /* as in clattn_attention_backward_params */
    clattn_tensor dbias, dsinks, dalibi_slopes, dhead_scales;
    /* Optional, f32 [S], S from clattn_layer_kept(): results of clattn_layer_forward_enqueue for
     * the same forward call */
    clattn_tensor kept;
    /* Optional: clattn_layer_backward_workspace() bytes or more, as in clattn_layer_params */
    cl_mem workspace;
    const clattn_progress *progress; /* optional: of the whole call, see clattn_progress */
} clattn_layer_backward_params;

/* Return how many float32 numbers a forward call keeps. Only params->forward counts; its out may be
 * absent. As clattn_layer_workspace. */
CLATTN_API clattn_status clattn_layer_kept(clattn_context *context,
                                           const clattn_layer_backward_params *params, int64_t *numbers);

/* Enqueue the forward call of a training step. It writes `kept`, and forward.out as
 * clattn_layer_enqueue does, but with float32 between projections and attention. It reads forward,
 * kept, workspace and progress of `params`. Packed weights, forward.workspace and forward.progress
 * are ignored.
 *
 * clattn_layer_backward_enqueue may read `kept` any number of times, as long as x, y, weights and
 * `kept` are unchanged. Gradients have the same bits as without `kept`. Options without a gradient
 * are UNSUPPORTED, except a score_mod without derivative.
 *    Sizes of zero, lifetime, threads, blocking, returns: as clattn_layer_enqueue. */
CLATTN_API clattn_status clattn_layer_forward_enqueue(clattn_context *context, cl_command_queue queue,
                                                      const clattn_layer_backward_params *params,
                                                      cl_uint wait_count, const cl_event *wait_list,
                                                      cl_event *event);

/* As clattn_layer_workspace; with `kept` also for the forward call. */
CLATTN_API clattn_status clattn_layer_backward_workspace(clattn_context *context,
                                                         const clattn_layer_backward_params *params,
                                                         size_t *bytes);

/* As clattn_layer_prepare; with `kept` also for the forward call. */
CLATTN_API clattn_status clattn_layer_backward_prepare(clattn_context *context,
                                                       const clattn_layer_backward_params *params);

/* Enqueue the call. Without rows, gradients of weights, biases and norms are 0. B of 0 does not
 * write dbias, dsinks, dalibi_slopes and dhead_scales.
 *    Lifetime, threads, blocking, returns: as clattn_layer_enqueue. */
CLATTN_API clattn_status clattn_layer_backward_enqueue(clattn_context *context, cl_command_queue queue,
                                                       const clattn_layer_backward_params *params,
                                                       cl_uint wait_count, const cl_event *wait_list,
                                                       cl_event *event);

/* Keys and values of a layer, for later layer calls with kv.k and kv.v: of an encoder's output, or
 * of the next rows of a cache.
 *    k = y Wk^T + bk, then norm, then RoPE: row j has position rope.position + j;  v = y Wv^T + bv
 *
 * clattn's own kernels compute the projections. Hkv is k's; D and Dv are the last sizes of k and
 * v. */
typedef struct clattn_layer_kv_params {
    clattn_tensor y;      /* [B, Nkv, My] */
    clattn_tensor wk, wv; /* [Hkv*D, My], [Hkv*Dv, My] */
    clattn_tensor bk, bv; /* optional [Hkv*D], [Hkv*Dv] */
    clattn_tensor k, v;   /* written: [B, Hkv, Nkv, D], [B, Hkv, Nkv, Dv], of y's type */
    clattn_precision precision;
    clattn_packed packed_wk, packed_wv; /* optional, from clattn_linear_pack */
    /* of k; this and the next fields as in clattn_layer_params */
    clattn_norm norm;
    clattn_tensor k_norm;
    float norm_epsilon;
    bool norm_plus_one;
    clattn_rope rope;
    /* as w_scale and w_zero of clattn_linear_params */
    clattn_tensor wk_scale, wv_scale, wk_zero, wv_zero;
} clattn_layer_kv_params;

/* Enqueue the call. The context lends scratch memory where needed. B or Nkv of 0 does nothing and
 * succeeds; My, Hkv, D and Dv of 0 are INVALID_ARGUMENT.
 *    Lifetime, threads, blocking, returns: as clattn_linear_enqueue. */
CLATTN_API clattn_status clattn_layer_kv_enqueue(clattn_context *context, cl_command_queue queue,
                                                 const clattn_layer_kv_params *params, cl_uint wait_count,
                                                 const cl_event *wait_list, cl_event *event);

/* ----------------------------------------------------------------------------------- linear --- */

typedef enum clattn_activation {
    CLATTN_ACTIVATION_NONE = 0,     /* x */
    CLATTN_ACTIVATION_SILU,         /* x * sigmoid(x), or swish [Elfwing et al. 2017] */
    CLATTN_ACTIVATION_GELU,         /* x * (1 + erf(x / sqrt(2))) / 2 [Hendrycks and Gimpel 2016] */
    CLATTN_ACTIVATION_GELU_TANH,    /* that paper's approximation by tanh */
    CLATTN_ACTIVATION_GELU_QUICK,   /* x * sigmoid(1.702 x) [CLIP] */
    CLATTN_ACTIVATION_RELU,         /* max(x, 0) */
    CLATTN_ACTIVATION_RELU_SQUARED, /* max(x, 0)^2 [So et al. 2021, "Primer"] */
    CLATTN_ACTIVATION_SIGMOID,
    CLATTN_ACTIVATION_COUNT
} clattn_activation;

/* One projection, and optionally the steps after it in a block:
 *    out[b,n,m] = sum_k x[b,n,k] * w[m,k] + bias[m]
 *    out = activation(x w^T + b) * (x w_up^T + b_up) + residual       SwiGLU, GeGLU [Shazeer 2020]
 *
 * Storage is f32, f16 or bf16, sums are float32. x and out share one type; w and b may have others.
 * Quantised weights are blocks, with K a multiple of 32, or i8, float8, i4 and u4 with scales.
 * clattn's own kernels read them without conversion, and AUTO selects those kernels. */
typedef struct clattn_linear_params {
    clattn_tensor x;   /* [B, N, K] */
    clattn_tensor out; /* [B, N, M], x's type */
    clattn_tensor w;   /* [M, K], dense rows */
    clattn_tensor b;   /* optional [M] */
    clattn_projection projection;
    clattn_precision precision;
    clattn_packed packed; /* optional: w, from clattn_linear_pack */
    clattn_activation activation;
    /* Optional: w_up as w, of the same type; b_up [M], of b's type if both are present */
    clattn_tensor w_up, b_up;
    clattn_packed packed_up; /* optional: w_up */
    clattn_tensor residual;  /* optional [B, N, M], x's type: out itself, or apart from it */
    /* Scales of i8, float8, i4 and u4, required there only, f32, f16 or bf16: [M], or [M, K / G]
     * for groups of G numbers. G is K, or a multiple of 32 that divides K. Optional zero points, of
     * the same type, shape and strides: (stored - zero) * scale. [GPTQ; AWQ; ONNX MatMulNBits] */
    clattn_tensor w_scale, w_zero;
    /* The same for w_up: the type and number of groups of w_scale, zero points if w has them */
    clattn_tensor w_up_scale, w_up_zero;
    /* Optional: clattn_linear_workspace() bytes or more, as in clattn_attention_params. Then only
     * CLBlast allocates. */
    cl_mem workspace;
} clattn_linear_params;

/* Which kernel computes a projection, and why. */
typedef struct clattn_linear_choice {
    clattn_projection projection; /* CLBLAST or NATIVE */
    char kernel_name[32];         /* "clblast", or the .cl file, such as "linear_lanes" */
    size_t workspace_bytes;       /* scratch memory of the call */
    char why[256];                /* one line */
} clattn_linear_choice;

/* Scratch memory of clattn_linear_enqueue, in bytes. As clattn_linear_plan. */
CLATTN_API clattn_status clattn_linear_workspace(clattn_context *context, const clattn_linear_params *params,
                                                 size_t *bytes);

/* Plan a projection without running it. Buffers may be NULL; b counts as present when its rank is
 * not 0.
 *    Threads: any.   Blocking: only for probes, on a CPU device that reports no vectors
 *    (clattn_attention_plan).
 *    Returns: as clattn_linear_enqueue. */
CLATTN_API clattn_status clattn_linear_plan(clattn_context *context, const clattn_linear_params *params,
                                            clattn_linear_choice *choice);

/* The prepare contract applies. CLBlast compiles at its first call instead, and keeps its kernels
 * in memory. */
CLATTN_API clattn_status clattn_linear_prepare(clattn_context *context, const clattn_linear_params *params);

/* Enqueue one projection. B or N of 0 does nothing and succeeds; K or M of 0 is INVALID_ARGUMENT.
 *    The enqueue contract applies. UNSUPPORTED also if CLBlast is requested or required, and
 *    missing. CLBlast compiles during its first call. */
CLATTN_API clattn_status clattn_linear_enqueue(clattn_context *context, cl_command_queue queue,
                                               const clattn_linear_params *params, cl_uint wait_count,
                                               const cl_event *wait_list, cl_event *event);

/* Gradients of a plain projection out = x w^T + b; dout is dL/dout:
 *    dx[n,k] = sum_m dout[n,m] w[m,k]      dw[m,k] = sum_n dout[n,m] x[n,k]      db[m] = sum_n
 *                                          dout[n,m]
 *
 * n runs over B and N. Sums are float32, in a fixed order. Activation, gate and residual are not
 * part of the call. dx, dw and db may each be f32, f16 or bf16. */
typedef struct clattn_linear_backward_params {
    clattn_tensor x;    /* [B, N, K], for dw; f32, f16 or bf16, as w and dout */
    clattn_tensor w;    /* [M, K], for dx */
    clattn_tensor dout; /* [B, N, M] */
    clattn_tensor dx;   /* [B, N, K]; dx, dw and db are optional, but one is required */
    clattn_tensor dw;   /* [M, K], dense rows */
    clattn_tensor db;   /* [M] */
    clattn_projection projection;
    clattn_precision precision;
    cl_mem workspace; /* optional: at least clattn_linear_backward_workspace() bytes */
} clattn_linear_backward_params;

/* As clattn_linear_workspace. */
CLATTN_API clattn_status clattn_linear_backward_workspace(clattn_context *context,
                                                          const clattn_linear_backward_params *params,
                                                          size_t *bytes);

/* As clattn_linear_prepare. */
CLATTN_API clattn_status clattn_linear_backward_prepare(clattn_context *context,
                                                        const clattn_linear_backward_params *params);

/* Enqueue the call. B or N of 0 makes dw and db 0; K or M of 0 is INVALID_ARGUMENT. As
 * clattn_linear_enqueue. */
CLATTN_API clattn_status clattn_linear_backward_enqueue(clattn_context *context, cl_command_queue queue,
                                                        const clattn_linear_backward_params *params,
                                                        cl_uint wait_count, const cl_event *wait_list,
                                                        cl_event *event);

/* Weights to pack. */
typedef struct clattn_pack_params {
    /* [M, K], as in clattn_linear_params; packing f16 or blocks has no use */
    clattn_tensor w;
    clattn_precision precision; /* of the later calls; packing f32 has no use with EXACT */
    /* the caller's: offset + clattn_linear_packed_bytes() bytes or more */
    cl_mem buffer;
    int64_t offset; /* bytes, a multiple of 64 */
} clattn_pack_params;

/* Return the bytes of packed w on the context's device. The result is 0 if no kernel is faster with
 * packed w. Then clattn_linear_pack does nothing, and succeeds with an absent clattn_packed.
 * Buffers may be NULL.
 *    Threads: any.   Blocking: a matrix engine's probe, the first time.   Returns: as
 *    clattn_linear_pack. */
CLATTN_API clattn_status clattn_linear_packed_bytes(clattn_context *context, const clattn_pack_params *params,
                                                    size_t *bytes);

/* Enqueue the packing of w into the caller's buffer, and fill *packed for later calls. Calls on
 * other or out-of-order queues must wait for `event`. If the call fails, *packed is absent.
 *    Lifetime   w until packing is done, and as long as calls use w; the buffer as long as calls
 *               use it. There is nothing to destroy
 *    Threads    any; several threads may use one clattn_packed
 *    Blocking, returns: the enqueue contract. */
CLATTN_API clattn_status clattn_linear_pack(clattn_context *context, cl_command_queue queue,
                                            const clattn_pack_params *params, clattn_packed *packed,
                                            cl_uint wait_count, const cl_event *wait_list, cl_event *event);
#ifdef __cplusplus
}
#endif
#endif
