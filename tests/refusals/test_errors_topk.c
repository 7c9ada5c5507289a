// test_errors_topk.c: every refusal of clattn_index_enqueue, most of which are those of
// clattn_topk_enqueue: the status, a one-line reason, and nothing written. Results are in
// test_topk.c.
#define REFUSED_PARAMS clattn_index_params
#include "refusals/refused.h"

#include <math.h>

enum { BATCH = 2, HEADS = 4, LISTS = 2, ROWS = 3, KEYS = 16, SIZE = 8, K = 5 };

static clattn_tensor numbers(const clattn_index_params *p, clattn_type type, int64_t n) {
    return clattn_tensor_dense(p->q.buffer, type, 1, &n);
}
static clattn_index_params *paged(clattn_index_params *p) {
    static const int64_t shape[] = {BATCH, 2};
    p->block_table = clattn_tensor_dense(p->q.buffer, CLATTN_TYPE_I32, 2, shape);
    p->page_size = KEYS;
    return p;
}
static clattn_index_params *packed(clattn_index_params *p) {
    static const int32_t ends[] = {0, 1, 3}, keys[] = {0, 7, 16};
    p->q.shape[0] = p->k.shape[0] = p->weights.shape[0] = p->selection.indices.shape[0] = 1;
    p->selection.cu_seqlens_q = ends, p->selection.sequences = 2, p->cu_seqlens_kv = keys;
    return p;
}
static clattn_index_params *long_list(clattn_index_params *p) {
    static const int64_t shape[] = {BATCH, ROWS, LISTS, 4097};
    p->selection.indices = clattn_tensor_dense(p->selection.indices.buffer, CLATTN_TYPE_I32, 4, shape);
    return p;
}
static clattn_index_params *scaled(clattn_index_params *p) {
    static const int64_t shape[] = {BATCH, LISTS, KEYS};
    p->k.type = CLATTN_TYPE_I8;
    p->k_scale = clattn_tensor_dense(p->k.buffer, CLATTN_TYPE_F32, 3, shape);
    return p;
}

static const int32_t too_many_rows[] = {ROWS + 1, 1}, too_many_keys[] = {1, KEYS + 1}, fewer[] = {-1, 1},
                     falling[] = {0, 2, 1}, late[] = {1, 2, 3}, far_end[] = {0, 1, 99}, good[] = {1, 2};

