/* clattn.h: transformer attention on any OpenCL 1.2 device.
 *
 * Read from top to bottom: runtime.h (status, log, devices, context), then here tensor, attention, merge,
 * layer, linear.
 *
 * The letters, everywhere in this header:
 *   B batch   H query heads   Hkv key/value heads (H % Hkv == 0; query head h reads h / (H/Hkv))
 *   Nq query rows   Nkv key rows   D head size of Q and K   Dv head size of V and of the output
 *   M model width   i counts query rows, j key rows, h heads, b batch items
 *
 * Rules that hold for every function:
 *   - Zero is the default of every field of every struct: start from {0} and set what you need.
 *   - All arguments are checked before anything is enqueued. A call that fails has enqueued nothing and
 *     written nothing, except DEVICE_LOST, DRIVER and OUT_OF_MEMORY, where the driver may have refused
 *     half-way.
 *   - The library never prints, exits, aborts or reads the environment, and it has no mutable global state.
 *   - Threads: any function may be called from any thread. One context may be shared by threads that each
 *     have a queue of their own; calls on it overlap except while a kernel's arguments are being set.
 *   - Why a call failed is one line, through the log callback and clattn_context_last_error().
 */
#ifndef CLATTN_CLATTN_H
#define CLATTN_CLATTN_H

#include "runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------ tensor --- */

typedef enum clattn_type {
    CLATTN_TYPE_F32 = 0,  /* IEEE binary32 */
    CLATTN_TYPE_F16 = 1,  /* IEEE binary16; needs no half arithmetic on the device */
    CLATTN_TYPE_BF16 = 2, /* the upper half of a binary32 */
    CLATTN_TYPE_BOOL = 3, /* one byte, nonzero is true */
    CLATTN_TYPE_COUNT
} clattn_type;

/* Bytes of one element; 0 for a number that is no type. */
CLATTN_API size_t clattn_type_size(clattn_type type);

#define CLATTN_MAX_RANK 4

/* A view of a buffer. Element (x0, x1, ...) is at offset + x0*stride[0] + x1*stride[1] + ..., counted in
 * elements. Strides are not negative; 0 repeats (allowed on inputs). Every element of the view lies inside
 * the buffer, or the call is refused. A view with buffer == NULL is absent. Buffers are made from the
 * context's cl_context and must live until the commands that use them have finished. Outputs must not overlap
 * inputs or one another. */
typedef struct clattn_tensor {
    cl_mem buffer;
    int64_t offset; /* elements */
    clattn_type type;
    int rank;
    int64_t shape[CLATTN_MAX_RANK];
    int64_t stride[CLATTN_MAX_RANK]; /* elements */
} clattn_tensor;

/* A dense row-major view of the first `rank` sizes of `shape`. rank is 1 to CLATTN_MAX_RANK. */
CLATTN_API clattn_tensor clattn_tensor_dense(cl_mem buffer, clattn_type type, int rank, const int64_t *shape);

/* Views [B, H, N, D] of a buffer that holds [B, H, N, D], or [B, N, H, D], both dense. */
CLATTN_API clattn_tensor clattn_tensor_bhsd(cl_mem buffer, clattn_type type, int64_t b, int64_t h, int64_t n,
                                            int64_t d);
CLATTN_API clattn_tensor clattn_tensor_bshd(cl_mem buffer, clattn_type type, int64_t b, int64_t h, int64_t n,
                                            int64_t d);

/* --------------------------------------------------------------------------------------- attention --- */

/* Where row i stands among the keys: p = i + shift[b]. It matters to causality, window, ALiBi and RoPE. */
typedef enum clattn_alignment {
    CLATTN_ALIGN_TOP_LEFT = 0, /* shift = 0 [PyTorch is_causal] */
    CLATTN_ALIGN_BOTTOM_RIGHT, /* shift = kv_length[b] - q_length[b] [FlashAttention >= 2.1]; negative is
                                  allowed */
    CLATTN_ALIGN_OFFSET,       /* shift = offsets[b], or `offset` where offsets is NULL [ONNX with a cache] */
    CLATTN_ALIGN_COUNT
} clattn_alignment;

