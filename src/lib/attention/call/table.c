// table.c: see table.h.
#include "attention/call/table.h"

#include <string.h>

#include "attention/call/call_kind.h"
#include "attention/call/visible_keys.h"
#include "base/host.h"
#include "launch/recording.h"

// Largest number of sequences that the device sorts by length: the kernel compares each pair.
#define MOST_ORDERED 4096

static size_t item_words(const call *c) {
    return c->ragged.given ? ARGS_SEQUENCE_WORDS : ARGS_ITEM_WORDS;
}

call_table_layout cla_call_table_layout(const call *c) {
    const size_t batch = (size_t)c->problem.batch, heads = (size_t)c->problem.heads;
    call_table_layout w = {.before_heads = (c->args.flags & ARGS_BATCH_ROWS) ? item_words(c) * batch : 0};
    w.before_past = w.before_heads + ((c->args.flags & ARGS_HEAD_FLAGS) ? ARGS_HEAD_WORDS * heads : 0);
    w.all = w.before_past + (c->params.kv.past_lengths ? batch : 0);
    return w;
}

static void fill_sequences(const call *c, int32_t *words) {
    const clattn_attention_params *p = &c->params;
    const ragged_batch *r = &c->ragged;
    if (!r->given || r->on_device) return;
    for (int n = 0; n < r->sequences; n++, words += ARGS_SEQUENCE_WORDS) {
        if (!cla_ragged_has_work(r, n)) words[1] = 0; // another launch computes it
        words[4] = p->cu_seqlens_q[n];
        words[5] = r->packed_keys ? p->kv.cu_seqlens_kv[n] : 0;
        words[6] = n < r->working ? r->before[n] : ARGS_NO_SEQUENCE;
        words[7] = n < r->working ? r->order[n] : 0;
    }
}

static void fill_past(const call *c, int32_t *words) {
    for (int b = 0; c->params.kv.past_lengths && b < c->problem.batch; b++)
        words[cla_call_table_layout(c).before_past + (size_t)b] = c->params.kv.past_lengths[b];
}

static int within(int x, int most) {
    return x < 0 ? 0 : x < most ? x : most;
}

// Fill the words described in args.h, for `rows` query rows from `first` on.
static void fill_table(const call *c, int32_t *words, const call_table_layout *of, int first, int rows) {
    const clattn_score *s = &c->params.score;
    const problem *m = &c->problem;
    const bool has_rows = of->before_heads > 0, has_heads = of->before_past > of->before_heads;
    for (int b = 0; has_rows && b < m->batch; b++) {
        int32_t *item = words + item_words(c) * (size_t)b;
        item[0] = cla_call_shift(c, b) + first;
        item[1] = within((s->q_lengths ? s->q_lengths[b] : m->n_q) - first, rows);
        item[2] = cla_call_keys(c, b);
        item[3] = s->q_lengths ? s->q_lengths[b] : m->n_q;
    }
    if (has_rows) fill_sequences(c, words);
    for (int h = 0; has_heads && h < m->heads; h++) {
        float head[ARGS_HEAD_WORDS] = {0.0f};
#define OPTION_HEADS(field, flag, differs, apart)                                                            \
    if (s->field) head[ARGS_HEAD_WORD(flag)] = s->field[h];
#include "tables/score.def"
        memcpy(words + of->before_heads + ARGS_HEAD_WORDS * (size_t)h, head, sizeof head);
    }
}

clattn_status cla_call_table_of(const call *c, chain *steps, int first, int rows, cl_mem *table) {
    const call_table_layout w = cla_call_table_layout(c);
    if (w.all == 0) return CLATTN_OK;
    int32_t *words = cla_host_take_zeroed(&c->context->host, w.all, sizeof *words);
    if (!words)
        return cla_context_fail(c->context, CLATTN_OUT_OF_MEMORY, "attention: no host memory for lengths");
    fill_table(c, words, &w, first, rows);
    fill_past(c, words);
    const clattn_status status = cla_chain_table(steps, words, w.all * sizeof *words, table);
    cla_host_release(&c->context->host, words);
    return status;
}

static clattn_status borrow_ordered(call *c, chain *steps) {
    if (!c->ragged.on_device || !c->table || c->ragged.limits) return CLATTN_OK;
    c->ragged.limits = c->table;
    return cla_chain_scratch(steps, cla_call_table_layout(c).all * sizeof(int32_t), &c->table);
}

static bool has_sinks(const call *c) {
    return cla_tensor_given(&c->params.score.sinks_device);
}

clattn_status cla_sinks_borrow(const call *c, chain *steps, cl_mem *to) {
    if (!has_sinks(c) || !c->table || *to) return CLATTN_OK;
    return cla_chain_scratch(steps, cla_call_table_layout(c).all * sizeof(int32_t), to);
}

clattn_status cla_call_table(call *c, chain *steps) {
    if (c->table) return CLATTN_OK;
    TRY(cla_ragged_order(c));
    TRY(cla_call_table_of(c, steps, 0, c->problem.n_q, &c->table));
    TRY(borrow_ordered(c, steps));
    return cla_sinks_borrow(c, steps, &c->with_sinks);
}

