// test_errors.c: every refusal of an attention call: the status, a one-line reason, and nothing
// enqueued or written. Layer, merge and context are in test_errors_layer.c and
// test_errors_handles.c.
#define REFUSED_PARAMS clattn_attention_params
#include "refusals/refused.h"

#include <math.h>

static const int32_t too_long[] = {7, 8}, negative[] = {-1, 3}, rows_too_long[] = {6, 1},
                     five_and_four[] = {5, 4};

static const float plain_numbers[] = {1, 1, 1, 1}, with_nan[] = {1, 1, 1, NAN},
                   with_small[] = {1, 1, 1, 0.125f}, with_infinity[] = {1, INFINITY, 1, 1};

static const struct test_case good = {.name = "good",
                                      .batch = 2,
                                      .heads = 4,
                                      .kv_heads = 2,
                                      .n_q = 5,
                                      .n_kv = 7,
                                      .head_dim = 8,
                                      .mask = {.rank = 4},
                                      .bias = {.rank = 4},
                                      .weights = true};

static clattn_rope *half(clattn_attention_params *p) {
    p->rope.layout = CLATTN_ROPE_HALF;
    return &p->rope;
}

static clattn_rope *yarn(clattn_attention_params *p) {
    *half(p) = (clattn_rope){
        .layout = CLATTN_ROPE_HALF, .scaling = CLATTN_ROPE_SCALING_YARN, .factor = 2, .original_length = 64};
    return &p->rope;
}

// Scaling by factors of pairs. A head has four pairs.
static clattn_rope *pairs(clattn_attention_params *p) {
    half(p)->scaling = CLATTN_ROPE_SCALING_PAIRS;
    p->rope.pair_factors = plain_numbers, p->rope.pairs = 4;
    return &p->rope;
}

// Valid positions of rows and keys, in an existing buffer.
static clattn_rope *placed(clattn_attention_params *p) {
    static const int64_t rows[] = {2, 5}, keys[] = {2, 7};
    const cl_mem buffer = p->score.bias.buffer;
    half(p)->positions = clattn_tensor_dense(buffer, CLATTN_TYPE_I32, 2, rows);
    p->rope.k_positions = clattn_tensor_dense(buffer, CLATTN_TYPE_I32, 2, keys);
    return &p->rope;
}

// Valid appended rows, in an existing buffer.
static clattn_kv *grown(clattn_attention_params *p) {
    static const int64_t rows[] = {2, 2, 5, 8};
    p->kv.k_new = p->kv.v_new = clattn_tensor_dense(p->q.buffer, CLATTN_TYPE_F32, 4, rows);
    return &p->kv;
}

// i8 keys and values with one scale per row, in existing buffers.
static clattn_kv *scaled(clattn_attention_params *p) {
    static const int64_t rows[] = {2, 2, 7, 1};
    p->kv.k.type = p->kv.v.type = CLATTN_TYPE_I8;
    p->kv.k_scale = p->kv.v_scale = clattn_tensor_dense(p->kv.k.buffer, CLATTN_TYPE_F16, 3, rows);
    return &p->kv;
}

// Scales of groups. A row of 8 numbers has one group.
static clattn_kv *grouped(clattn_attention_params *p) {
    scaled(p)->k_scale.rank = 4;
    p->kv.k_scale.shape[3] = p->kv.k_scale.stride[3] = 1;
    return &p->kv;
}

// The same keys and values as a past.
static clattn_kv *past(clattn_attention_params *p) {
    scaled(p)->past_k = p->kv.k, p->kv.past_v = p->kv.v;
    p->kv.past_k_scale = p->kv.past_v_scale = p->kv.k_scale;
    return &p->kv;
}

static const float any_floats[] = {0, 0, 0, 0, 0, 0, 0, 0};
static clattn_tensor five(const clattn_attention_params *p) {
    static const int64_t count[] = {5};
    return clattn_tensor_dense(p->q.buffer, CLATTN_TYPE_F32, 1, count);
}