/* Where in the pipeline the scores are tapped [ONNX Attention qk_matmul_output_mode]. */
typedef enum clattn_tap {
    CLATTN_TAP_RAW = 0, /* scale * dot(q, k) */
    CLATTN_TAP_SOFTCAP, /* after softcap */
    CLATTN_TAP_MASKED,  /* after bias, ALiBi and masks; a masked score is -inf */
    CLATTN_TAP_SOFTMAX, /* the attention weights */
    CLATTN_TAP_COUNT
} clattn_tap;

typedef enum clattn_kernel {
    CLATTN_KERNEL_AUTO = 0,
    CLATTN_KERNEL_UNFUSED, /* scores, softmax and P*V apart; the only one that returns score taps, and on
                              most devices the only one that returns weights */
    CLATTN_KERNEL_FLASH,   /* tiled, online softmax: memory is inputs + outputs */
    CLATTN_KERNEL_DECODE,  /* few query rows, keys split and merged */
    CLATTN_KERNEL_COUNT
} clattn_kernel;

typedef enum clattn_rope_layout {
    CLATTN_ROPE_NONE = 0,
    CLATTN_ROPE_HALF,        /* pairs (x[d], x[d + R/2]) [Hugging Face, GPT-NeoX] */
    CLATTN_ROPE_INTERLEAVED, /* pairs (x[2d], x[2d+1]) [RoFormer, GPT-J, Meta's Llama] */
    CLATTN_ROPE_COUNT
} clattn_rope_layout;

typedef enum clattn_rope_scaling {
    CLATTN_ROPE_SCALING_NONE = 0,
    CLATTN_ROPE_SCALING_LINEAR, /* position / factor */
    CLATTN_ROPE_SCALING_NTK,    /* base * factor^(R / (R - 2)) */
    CLATTN_ROPE_SCALING_YARN,   /* not built yet: UNSUPPORTED */
    CLATTN_ROPE_SCALING_LLAMA3, /* not built yet: UNSUPPORTED */
    CLATTN_ROPE_SCALING_COUNT
} clattn_rope_scaling;

/* Rotary position embedding of Q and K before the scores: pair d of R/2 turns by position * base^(-2d/R).
 * Key j has position `position + j`; row i has `position + i + shift[b]`, so both count on one ruler.
 * Angles are exact to float32's rounding for positions up to 2^24: they are reduced to one turn in integers.
 * Source: Su et al. 2021, "RoFormer", section 3.2. */
typedef struct clattn_rope {
    clattn_rope_layout layout;
    int rotary_dim; /* R, even, at most D; 0: D. The rest of a head passes through. */
    double base;    /* 0: 10000 */
    int64_t position;
    clattn_rope_scaling scaling;
    double factor;            /* of the scaling, at least 1 */
    const int32_t *positions; /* [B, N] explicit positions: not built yet, UNSUPPORTED when set */
} clattn_rope;

/* One attention call:
 *   s[i,j] = scale * dot(q[i], k[j])
 *   s = softcap * tanh(s / softcap)                if softcap > 0
 *   s = s + bias[i,j] - slope[h] * |p - j|         p = i + shift[b]
 *   s = -inf where a mask hides (i, j)             causality, window, lengths, boolean mask: all must keep it
 *   m = max_j s,  l = sum_j exp(s - m)             plus exp(sink[h] - m) in l with sinks
 *   out[i] = sum_j exp(s - m) / l * v[j]           lse[i] = m + ln l, natural
 * A row that sees no key has out = 0, weights = 0 and lse = -inf (with a sink: lse = sink). A hidden NaN in K
 * or V reaches nothing; a NaN or infinity in a key that is seen propagates as IEEE 754 says. Storage is f32,
 * f16 or bf16; q and out, k and v may differ in pairs. Sums and softmax are float32. Sources: Vaswani et al.
 * 2017; Milakov and Gimelshein 2018 (online softmax); Dao et al. 2022 (FlashAttention). */
