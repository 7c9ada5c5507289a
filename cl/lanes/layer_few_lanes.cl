// layer_few_lanes.cl: a self-attention layer of few rows in one launch, on CPUs: the projections of
// queries, keys and values (linear_few_lanes.cl), attention (flash_lanes.cl), and the output
// projection. Norms, gates, cached keys and the caller's expressions are unsupported.
//
// The launch has one work-group per core, of one work-item. Groups fetch parts of the work in order
// from a shared counter (parts.clh). A part of the next step is available only when all parts of
// the current step are done. So cores are woken once per layer. Enqueued by clattn_layer_enqueue.
#define PART_OF_LAYER
#define LANES_ROWS // for flash_lanes.cl; linear_few_lanes.cl includes lanes.clh first
#include "linear/linear_few_lanes.cl"
#include "lanes/flash_lanes.cl"
#include "base/parts.clh"

#if TYPE_Q != TYPE_KV || TYPE_Q != TYPE_OUT || PAST || PAGED || RAGGED || (SCORE_OPS & ARGS_MODS)
#error "a small layer has one type, and its own keys in one view"
#endif

#define LOOKS_MOST 4096 // polls without new work before a group leaves: tens of microseconds

typedef struct small_steps {
    int q, k, v, attention, all; // number of parts up to the end of each step
} small_steps;

small_steps steps_of(__global const small_layer *s, const attention_args *a) {
    linear_args of;
    small_steps to;
    of = s->of[SMALL_Q], to.q = column_tiles(&of);
    of = s->of[SMALL_K], to.k = to.q + column_tiles(&of);
    of = s->of[SMALL_V], to.v = to.k + column_tiles(&of);
    to.attention = to.v + a->batch * a->heads * s->tiles;
    of = s->of[SMALL_OUT], to.all = to.attention + column_tiles(&of);
    return to;
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void
layer_few_lanes(FUSED_ARGUMENTS, __global const ELEMENT(TYPE_Q) * x, __global const ELEMENT(TYPE_KV) * wq,
                __global const ELEMENT(TYPE_KV) * wk, __global const ELEMENT(TYPE_KV) * wv,
                __global const ELEMENT(TYPE_KV) * wo, __global const ELEMENT(TYPE_BIAS) * bq,
                __global const ELEMENT(TYPE_BIAS) * bk, __global const ELEMENT(TYPE_BIAS) * bv,
                __global const ELEMENT(TYPE_BIAS) * bo, __global ELEMENT(TYPE_OUT) * y,
                __global const ulong *frequencies, __global const int *positions,
                __global small_layer *shared) {
    volatile __global int *taken = &shared->taken, *done = &shared->done, *left = &shared->left;
    const small_steps steps = steps_of(shared, &args);
    for (int looks = 0; looks < LOOKS_MOST;) {
        const int ready = *done, open = ready < steps.v           ? steps.v
                                        : ready < steps.attention ? steps.attention
                                                                  : steps.all;
        int count;
        const int part = take_parts(taken, open, 0, &count);
        if (part < 0) {
            LOOK_LATER;
            looks = open == steps.all ? LOOKS_MOST : looks + 1;
            continue;
        }
        looks = 0;
        MEMORY_FENCE;
        if (part < steps.v) {
            const int which = part < steps.q ? SMALL_Q : part < steps.k ? SMALL_K : SMALL_V;
            const linear_args of = shared->of[which];
            const int tile = part - (which == SMALL_Q ? 0 : which == SMALL_K ? steps.q : steps.k);
            const w_matrix w = {which == SMALL_Q ? wq : which == SMALL_K ? wk : wv};
            project_columns(&of, x, w,
                            which == SMALL_Q   ? bq
                            : which == SMALL_K ? bk
                                               : bv,
                            out, frequencies, positions, tile * COLUMN_TILE, 0);
        } else if (part < steps.attention) {
            const int n = part - steps.v, item = n / shared->tiles;
            flash_lanes(FUSED_VALUES, n % shared->tiles, shared->tiles, item / args.heads, item % args.heads);
        } else {
            const linear_args of = shared->of[SMALL_OUT];
            const w_matrix w = {wo};
            project_columns(&of, out, w, bo, y, frequencies, positions,
                            (part - steps.attention) * COLUMN_TILE, 0);
        }
        MEMORY_FENCE;
        atomic_inc(done);
    }
    // The last group resets the counters to 0.
    if (atomic_inc(left) != (int)get_num_groups(0) - 1) return;
    *taken = *done = *left = 0;
}
