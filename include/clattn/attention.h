/* attention.h: attention: what becomes of a score, where keys and values lie, the call, its plan, merging two
 * results. Included by clattn.h, which tells the letters and the rules. */
#ifndef CLATTN_ATTENTION_H
#define CLATTN_ATTENTION_H

#include "rope.h"
#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

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
    CLATTN_KERNEL_UNFUSED, /* scores, softmax and P*V apart; the only one that returns score taps or takes score_mod and
                              mask_mod beside past keys of a byte, and on most devices the only one that returns weights */
    CLATTN_KERNEL_FLASH,  /* tiled, online softmax: memory is inputs + outputs */
    CLATTN_KERNEL_DECODE, /* at most 16 query rows, keys split and merged */
    CLATTN_KERNEL_COUNT
} clattn_kernel;

/* Whether a past that all batch items share (past_k and past_v of 1 in B) is read once for all of them, by a launch of its
 * own whose results are combined with those of the items' own keys. It changes rounding and time alone; docs/keys.md
 * explains it. [FlashInfer's cascade, Ye et al. 2024; Hydragen, Juravsky et al. 2024] It needs:
 *   batch     B above 1, and past_lengths all alike
 *   options   none that tells rows or keys of the past apart: no ALiBi, head_scales, score_mod, mask_mod, block_mask,
 *             dropout, weights, scores, splits, ragged batch or unfused kernel; every row sees the whole past, but for
 *             mask and bias
 *   strides   by which rows of several items are rows of one: q dense as [B, H, N, D] or [B, N, H, D], a mask or bias
 *             that lies like it or has a query axis of 1; one that repeats along heads or items, where Nq is 1
 * The two launches may be of two kernels, each of which rounds a score by some 1e-7 of it. Scores in the hundred thousands
 * are then off by hundredths: ask for one kernel (`kernel`), or for NEVER.
 * Several levels of prefixes are several calls with lse, which clattn_merge_enqueue joins: the items of a group are a part
 * of q's batch; a level of shared keys alone has k and v without rows; sinks go to one level, and causality to that of
 * the own keys. */
typedef enum clattn_cascade {
    CLATTN_CASCADE_AUTO = 0, /* the planner decides, and says why in the plan */
    CLATTN_CASCADE_NEVER,    /* each item reads the past */
    CLATTN_CASCADE_ALWAYS, /* it is read once; UNSUPPORTED with the reason where that cannot be, as where no item has past rows;
                                of a batch of one nothing is shared, and it is as NEVER */
    CLATTN_CASCADE_COUNT
} clattn_cascade;

/* Its word, such as "flash"; "(unknown)" for a number that is none.   Lifetime: static.   Threads: any. */
CLATTN_API const char *clattn_kernel_name(clattn_kernel kernel);

#define CLATTN_MOD_BUFFERS 4

/* Query rows and keys of a block of a block mask. */
#define CLATTN_BLOCK_ROWS 64
#define CLATTN_BLOCK_KEYS 64

/* What becomes of a score, in this order; attention and layer share it:
 *   s[i,j] = scale * dot(q[i], k[j])               or head_scales[h] * dot(q[i], k[j])
 *   s = softcap * tanh(s / softcap)                if softcap > 0
 *   s = s + bias[i,j] - slope[h] * |p - j|         p = i + shift[b]
 *   s = score_mod(s, ...)                          the caller's own
 *   s = -inf where a mask hides (i, j)             causality, window, lengths, boolean mask, mask_mod: all must keep it
 * Host arrays are read during the call and copied. */