typedef struct clattn_attention_params {
    clattn_tensor q;   /* [B, H, Nq, D], last stride 1 */
    clattn_tensor k;   /* [B, Hkv, Nkv, D], last stride 1 */
    clattn_tensor v;   /* [B, Hkv, Nkv, Dv], k's type, last stride 1 */
    clattn_tensor out; /* [B, H, Nq, Dv], last stride 1 */
    clattn_tensor lse; /* optional, f32 [B, H, Nq] */
    /* Optional attention weights, after the softmax [B, H, Nq, Nkv], f32, f16 or bf16. */
    clattn_tensor weights;
    /* Optional score tap [B, H, Nq, Nkv], f32, taken at `scores_at`; -inf for keys past a length at every
     * tap. */
    clattn_tensor scores;
    clattn_tap scores_at;

    float scale;   /* 0: 1/sqrt(D) */
    float softcap; /* 0: none; else > 0. Before any bias or mask [FlashAttention, ONNX >= 1.22] */

    bool causal; /* row i sees j <= p; never inferred from shapes */
    clattn_alignment alignment;
    int32_t offset;         /* shift of every batch item with ALIGN_OFFSET */
    const int32_t *offsets; /* [B], host memory read during the call; with ALIGN_OFFSET */
    bool window;            /* row i sees p - window_left <= j <= p + window_right; -1 is unbounded */
    int32_t window_left, window_right;

    /* Bool, true keeps: [Nkv], [Nq,Nkv], [H,Nq,Nkv] or [B,H,Nq,Nkv]; a size of 1 repeats. */
    clattn_tensor mask;
    clattn_tensor bias;        /* f32, f16 or bf16, added; shapes as mask */
    const float *alibi_slopes; /* [H], host memory read during the call [Press et al. 2022] */
    const float *sinks;        /* [H] sink logits, host memory read during the call */

    /* [B], host memory read during the call: 0 to Nq, rows past it are not written; 0 to Nkv, keys past it
     * are not seen. */
    const int32_t *q_lengths, *kv_lengths;

    /* Applied to q and k before the scores. Scratch memory holds the turned copies; in a layer the projections
     * turn what they make, where they can. */
    clattn_rope rope;

    clattn_kernel kernel; /* which path; one that cannot do the call is an error, never silently another */
    int32_t splits;       /* key ranges of the decode path; 0: the planner decides */

    /* Places that are kept for what is not built yet: setting any of them returns UNSUPPORTED with its name. */
    const char *score_mod, *mask_mod; /* OpenCL C expressions over score, b, h, i, j */
    float dropout;                    /* probability, 0 to 1 */
    uint64_t dropout_seed;
    const int32_t *cu_seqlens_q, *cu_seqlens_kv; /* [B+1]: ragged batches */
    clattn_tensor block_table;                   /* [B, max_blocks]: paged K and V */
    int32_t page_size;
    clattn_tensor k_new, v_new; /* rows to append to a cache before the call */

    /* Optional scratch memory of at least clattn_attention_workspace() bytes, so that the call allocates
     * none. It must not be used by another command until this one has finished. */
    cl_mem workspace;
} clattn_attention_params;

/* Which kernel a call will take, and why. */
typedef struct clattn_plan {
    clattn_kernel kernel;
    char kernel_name[32];     /* the .cl file, such as "flash"; "unfused" for the three of that path */
    int tile_q, tile_kv;      /* query rows and keys of a tile; 0 where there is none */
    int work_group;           /* work-items */
    int splits;               /* key ranges computed apart; 1: none */
    bool matrix_instructions; /* the kernel uses some that a self-test found, such as x86's bfloat16 dot
                                 product */
    size_t local_bytes;       /* local memory of a work-group */
    size_t workspace_bytes;   /* scratch memory of the call */
    char why[256];            /* one line */
} clattn_plan;

/* Plan a call without doing it. A pure function of the context's device, its tuned rows and the shapes:
 * buffers may be NULL in q, k, v and out (an optional tensor counts as present when its rank is not 0).
 * Threads: any.   Blocking: never, but that the first bf16 call of a context compiles a small probe (30 ms on
 * a CPU; the cache keeps its answer).   Returns: as clattn_attention_enqueue. */
CLATTN_API clattn_status clattn_attention_plan(clattn_context *context, const clattn_attention_params *params,
                                               clattn_plan *plan);

/* Scratch bytes that clattn_attention_enqueue needs for this call; 0 is usual for flash.   As
 * clattn_attention_plan. */
CLATTN_API clattn_status clattn_attention_workspace(clattn_context *context,
                                                    const clattn_attention_params *params, size_t *bytes);

/* Compile ahead what a call needs, so that enqueueing it does not. Buffers may be NULL.
 * Threads: any.   Blocking: while the driver compiles (a second a kernel on a CPU; milliseconds from the
 * cache).   Returns: as clattn_attention_enqueue, and BUILD_FAILED with the driver's log in the log callback. */