// Invalid shapes and options, which plan and prepare also refuse.
#define INVALID_SHAPES(X)                                                                                    \
    X(q_rank, "q", p->q.rank = 3)                                                                            \
    X(k_rank, "k", p->kv.k.rank = 5)                                                                         \
    X(v_rank, "v", p->kv.v.rank = -1)                                                                        \
    X(lse_rank, "lse", p->lse.rank = 4)                                                                      \
    X(k_batch, "k", p->kv.k.shape[0] = 1)                                                                    \
    X(v_batch, "v", p->kv.v.shape[0] = 1)                                                                    \
    X(v_keys, "v", p->kv.v.shape[2] = 6)                                                                     \
    X(v_heads, "v", p->kv.v.shape[1] = 1)                                                                    \
    X(sinks_count, "sinks_device: has 5 numbers", (p->score.sinks = NULL, p->score.sinks_device = five(p)))  \
    X(sinks_type, "sinks_device: type i8",                                                                   \
      (p->score.sinks_device = five(p), p->score.sinks = NULL, p->score.sinks_device.type = CLATTN_TYPE_I8)) \
    X(sinks_twice, "sinks_device: is given beside sinks",                                                    \
      (p->score.sinks = any_floats, p->score.sinks_device = five(p)))                                        \
    X(k_head_dim, "k", p->kv.k.shape[3] = 7)                                                                 \
    X(out_head_dim, "out", p->out.shape[3] = 7)                                                              \
    X(out_rows, "out", p->out.shape[2] = 4)                                                                  \
    X(out_heads, "out", p->out.shape[1] = 2)                                                                 \
    X(lse_rows, "lse", p->lse.shape[2] = 4)                                                                  \
    X(weights_keys, "weights", p->weights.shape[3] = 6)                                                      \
    X(weights_rank, "weights", p->weights.rank = 3)                                                          \
    X(negative_size, "q", p->q.shape[2] = -1)                                                                \
    X(negative_stride, "q", p->q.stride[1] = -1)                                                             \
    X(negative_stride_of_out, "out", p->out.stride[0] = -5)                                                  \
    X(negative_offset, "v", p->kv.v.offset = -1)                                                             \
    X(last_stride_of_q, "q", p->q.stride[3] = 2)                                                             \
    X(last_stride_of_k, "k", p->kv.k.stride[3] = 0)                                                          \
    X(last_stride_of_v, "v", p->kv.v.stride[3] = 2)                                                          \
    X(last_stride_of_out, "out", p->out.stride[3] = 2)                                                       \
    X(out_repeats, "out", p->out.stride[1] = 0)                                                              \
    X(lse_repeats, "lse", p->lse.stride[0] = 0)                                                              \
    X(weights_repeat, "weights", p->weights.stride[2] = 0)                                                   \
    X(q_bool, "q", p->q.type = CLATTN_TYPE_BOOL)                                                             \
    X(q_no_type, "q", p->q.type = (clattn_type)77)                                                           \
    X(k_no_type, "k", p->kv.k.type = (clattn_type)(-1))                                                      \
    X(v_without_scale, "v_scale: ", p->kv.v.type = CLATTN_TYPE_I8)                                           \
    X(scale_type, "k_scale: type i32", scaled(p)->k_scale.type = CLATTN_TYPE_I32)                            \
    X(two_scale_types, "v_scale: type bf16", scaled(p)->v_scale.type = CLATTN_TYPE_BF16)                     \
    X(groups_of_four, "k_scale: 2 groups of rows of 8 numbers", grouped(p)->k_scale.shape[3] = 2)            \
    X(groups_that_repeat, "k_scale: last stride 0",                                                          \
      (grouped(p)->k_scale.shape[3] = 2, p->kv.k_scale.stride[3] = 0))                                       \
    X(no_groups, "k_scale: 0 groups", grouped(p)->k_scale.shape[3] = 0)                                      \
    X(i4_without_scale, "k_scale: is absent",                                                                \
      (p->kv.k.type = CLATTN_TYPE_I4, p->kv.k.shape[3] = p->kv.k.stride[2] = 4))                             \
    X(zero_of_floats, "k_zero: is for i8", p->kv.k_zero = p->kv.k)                                           \
    X(zero_type, "v_zero: its type, shape and strides",                                                      \
      (scaled(p), p->kv.v_zero = p->kv.v_scale, p->kv.v_zero.type = CLATTN_TYPE_F32))                        \
    X(zero_stride, "k_zero: its type, shape and strides",                                                    \
      (scaled(p), p->kv.k_zero = p->kv.k_scale, p->kv.k_zero.stride[1] = 70))                                \
    X(zero_rank, "k_zero: rank 3", (grouped(p), p->kv.k_zero = p->kv.v_scale))                               \
    X(past_zero_alone, "past_k_zero, past_v_zero: is given without past_k", p->kv.past_k_zero = p->q)        \
    X(past_scale_type, "past_v_scale: must have the type and the groups of v_scale",                         \
      past(p)->past_v_scale.type = CLATTN_TYPE_F32)                                                          \
    X(past_without_zero, "past_k_zero: is given with k_zero", (past(p), p->kv.k_zero = p->kv.k_scale))       \
    X(past_zero_elsewhere, "past_v_zero: offset 3: must be that of past_v_scale",                            \
      (past(p), p->kv.v_zero = p->kv.past_v_zero = p->kv.v_scale, p->kv.past_v_zero.offset += 3))            \
    X(out_bool, "out", p->out.type = CLATTN_TYPE_BOOL)                                                       \
    X(lse_f16, "lse", p->lse.type = CLATTN_TYPE_F16)                                                         \
    X(weights_bool, "weights", p->weights.type = CLATTN_TYPE_BOOL)                                           \
    X(sums_of_half, "f32 is needed", (p->weights.shape[2] = 1, p->weights.type = CLATTN_TYPE_F16))           \
    X(sums_keys, "their sums over rows", (p->weights.shape[2] = 1, p->weights.shape[3] = 6))                 \
    X(heads_not_divisible, "axes are q [B, H, Nq, D] and k [B, Hkv, Nkv, D]",                                \
      p->kv.k.shape[1] = p->kv.v.shape[1] = 3)                                                               \
    X(mask_type, "mask", p->score.mask.type = CLATTN_TYPE_F32)                                               \
    X(mask_short, "mask", p->score.mask.shape[3] = 6)                                                        \
    X(mask_rows, "mask", p->score.mask.shape[2] = 4)                                                         \
    X(mask_batch, "mask", p->score.mask.shape[0] = 3)                                                        \
    X(mask_rank, "mask", p->score.mask.rank = 5)                                                             \
    X(bias_type, "bias", p->score.bias.type = CLATTN_TYPE_BOOL)                                              \
    X(bias_heads, "bias", p->score.bias.shape[1] = 3)                                                        \
    X(bias_short, "bias", p->score.bias.shape[3] = 6)                                                        \
    X(kv_length_too_long, "kv_length", p->score.kv_lengths = too_long)                                       \
    X(kv_length_negative, "kv_length", p->score.kv_lengths = negative)                                       \
    X(q_length_too_long, "q_length", p->score.q_lengths = rows_too_long)                                     \
    X(q_length_negative, "q_length", p->score.q_lengths = negative)                                          \
    X(window_left, "window", (p->score.window = true, p->score.window_left = -2))                            \
    X(window_right, "window", (p->score.window = true, p->score.window_right = -2))                          \
    X(head_scales_and_scale, "head_scales", (p->score.head_scales = plain_numbers, p->score.scale = 0.5f))   \
    X(head_scale_nan, "head_scales", p->score.head_scales = with_nan)                                        \
    X(head_scale_infinite, "head_scales", p->score.head_scales = with_infinity)                              \
    X(slope_nan, "alibi_slopes", p->score.alibi_slopes = with_nan)                                           \
    X(sink_nan, "sinks", p->score.sinks = with_nan)                                                          \
    X(scale_nan, "scale", p->score.scale = NAN)                                                              \
    X(scale_infinite, "scale", p->score.scale = INFINITY)                                                    \
    X(softcap_negative, "softcap", p->score.softcap = -1)                                                    \
    X(softcap_nan, "softcap", p->score.softcap = NAN)                                                        \
    X(dropout_negative, "dropout", p->score.dropout = -0.1f)                                                 \
    X(dropout_all, "dropout", p->score.dropout = 1)                                                          \
    X(dropout_nan, "dropout", p->score.dropout = NAN)                                                        \
    X(alignment, "alignment", p->score.alignment = CLATTN_ALIGN_COUNT)                                       \
    X(kernel, "kernel", p->kernel = CLATTN_KERNEL_COUNT)                                                     \
    X(kernel_negative, "kernel", p->kernel = (clattn_kernel)(-1))                                            \
    X(block_table, "block_table: rank 4", p->kv.block_table = p->q)                                          \
    X(page_size, "page_size: is given without block_table", p->kv.page_size = 16)                            \
    X(scores_at, "scores_at", p->scores_at = CLATTN_TAP_COUNT)                                               \
    X(splits, "splits", p->splits = -1)                                                                      \
    X(rope_layout, "rope", p->rope.layout = CLATTN_ROPE_COUNT)                                               \
    X(rope_scaling, "rope", half(p)->scaling = CLATTN_ROPE_SCALING_COUNT)                                    \
    X(rotary_odd, "rotary_dim", half(p)->rotary_dim = 3)                                                     \
    X(rotary_wide, "rotary_dim", half(p)->rotary_dim = 10)                                                   \
    X(rotary_negative, "rotary_dim", half(p)->rotary_dim = -2)                                               \
    X(rope_base, "base", half(p)->base = -1)                                                                 \
    X(rope_base_nan, "base", half(p)->base = (double)NAN)                                                    \
    X(rope_factor, "factor", half(p)->scaling = CLATTN_ROPE_SCALING_LINEAR)                                  \
    X(yarn_length, "original_length", (half(p)->factor = 2, p->rope.scaling = CLATTN_ROPE_SCALING_YARN))     \
    X(yarn_range, "beta_fast", (yarn(p)->beta_slow = 40, p->rope.beta_fast = 32))                            \
    X(yarn_attention, "attention_factor", yarn(p)->attention_factor = -1)                                    \
    X(llama3_range, "low_factor", (yarn(p)->low_factor = 4, p->rope.scaling = CLATTN_ROPE_SCALING_LLAMA3))   \
    X(dynamic_length, "rope.length", yarn(p)->scaling = CLATTN_ROPE_SCALING_DYNAMIC)                         \
    X(pairs_none, "rope.pair_factors: is NULL", half(p)->scaling = CLATTN_ROPE_SCALING_PAIRS)                \
    X(pairs_count, "rope.pairs: 3 factors", pairs(p)->pairs = 3)                                             \
    X(pairs_small, "rope.pair_factors: 0.125 for pair 3", pairs(p)->pair_factors = with_small)               \
    X(pairs_nan, "rope.pair_factors: nan", pairs(p)->pair_factors = with_nan)                                \
    X(pairs_attention, "attention_factor", pairs(p)->attention_factor = -1)                                  \
    X(pairs_alone, "rope.pair_factors: has no effect", pairs(p)->scaling = CLATTN_ROPE_SCALING_NONE)         \
    X(positions_type, "rope.positions", placed(p)->positions.type = CLATTN_TYPE_F32)                         \
    X(positions_rank, "rope.positions", placed(p)->positions.rank = 3)                                       \
    X(positions_rows, "rope.positions", placed(p)->positions.shape[1] = 4)                                   \
    X(positions_batch, "rope.positions", placed(p)->positions.shape[0] = 3)                                  \
    X(positions_counted, "rope.position:", placed(p)->position = 3)                                          \
    X(k_positions_rows, "rope.k_positions", placed(p)->k_positions.shape[1] = 5)                             \
    X(k_positions_absent, "rope.k_positions", placed(p)->k_positions = (clattn_tensor){0})                   \
    X(k_positions_alone, "rope.k_positions", placed(p)->positions = (clattn_tensor){0})                      \
    X(sections_sum, "rope.sections", placed(p)->sections[1] = 3)                                             \
    X(sections_negative, "rope.sections", (placed(p)->sections[0] = 5, p->rope.sections[1] = -1))            \
    X(sections_rank, "rope.positions", placed(p)->sections[2] = 4)                                           \
    X(sections_alone, "rope.sections", half(p)->sections[0] = 4)                                             \
    X(k_new_alone, "v_new", grown(p)->v_new = (clattn_tensor){0})                                            \
    X(v_new_alone, "k_new", grown(p)->k_new = (clattn_tensor){0})                                            \
    X(k_new_heads, "k", grown(p)->k_new.shape[1] = 1)                                                        \
    X(k_new_size, "k", grown(p)->k_new.shape[3] = 7)                                                         \
    X(rotation_three, "k_rotation: 3 of rows of 8: must be a power of two", p->kv.k_rotation = 3)            \
    X(rotation_below, "v_rotation: -2 of rows of 8", p->kv.v_rotation = -2)                                  \
    X(rotation_one, "v_rotation: 1 of rows of 8", p->kv.v_rotation = 1)                                      \
    X(rotation_wide, "k_rotation: 16 of rows of 8", p->kv.k_rotation = 16)                                   \
    X(rotation_of_a_view, "v_rotation: 0: v is a view of k", (p->kv.v = p->kv.k, p->kv.k_rotation = 8))      \
    X(no_blocks, "k: rows of 8 numbers are no whole blocks of q8_0",                                         \
      p->kv.k.type = p->kv.v.type = CLATTN_TYPE_Q8_0)                                                        \
    X(k_new_type, "k_new", grown(p)->k_new.type = CLATTN_TYPE_I8)                                            \
    X(v_new_type, "v_new", grown(p)->v_new.type = CLATTN_TYPE_F16)                                           \
    X(v_new_rows, "v_new", grown(p)->v_new.shape[2] = 4)                                                     \
    X(k_new_rows, "k_new: 8", (grown(p), p->kv.k_new.shape[2] = p->kv.v_new.shape[2] = 8))                   \
    X(k_new_length, "k_new: 5 rows of item 1", (grown(p), p->score.kv_lengths = five_and_four))              \
    X(cache_repeats, "k", grown(p)->k.stride[0] = 0)                                                         \
    X(sections_mixed, "rope.sections_interleaved", half(p)->sections_interleaved = true)