typedef struct clattn_score {
    float scale; /* 0: 1/sqrt(D) */
    /* [H], host memory: a scale for each head in place of the one above, which must then be 0; none may be
     * infinite or NaN, and 0 is 0 [Swin Transformer V2, Liu et al. 2022, its learned logit scale] */
    const float *head_scales;
    float softcap; /* 0: none; else > 0. Before any bias or mask [FlashAttention, ONNX >= 1.22] */

    bool causal; /* row i sees j <= p; never inferred from shapes */
    clattn_alignment alignment;
    int32_t offset;         /* shift of every batch item with ALIGN_OFFSET */
    const int32_t *offsets; /* [B], host memory; with ALIGN_OFFSET */
    bool window;            /* row i sees p - window_left <= j <= p + window_right; -1 is unbounded */
    int32_t window_left, window_right;

    /* [B], host memory: 0 to Nq, rows past it are not written; 0 to Nkv, keys past it are not seen. */
    const int32_t *q_lengths, *kv_lengths;

    /* Bool, true keeps: [Nkv], [Nq,Nkv], [H,Nq,Nkv] or [B,H,Nq,Nkv]; a size of 1 repeats. */
    clattn_tensor mask;
    clattn_tensor bias;        /* f32, f16 or bf16, added; shapes as mask */
    const float *alibi_slopes; /* [H], host memory [Press et al. 2022] */
    const float *sinks;        /* [H] sink logits, host memory; none may be NaN or +infinity */
    /* Or [H] in a buffer, f32, f16 or bf16, such as a model's learned ones. What it holds is not looked at: a NaN
     * makes its head's rows NaN. */
    clattn_tensor sinks_device;

    /* The caller's own steps, as OpenCL C expressions that are compiled into the kernel on first use; NULL: none. mods.h
     * has ready ones. [FlexAttention, Dong et al. 2024]
     *   score_mod  a float: what becomes of `score`. In kernels that work in other units it is still the natural one.
     *   mask_mod   not 0 where the key is seen, beside all the other masks.
     * Both know, as int: b, h the batch item and query head; i the position of the query row, shift[b] in it; j the key;
     * row the query row, so that i is row + shift[b]; q_length, kv_length of the batch item; as float, score_mod alone:
     * score. buffer0(x0, ...) to buffer3 read mod_buffers, with as many numbers as the view has axes: floats of f32, f16
     * and bf16, int of bool (0 or 1), i8 and i32. A number outside an axis reads its first or last element.
     * A text is one expression of a language in which nothing is written, nothing is read but the buffers, and nothing traps, loops or
     * calls: one of somebody who is not trusted can at worst be slow or wrong. In it are
     *   numbers of OpenCL C 1.2, true, false, INFINITY, NAN, and the constants INT_MAX, FLT_MAX, M_PI_F and their like
     *   - + ! ~ * / % << >> < <= > >= == != & ^ | && || ?: and brackets, with C's types and precedence; no comma, no assignment
     *   (int) and other scalar types but half and double, (float4)(x, y, z, w) and other vectors, .x, .s0, .hi of those
     *   built-in functions of mathematics, integers, common functions and relations (6.12.2, .3, .4, .6) but those with pointers;
     *   convert_TYPE and as_TYPE
     *   comments
     * and at most 1024 words, numbers, operators and brackets, 32 prefixes and casts in a row, and 40 brackets and prefixes in one
     * another. Whole numbers wrap around where they leave their type: in + - *, in a sign, in mul24, mad24 and mad_hi. Shifts count
     * modulo their bits. x / 0 is x, x % 0 is 0, and the least by -1 is itself. A float that becomes whole is cut off; it is 0 where it
     * is NaN or the type has no such number, and with _sat the nearest, NaN 0. clamp of whole numbers gives the upper bound where
     * that is below the lower. A vector of three has no fourth: no .hi, .odd or as_TYPE4 of it. All else is INVALID_ARGUMENT with the
     * place, and so is a buffer that is not there. In a context with mods_unchecked (runtime.h) a text may be any expression of
     * OpenCL C: code of the application's own, which may do what it likes to the process.
     * With either, no text has statements, characters, strings or directives, backslashes, pairs of question marks or carriage
     * returns without a line feed; every bracket and comment is closed, and it has at most 65536 characters.
     * What the compiler alone refuses is BUILD_FAILED with its words and their line and
     * column in the text, on the first call, prepare or enqueue; the context goes on. Which rows and keys an expression is asked
     * about, and how often, is the kernel's: keys and rows that other masks, kv_length and q_length hide are among them, and rows
     * and keys that there are none of; what it says of those is not looked at. An unchecked one must have no side effect and no
     * barrier, must not read past an array of its own, and divides whole numbers by 0 as its driver does. A kernel with vectors of
     * rows or keys computes it for a whole one where the library understands all of the text,
     * with the meaning that it has in C, else for one lane after another: the plan's `why` says which. Where a
     * driver's compiler refuses the vectors, the kernel takes one lane after another, too: the log tells, no plan
     * does. A text is part of a compiled kernel's name in the cache, and copied. A context keeps the 64 texts used
     * last, with what was compiled of them, and those of calls on their way: a text that went is compiled again, or
     * comes from the cache. */
    const char *score_mod, *mask_mod;
    clattn_tensor
        mod_buffers[CLATTN_MOD_BUFFERS]; /* of 1 to 4 axes, any type; absent ones have no name in the text */

    /* What mask and mask_mod hide, block by block, as clattn_block_mask_enqueue writes it for the same mask, mask_mod,
     * mod_buffers, positions and lengths: flash and decode kernels pass over blocks that no row sees, and do not ask about those that
     * all see, beyond causality, window and lengths. It changes time alone; one of another mask is not noticed and
     * hides or shows what it likes. [FlexAttention's BlockMask] */
    clattn_tensor block_mask;

    /* Dropout of the attention weights, after the softmax: out = sum_j p[i,j] / (1 - P) v[j] over the keys that are kept.
     * l, lse, the weights and the taps that are returned are those before it. The same P and seed keep the same keys on
     * every device and with every kernel: with
     *   w[0..3] = Philox4x32-10(counter (j / 4, i, h, b), key (seed's low word, seed's high word))
     * key j is kept where w[j % 4] >= floor(P * 2^32), all 32-bit words without sign; i is the query row of the call (not
     * its position), h the query head, b the batch item. A dropped weight is multiplied by 0: a NaN or infinity in the
     * value of a key that is seen propagates, dropped or not. clattn_dropout_mask_enqueue writes the mask. [Srivastava et
     * al. 2014; Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"] */
    float dropout;         /* P: at least 0, which is none, and below 1 */
    uint64_t dropout_seed; /* any; without effect where P is 0 */
} clattn_score;

