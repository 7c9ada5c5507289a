// explain.c: a choice of the planner in one line, from what the variant holds. It decides nothing.
#include <stdio.h>

#include "plan/variant.h"

static void explain_tile(const clattn_capabilities *device, const variant *v, char text[200]) {
    const knobs *k = &v->knobs;
    switch (v->id) {
    case KERNEL_FLASH_LANES:
        snprintf(text, 200, "a tuned row: query rows in %d vectors of %d lanes%s", k->row_vectors, k->lanes,
                 k->dot_bf16 ? ", bfloat16 dot product" : "");
        return;
    case KERNEL_DECODE_LANES:
        snprintf(text, 200, "a tuned row: %d query rows share a pass over the keys, in %d ranges", k->rows,
                 v->splits);
        return;
    default:
        snprintf(text, 200, "a tile of %d rows and %d keys takes %llu of %llu bytes of local memory",
                 k->tile_q, k->tile_kv, (unsigned long long)v->local_bytes,
                 (unsigned long long)device->local_memory_bytes);
    }
}

void cla_variant_explain(const plan_input *in, const problem *p, const variant *v, char why[256]) {
    static const char *const names[CLATTN_KERNEL_COUNT] = {"auto", "unfused", "flash", "decode"};
    char tile[200];
    if (v->kernel == CLATTN_KERNEL_UNFUSED) {
        const bool wanted = p->wants_weights || p->wants_scores;
        snprintf(why, 256, "unfused: %s",
                 wanted       ? "weights or scores are wanted"
                 : v->refusal ? v->refusal
                              : "as asked");
        return;
    }
    explain_tile(in->device, v, tile);
    snprintf(why, 256, "%s: %s%s", names[v->kernel], p->kernel == CLATTN_KERNEL_AUTO ? "" : "as asked, ",
             tile);
}
