// linear_attention.h: the arguments of the kernels of linear attention, for the host and the
// device.
#ifndef CLATTN_ARGS_LINEAR_ATTENTION_H
#define CLATTN_ARGS_LINEAR_ATTENTION_H
#include "args/args.h"

// Bits of linear_attention_args.flags.
#define LINEAR_STATE_DELTA 1     // The rule subtracts what the state has for the key.
#define LINEAR_STATE_GATED 2     // The rule has a decay.
#define LINEAR_STATE_NORM 4      // Rows of q and k are normalised.
#define LINEAR_STATE_RAGGED 8    // Sequences are packed.
#define LINEAR_STATE_READ 16     // `state` is present.
#define LINEAR_STATE_WRITE 32    // `new_state` is present.
#define LINEAR_STATE_FROM 64     // `state_indices` is present.
#define LINEAR_STATE_TO 128      // `new_state_indices` is present.
#define LINEAR_STATE_DRAFTS 256  // It has a column for each token.
#define LINEAR_STATE_COLUMNS 512 // The decay has a number for each key column.

#define LINEAR_STATE_MOST_DK 576

// Views of [B, H, T, D]; of beta [B, Hs, T]; of states [slots, Hs, Dk, Dv]. An axis of size 1 that
// repeats has stride 0.
typedef struct linear_attention_args {
    args_view q, k, v, decay, beta, out, state, new_state;
    args_i64 starts_offset, starts_stride; // cu_seqlens
    args_i64 from_offset, from_stride;     // state_indices
    args_i64 to_offset, to_row, to_column; // new_state_indices
    args_i32 tokens, head_dim_v;
    args_i32 q_group, k_group, v_group, out_group; // H / Hq, Hs / Hk, Hs / Hv, H / Hs
    args_i32 slots, new_slots, to_columns;
    args_i32 flags;
    args_f32 scale, epsilon;
} linear_attention_args;
ARGS_SIZE(linear_attention_args, 424);
#endif