CLATTN_API clattn_status clattn_attention_prepare(clattn_context *context,
                                                  const clattn_attention_params *params);

/* Enqueue one attention call on the caller's queue, in-order or out-of-order.
 *   wait_list  events[wait_count] of the same OpenCL context that the call waits for, or NULL and 0
 *   event      NULL, or receives an event that completes when every output is written; the caller releases it
 * Sizes of zero: B, H or Nq of 0 does nothing and succeeds; Nkv of 0 makes every row empty.
 * Lifetime  host arrays are read during the call; buffers must live until the commands are done.
 * Threads   any, one queue a thread.
 * Blocking  never for the result; a kernel not yet compiled is compiled now.
 * Returns   INVALID_ARGUMENT  rank, shape, type, stride, range, length or handle is wrong; nothing enqueued
 *           UNSUPPORTED       an option that is not built, or a kernel that cannot do this call; likewise
 *           OUT_OF_MEMORY     scratch memory
 *           BUILD_FAILED, DEVICE_LOST, DRIVER */
CLATTN_API clattn_status clattn_attention_enqueue(clattn_context *context, cl_command_queue queue,
                                                  const clattn_attention_params *params, cl_uint wait_count,
                                                  const cl_event *wait_list, cl_event *event);

/* Merge two partial results over disjoint keys into `a`, in place.
 *   lse = ln(exp(lse_a) + exp(lse_b)),  out = out_a exp(lse_a - lse) + out_b exp(lse_b - lse)
 * A part that saw no key (lse = -inf) changes nothing; its out may hold anything but is normally 0.
 * out_a, out_b [B, H, Nq, Dv] of one type (f32, f16, bf16), lse_a, lse_b f32 [B, H, Nq].
 * Lifetime, threads, blocking, returns: as clattn_attention_enqueue.
 * Source    Dao et al. 2022, section 3.1 */
typedef struct clattn_merge_params {
    clattn_tensor out_a, lse_a; /* read and written */
    clattn_tensor out_b, lse_b; /* read */
} clattn_merge_params;
CLATTN_API clattn_status clattn_merge_enqueue(clattn_context *context, cl_command_queue queue,
                                              const clattn_merge_params *params, cl_uint wait_count,
                                              const cl_event *wait_list, cl_event *event);

/* ------------------------------------------------------------------------------------------- layer --- */

/* Who computes y = x W^T + b. AUTO takes CLBlast on GPUs. On a CPU device clattn's own kernel competes: a row
 * of the context's tuned_rows decides; else a measurement of both, which the first layer or linear call on a
 * device makes (seconds: CLBlast compiles) and the cache folder keeps; else, without a cache folder, the
 * shipped rows. */
typedef enum clattn_projection {
    CLATTN_PROJECTION_AUTO = 0, /* the faster one */
    CLATTN_PROJECTION_CLBLAST,  /* CLBlast's GEMM; UNSUPPORTED where the library was built without it */
    CLATTN_PROJECTION_NATIVE,   /* clattn's own linear kernel */
    CLATTN_PROJECTION_COUNT
} clattn_projection;

/* A multi-head attention layer:
 *   q = x Wq^T + bq,  k = y Wk^T + bk,  v = y Wv^T + bv      y = x where y is absent (self-attention)
 *   heads are consecutive columns;  RoPE and attention as `attention` says;  out = concat(heads) Wo^T + bo
 * Weight matrices are [out, in], dense rows (last stride 1), as frameworks store them. Biases are optional. D
 * is wq's rows / heads, Dv is wv's rows / kv_heads; they may differ, and M need not be heads * D. x, y and
 * out share one type; so do the weight matrices, the biases being of either type. Source: Vaswani et al.
 * 2017, section 3.2.2. */
