/* layer.h: a multi-head attention layer with a model's weights, and one projection alone. Included by clattn.h,
 * which tells the letters and the rules. */
#ifndef CLATTN_LAYER_H
#define CLATTN_LAYER_H

#include "attention.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------- layer --- */

/* Who computes y = x W^T + b. For AUTO a row of the context's tuned_rows decides; else what clattn_context_measure found;
 * else, on a CPU device, the shipped rows, and on others: clattn's own kernels for up to 16 rows and for weights of 16
 * bits, which they read as they are stored, CLBlast for more rows and float32 weights. Where CLBlast
 * fails (but for DEVICE_LOST), AUTO does the call again by clattn's own kernel, and takes that one in the context's later
 * calls.
 * CLBlast is one for the whole process and keeps its own ways: it compiles its kernels on their first call, it takes
 * scratch memory of its own for large products, which no workspace counts, it prints a line on stderr when an OpenCL
 * call of its own fails, it reads the environment variable CLBLAST_BUILD_OPTIONS when it compiles, and what it compiled
 * stays until the last context that has used it is destroyed. That drops all that it keeps for the process, also what
 * the application had it compile itself. */
typedef enum clattn_projection {
    CLATTN_PROJECTION_AUTO = 0, /* the faster one */
    CLATTN_PROJECTION_CLBLAST,  /* CLBlast's GEMM; UNSUPPORTED where it, or its module, is not there */
    CLATTN_PROJECTION_NATIVE,   /* clattn's own linear kernel */
    CLATTN_PROJECTION_COUNT
} clattn_projection;

/* How projections multiply float32. It concerns float32 x or weights alone: products of bfloat16 by bfloat16 are exact in
 * float32 whoever makes them. Sums are float32 always.
 * SPLIT allows a device's matrix engine, where that is predicted to be faster and K is 64 or more: a float32 becomes the exact
 * sum of three bfloat16, and of the products of such terms those that float32 would see are summed, six for a product of
 * two float32, three where one side is bfloat16. The error against exact arithmetic is no larger than that of EXACT, but
 * the bits are others. Infinities, NaN, magnitudes below 2^-100 or above 2^127 and blocks whose products may leave [2^-90,
 * 2^100] are found on the device, and the 32 x 32 elements of out that see them are computed as EXACT does. GPUs find
 * magnitudes of 2^50 and more, and below 2^-45 those that elements of out below 2^-20 see, in blocks of their own. Where no
 * matrix engine is predicted to win, SPLIT is EXACT.
 * By either x may be multiplied by weights in blocks in integers, on CPUs whose integer dot product is proven and the
 * faster one; the plan says so. The numbers of x that meet one block are then rounded beside the largest of them: to within
 * 1 / 4161536 of it, of x of 16 bits 1 / 32512. Rows with an infinity or a NaN, and rows of which the largest number that
 * meets a block is below 2^-98, are multiplied as floats. */
typedef enum clattn_precision {
    CLATTN_PRECISION_EXACT = 0, /* multiply-adds */
    CLATTN_PRECISION_SPLIT,
    CLATTN_PRECISION_COUNT
} clattn_precision;

/* A weight matrix packed once for the kernels of one device, by clattn_linear_pack, and used by any number of calls beside
 * the matrix itself, which kernels that gain nothing by it still read, and which must not have changed since. A call uses
 * it or not, as it is faster. buffer == NULL: absent. It may be copied; what it says is checked by
 * every call: w's shape and type, this version's layout, the context's device, the buffer and the offset, and that nobody
 * has changed it; not the bytes in the buffer. */
typedef struct clattn_packed {
    cl_mem buffer;
    uint64_t made[7]; /* of no meaning to the caller */
} clattn_packed;

/* QK-norm: RMSNorm of q and k between their projections and RoPE, in float32:
 *   x = x / sqrt(mean(x^2) + norm_epsilon) * w       or (1 + w) with norm_plus_one [Gemma]
 * where w is q_norm or k_norm, or 1 where that is absent; norm_plus_one needs one of them, and is refused without, as are
 * norm_epsilon and weights without a norm. Source: Zhang and Sennrich 2019; Henry et al. 2020 for q and k. */
