// test_errors_linear_attention.c: every refusal of clattn_linear_attention_enqueue: the status, a
// one-line reason, and nothing written. Results are in test_linear_attention.c.
#define REFUSED_PARAMS clattn_linear_attention_params
#include "refusals/refused.h"

#include <math.h>

enum { BATCH = 2, HEADS = 4, TOKENS = 6, KEY = 8, VALUE = 10 };

// An i32 view of the memory of beta, which is an input.
static clattn_tensor indices(const clattn_linear_attention_params *p, int rank, int64_t a, int64_t b) {
    clattn_tensor t = clattn_tensor_dense(p->beta.buffer, CLATTN_TYPE_I32, rank, (const int64_t[]){a, b});
    t.offset = p->beta.offset;
    return t;
}

static void pack(clattn_linear_attention_params *p, int64_t numbers) {
    p->cu_seqlens_device = indices(p, 1, numbers, 0);
    p->q.shape[0] = p->k.shape[0] = p->v.shape[0] = p->decay.shape[0] = p->beta.shape[0] = p->out.shape[0] =
        1;
}

static void no_heads(clattn_linear_attention_params *p) {
    p->q.shape[1] = p->k.shape[1] = p->v.shape[1] = 0;
}

static void no_columns(clattn_linear_attention_params *p) {
    p->q.shape[3] = p->k.shape[3] = 0;
}

static void with_rule(clattn_linear_attention_params *p, clattn_linear_rule rule) {
    p->rule = rule;
}

#define INVALID(X)                                                                                           \
    X(q_rank, "q: rank 3", p->q.rank = 3)                                                                    \
    X(q_type, "q: type i8", p->q.type = CLATTN_TYPE_I8)                                                      \
    X(q_stride, "q: last stride", p->q.stride[3] = 2)                                                        \
    X(q_absent, "q: is absent", p->q = (clattn_tensor){0})                                                   \
    X(k_absent, "k: is absent", p->k = (clattn_tensor){0})                                                   \
    X(v_absent, "v: is absent", p->v = (clattn_tensor){0})                                                   \
    X(out_absent, "out: is absent", p->out = (clattn_tensor){0})                                             \
    X(k_type, "k: its type differs from q's", p->k.type = CLATTN_TYPE_F16)                                   \
    X(v_type, "v: its type differs from q's", p->v.type = CLATTN_TYPE_BF16)                                  \
    X(k_tokens, "k: shape [2,4,5,8]", p->k.shape[2] = TOKENS - 1)                                            \
    X(k_columns, "k: shape [2,4,6,7]", p->k.shape[3] = KEY - 1)                                              \
    X(v_tokens, "v: shape [2,4,5,10]", p->v.shape[2] = TOKENS - 1)                                           \
    X(v_batch, "v: shape [1,4,6,10]", p->v.shape[0] = 1)                                                     \
    X(k_heads, "heads: 4 of q, 3 of k and 4 of v", p->k.shape[1] = 3)                                        \
    X(q_heads, "heads: 3 of q", p->q.shape[1] = 3)                                                           \
    X(zero_heads, "heads: 0 of q", no_heads(p))                                                              \
    X(no_key, "q: head size 0", no_columns(p))                                                               \
    X(no_value, "v: head size 0", p->v.shape[3] = 0)                                                         \
    X(out_heads, "out: shape [2,3,6,10]", p->out.shape[1] = 3)                                               \
    X(out_columns, "out: shape [2,4,6,9]", p->out.shape[3] = VALUE - 1)                                      \
    X(out_repeats, "out: elements", p->out.stride[1] = 0)                                                    \
    X(no_decay, "decay: rule GATED_DELTA needs it", p->decay = (clattn_tensor){0})                           \
    X(no_beta, "beta: rule GATED_DELTA needs it", p->beta = (clattn_tensor){0})                              \
    X(spare_decay, "decay: rule DELTA has none", with_rule(p, CLATTN_LINEAR_RULE_DELTA))                     \
    X(spare_beta, "beta: rule GATED has none", with_rule(p, CLATTN_LINEAR_RULE_GATED))                       \
    X(spare_both, "decay: rule LINEAR has none", with_rule(p, CLATTN_LINEAR_RULE_LINEAR))                    \
    X(decay_heads, "decay: shape [2,2,6,8]", p->decay.shape[1] = 2)                                          \
    X(decay_columns, "decay: shape [2,4,6,7]", p->decay.shape[3] = KEY - 1)                                  \
    X(decay_rank, "decay: rank 3", p->decay.rank = 3)                                                        \
    X(beta_heads, "beta: shape [2,3,6]", p->beta.shape[1] = 3)                                               \
    X(beta_type, "beta: its type differs from decay's", p->beta.type = CLATTN_TYPE_F16)                      \
    X(beta_integers, "beta: type i32", p->beta.type = CLATTN_TYPE_I32)                                       \
    X(rule_below, "rule: -1", p->rule = (clattn_linear_rule)-1)                                              \
    X(rule_above, "rule: 4", p->rule = CLATTN_LINEAR_RULE_COUNT)                                             \
    X(scale_nan, "scale: nan", p->scale = NAN)                                                               \
    X(scale_infinite, "scale: inf", p->scale = INFINITY)                                                     \
    X(epsilon_below, "l2_epsilon: -1", p->l2_epsilon = -1)                                                   \
    X(epsilon_alone, "l2_epsilon: has no effect", p->l2_epsilon = 1)                                         \
    X(state_shape, "state: shape [2,4,8,9]", p->state.shape[3] = VALUE - 1)                                  \
    X(state_slots, "state: shape [1,4,8,10]", p->state.shape[0] = 1)                                         \
    X(state_type, "new_state: its type differs from state's", p->state.type = CLATTN_TYPE_F16)               \
    X(new_state_shape, "new_state: shape [2,4,7,10]", p->new_state.shape[2] = KEY - 1)                       \
    X(new_state_repeats, "new_state: elements", p->new_state.stride[0] = 0)                                  \
    X(indices_type, "state_indices: type f32",                                                               \
      (p->state_indices = indices(p, 1, BATCH, 0), p->state_indices.type = CLATTN_TYPE_F32))                 \
    X(indices_count, "state_indices: shape [3]", p->state_indices = indices(p, 1, BATCH + 1, 0))             \
    X(indices_rank, "state_indices: rank 2", p->state_indices = indices(p, 2, BATCH, 1))                     \
    X(new_indices_count, "new_state_indices: shape [1]", p->new_state_indices = indices(p, 1, 1, 0))         \
    X(new_indices_rows, "new_state_indices: shape [3,2]", p->new_state_indices = indices(p, 2, 3, 2))        \
    X(new_indices_rank, "new_state_indices: rank 3",                                                         \
      (p->new_state_indices = indices(p, 2, BATCH, 1), p->new_state_indices.rank = 3))                       \
    X(indices_alone, "state_indices: has no effect without state",                                           \
      (p->state_indices = indices(p, 1, BATCH, 0), p->state = (clattn_tensor){0}))                           \
    X(new_indices_alone, "new_state_indices: has no effect without new_state",                               \
      (p->new_state_indices = indices(p, 1, BATCH, 0), p->new_state = (clattn_tensor){0}))                   \
    X(packed_batch, "q: B is 2: must be 1 with cu_seqlens_device",                                           \
      p->cu_seqlens_device = indices(p, 1, BATCH + 1, 0))                                                    \
    X(packed_none, "cu_seqlens_device: size 0", pack(p, 0))                                                  \
    X(packed_rank, "cu_seqlens_device: rank 2", p->cu_seqlens_device = indices(p, 2, 3, 1))                  \
    X(packed_states, "state: shape [2,4,8,10] does not fit: [N, Hs, Dk, Dv] must be [3,4,8,10]", pack(p, 4))

