/* sparse.h: lists of the keys that a query row attends to: the top-k of scores, and an indexer that
 * computes the scores. Included by clattn.h (letters, rules, contracts). See docs/sparse.md. */
#ifndef CLATTN_SPARSE_H
#define CLATTN_SPARSE_H

#include "attention.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The largest K of a list. */
#define CLATTN_SELECTION_MOST 4096

/* The keys that a row may choose, those that it must choose, and the tensors of the lists.
 *
 * An entry is a key, or a block of keys: entry e is the keys e * block to e * block + block - 1. A
 * row sees the keys j < kv_length, and j <= p with `causal`. It sees an entry if it sees one of the
 * entry's keys.
 *
 * A list has the forced entries that the row sees, and the best others, K in all, sorted by
 * position. It equals that of a stable sort by descending score: the lower position is chosen of
 * equal scores, and 0 equals -0. A NaN is never chosen for its score. Every device makes the same
 * list. */
typedef struct clattn_selection {
    /* i32 [B, Nq, Hs, K], written: the entries, ascending; -1 fills the rest. K is 1 to
     * CLATTN_SELECTION_MOST. */
    clattn_tensor indices;
    clattn_tensor counts; /* optional, i32 [B, Nq, Hs], written: entries of each list */
    /* Optional, f32 [B, Nq, Hs, K], written: the score of each entry; -infinity fills the rest. */
    clattn_tensor values;

    int32_t block; /* keys of an entry, 1 to 65536; 0: 1 */
    int32_t sinks; /* the first entries of each row are forced; 0: none */
    int32_t local; /* the last entries that the row sees are forced; 0: none */
    /* Choose no entry below `threshold`, not a NaN, except the best `minimum` entries. Forced
     * entries are chosen anyway, and count. minimum is 0 to K. */
    bool thresholded;
    float threshold;
    int32_t minimum;

    bool causal;                /* as in clattn_score, with its shifts */
    clattn_alignment alignment; /* as in clattn_score */
    int32_t offset;             /* as in clattn_score */
    const int32_t *offsets;     /* [B], host memory, as in clattn_score */
    /* [B], host memory; NULL: all. Rows from q_lengths[b] on are not written. */
    const int32_t *q_lengths, *kv_lengths;
    /* i32 [B]: kv_lengths in a buffer instead. Values are clamped to 0 .. Nkv. */
    clattn_tensor kv_lengths_device;

    /* [B+1], host memory: a ragged batch, as in clattn_attention_params. The tensors then have 1 in
     * place of B, and T rows in place of Nq. B is `sequences`. Without q_lengths. */
    const int32_t *cu_seqlens_q;
    int32_t sequences;
} clattn_selection;

/* How a call selects, and why. */
typedef struct clattn_selection_plan {
    char kernel_name[32];   /* the .cl file, such as "topk" */
    int work_group;         /* the most work-items of a work-group; 1 on a CPU */
    int segments;           /* parts of a row's entries that are searched apart; 1: none */
    int launches;           /* kernel launches of the call */
    size_t workspace_bytes; /* scratch memory of the context: at most 64 MiB, or a row's */
    char why[256];          /* one line */
} clattn_selection_plan;

/* ----------------------------------------------------------------------------------- top-k --- */

/* Select entries by given scores. Nkv is N * block.
 *    Sources: DeepSeek-V3.2, 2025; Yuan et al. 2025, "Native sparse attention" */
typedef struct clattn_topk_params {
    clattn_tensor scores; /* [B, Hs, Nq, N]: f32, f16 or bf16; the score of each entry */
    clattn_selection selection;
    const clattn_progress *progress; /* optional: see clattn_progress */
} clattn_topk_params;

/* Plan a call without running it: OK, or the error of the call. Buffers may be NULL; an optional
 * tensor counts as present when its rank is not 0. Threads: any. Not blocking. */
CLATTN_API clattn_status clattn_topk_plan(clattn_context *context, const clattn_topk_params *params,
                                          clattn_selection_plan *plan);

/* The prepare contract applies. */
CLATTN_API clattn_status clattn_topk_prepare(clattn_context *context, const clattn_topk_params *params);

/* Enqueue the call. B, Hs or Nq of 0 does nothing and succeeds. N of 0 makes every list empty.
 * sinks + local above K is INVALID_ARGUMENT.
 *    The enqueue contract applies. */
CLATTN_API clattn_status clattn_topk_enqueue(clattn_context *context, cl_command_queue queue,
                                             const clattn_topk_params *params, cl_uint wait_count,
                                             const cl_event *wait_list, cl_event *event);

/* --------------------------------------------------------------------------------- indexer --- */

/* How the scores of a block's keys become the score of an entry. */
typedef enum clattn_index_reduction {
    CLATTN_INDEX_MAX = 0, /* the greatest; NaN if one is NaN */
    CLATTN_INDEX_MEAN,    /* the mean of the keys that the row sees */
    CLATTN_INDEX_REDUCTION_COUNT
} clattn_index_reduction;

/* Compute index scores, and select entries by them. The score of key j for row i is
 *
 *    I[i,j] = sum over h of weights[i,h] * max(0, scale * dot(q[h,i], k[j]))
 *
 * List head s sums over the index heads h from s * H / Hs to (s + 1) * H / Hs - 1. With `linear`
 * the maximum with 0 is left out. Sums are float32. Scores are never stored whole: scratch memory
 * does not grow with Nkv.
 *    Source: DeepSeek-V3.2, 2025, "lightning indexer" */
typedef struct clattn_index_params {
    clattn_tensor q; /* [B, H, Nq, D]: f32, f16 or bf16; D is at most 576 */
    /* [B, Hs, N, D]: f32, f16, bf16, i8 or float8; with cu_seqlens_kv [1, Hs, T, D]; with
     * block_table [pages, Hs, page_size, D]. Hs divides H. */
    clattn_tensor k;
    /* k's shape without D: f32, f16 or bf16, a scale a row. Required for i8 and float8, and only
     * there. */
    clattn_tensor k_scale;
    clattn_tensor weights; /* optional [B, Nq, H]: f32, f16 or bf16; absent: 1 */
    float scale;           /* 0: 1 */
    bool linear;
    clattn_index_reduction reduction; /* with selection.block above 1 */
    clattn_tensor block_table;        /* as in clattn_kv; Nkv is max_blocks * page_size */
    int32_t page_size;                /* as in clattn_kv */
    /* [B+1], host memory: packed keys, with selection.cu_seqlens_q; without kv_lengths */
    const int32_t *cu_seqlens_kv;
    clattn_selection selection;
    const clattn_progress *progress; /* optional: see clattn_progress */
} clattn_index_params;

/* As clattn_topk_plan. */
CLATTN_API clattn_status clattn_index_plan(clattn_context *context, const clattn_index_params *params,
                                           clattn_selection_plan *plan);

/* The prepare contract applies. */
CLATTN_API clattn_status clattn_index_prepare(clattn_context *context, const clattn_index_params *params);

/* Enqueue the call. B, Hs or Nq of 0 does nothing and succeeds. Nkv of 0 makes every list empty. D
 * of 0 is INVALID_ARGUMENT.
 *    The enqueue contract applies. */
CLATTN_API clattn_status clattn_index_enqueue(clattn_context *context, cl_command_queue queue,
                                              const clattn_index_params *params, cl_uint wait_count,
                                              const cl_event *wait_list, cl_event *event);
#ifdef __cplusplus
}
#endif
#endif