typedef enum clattn_norm {
    CLATTN_NORM_NONE = 0,
    CLATTN_NORM_HEADS, /* the mean is of a head's D numbers, weights are [D] [Qwen3, Gemma 3] */
    CLATTN_NORM_WIDTH, /* of all heads of a row together, weights are [H*D] of q and [Hkv*D] of k [OLMo 2] */
    CLATTN_NORM_COUNT
} clattn_norm;

/* A multi-head attention layer:
 *   q = x Wq^T + bq,  k = y Wk^T + bk,  v = y Wv^T + bv      y = x where y is absent (self-attention)
 *   heads are consecutive columns;  QK-norm, RoPE and attention as they say;
 *   heads = heads * sigmoid(x Wgate^T + bgate)               with a gate [Qiu et al. 2025, "Gated Attention"]
 *   out = concat(heads) Wo^T + bo
 * Weight matrices are [out, in], dense rows, as frameworks store them. Biases are optional. D
 * is wq's rows / heads, Dv is wv's rows / kv_heads; they may differ, and M need not be heads * D. x, y and
 * out share one type; so do the weight matrices, the biases and norms being of any. Source: Vaswani et al.
 * 2017, section 3.2.2. Matrices may lie in blocks, or have scales in tensors of their own, as in clattn_linear_params.
 *   Keys and values that are there already, such as those of an encoder's output that every step of a decoder attends, or
 * of a cache: kv.k and kv.v are given, as clattn_layer_kv_enqueue writes them, and y, wk, wv, bk, bv, packed_wk,
 * packed_wv and k_norm are absent. Such keys were normalised and turned when they were made: norm and rope are then of
 * q alone, whose row i has the position rope.position + i + shift[b]. Their type may differ from x's, as in attention. */
typedef struct clattn_layer_params {
    clattn_tensor x;              /* [B, Nq, M] */
    clattn_tensor y;              /* optional [B, Nkv, My]: cross-attention */
    clattn_tensor out;            /* [B, Nq, Mo] */
    clattn_tensor wq, wk, wv, wo; /* [H*D, M], [Hkv*D, My], [Hkv*Dv, My], [Mo, H*Dv] */
    clattn_tensor bq, bk, bv, bo; /* optional [H*D], [Hkv*D], [Hkv*Dv], [Mo] */
    int32_t heads, kv_heads;      /* kv_heads 0: heads */
    clattn_score score;           /* what becomes of its scores */
    clattn_rope rope;             /* of q and k, after their projections and norms */
    clattn_kv kv;                 /* keys and values that are there already; else k and v are absent */
    /* kv.k and kv.v are caches: the keys and values that the layer makes of x, or of y, are appended to them, as k_new and
     * v_new are in attention (the last of the keys that kv_lengths count; in pages, too; converted to the caches' type), and
     * all of them are attended: a step of a decoder in one call. k_new and v_new themselves are absent in a layer. */
    bool append;
    /* As in clattn_attention_params. */
    clattn_tensor lse, weights, scores;
    clattn_tap scores_at;
    clattn_kernel kernel;
    int32_t splits;
    /* Ragged batches, as in clattn_attention_params: x and out are packed, [1, T, M] and [1, T, Mo], with 1 in place of B in
     * lse, too. Keys that the layer makes of x are packed as x is: kv.cu_seqlens_kv is absent. y is packed, [1, Tkv, My], as
     * kv.cu_seqlens_kv says, or, without it, a dense batch. Rows of out that are no sequence's are undefined. */
    int32_t sequences, max_q, max_kv;
    const int32_t *cu_seqlens_q; /* [B+1], host memory */
    clattn_tensor cu_seqlens_q_device;
    clattn_projection projection;
    clattn_precision precision;                               /* of the projections */
    clattn_packed packed_wq, packed_wk, packed_wv, packed_wo; /* optional, of clattn_linear_pack */
    clattn_norm norm;
    clattn_tensor q_norm, k_norm; /* optional weights, f32, f16 or bf16: see clattn_norm */
    float norm_epsilon;           /* 0: 1e-6 */
    bool norm_plus_one;
    clattn_tensor
        w_gate; /* optional [H, M], a gate a head, or [H*Dv, M], a gate a number of the heads' result */
    clattn_tensor b_gate;      /* optional [H] or [H*Dv] */
    clattn_packed packed_gate; /* optional: w_gate */
    /* Scales and zero points of matrices of i8, float8, i4 and u4, as w_scale and w_zero in clattn_linear_params. */
    clattn_tensor wq_scale, wk_scale, wv_scale, wo_scale, w_gate_scale;
    clattn_tensor wq_zero, wk_zero, wv_zero, wo_zero, w_gate_zero;
    /* Optional scratch memory of at least clattn_layer_workspace() bytes, so that the call takes none of the
     * context's but a few words a batch item, head or frequency, and CLBlast's own. Otherwise as in clattn_attention_params. */
    cl_mem workspace;
    /* Optional: as in clattn_attention_params, of the whole layer. Of a cancelled one, out, lse, weights and scores are
     * undefined. */
    const clattn_progress *progress;
} clattn_layer_params;