/* Where keys and values lie; attention and layer share it. A layer makes k and v itself where both are absent.
 *
 *                    k                                  k_new            Nkv of the axes*       RoPE turns
 *   dense            [B, Hkv, N, D]                                      N                      q, k
 *     with k_new     the same, a cache                  [B, Hkv, n, D]   N                      q, k_new
 *   past             [B, Hkv, N, D] behind past_k       either           P + N                  q, k; with k_new q, k_new
 *   pages            [pages, Hkv, page_size, D]         either           max_blocks * page_size q; with k_new q, k_new
 *   ragged, packed   [1, Hkv, T, D], cu_seqlens_kv      refused          max_kv, and P          q, k
 *   ragged, dense    [B, Hkv, N, D], past or pages,     [1, Hkv, T, D]   as without cu_seqlens  as without cu_seqlens
 *                    with q packed                      packed as q
 *   * of mask, bias, weights, scores and block_mask. kv_lengths count all keys of an item: past rows, those of k, new ones; where
 *     they are NULL it has all that there is, past_length[b] + N behind a past.
 *
 *   What you have                                what to set
 *   a cache, and new rows for it                 k, v: the cache; k_new, v_new: the rows; score.kv_lengths: keys with the new ones
 *   a prefix that all items share                past_k, past_v: the prefix, with 1 in B; k, v: what each item has behind it
 *   padding on the right                         score.kv_lengths, score.q_lengths
 *   padding on the left                          score.mask_mod "j >= buffer0(b)", with the pads of each item in mod_buffers[0]
 *   items that lie elsewhere (cache_batch_idx)   block_table [B, 1]: where; page_size: the cache's rows
 *   steps of a decoder                           one params struct that is kept: lengths and offsets change from step to step
 *
 * v may be a view of k. Multi-head latent attention [DeepSeek-V2, 2024] in its absorbed form keeps one row a token, the latent
 * c (512 numbers) and the turned k_rope (64), as the key of all heads; its first 512 numbers are the value:
 *   k = clattn_tensor_bhsd(cache, type, B, 1, Nkv, 576); v = k; v.shape[3] = 512;
 *   q = [q_nope W_UK^T, q_rope] of each head, [B, H, Nq, 576]; the result [B, H, Nq, 512] is then multiplied by W_UV
 * which is the plain form, k = [c W_UK, k_rope] and v = c W_UV for each head, up to rounding. Its scale is the plain head's,
 * 1/sqrt(128 + 64), and must be given, since D is 576 here; with YaRN as DeepSeek's models have it, times mscale^2, mscale =
 * 0.1 mscale_all_dim ln(factor) + 1 (cosines and sines then have mscale / mscale_all_dim, which is 1, as attention_factor).
 * k_rope lies turned in the cache, and q_rope is turned by the caller. Scales and zero points are the same views of k's, of as
 * many groups as Dv has. A kernel for many query
 * heads on one key/value head then reads each row once, for its key and its value. */