#define INVALID(X)                                                                                           \
    X(q_rank, "q: rank 3", p->q.rank = 3)                                                                    \
    X(q_type, "q: type i8", p->q.type = CLATTN_TYPE_I8)                                                      \
    X(q_wide, "q: head size 577", p->q.shape[3] = 577)                                                       \
    X(q_empty, "q: head size 0", p->q.shape[3] = 0)                                                          \
    X(k_width, "k: shape", p->k.shape[3] = SIZE / 2)                                                         \
    X(k_type, "k: type q4_0", p->k.type = CLATTN_TYPE_Q4_0)                                                  \
    X(k_nibbles, "k: type i4", p->k.type = CLATTN_TYPE_I4)                                                   \
    X(k_heads, "q: 4 index heads: must be a multiple", p->k.shape[1] = 3)                                    \
    X(no_scale, "k_scale: is absent", p->k.type = CLATTN_TYPE_I8)                                            \
    X(needless_scale, "k_scale: is for i8", scaled(p)->k.type = CLATTN_TYPE_F16)                             \
    X(scale_rows, "k_scale: size", scaled(p)->k_scale.shape[2] = 1)                                          \
    X(weights_shape, "weights: shape", p->weights.shape[2] = HEADS + 1)                                      \
    X(weights_type, "weights: type", p->weights.type = CLATTN_TYPE_I32)                                      \
    X(scale, "scale: inf", p->scale = INFINITY)                                                              \
    X(reduction, "reduction: 2", (p->selection.block = 2, p->reduction = CLATTN_INDEX_REDUCTION_COUNT))      \
    X(needless_reduction, "reduction: has no effect", p->reduction = CLATTN_INDEX_MEAN)                      \
    X(page_alone, "page_size: is given without block_table", p->page_size = 4)                               \
    X(page_rows, "page_size: 4: k has", paged(p)->page_size = 4)                                             \
    X(table_rows, "block_table: 1 lines", paged(p)->block_table.shape[0] = 1)                                \
    X(packed_alone, "cu_seqlens_kv: needs", p->cu_seqlens_kv = good)                                         \
    X(packed_pages, "cu_seqlens_kv: not with block_table", paged(packed(p))->q.shape[0] = 1)                 \
    X(packed_lengths, "kv_lengths: not with", packed(p)->selection.kv_lengths = good)                        \
    X(packed_items, "sequences: is 0 beside cu_seqlens_q", packed(p)->selection.sequences = 0)               \
    X(packed_negative, "must be the count of packed", packed(p)->selection.sequences = -1)                   \
    X(packed_batch, "q: 2 batch items",                                                                      \
      (packed(p), p->cu_seqlens_kv = NULL, p->k.shape[0] = 2, p->q.shape[0] = 2, p->weights.shape[0] = 2))   \
    X(packed_rows, "q_lengths: not with", packed(p)->selection.q_lengths = good)                             \
    X(packed_falls, "cu_seqlens_q: item 1 is 2 to 1", packed(p)->selection.cu_seqlens_q = falling)           \
    X(packed_late, "cu_seqlens_q: item 0 is 1", packed(p)->selection.cu_seqlens_q = late)                    \
    X(packed_far, "cu_seqlens_kv: item 1 is 1 to 99", packed(p)->cu_seqlens_kv = far_end)                    \
    X(sequences, "sequences: has no effect", p->selection.sequences = 2)                                     \
    X(list_rank, "indices: rank 3", p->selection.indices.rank = 3)                                           \
    X(list_type, "indices: type f32", p->selection.indices.type = CLATTN_TYPE_F32)                           \
    X(list_heads, "indices: shape", p->selection.indices.shape[2] = 1)                                       \
    X(list_empty, "indices: K is 0", p->selection.indices.shape[3] = 0)                                      \
    X(list_long, "indices: K is 4097", long_list(p)->selection.indices.shape[0] = BATCH)                     \
    X(count_type, "counts: rank 1", p->selection.counts = numbers(p, CLATTN_TYPE_F32, 6))                    \
    X(value_type, "values: type", (p->selection.values = p->selection.indices))                              \
    X(lengths_twice, "kv_lengths_device: is passed beside",                                                  \
      (p->selection.kv_lengths = good, p->selection.kv_lengths_device = numbers(p, CLATTN_TYPE_I32, BATCH))) \
    X(device_lengths, "kv_lengths_device: shape",                                                            \
      p->selection.kv_lengths_device = numbers(p, CLATTN_TYPE_I32, BATCH + 1))                               \
    X(sinks, "sinks: -1", p->selection.sinks = -1)                                                           \
    X(newest, "local: -2", p->selection.local = -2)                                                          \
    X(forced, "force more than the 5", (p->selection.sinks = 3, p->selection.local = 3))                     \
    X(forced_far, "force more than", (p->selection.sinks = INT32_MAX, p->selection.local = INT32_MAX))       \
    X(block, "block: -1", p->selection.block = -1)                                                           \
    X(block_long, "block: 65537", p->selection.block = 65537)                                                \
    X(threshold_alone, "threshold: has no effect", p->selection.threshold = 1)                               \
    X(minimum_alone, "minimum: has no effect", p->selection.minimum = 1)                                     \
    X(threshold, "threshold: is NaN", (p->selection.thresholded = true, p->selection.threshold = NAN))       \
    X(minimum, "minimum: 6", (p->selection.thresholded = true, p->selection.minimum = K + 1))                \
    X(alignment, "alignment: 3", p->selection.alignment = CLATTN_ALIGN_COUNT)                                \
    X(needless_alignment, "alignment: has no effect", p->selection.alignment = CLATTN_ALIGN_BOTTOM_RIGHT)    \
    X(needless_offset, "offset: is only used", p->selection.offset = 1)                                      \
    X(offset_twice, "offset: is passed beside",                                                              \
      (p->selection.causal = true, p->selection.alignment = CLATTN_ALIGN_OFFSET, p->selection.offset = 1,    \
       p->selection.offsets = good))                                                                         \
    X(rows_more, "q_lengths: item 0 is 4", p->selection.q_lengths = too_many_rows)                           \
    X(keys_more, "kv_lengths: item 1 is 17", p->selection.kv_lengths = too_many_keys)                        \
    X(keys_fewer, "kv_lengths: item 0 is -1", p->selection.kv_lengths = fewer)

#define INVALID_BUFFERS(X)                                                                                   \
    X(q_absent, "q: its buffer is NULL", p->q.buffer = NULL)                                                 \
    X(k_absent, "k: its buffer is NULL", p->k.buffer = NULL)                                                 \
    X(list_absent, "indices: its buffer is NULL", p->selection.indices.buffer = NULL)                        \
    X(q_leaves, "q: its last element", p->q.stride[0] = 100000)                                              \
    X(list_over_counts, "overlaps",                                                                          \
      (p->selection.counts = p->selection.indices, p->selection.counts.rank = 3))                            \
    X(list_over_q, "overlaps", p->selection.indices.buffer = p->q.buffer)

REFUSED_TABLE(invalid, INVALID)
REFUSED_TABLE(invalid_buffers, INVALID_BUFFERS)

static void make(struct refused_buffers *b, clattn_index_params *p) {
    const struct guarded_shape q = {CLATTN_TYPE_F32, 4, {BATCH, HEADS, ROWS, SIZE}, LAYOUT_DENSE},
                               k = {CLATTN_TYPE_F32, 4, {BATCH, LISTS, KEYS, SIZE}, LAYOUT_DENSE},
                               weights = {CLATTN_TYPE_F32, 3, {BATCH, ROWS, HEADS}, LAYOUT_DENSE},
                               list = {CLATTN_TYPE_I32, 4, {BATCH, ROWS, LISTS, K}, LAYOUT_DENSE};
    *p = (clattn_index_params){.q = refused_buffer(b, false, q), .k = refused_buffer(b, false, k)};
    p->weights = refused_buffer(b, false, weights);
    p->selection.indices = refused_buffer(b, true, list);
}

REFUSED_SUITE("errors_topk", make, clattn_index)