#define INVALID_BUFFERS(X)                                                                                   \
    X(q_null, "q: its buffer is NULL", p->q.buffer = NULL)                                                   \
    X(out_null, "out: its buffer is NULL", p->out.buffer = NULL)                                             \
    X(decay_null, "decay: rule GATED_DELTA needs it", p->decay.buffer = NULL)                                \
    X(out_over_q, "overlaps", (p->out.buffer = p->v.buffer, p->out.offset = p->v.offset))                    \
    X(states_overlap, "overlaps", (p->new_state = p->state, p->new_state.offset += 1))                       \
    X(states_swapped, "overlaps",                                                                            \
      (p->state = p->new_state, p->state.stride[1] = p->state.stride[0],                                     \
       p->state.stride[0] = p->new_state.stride[1]))                                                         \
    X(out_leaves, "out: its last element", p->out.stride[0] = 1000000)                                       \
    X(state_leaves, "new_state: its last element", p->new_state.offset = 1000000)

REFUSED_TABLE(invalid, INVALID)
REFUSED_TABLE(invalid_buffers, INVALID_BUFFERS)

static void make(struct refused_buffers *b, clattn_linear_attention_params *p) {
    const struct guarded_shape rows = {CLATTN_TYPE_F32, 4, {BATCH, HEADS, TOKENS, KEY}, LAYOUT_DENSE},
                               values = {CLATTN_TYPE_F32, 4, {BATCH, HEADS, TOKENS, VALUE}, LAYOUT_DENSE},
                               beta = {CLATTN_TYPE_F32, 3, {BATCH, HEADS, TOKENS}, LAYOUT_DENSE},
                               state = {CLATTN_TYPE_F32, 4, {BATCH, HEADS, KEY, VALUE}, LAYOUT_DENSE};
    *p = (clattn_linear_attention_params){.rule = CLATTN_LINEAR_RULE_GATED_DELTA};
    p->q = refused_buffer(b, false, rows), p->k = refused_buffer(b, false, rows);
    p->v = refused_buffer(b, false, values), p->decay = refused_buffer(b, false, rows);
    p->beta = refused_buffer(b, false, beta), p->state = refused_buffer(b, false, state);
    p->new_state = refused_buffer(b, true, state), p->out = refused_buffer(b, true, values);
}

REFUSED_SUITE("errors_linear_attention", make, clattn_linear_attention)