typedef struct clattn_kv {
    clattn_tensor k; /* see the table */
    clattn_tensor v; /* as k, with Dv in place of D; its type may be another than k's */
    /* What stored numbers are multiplied by: each with i8, float8, i4 and u4, and only then; both of one type, f32, f16 or bf16.
     *   k's shape without D      a scale of all numbers of a row
     *   k's shape with D / G     one of each G that follow one another: G is a multiple of 32 that divides D. The last axis is
     *                            contiguous. Of v it may be another G.
     * A stride of 0 is one scale of many rows. A key that is stored so, or in blocks (q8_0, q4_0, q4_1: D and Dv are multiples of 32),
     * was turned before: RoPE of such keys is UNSUPPORTED but with k_new or pages, where it turns no key that is stored.
     * [KIVI, Liu et al. 2024, values by token; ONNX DequantizeLinear with block_size] */
    clattn_tensor k_scale, v_scale;
    /* Optional, zero points: a number is (stored - zero) * scale. Each has the type, shape and strides of its scales, and is any real
     * number. [KIVI; ONNX DequantizeLinear, whose zero points are whole] */
    clattn_tensor k_zero, v_zero;

    /* Past keys and values, such as a cache or a prefix: the keys of item b are its past rows [0, past_length[b]) and then the rows
     * of k, read where they lie. A size of 1 in B repeats: a prefix that all items share. Key j of an item is its past row j below
     * past_length[b], else row j - past_length[b] of k. A kv_length below past_length[b] ends within the past. Rows that are no
     * item's keys are not read. The past was turned before it was stored; row n of k has position `rope.position` + past_length[b] + n. */
    clattn_tensor past_k, past_v; /* [B or 1, Hkv, P, D or Dv], of k's and of v's type; rank 0: none */
    /* [B or 1, Hkv, P], or with D / G behind, of the type and G of k_scale and v_scale. */
    clattn_tensor past_k_scale, past_v_scale;
    clattn_tensor past_k_zero, past_v_zero; /* with k_zero and v_zero; also at the offset of their scales */
    const int32_t *past_lengths;            /* [B], host memory, 0 to P; NULL: P */

    /* Pages: k and v are pools, and key j of item b is row j % page_size of the page block_table[b][j / page_size]. Items may share
     * pages, and a number outside the pool reads its first or last page. [vLLM's PagedAttention, Kwon et al. 2023] */
    clattn_tensor block_table; /* i32 [B, max_blocks]; rank 0: none. Not with past_k */
    int32_t page_size;         /* rows of a page, 1 or more, with block_table */

    /* Optional, f32, f16 or bf16: new rows, written into k and v, which are caches, before the call looks at them: the last n of an
     * item's keys, from kv_lengths[b] - n on, or Nkv - n; where q_lengths are given and n is Nq, the first q_lengths[b] of them, from
     * kv_lengths[b] - q_lengths[b] on; of a ragged batch as many as the sequence has query rows. They are written, too, where Nq is 0.
     * All lie behind the past, which is read alone: new key j goes to row j - past_length[b] of k. In pages they go where block_table
     * says, and nowhere where it names no page; no row may be that of two items. Converted, quantised and turned as
     * clattn_append_enqueue does; rope.k_positions are those of the new rows. Where v is a view of k, v_new is the same view of
     * k_new, and the caller turns the rows before: rope is refused. */
    clattn_tensor k_new, v_new;

    /* Ragged batches: see clattn_attention_params. */
    const int32_t *cu_seqlens_kv;       /* [B+1], host memory: k and v are packed */
    clattn_tensor cu_seqlens_kv_device; /* i32 [B+1], or in a buffer */
    /* i32 [B], kv_lengths in a buffer: with cu_seqlens_q_device, of keys that are not packed [FlashAttention's seqused_k] */
    clattn_tensor kv_lengths_device;

    /* Optional: what k and v hold, past_k and past_v, too, is rotated: each row is multiplied by the normalised Hadamard matrix in blocks
     * of so many columns (rope.h), a power of two from 2 on that divides D, or Dv; D, or Dv, is even and at most 1024. 0: it is not. A
     * cache of 4 or 8 bits loses less so. New rows are rotated before they are stored, keys behind RoPE; q is rotated behind RoPE, in
     * scratch memory, so that scores, weights and lse are those of the plain rows up to rounding; out is rotated back where it lies,
     * once more rounded to its type. Keys that are stored were turned by RoPE before, as with i8. Where v is a view of k both are alike.
     * Gradients refuse it. [QuaRot, Ashkboos et al. 2024; llama.cpp's rotated caches] */
    int32_t k_rotation, v_rotation;
} clattn_kv;