/* Scratch bytes of a layer: q, k, v, the gates, the heads' result, and what its attention and conversions need. */
CLATTN_API clattn_status clattn_layer_workspace(clattn_context *context, const clattn_layer_params *params,
                                                size_t *bytes);

/* Which kernel the layer's attention takes; buffers may be NULL.   As clattn_attention_plan. */
CLATTN_API clattn_status clattn_layer_plan(clattn_context *context, const clattn_layer_params *params,
                                           clattn_plan *plan);

/* Compile ahead all that the layer needs. CLBlast compiles its own kernels on their first call and keeps them
 * in memory, so that part is not covered.   As clattn_attention_prepare. */
CLATTN_API clattn_status clattn_layer_prepare(clattn_context *context, const clattn_layer_params *params);

/* Enqueue one layer. `params->workspace`, where given, holds at least clattn_layer_workspace()
 * bytes. Sizes of zero: B or Nq of 0 does nothing, not even append, and succeeds; Nkv of 0 leaves bo, or 0 without one; widths, heads and
 * head sizes of 0 are refused.   Lifetime, threads, returns: as clattn_attention_enqueue; UNSUPPORTED also where projections need
 * CLBlast and the library was built without it.   Blocking: CLBlast compiles on its first call. */
CLATTN_API clattn_status clattn_layer_enqueue(clattn_context *context, cl_command_queue queue,
                                              const clattn_layer_params *params, cl_uint wait_count,
                                              const cl_event *wait_list, cl_event *event);

/* Gradients of a layer: of L, of which dout is the derivative with respect to the layer's result, with respect to what the layer was
 * given. One call makes q, k, v, the gates and the heads' result once more, in float32, so that nothing of the forward call is kept but its
 * inputs; or clattn_layer_forward_enqueue has kept them, which is faster. Then come attention's gradients (backward.h), turned back by
 * RoPE, those of the norms and the gate, and those of the projections:
 *   dWo = sum_n dout[n] heads[n]^T    dheads = dout Wo    dWq = sum_n dq[n] x[n]^T    dx = dq Wq + dgate Wgate (+ dk Wk + dv Wv)
 *   dq[n] = r (g w - q r mean(g w q) r),  dq_norm = sum_n g q r,  r = 1/sqrt(mean(q^2) + epsilon)        through QK-norm
 *   dheads = g sigmoid(t),  dgate = g heads sigmoid'(t)                                                  through the gate
 * A sum has one order, which sizes alone decide, and nothing is added by atomics. Rows past q_lengths and kv_lengths count nowhere,
 * whatever x, y and dout hold there, NaN or not; dx and dy are 0 there, as far as such rows have no other part in the layer. Storage is
 * f32, f16 or bf16, sums and what lies between are float32; each result may have any of these types. */
