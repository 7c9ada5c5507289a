// family_unfused.c: scores, softmax and P*V as three kernels. This family supports every call on
// every device, and is the baseline for the fused families.
#include <stdio.h>

#include "plan/families/family.h"

// Size of the chunk of scores in scratch memory. Chunks above 64 MiB were not faster on PoCL,
// because they fit no cache.
#define CHUNK_BYTES ((uint64_t)64 << 20)
#define ROW_BLOCK 4    // rows per work-item of scores.cl and values.cl
#define MAX_GRID 32768 // limit on grid dimensions 1 and 2; GPUs permit 65,535

// True if the scores are stored in the caller's float32 weights. Then only the grid limits a chunk.
// With dropout the values need other weights than the caller, so the scores need their own memory.
bool cla_unfused_in_weights(const problem *p) {
    return p->wants_weights && p->type_weights == CLATTN_TYPE_F32 && !p->dropout && !p->sums_weights;
}

unfused_chunk cla_unfused_chunk(const problem *p) {
    const uint64_t items = (uint64_t)p->batch * (uint64_t)p->heads, row = (uint64_t)p->n_kv * sizeof(float);
    unfused_chunk c = {items < MAX_GRID ? (int)items : MAX_GRID, p->n_q < MAX_GRID ? p->n_q : MAX_GRID};
    const uint64_t chunk = row * (uint64_t)c.rows; // per (batch, head) item
    if (cla_unfused_in_weights(p) || chunk == 0) return c;
    if (chunk > CHUNK_BYTES) {
        const uint64_t rows = CHUNK_BYTES / row / ROW_BLOCK * ROW_BLOCK;
        c.items = 1;
        c.rows = (int)(rows < ROW_BLOCK ? ROW_BLOCK : rows);
        if (c.rows > p->n_q) c.rows = p->n_q;
    } else if (c.rows < p->n_q) {
        c.items = 1;
    } else if (items * chunk > CHUNK_BYTES) {
        const int fit = (int)(CHUNK_BYTES / chunk);
        c.items = fit < c.items ? fit : c.items;
    }
    return c;
}

// The largest power of two within the device's limit, at most 64. One work-item on a CPU, where a
// core processes a row alone.
static int softmax_group(const plan_input *in) {
    const uint64_t most = cla_family_group_limit(in, KERNEL_SOFTMAX);
    int group = 64;
    if (in->device->is_cpu) return 1;
    while (group > 1 && (uint64_t)group > most) group /= 2;
    return group;
}

static const char *fit(const plan_input *in, const problem *p, const tuned_row *row, variant *v) {
    const unfused_chunk c = cla_unfused_chunk(p);
    (void)row;
    v->work_group = softmax_group(in);
    v->knobs = (knobs){.work_group = v->work_group};
    v->split_keys = p->n_kv;
    if (!cla_unfused_in_weights(p))
        v->workspace_bytes = (uint64_t)c.items * (uint64_t)c.rows * (uint64_t)p->n_kv * sizeof(float);
    return NULL;
}

static void explain(const plan_input *in, const variant *v, char why[200]) {
    (void)in, (void)v;
    snprintf(why, 200, "scores, softmax and values apart, any call on any device");
}

const family cla_family_unfused = {.name = "unfused",
                                   .id = KERNEL_SCORES,
                                   .path = CLATTN_KERNEL_UNFUSED,
                                   .can = CAN_WEIGHTS | CAN_WEIGHTS_16 | CAN_TAPS | CAN_LARGE_HEADS |
                                          CAN_MANY_ROWS | CAN_PAST_MODS | CAN_DROPOUT | CAN_RAGGED | CAN_SUMS,
                                   .fit = fit,
                                   .explain = explain};