/* One attention call: scores as clattn_score says, then
 *   m = max_j s,  l = sum_j exp(s - m)             plus exp(sink[h] - m) in l with sinks
 *   out[i] = sum_j exp(s - m) / l * v[j]           lse[i] = m + ln l, natural
 * A row that sees no key, or none whose score is above -inf, has out = 0, weights = 0 and lse = -inf (with a sink:
 * lse = sink). A hidden NaN in K or V reaches nothing; a NaN or infinity in a key that is seen propagates as IEEE 754
 * says; the weight of a hidden key is 0 there, too. Storage is f32, f16 or bf16; q and out, k and v may differ in
 * pairs. Sums and softmax are float32. Sources: Vaswani et al. 2017; Milakov and Gimelshein 2018 (online softmax);
 * Dao et al. 2022 (FlashAttention). */
typedef struct clattn_attention_params {
    clattn_tensor q;   /* [B, H, Nq, D] */
    clattn_kv kv;      /* keys and values */
    clattn_tensor out; /* [B, H, Nq, Dv] */
    clattn_tensor lse; /* optional, f32 [B, H, Nq] */
    /* Optional attention weights, after the softmax [B, H, Nq, Nkv], f32, f16 or bf16; or with 1 in place of Nq, f32, their sums over
     * the query rows, which tell the keys that a cache may forget [H2O, Zhang et al. 2023; SnapKV, Li et al. 2024]. */
    clattn_tensor weights;
    /* Optional score tap [B, H, Nq, Nkv], f32, taken at `scores_at`; -inf for keys past a length at every
     * tap. A key that something else hides has its true score until masks are applied, NaN of a NaN. */
    clattn_tensor scores;
    clattn_tap scores_at;

    clattn_score score;

    /* Applied to q and k before the scores. Scratch memory holds the turned copies, rounded to q's and k's types; in a layer the
     * projections turn what they make, where they can. */
    clattn_rope rope;

    clattn_kernel kernel; /* which path; one that cannot do the call is an error, never silently another */
    int32_t splits; /* key ranges of the decode path, so of at most 16 query rows; 0: the planner decides */
    clattn_cascade cascade; /* of a past that items share */

    /* Ragged batches: B = `sequences` of different lengths, packed one behind the other, without work for padding
     * [FlashAttention's varlen functions]. docs/keys.md explains them.
     *   q, out, lse   have 1 in place of B and all sequences' rows in place of Nq, [1, H, T, D]; memory [T, H, D] is such a view
     *   sequence b    has the rows cu_seqlens_q[b] to cu_seqlens_q[b + 1] - 1. The first number is 0, none is below the one
     *                 before (a sequence may have no rows), and the last is at most T
     *   keys          lie as clattn_kv's table says
     *   lengths       are the sequences' own, or q_lengths and kv_lengths, which are no greater. Rows of out and lse that are
     *                 nobody's are not written
     *   arrays [B]    have a number for each sequence; mask, bias, weights, scores, block mask have axes [.., max_q, max_kv]
     * All else is as in a dense batch of such lengths; rows, keys and positions count inside their sequence.
     * All arrays lie in host memory, or all in buffers. Of those in buffers the host knows only what max_q and max_kv bound.
     * Whatever stands there, nothing is read or written outside the tensors: a sequence begins at its number, held within
     * 0 and T, and ends at the next one, not before its own, after max_q rows or max_kv keys at most. Sequences may then share
     * rows of out. */
    /* B, with cu_seqlens_q or cu_seqlens_q_device. A batch of 0 sequences has arrays of one number in buffers, or no rows, T = 0, with
     * arrays in host memory. Otherwise cu_seqlens_q with `sequences` of 0 is INVALID_ARGUMENT. */
    int32_t sequences;
    const int32_t *cu_seqlens_q;       /* [B+1], host memory */
    clattn_tensor cu_seqlens_q_device; /* i32 [B+1], or in a buffer */
    /* The longest sequence's rows and keys, whatever lengths say: with arrays in host memory 0 (found there) or a bound of them, in
     * buffers the bound, at least 1 where there are sequences and T is. max_kv is of packed keys alone. */
    int32_t max_q, max_kv;

    /* Optional scratch memory of at least clattn_attention_workspace() bytes, so that the call takes none of
     * the context's but a few words a batch item, head or frequency. It must not be used by another command until this one has
     * finished, and the call's tensors lie behind those bytes where they share its buffer. */
    cl_mem workspace;

    /* Optional: the call tells of its work, can be cancelled, and blocks until it is done. */
    const clattn_progress *progress;
} clattn_attention_params;