typedef struct clattn_layer_backward_params {
    /* The forward call. out, bo's numbers, packed weights, workspace and progress are not looked at. What has no gradient here is
     * refused, UNSUPPORTED: k and v that are there already, append, pages, past, ragged batches, lse, weights, scores, a kernel or splits,
     * matrices in blocks or with scales. */
    clattn_layer_params forward;
    const char *score_mod_gradient; /* of score_mod, as in clattn_attention_backward_params */
    clattn_tensor dout;             /* [B, Nq, Mo] */
    /* The results, each optional, but one at least, and each with what it is the gradient of. */
    clattn_tensor dx, dy;             /* as x and y; without y keys and values have their part in dx */
    clattn_tensor dwq, dwk, dwv, dwo; /* as wq, wk, wv, wo: dense rows */
    clattn_tensor dbq, dbk, dbv, dbo;
    clattn_tensor dq_norm, dk_norm;
    clattn_tensor dw_gate, db_gate;
    clattn_tensor dbias, dsinks, dalibi_slopes, dhead_scales; /* as in clattn_attention_backward_params */
    /* Optional: what clattn_layer_forward_enqueue has kept of the same forward call. f32 [S], of clattn_layer_kept() numbers. */
    clattn_tensor kept;
    /* Optional scratch memory of at least clattn_layer_backward_workspace() bytes, as in clattn_layer_params. */
    cl_mem workspace;
    const clattn_progress *progress; /* optional: as in clattn_attention_params, of the whole call */
} clattn_layer_backward_params;

/* Numbers that a forward call keeps: q, k and v before and after their norms, the gates, the heads' result and lse. Of params only
 * `forward` counts, of which out may be absent.   As clattn_layer_workspace. */
CLATTN_API clattn_status clattn_layer_kept(clattn_context *context,
                                           const clattn_layer_backward_params *params, int64_t *numbers);

/* Enqueue the forward call of a training step: forward.out as clattn_layer_enqueue makes it, but with float32 between the projections
 * and attention, whatever x is stored as; and `kept`, for clattn_layer_backward_enqueue with the same params, which may follow any time
 * and any number of times while x, y, the weights and `kept` are as they were: the gradients are the same to the bit as without it. Of
 * params only forward, kept, workspace and progress count; bo counts, packed weights and forward's own workspace and progress do not.
 * What has no gradient in a layer is refused, but a score_mod without a derivative is not. Sizes of zero: as clattn_layer_enqueue.
 * Lifetime, threads, blocking, returns: as clattn_layer_enqueue. */
CLATTN_API clattn_status clattn_layer_forward_enqueue(clattn_context *context, cl_command_queue queue,
                                                      const clattn_layer_backward_params *params,
                                                      cl_uint wait_count, const cl_event *wait_list,
                                                      cl_event *event);

/* Scratch bytes of the call, and with `kept` of the forward call, too.   As clattn_layer_workspace. */
CLATTN_API clattn_status clattn_layer_backward_workspace(clattn_context *context,
                                                         const clattn_layer_backward_params *params,
                                                         size_t *bytes);

/* Compile ahead what the call needs, and with `kept` the forward call, too.   As clattn_layer_prepare. */
CLATTN_API clattn_status clattn_layer_backward_prepare(clattn_context *context,
                                                       const clattn_layer_backward_params *params);

/* Enqueue it. Sizes of zero: of no rows the gradients of weights, biases and norms are 0; B of 0 leaves dbias, dsinks, dalibi_slopes and
 * dhead_scales.   Lifetime, threads, blocking, returns: as clattn_layer_enqueue. */
CLATTN_API clattn_status clattn_layer_backward_enqueue(clattn_context *context, cl_command_queue queue,
                                                       const clattn_layer_backward_params *params,
                                                       cl_uint wait_count, const cl_event *wait_list,
                                                       cl_event *event);

/* A layer's keys and values alone, into tensors of the caller's, for any number of layer calls that are given them as kv.k
 * and kv.v: of an encoder's output once for all steps of a decoder, or the next rows of a cache, whose k and v then are
 * views of those rows.
 *   k = y Wk^T + bk, normalised, then turned by RoPE: row j has position rope.position + j;  v = y Wv^T + bv
 * The projections are clattn's own kernels. Hkv is k's, D and Dv are k's and v's last sizes. */
