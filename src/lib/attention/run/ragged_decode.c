// ragged_decode.c: prefill and decode in one ragged batch. Sequences with few query rows get a
// launch of the decode path, where their rows share a pass over the keys. On the flash path their
// tiles would be nearly empty. This needs lengths on the host.
#include "attention/call/visible_keys.h"
#include "attention/call/table.h"
#include "attention/run/run.h"
#include "plan/families/family.h"

// Count the sequences with 1 to `rows` query rows. *most_q and *most_kv are their longest lengths.
static int find_few(const call *c, int rows, int *most_q, int *most_kv) {
    int count = 0;
    *most_q = *most_kv = 0;
    for (int b = 0; b < c->ragged.sequences; b++) {
        const int q = cla_ragged_rows(c, b), kv = cla_kv_length(c, b);
        if (q == 0 || q > rows) continue;
        *most_q = q > *most_q ? q : *most_q, *most_kv = kv > *most_kv ? kv : *most_kv;
        count++;
    }
    return count;
}

void cla_mixed_plan(call *c, const plan_input *in) {
    const int rows = cla_plan_few_rows(in);
    problem few = c->problem;
    c->few_rows = 0;
    if (!c->ragged.given || c->ragged.on_device || c->problem.kernel != CLATTN_KERNEL_AUTO) return;
    if (c->variant.family->path != CLATTN_KERNEL_FLASH || c->problem.wants_weights) return;
    if (find_few(c, rows, &few.n_q, &few.n_kv) == 0) return;
    if (cla_variant_choose(in, &few, &c->few_variant) != CLATTN_OK) return;
    if (c->few_variant.family->path != CLATTN_KERNEL_DECODE) return;
    c->few_rows = rows;
    c->ragged.from_rows = rows + 1;
}

clattn_status cla_mixed_prepare(const call *c) {
    call few = *c;
    few.variant = c->few_variant;
    return c->few_rows ? cla_flash_prepare(&few) : CLATTN_OK;
}

clattn_status cla_mixed_begin(const call *c, call *few, chain *steps) {
    ragged_batch *r = &few->ragged;
    *few = *c;
    few->variant = c->few_variant;
    few->table = few->with_sinks = NULL;
    r->from_rows = 1, r->to_rows = c->few_rows;
    r->order += c->ragged.working, r->before += c->ragged.working + 1;
    return cla_call_table(few, steps);
}

clattn_status cla_mixed_enqueue(const call *c, call *few, chain *steps) {
    TRY(cla_sinks_enqueue(few, steps, few->with_sinks, &few->table));
    few->q = c->q, few->k = c->k, few->args = c->args; // after RoPE, which may replace q and k
    return cla_flash_enqueue(few, steps);
}