/* Which kernel a call will take, and why. */
typedef struct clattn_plan {
    clattn_kernel kernel;
    char kernel_name[32]; /* the .cl file, such as "flash"; "unfused" for the three of that path */
    int tile_q, tile_kv;  /* query rows and keys of a tile; 0 where there is none */
    int work_group;       /* work-items */
    int splits;           /* key ranges computed apart; 1: none */
    int prefix_keys; /* of a shared past that is read once for all items, by a launch of its own; 0: none */
    bool matrix_instructions; /* the kernel uses some that a self-test found, such as x86's dot products
                                 of bfloat16 or of integers */
    size_t local_bytes;       /* local memory of a work-group */
    size_t workspace_bytes;   /* scratch memory of the call */
    char why[256];            /* one line */
} clattn_plan;

/* Plan a call without doing it, which also answers whether the device can do it: OK with kernel and workspace, or
 * UNSUPPORTED with the option's name in clattn_context_last_error(); what is planned with OK does not then fail for its
 * options, sizes or scratch memory; a workspace that is given counts as large enough here. A pure function of the
 * context's device, its tuned rows, what its probes found and the shapes: buffers may be NULL in q, k, v and out
 * (an optional tensor counts as present when its rank is not 0).
 * Threads: any.   Blocking: never, but that the first bf16 call of a context runs small probes (60 ms on a CPU; the
 * cache keeps their answers), as does the first of all on a CPU device that reports vectors of fewer than four floats
 * (clattn_capabilities.float_vector_width): which it has is then found, in seconds where its compiler is slow.
 * Returns: as clattn_attention_enqueue. */
CLATTN_API clattn_status clattn_attention_plan(clattn_context *context, const clattn_attention_params *params,
                                               clattn_plan *plan);

/* One kernel family, and what it says of a call. */
typedef struct clattn_family {
    char name[32];        /* such as "flash_lanes" */
    clattn_kernel kernel; /* the path that it is on */
    bool taken;           /* the plan's */
    char why[256];        /* one line: why it is taken, or why not */
} clattn_family;

/* Why the plan takes the kernel that it takes: each family in order of preference.
 *   families  room for `capacity` entries, or NULL with capacity 0 to ask for the number alone
 *   count     receives the number of families there are, which may be more than capacity
 * Otherwise as clattn_attention_plan. */
CLATTN_API clattn_status clattn_attention_families(clattn_context *context,
                                                   const clattn_attention_params *params,
                                                   clattn_family *families, size_t capacity, size_t *count);

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
 *   wait_list  events[wait_count] of the same OpenCL context that the call waits for, or NULL and 0; one that has
 *              already ended with an error is refused; whether one that does so later stops the call is the driver's choice.
 *              PoCL 3.1 aborts the process when such an event precedes several commands of one queue
 *   event      NULL, or receives an event that completes when every output is written, and NULL where the call fails;
 *              the caller releases it
 * Sizes of zero: B, H or Nq of 0 does nothing but write k_new and v_new, and succeeds; Nkv of 0 makes every row
 * empty; D or Dv of 0 is refused, and so is Hkv of 0 where H is not. Of q, k, v, out, k_new, v_new and block_table
 * those without elements need no buffer.
 * Lifetime  host arrays are read during the call; buffers must live until the commands are done.
 * Threads   any, one queue a thread.
 * Blocking  never for the result, unless with `progress`: then until all is done, also for what wait_list holds; a kernel
 *           not yet compiled is compiled now, and the first bf16 call of a context runs small probes, as for
 *           clattn_attention_plan.
 * Returns   INVALID_ARGUMENT  a rank, shape, type, stride, range, length, buffer or handle is wrong; nothing enqueued
 *           UNSUPPORTED       an option that is not built, or a kernel that cannot do this call; likewise
 *           OUT_OF_MEMORY     scratch memory, or what the driver needs for the launch
 *           CANCELLED         by params->progress
 *           BUILD_FAILED, DEVICE_LOST, DRIVER */