typedef struct clattn_layer_kv_params {
    clattn_tensor y;      /* [B, Nkv, My] */
    clattn_tensor wk, wv; /* [Hkv*D, My], [Hkv*Dv, My] */
    clattn_tensor bk, bv; /* optional [Hkv*D], [Hkv*Dv] */
    clattn_tensor k, v;   /* written: [B, Hkv, Nkv, D], [B, Hkv, Nkv, Dv], of y's type */
    clattn_precision precision;
    clattn_packed packed_wk, packed_wv; /* optional, of clattn_linear_pack */
    clattn_norm norm;                   /* of k; these and rope as in clattn_layer_params */
    clattn_tensor k_norm;
    float norm_epsilon;
    bool norm_plus_one;
    clattn_rope rope;
    clattn_tensor wk_scale, wv_scale, wk_zero, wv_zero; /* as w_scale and w_zero in clattn_linear_params */
} clattn_layer_kv_params;

/* Enqueue them on the caller's queue. Scratch memory, where it is needed, is the context's. Sizes of zero: B or Nkv of 0 does
 * nothing and succeeds; My, Hkv, D and Dv of 0 are refused.   Lifetime, threads, blocking, returns: as clattn_linear_enqueue. */
CLATTN_API clattn_status clattn_layer_kv_enqueue(clattn_context *context, cl_command_queue queue,
                                                 const clattn_layer_kv_params *params, cl_uint wait_count,
                                                 const cl_event *wait_list, cl_event *event);

/* ------------------------------------------------------------------------------------------ linear --- */

typedef enum clattn_activation {
    CLATTN_ACTIVATION_NONE = 0,     /* x */
    CLATTN_ACTIVATION_SILU,         /* x * sigmoid(x), also called swish [Elfwing et al. 2017] */
    CLATTN_ACTIVATION_GELU,         /* x * (1 + erf(x / sqrt(2))) / 2 [Hendrycks and Gimpel 2016] */
    CLATTN_ACTIVATION_GELU_TANH,    /* that paper's approximation by tanh */
    CLATTN_ACTIVATION_GELU_QUICK,   /* x * sigmoid(1.702 x) [CLIP] */
    CLATTN_ACTIVATION_RELU,         /* max(x, 0) */
    CLATTN_ACTIVATION_RELU_SQUARED, /* max(x, 0)^2 [So et al. 2021, "Primer"] */
    CLATTN_ACTIVATION_SIGMOID,
    CLATTN_ACTIVATION_COUNT
} clattn_activation;

/* One projection, which a layer does several times:
 *   out[b,n,m] = sum_k x[b,n,k] * w[m,k] + bias[m]
 * and, where it says so, what follows it in a block, before it is stored:
 *   out = activation(x w^T + b) * (x w_up^T + b_up) + residual       SwiGLU with SILU, GeGLU with GELU [Shazeer 2020]
 * in one launch for few rows on CPU devices, else in one more, behind a float32 workspace.
 * Storage is f32, f16 or bf16; sums are float32. x and out share one type; w and b may have others. w may lie in blocks, too
 * (q8_0, q4_0, q4_1: tensor.h), with K a multiple of 32, or be of i8, float8, i4 or u4 with scales in a tensor of their own:
 * clattn's own kernels read w as it lies, and AUTO takes those. */