// The device array with each item's key offsets or key counts; NULL if the host knows the counts.
static const clattn_tensor *keys_array(const call *c) {
    const clattn_kv *kv = &c->params.kv;
    return c->ragged.packed_keys                      ? &kv->cu_seqlens_kv_device
           : cla_tensor_given(&kv->kv_lengths_device) ? &kv->kv_lengths_device
                                                      : NULL;
}

clattn_status cla_ragged_enqueue(call *c, chain *steps) {
    const clattn_attention_params *p = &c->params;
    const ragged_batch *r = &c->ragged;
    const clattn_tensor *q = &p->cu_seqlens_q_device, *array = keys_array(c), *kv = array ? array : q;
    const call_table_layout words = cla_call_table_layout(c);
    const knobs k = {.ragged = 1};
    const ragged_args a = {.q_offset = q->offset,
                           .q_stride = q->stride[0],
                           .kv_offset = kv->offset,
                           .kv_stride = kv->stride[0],
                           .keys = r->packed_keys ? RAGGED_KEYS_PACKED
                                   : array        ? RAGGED_KEYS_COUNTED
                                                  : RAGGED_KEYS_ALL,
                           .batch = r->sequences,
                           .more_words = (int)(words.all - words.before_heads),
                           .past_word = c->problem.past ? c->past.word : -1,
                           .past_rows = c->problem.past ? c->past.rows : 0,
                           .total_q = r->total_q,
                           .total_kv = r->total_kv,
                           .bottom_right = p->score.alignment == CLATTN_ALIGN_BOTTOM_RIGHT,
                           .unit_rows = c->variant.rows_per_group > 0 ? c->variant.rows_per_group : 1,
                           .unit_heads = cla_ragged_unit_heads(c),
                           .ordered = r->sequences <= MOST_ORDERED};
    const size_t items[3] = {(size_t)(a.batch > a.more_words ? a.batch : a.more_words), 1, 1};
    launch l = {.flops = 0.0};
    if (!r->limits) return CLATTN_OK;
    TRY(cla_program_get(c->context, KERNEL_RAGGED, &k, &l.program));
    cla_launch_items(&l, c->context, items, (const size_t[3]){64, 1, 1});
    cla_launch_buffer(&l, &q->buffer);
    cla_launch_buffer(&l, &kv->buffer);
    cla_launch_buffer(&l, &r->limits);
    cla_launch_buffer(&l, &c->table);
    cla_launch_value(&l, &a, sizeof a);
    l.derives = 4;
    if (!cla_recording_has(steps, &l, &c->table)) TRY(cla_launch_enqueue(steps, &l));
    c->ragged.limits = NULL; // the table is complete
    return CLATTN_OK;
}

static clattn_status sinks_program(const call *c, program **p) {
    const knobs k = {.type_q = (int)c->params.score.sinks_device.type};
    return cla_program_get(c->context, KERNEL_SINKS, &k, p);
}

clattn_status cla_sinks_prepare(const call *c) {
    program *p = NULL;
    return has_sinks(c) ? sinks_program(c, &p) : CLATTN_OK;
}

clattn_status cla_sinks_enqueue(const call *c, chain *steps, cl_mem to, cl_mem *table) {
    const clattn_tensor *t = &c->params.score.sinks_device;
    const call_table_layout words = cla_call_table_layout(c);
    const sinks_args a = {.offset = t->offset,
                          .stride = t->stride[0],
                          .words = (int)words.all,
                          .before_heads = (int)words.before_heads,
                          .heads = c->problem.heads};
    const size_t items[3] = {words.all, 1, 1};
    launch l = {.flops = 0.0};
    if (!has_sinks(c) || !*table || *table == to) return CLATTN_OK;
    TRY(sinks_program(c, &l.program));
    cla_launch_items(&l, c->context, items, (const size_t[3]){64, 1, 1});
    cla_launch_buffer(&l, table);
    cla_launch_buffer(&l, &to);
    cla_launch_buffer(&l, &t->buffer);
    cla_launch_value(&l, &a, sizeof a);
    TRY(cla_launch_enqueue(steps, &l));
    *table = to;
    return CLATTN_OK;
}

clattn_status cla_kv_past_table(call *c, chain *steps) {
    const size_t count = ARGS_ITEM_WORDS * (size_t)c->problem.batch;
    if (!c->params.kv.past_lengths || c->ragged.packed_keys || c->past_table || count == 0) return CLATTN_OK;
    int32_t *words = cla_host_take_zeroed(&c->context->host, count, sizeof *words);
    if (!words)
        return cla_context_fail(c->context, CLATTN_OUT_OF_MEMORY, "rope: no host memory for past_lengths");
    for (int b = 0; b < c->problem.batch; b++)
        words[ARGS_ITEM_WORDS * (size_t)b] = c->params.kv.past_lengths[b];
    const clattn_status status = cla_chain_table(steps, words, count * sizeof *words, &c->past_table);
    cla_host_release(&c->context->host, words);
    return status;
}