CLATTN_API clattn_status clattn_attention_enqueue(clattn_context *context, cl_command_queue queue,
                                                  const clattn_attention_params *params, cl_uint wait_count,
                                                  const cl_event *wait_list, cl_event *event);

/* Write params->score.block_mask for the call that `params` describes: what its mask and mask_mod hide and keep whole, on
 * the device. It can be given to that call and to any other for which mask, mask_mod and what they read say the same:
 * other layers, other q, k and v, other heads where its axis is 1.
 *   params->score.block_mask  bool [B or 1, H or 1, ceil(Nq / CLATTN_BLOCK_ROWS), ceil(Nkv / CLATTN_BLOCK_KEYS)], written
 *                             here: 0 no row of the block sees any of its keys, 1 some do, 2 all see all. On an axis of 1
 *                             it holds what is so for every batch item or head.
 *   params->q, kv, out        give sizes; their buffers and types are not looked at
 *   params->score             is checked as for the call; lse, weights, scores, rope, kernel, splits and cascade are not looked at
 * Lifetime, threads, blocking, returns: as clattn_attention_enqueue. */
CLATTN_API clattn_status clattn_block_mask_enqueue(clattn_context *context, cl_command_queue queue,
                                                   const clattn_attention_params *params, cl_uint wait_count,
                                                   const cl_event *wait_list, cl_event *event);

/* Write which keys dropout keeps in a call of these sizes, P and seed, as clattn_score tells of them.
 *   mask     bool [B, H, Nq, Nkv], written: 1 keeps
 *   dropout, dropout_seed    as in clattn_score
 * Sizes of zero: does nothing and succeeds.   Lifetime, threads, blocking, returns: as clattn_attention_enqueue. */
typedef struct clattn_dropout_mask_params {
    clattn_tensor mask;
    float dropout;
    uint64_t dropout_seed;
} clattn_dropout_mask_params;
CLATTN_API clattn_status clattn_dropout_mask_enqueue(clattn_context *context, cl_command_queue queue,
                                                     const clattn_dropout_mask_params *params,
                                                     cl_uint wait_count, const cl_event *wait_list,
                                                     cl_event *event);

/* Merge two partial results over disjoint keys into `a`, in place.
 *   lse = ln(exp(lse_a) + exp(lse_b)),  out = out_a exp(lse_a - lse) + out_b exp(lse_b - lse)
 * A part that saw no key (lse = -inf) changes nothing; its out may hold anything but is normally 0.
 * The parts' weights are right to a rounding of their float32 lse: 1 part in 1e6 where it is about 10, and with scores of 1e7
 * nothing of the number of keys is left in it. (The ranges of keys of one call keep maximum and sum apart.)
 * out_a, out_b [B, H, Nq, Dv] of one type (f32, f16, bf16), lse_a, lse_b f32 [B, H, Nq].
 * Sizes of zero: B, H or Nq of 0 does nothing and succeeds; Dv of 0 merges lse alone.
 * Lifetime, threads, blocking, returns: as clattn_attention_enqueue.
 * Source    Dao et al. 2022, section 3.1 */
typedef struct clattn_merge_params {
    clattn_tensor out_a, lse_a; /* read and written */
    clattn_tensor out_b, lse_b; /* read */
} clattn_merge_params;
CLATTN_API clattn_status clattn_merge_enqueue(clattn_context *context, cl_command_queue queue,
                                              const clattn_merge_params *params, cl_uint wait_count,
                                              const cl_event *wait_list, cl_event *event);
#ifdef __cplusplus
}
#endif
#endif