typedef struct clattn_linear_params {
    clattn_tensor x;   /* [B, N, K] */
    clattn_tensor out; /* [B, N, M], x's type */
    clattn_tensor w;   /* [M, K], dense rows, as frameworks store it */
    clattn_tensor b;   /* optional [M] */
    clattn_projection projection;
    clattn_precision precision;
    clattn_packed packed; /* optional: w, of clattn_linear_pack */
    clattn_activation activation;
    clattn_tensor w_up,
        b_up; /* optional: w_up as w, and of its type; b_up [M], of b's type where there are both */
    clattn_packed packed_up; /* optional: w_up */
    clattn_tensor residual;  /* optional [B, N, M], x's type: out itself, or apart from it */
    /* What the numbers of w are multiplied by, f32, f16 or bf16: with i8, float8, i4 and u4, and only then.
     *   [M]          a scale a row
     *   [M, K / G]   one of each G numbers of a row that follow one another: G is a multiple of 32 that divides K, or K itself
     * w_zero, optional, has their type, shape and strides: a number is then (stored - zero) * scale, zero being any real number. i4 and
     * u4 are two a byte, so that w is [M, K / 2] with K even. w_up has the same of its own, of w_scale's type and as many groups, and
     * zero points where w has. [GPTQ, Frantar et al. 2023; AWQ, Lin et al. 2024; ONNX Runtime's MatMulNBits: u4, 8 or points of its own] */
    clattn_tensor w_scale, w_zero;
    clattn_tensor w_up_scale, w_up_zero;
    /* Optional scratch memory of at least clattn_linear_workspace() bytes, so that the call allocates none but CLBlast's own.
     * Otherwise as in clattn_attention_params. */
    cl_mem workspace;
} clattn_linear_params;

/* Who computes a projection, and why. */
typedef struct clattn_linear_choice {
    clattn_projection projection; /* CLBLAST or NATIVE */
    char kernel_name[32];         /* "clblast", or the .cl file, such as "linear_lanes" */
    size_t workspace_bytes;       /* scratch memory of the call */
    char why[256];                /* one line */
} clattn_linear_choice;

/* Scratch bytes that clattn_linear_enqueue needs: for CLBlast what it takes to convert x, w and out to dense float32 where
 * they are not; for a native kernel 0, or what w takes packed where it takes that and `packed` is absent; and float32 results
 * where an activation, a gate or a residual follows in a launch of its own.
 * As clattn_linear_plan. */
CLATTN_API clattn_status clattn_linear_workspace(clattn_context *context, const clattn_linear_params *params,
                                                 size_t *bytes);

/* Plan a projection without doing it. Buffers may be NULL (b counts as present when its rank is not 0).
 * Threads: any.   Blocking: never, but for the probes of a CPU device that reports no vectors, as clattn_attention_plan.
 * Returns: as clattn_linear_enqueue. */
CLATTN_API clattn_status clattn_linear_plan(clattn_context *context, const clattn_linear_params *params,
                                            clattn_linear_choice *choice);

/* Compile ahead what a projection needs, so that enqueueing it does not; buffers may be NULL. CLBlast's own
 * kernels are not covered: they are compiled at their first call and kept in memory.
 * Threads: any.   Blocking: while the driver compiles.
 * Returns: as clattn_linear_enqueue, and BUILD_FAILED with the driver's log in the log callback. */
CLATTN_API clattn_status clattn_linear_prepare(clattn_context *context, const clattn_linear_params *params);

/* Enqueue one projection on the caller's queue, in-order or out-of-order; wait_list and event as in
 * clattn_attention_enqueue. Sizes of zero: B or N of 0 does nothing and succeeds; K or M of 0 is refused.
 * Lifetime  buffers must live until the commands are done.
 * Threads   any, one queue a thread.
 * Blocking  never for the result; a kernel not yet compiled is compiled now, CLBlast's on their first call.
 * Returns   INVALID_ARGUMENT  a rank, shape, type, stride, range, buffer or handle is wrong; nothing was enqueued
 *           UNSUPPORTED       CLBlast is asked for or needed, and the library was built without it
 *           OUT_OF_MEMORY     scratch memory, or what the driver needs for the launch
 *           BUILD_FAILED, DEVICE_LOST, DRIVER */
CLATTN_API clattn_status clattn_linear_enqueue(clattn_context *context, cl_command_queue queue,
                                               const clattn_linear_params *params, cl_uint wait_count,
                                               const cl_event *wait_list, cl_event *event);

