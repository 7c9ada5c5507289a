// layer_args.h: the run-time arguments of what a layer does between its projections and attention, in the manner of args.h.
#ifndef CLATTN_LAYER_ARGS_H
#define CLATTN_LAYER_ARGS_H
#include "args/args.h"
#include "args/linear_args.h"

// norm.cl: x[b,h,n,d], in place. flags: NORM_SCALES: divided by the root of its mean square; NORM_WEIGHTS: multiplied by
// weights, which begin at w_offset, plus `more`; ARGS_BATCH_ROWS: positions are shifted by the table of args.h.
#define NORM_SCALES 1
#define NORM_WEIGHTS 2
typedef struct norm_args {
    args_view x;
    args_i64 w_offset;
    args_i64 position; // of row 0, for RoPE
    args_i32 batch, heads, n, head_dim;
    args_i32 shared; // heads of a row that share a mean: 1, or all
    args_i32 rotary_dim, flags;
    args_f32 epsilon, more, amplitude; // amplitude: of RoPE's cosines and sines
} norm_args;
ARGS_SIZE(norm_args, 96);

// gate.cl: x[b,h,n,d] = x[b,h,n,d] * sigmoid(gate[b,0,n,c]), c = h, or h * head_dim + d where each number has its own.
typedef struct gate_args {
    args_view x, gate;
    args_i32 batch, heads, n, head_dim;
    args_i32 of_heads, unused;
} gate_args;
ARGS_SIZE(gate_args, 104);

// layer_few_lanes.cl: what its work-groups share, in one buffer: the projections, and how far all of them are. The counters are
// 0 before a launch and after it.
enum { SMALL_Q, SMALL_K, SMALL_V, SMALL_OUT, SMALL_PROJECTIONS };
typedef struct small_layer {
    linear_args of[SMALL_PROJECTIONS];
    args_i32 taken, done, left; // parts of the work that were taken and that are done; groups that have left
    args_i32 tiles;             // of query rows
} small_layer;
ARGS_SIZE(small_layer, 624);

#endif
