// problem.h: an attention call as the planner sees it: sizes, types and options, without OpenCL
// handles.
#ifndef CLATTN_PLAN_PROBLEM_H
#define CLATTN_PLAN_PROBLEM_H
#include <clattn/clattn.h>

#include "args/args.h"

typedef struct problem {
    int batch, heads, kv_heads, n_q, n_kv, head_dim, head_dim_v;
    clattn_type type_q, type_kv, type_out, type_bias, type_weights;
    // Type of v, as the knob TYPE_V. 0: the type of k.
    int type_v;
    // As the knobs SCALE_GROUP, SCALE_GROUP_V, TYPE_SCALE and ZERO_POINTS.
    int scale_group, scale_group_v, type_scale, zero_points;
    // Alignment in elements of every row of the tensor in its buffer: a power of two, at most 16.
    int align_q, align_k, align_v;
    bool past;      // the first keys are in a second pair of views
    bool paged;     // keys are in pages
    bool shared_kv; // a value is the first Dv numbers of its key's row
    int score_ops;  // changes to a score: bits of ARGS_SCORE_OPS in args.h
    // Why score_mod and mask_mod cannot be vectorised; NULL: they can.
    const char *lane_by_lane[2];
    const char *inserted; // their text as compiled into kernels; NULL: none
    bool dropout;         // dropout is on
    bool wants_weights;   // attention weights are returned
    bool sums_weights;    // weights are returned as sums over the query rows
    bool wants_scores;    // a score tap is returned
    clattn_kernel kernel; // the kernel that the caller wants
    int splits;           // key ranges that the caller wants; 0: any number
    int band;             // window width in keys; 0: unbounded on some side
    // Ragged batch: `batch` sequences, n_q and n_kv are the longest lengths, packed_rows is the
    // number of all query rows.
    bool ragged;
    int packed_rows;
} problem;

// True for types that need scales, per row, per group or per block.
#define TYPE_IS_QUANTISED(type) (CLATTN_TYPE_IS_SCALED(type) || clattn_type_numbers(type) > 1)

// The knob TYPE_V for these types of k and v; and the type of v that a problem has.
static inline int cla_type_v_knob(clattn_type k, clattn_type v) {
    return k == v ? 0 : v == CLATTN_TYPE_F32 ? ARGS_TYPE_V_F32 : (int)v;
}
static inline clattn_type cla_problem_type_v(const problem *p) {
    return p->type_v == 0                 ? p->type_kv
           : p->type_v == ARGS_TYPE_V_F32 ? CLATTN_TYPE_F32
                                          : (clattn_type)p->type_v;
}
#endif