typedef struct clattn_layer_params {
    clattn_tensor x;              /* [B, Nq, M], last stride 1 */
    clattn_tensor y;              /* optional [B, Nkv, My], last stride 1: cross-attention */
    clattn_tensor out;            /* [B, Nq, Mo], last stride 1 */
    clattn_tensor wq, wk, wv, wo; /* [H*D, M], [Hkv*D, My], [Hkv*Dv, My], [Mo, H*Dv] */
    clattn_tensor bq, bk, bv, bo; /* optional [H*D], [Hkv*D], [Hkv*Dv], [Mo] */
    int32_t heads, kv_heads;      /* kv_heads 0: heads */
    /* Every option of attention; its q, k, v and out must be absent (the layer makes them). */
    clattn_attention_params attention;
    clattn_projection projection;
    /* Kept for QK-norm (RMS a head, before RoPE): not built yet, UNSUPPORTED when set. */
    clattn_tensor q_norm, k_norm;
    float norm_epsilon;
} clattn_layer_params;

/* Scratch bytes of a layer: q, k, v, the heads' result, and what its attention and conversions need. */
CLATTN_API clattn_status clattn_layer_workspace(clattn_context *context, const clattn_layer_params *params,
                                                size_t *bytes);

/* Which kernel the layer's attention takes; buffers may be NULL.   As clattn_attention_plan. Blocking: the
 * one-time measurement of clattn_projection, here as in the other functions of a layer. */
CLATTN_API clattn_status clattn_layer_plan(clattn_context *context, const clattn_layer_params *params,
                                           clattn_plan *plan);

/* Compile ahead all that the layer needs. CLBlast compiles its own kernels on their first call and keeps them
 * in memory, so that part is not covered.   As clattn_attention_prepare. */
CLATTN_API clattn_status clattn_layer_prepare(clattn_context *context, const clattn_layer_params *params);

/* Enqueue one layer. `params->attention.workspace`, where given, holds at least clattn_layer_workspace()
 * bytes.   Lifetime, threads, returns: as clattn_attention_enqueue; UNSUPPORTED also where projections need
 * CLBlast and the library was built without it.   Blocking: CLBlast compiles on its first call. */
CLATTN_API clattn_status clattn_layer_enqueue(clattn_context *context, cl_command_queue queue,
                                              const clattn_layer_params *params, cl_uint wait_count,
                                              const cl_event *wait_list, cl_event *event);

/* ------------------------------------------------------------------------------------------ linear --- */

/* One projection, which a layer does four times:
 *   out[b,n,m] = sum_k x[b,n,k] * w[m,k] + bias[m]
 * Storage is f32, f16 or bf16; sums are float32. x and out share one type; w and b may have others. */
typedef struct clattn_linear_params {
    clattn_tensor x;   /* [B, N, K], last stride 1 */
    clattn_tensor out; /* [B, N, M], x's type, last stride 1 */
    clattn_tensor w;   /* [M, K], dense rows (last stride 1), as frameworks store it */
    clattn_tensor b;   /* optional [M] */
    clattn_projection projection;
    /* Optional scratch memory of at least clattn_linear_workspace() bytes, so that the call allocates none.
     * It must not be used by another command until this one has finished. */
    cl_mem workspace;
} clattn_linear_params;

/* Who computes a projection, and why. */
typedef struct clattn_linear_choice {
    clattn_projection projection; /* CLBLAST or NATIVE */
    char kernel_name[32];         /* "clblast", or the .cl file, such as "linear_lanes" */
    size_t workspace_bytes;       /* scratch memory of the call */
    char why[256];                /* one line */
} clattn_linear_choice;

/* Scratch bytes that clattn_linear_enqueue needs: 0 for the native kernels, and for CLBlast what it takes to
 * convert x, w and out to dense float32 where they are not.   As clattn_linear_plan. */
CLATTN_API clattn_status clattn_linear_workspace(clattn_context *context, const clattn_linear_params *params,
                                                 size_t *bytes);

/* Plan a projection without doing it. Buffers may be NULL (b counts as present when its rank is not 0).
 * Threads: any.   Blocking: never, but for the one-time measurement of clattn_projection, here as in the
 * other functions of a linear call.   Returns: as clattn_linear_enqueue. */
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
 * Returns   INVALID_ARGUMENT  rank, shape, type, stride, range or handle is wrong; nothing was enqueued
 *           UNSUPPORTED       CLBlast is asked for or needed, and the library was built without it
 *           OUT_OF_MEMORY     scratch memory
 *           BUILD_FAILED, DEVICE_LOST, DRIVER */
CLATTN_API clattn_status clattn_linear_enqueue(clattn_context *context, cl_command_queue queue,
                                               const clattn_linear_params *params, cl_uint wait_count,
                                               const cl_event *wait_list, cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
