// block_mask.cl: for each block of rows and keys, whether the boolean mask and mask_mod hide all of
// its scores, none, or some. Kernels then skip hidden blocks and check no mask in visible ones.
// Rows and keys past the end do not count.
//
// A work-group of WORK_GROUP (at most 64) items has one block and splits the rows among its items.
// Local memory: one pair of counts per item.
#include "call/score.clh"

#if WORK_GROUP > ARGS_BLOCK_ROWS
#error "WORK_GROUP is at most 64"
#endif

// The numbers of kept scores and of all scores of the block in rows `item`, item + WORK_GROUP, ...
int2 count_kept(const score_call *c, int b, int h, int i0, int j0, int item) {
    const int rows = min(ARGS_BLOCK_ROWS, c->args->n_q - i0), keys = min(ARGS_BLOCK_KEYS, c->args->n_kv - j0);
    int2 count = (int2)(0, 0);
    for (int r = item; r < rows; r += WORK_GROUP)
        for (int k = 0; k < keys; k++) {
            const score_place at = {b, h, j0 + k, 0, i0 + r};
            count += (int2)(score_kept(c, &at) ? 1 : 0, 1);
        }
    return count;
}

// Global size: (WORK_GROUP * key blocks, row blocks, items of the block mask). Local size:
// (WORK_GROUP, 1, 1).
__kernel void block_mask(__global uchar *to, __global const int *table SCORE_ARGUMENTS,
                         const attention_args args, const block_args sizes) {
    __local int2 counts[WORK_GROUP];
    const int item = (int)get_local_id(0), k = (int)get_group_id(0), r = (int)get_global_id(1);
    const int n = (int)get_global_id(2), b0 = n / sizes.heads, h0 = n % sizes.heads;
    const int b1 = sizes.batch == 1 ? args.batch : b0 + 1, h1 = sizes.heads == 1 ? args.heads : h0 + 1;
    const score_call call = SCORE_CALL;
    int2 count = (int2)(0, 0);
    for (int b = b0; b < b1; b++)
        for (int h = h0; h < h1; h++)
            count += count_kept(&call, b, h, r * ARGS_BLOCK_ROWS, k * ARGS_BLOCK_KEYS, item);
    counts[item] = count;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item > 0) return;
    for (int x = 1; x < WORK_GROUP; x++) count += counts[x];
    to[view_at(&args.blocks, b0, h0, r, k)] = count.x == 0         ? ARGS_BLOCK_EMPTY
                                              : count.x == count.y ? ARGS_BLOCK_FULL
                                                                   : ARGS_BLOCK_PARTIAL;
}
