// problem.h: an attention call as the planner sees it: sizes, types and which options are on. No OpenCL
// handles.
#ifndef CLATTN_PLAN_PROBLEM_H
#define CLATTN_PLAN_PROBLEM_H
#include <clattn/clattn.h>

typedef struct problem {
    int batch, heads, kv_heads, n_q, n_kv, head_dim, head_dim_v;
    clattn_type type_q, type_kv, type_out, type_bias, type_weights;
    // Elements to which every row of the tensor is aligned in its buffer: a power of two, at most 16.
    int align_q, align_k, align_v;
    bool past;      // the first keys lie in a second pair of views
    bool paged;     // keys lie in pages
    bool shared_kv; // a value is the first Dv numbers of its key's row, in memory
    int score_ops;  // what is done to a score: the bits ARGS_SCORE_OPS of args.h
    // Why score_mod and mask_mod are not made vectors of, where they are not; NULL: they are.
    const char *lane_by_lane[2];
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
#endif