// Errors that need a buffer to detect, so plan and prepare accept them.
#define INVALID_BUFFERS(X)                                                                                   \
    X(q_absent, "q", p->q.buffer = NULL)                                                                     \
    X(v_absent, "v", p->kv.v.buffer = NULL)                                                                  \
    X(out_absent, "out", p->out.buffer = NULL)                                                               \
    X(stride_leaves, "v", p->kv.v.stride[1] = 100000)                                                        \
    X(stride_of_out_leaves, "out", p->out.stride[2] = 100000)                                                \
    X(stride_overflows, "k", p->kv.k.stride[0] = INT64_MAX / 2)                                              \
    X(stride_overflows_twice, "k", p->kv.k.stride[0] = p->kv.k.stride[1] = INT64_MAX)                        \
    X(shape_overflows, "q", p->q.shape[0] = p->kv.k.shape[0] = p->kv.v.shape[0] = INT64_MAX / 4)             \
    X(offset_leaves, "out", p->out.offset = 1000000)                                                         \
    X(offset_overflows, "q", p->q.offset = INT64_MAX)                                                        \
    X(mask_leaves, "mask", p->score.mask.offset = 100000)                                                    \
    X(bias_leaves, "bias", p->score.bias.stride[0] = 100000)                                                 \
    X(lse_leaves, "lse", p->lse.offset = 100000)                                                             \
    X(weights_leave, "weights", p->weights.offset = 100000)                                                  \
    X(score_mod, "score_mod", p->score.score_mod = "score)")                                                 \
    X(mask_mod, "mask_mod", p->score.mask_mod = "")                                                          \
    X(mod_buffer_alone, "mod_buffers[1]", p->score.mod_buffers[1] = p->q)                                    \
    X(positions_leave, "rope.positions", placed(p)->positions.offset = 100000)                               \
    X(k_new_leaves, "k_new", grown(p)->k_new.offset = 100000)                                                \
    X(k_new_in_the_cache, "overlaps", grown(p)->k_new.buffer = p->kv.k.buffer)                               \
    X(cache_over_mask, "overlaps", grown(p)->k.buffer = p->score.bias.buffer)                                \
    X(k_positions_leave, "rope.k_positions", placed(p)->k_positions.offset = 100000)                         \
    X(mod_buffer_leaves, "mod_buffers[0]",                                                                   \
      (p->score.mask_mod = "j > i", p->score.mod_buffers[0] = p->q,                                          \
       p->score.mod_buffers[0].offset = 100000))

