// problem.h: an attention call as the planner sees it: sizes, types and which options are on. No OpenCL
// handles.
#ifndef CLATTN_PLAN_PROBLEM_H
#define CLATTN_PLAN_PROBLEM_H
#include <clattn/clattn.h>

#include "args/args.h"

typedef struct problem {
    int batch, heads, kv_heads, n_q, n_kv, head_dim, head_dim_v;
    clattn_type type_q, type_kv, type_out, type_bias, type_weights;
    int type_v; // as the knob TYPE_V: of values that are stored in another way than keys; 0: as those
    // As the knobs SCALE_GROUP, SCALE_GROUP_V, TYPE_SCALE and ZEROS.
    int scale_group, scale_group_v, type_scale, zeros;
    // Elements to which every row of the tensor is aligned in its buffer: a power of two, at most 16.
    int align_q, align_k, align_v;
    bool past;      // the first keys lie in a second pair of views
    bool paged;     // keys lie in pages
    bool shared_kv; // a value is the first Dv numbers of its key's row, in memory
    int score_ops;  // what is done to a score: the bits ARGS_SCORE_OPS of args.h
    // Why score_mod and mask_mod are not made vectors of, where they are not; NULL: they are.
    const char *lane_by_lane[2];
    const char *inserted; // the text of those expressions in kernels; NULL: none
    bool dropout;         // some weights are dropped
    bool wants_weights;   // attention weights are returned
    bool sums_weights;    // and summed over the query rows
    bool wants_scores;    // a score tap is returned
    clattn_kernel kernel; // what the caller asks for
    int splits;           // likewise, 0: any
    int band;             // keys that its window lets a row see, 0: no window, or one that is open on a side
    // Sequences of different lengths: batch of them, the longest n_q and n_kv; all their query rows are so many.
    bool ragged;
    int packed_rows;
} problem;

// Whether numbers of a type are told by scales, of rows or of blocks.
#define TYPE_IS_QUANTISED(type) (CLATTN_TYPE_IS_SCALED(type) || clattn_type_numbers(type) > 1)

// The knob TYPE_V of keys and values, and the type of a problem's values.
static inline int cla_type_v_knob(clattn_type k, clattn_type v) {
    return k == v ? 0 : v == CLATTN_TYPE_F32 ? ARGS_TYPE_V_F32 : (int)v;
}
static inline clattn_type cla_problem_type_v(const problem *p) {
    return p->type_v == 0                 ? p->type_kv
           : p->type_v == ARGS_TYPE_V_F32 ? CLATTN_TYPE_F32
                                          : (clattn_type)p->type_v;
}
#endif