/* Gradients of a plain projection out = x w^T + b, of which dout is the derivative with respect to out:
 *   dx[n,k] = sum_m dout[n,m] w[m,k]      dw[m,k] = sum_n dout[n,m] x[n,k]      db[m] = sum_n dout[n,m]      n over B and N
 * They are projections of transposed matrices, by whoever `projection` says: of copies in scratch memory, but for a CPU's own kernel,
 * which reads them as they lie. Sums are float32, in one order. What follows a projection (activation, gate, residual) is no part of them.
 * Storage is f32, f16 or bf16; dx, dw and db may each have any of these types. */
typedef struct clattn_linear_backward_params {
    clattn_tensor x;    /* [B, N, K], for dw */
    clattn_tensor w;    /* [M, K], for dx */
    clattn_tensor dout; /* [B, N, M] */
    clattn_tensor dx;   /* [B, N, K]; the results are optional, but one at least */
    clattn_tensor dw;   /* [M, K], dense rows */
    clattn_tensor db;   /* [M] */
    clattn_projection projection;
    clattn_precision precision;
    cl_mem workspace; /* optional: at least clattn_linear_backward_workspace() bytes */
} clattn_linear_backward_params;

/* Scratch bytes of the call; what it needs is compiled; it is enqueued. Sizes of zero: B or N of 0 makes dw and db 0, K or M of 0 is
 * refused.   Otherwise as clattn_linear_workspace, clattn_linear_prepare and clattn_linear_enqueue. */
CLATTN_API clattn_status clattn_linear_backward_workspace(clattn_context *context,
                                                          const clattn_linear_backward_params *params,
                                                          size_t *bytes);
CLATTN_API clattn_status clattn_linear_backward_prepare(clattn_context *context,
                                                        const clattn_linear_backward_params *params);
CLATTN_API clattn_status clattn_linear_backward_enqueue(clattn_context *context, cl_command_queue queue,
                                                        const clattn_linear_backward_params *params,
                                                        cl_uint wait_count, const cl_event *wait_list,
                                                        cl_event *event);

/* Weights to pack. */
typedef struct clattn_pack_params {
    clattn_tensor w;            /* [M, K], as in clattn_linear_params; f16 and blocks have no use packed */
    clattn_precision precision; /* of the calls to come: of EXACT f32 has no use packed */
    cl_mem buffer;              /* the caller's, at least offset + clattn_linear_packed_bytes() bytes */
    int64_t offset;             /* bytes, a multiple of 64 */
} clattn_pack_params;

/* Bytes that w takes packed for the context's device. 0: no kernel of the device gains by it, for such weights; then
 * clattn_linear_pack does nothing and succeeds with an absent clattn_packed, so that callers need not care. Otherwise 2 bytes
 * an element of bf16, 6 of f32, M and K rounded up to 32, and a little. w.buffer and `buffer` may be NULL.
 * Threads: any.   Blocking: a matrix engine's probe, the first time.
 * Returns: as clattn_linear_pack. */
CLATTN_API clattn_status clattn_linear_packed_bytes(clattn_context *context, const clattn_pack_params *params,
                                                    size_t *bytes);

/* Enqueue the packing of w into the caller's buffer, and fill *packed for calls that are enqueued after it (on an
 * out-of-order or another queue: that wait for `event`). wait_list and event as in clattn_attention_enqueue.
 * Lifetime  w until the packing is done, and on as calls need it; the buffer as long as calls use it. Nothing is to be
 *           destroyed.
 * Threads   any, one queue a thread; one clattn_packed serves calls of several threads.
 * Blocking  never for the result; kernels are compiled on first use.
 * Returns   INVALID_ARGUMENT  w, precision, buffer or offset is wrong, or packed is NULL; nothing was enqueued
 *           OUT_OF_MEMORY, BUILD_FAILED, DEVICE_LOST, DRIVER
 * *packed is absent where it fails. */
CLATTN_API clattn_status clattn_linear_pack(clattn_context *context, cl_command_queue queue,
                                            const clattn_pack_params *params, clattn_packed *packed,
                                            cl_uint wait_count, const cl_event *wait_list, cl_event *event);
#ifdef __cplusplus
}
#endif
#endif