// Unsupported combinations. The message names the option.
#define UNSUPPORTED_OPTIONS(X)                                                                               \
    X(turned_i8, "rope of i8 keys", (half(p), p->kv.k.type = p->kv.v.type = CLATTN_TYPE_I8))                 \
    X(turned_rotated, "rope of rotated keys", (half(p), p->kv.k_rotation = 8))

REFUSED_TABLE(invalid_shapes, INVALID_SHAPES)
REFUSED_TABLE(invalid_buffers, INVALID_BUFFERS)
REFUSED_TABLE(unsupported_options, UNSUPPORTED_OPTIONS)

REFUSED_CASES(shapes, invalid_shapes, good, params, clattn_attention, CLATTN_INVALID_ARGUMENT)
REFUSED_CASES(buffers, invalid_buffers, good, params, clattn_attention, CLATTN_INVALID_ARGUMENT)
REFUSED_CASES(options_not_built, unsupported_options, good, params, clattn_attention, CLATTN_UNSUPPORTED)

// Plan, workspace and prepare must refuse the same calls as enqueue.
static void check_ahead(const struct refusal *refusal, clattn_status want) {
    struct refused_case call = refused_case_begin(&good);
    clattn_context *context = harness()->context;
    const clattn_attention_params *p = &call.arrays.params;
    clattn_plan plan;
    size_t bytes;
    refusal->spoil(&call.arrays.params);
    ASSERT_REFUSED(refusal->name, clattn_attention_plan(context, p, &plan), want, refusal->word);
    ASSERT_REFUSED(refusal->name, clattn_attention_workspace(context, p, &bytes), want, refusal->word);
    ASSERT_REFUSED(refusal->name, clattn_attention_prepare(context, p), want, refusal->word);
    refused_case_end(&call, refusal->name, NULL);
}

START_TEST(the_good_call_is_good) {
    case_assert_kernels(&good);
}
END_TEST

START_TEST(shapes_ahead) {
    check_ahead(&invalid_shapes[_i], CLATTN_INVALID_ARGUMENT);
}
END_TEST

START_TEST(options_not_built_ahead) {
    check_ahead(&unsupported_options[_i], CLATTN_UNSUPPORTED);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {the_good_call_is_good, NULL};
    Suite *suite = suite_create("errors");
    TCase *group = harness_add(suite, "attention", tests);
    REFUSED_LOOP(group, shapes, invalid_shapes);
    REFUSED_LOOP(group, shapes_ahead, invalid_shapes);
    REFUSED_LOOP(group, buffers, invalid_buffers);
    REFUSED_LOOP(group, options_not_built, unsupported_options);
    REFUSED_LOOP(group, options_not_built_ahead, unsupported_options);
    return harness_run(suite);
}
