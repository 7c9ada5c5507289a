/* fuzz_call_attention.c: attention calls with every option, their gradients, and the block masks of
 * such calls. */
#include "fuzz/fuzz_calls.h"

#include <string.h>

/* Options in addition to those of `with`, one bit each. The last two select details. */
enum { PAST = 1, PAGES = 2, APPEND = 4, RAGGED = 8, ON_DEVICE = 16, POSITIONS = 32, TEXTS = 64, MORE = 128 };

/* Further options of calls with another option byte: sinks and key lengths in buffers, two bits of
 * cascade, v as a view of k. */
enum { SINKS = 1, LENGTHS = 2, CASCADE = 4, LATENT = 16 };
/* Not part of any byte: a forward call for gradients. */
enum { FORWARD = 256 };

/* A call under construction. */
typedef struct attention_call {
    clattn_attention_params p;
    fuzz_fields f;
    fuzz_launch at;
    fuzz_sizes l;
    unsigned with, more, also;
    int64_t types; /* of gradients */
} attention_call;

static int64_t saturated(int64_t a, int64_t b) {
    int64_t sum = INT64_MAX;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

/* All keys of an item according to the shapes. */
static int64_t keys_of(const clattn_attention_params *p) {
    const clattn_kv *kv = &p->kv;
    if (kv->block_table.rank == 2 && kv->page_size > 0) {
        int64_t keys = INT64_MAX;
        return __builtin_mul_overflow(kv->block_table.shape[1], (int64_t)kv->page_size, &keys) ? INT64_MAX
                                                                                               : keys;
    }
    return saturated(kv->k.shape[2], kv->past_k.rank == 4 ? kv->past_k.shape[2] : 0);
}

/* Returns true if the program of this call may be compiled now. */
static bool may_run(const attention_call *c, const clattn_plan *plan) {
    const clattn_attention_params *p = &c->p;
    struct {
        char name[32];
        int64_t of_score[16], numbers[16];
    } of = {"",
            {0},
            {p->q.type, p->kv.k.type, p->out.type, p->q.shape[3], p->kv.v.shape[3], plan->tile_q,
             plan->tile_kv, plan->splits > 1, p->weights.rank ? 1 + (int64_t)p->weights.type : 0,
             p->kv.past_k.rank, p->kv.block_table.rank, p->kv.k_new.rank ? 1 + (int64_t)p->kv.k_new.type : 0,
             p->cu_seqlens_q != NULL, p->cu_seqlens_q_device.rank,
             (int64_t)p->cascade * 2 + (p->kv.v.buffer == p->kv.k.buffer), c->types}};
    memcpy(of.name, plan->kernel_name, sizeof of.name);
    fuzz_score_signature(&p->score, &p->rope, of.of_score);
    return fuzz_work(&p->q, keys_of(p), saturated(p->q.shape[3], p->kv.v.shape[3])) <= FUZZ_MOST_WORK &&
           fuzz_kernel_may_run(&of, sizeof of);
}

static clattn_status ask(const void *params, void *plan) {
    return clattn_attention_plan(fuzz_context, params, plan);
}

static bool run(attention_call *c) {
    const clattn_attention_params *p = &c->p;
    clattn_plan plan = {.workspace_bytes = 0};
    clattn_family families[32];
    size_t bytes = 0, count = 0;
    bool right = false;
    const clattn_status status = fuzz_plan(&c->f, ask, p, &plan, &right);
    if (status == CLATTN_OK && right && !may_run(c, &plan)) return true;
    if (clattn_attention_workspace(fuzz_context, p, &bytes) == CLATTN_OK)
        FUZZ_CHECK(clattn_attention_families(fuzz_context, p, families, 32, &count) == CLATTN_OK &&
                   count <= 32);
    return fuzz_end(
        &c->f, &c->at,
        clattn_attention_enqueue(fuzz_context, c->at.queue, p, c->at.wait_count, c->at.wait_list, c->at.to),
        right && !c->at.wrong);
}

/* Add q, k, v and out: packed tensors for ragged batches, and page pools for paged keys. */
static void add_main(attention_call *c, clattn_type q, clattn_type kv) {
    const fuzz_sizes *l = &c->l;
    const int64_t of_one = clattn_type_numbers(kv), d = l->d / of_one, dv = l->dv / of_one;
    const bool packed = c->more & RAGGED, pages = c->more & PAGES, keys = packed && c->more & MORE;
    const int64_t batch = packed ? 1 : l->batch,
                  pool = pages  ? 3
                         : keys ? 1
                                : l->batch,
                  rows = pages ? 4 : l->n_kv;
    fuzz_add_view(&c->f, &c->p.q, q, 4, (int64_t[]){batch, l->heads, l->n_q, l->d});
    fuzz_add_view(&c->f, &c->p.kv.k, kv, 4, (int64_t[]){pool, l->kv_heads, rows, d});
    fuzz_add_view(&c->f, &c->p.kv.v, kv, 4, (int64_t[]){pool, l->kv_heads, rows, dv});
    fuzz_add_view(&c->f, &c->p.out, q, 4, (int64_t[]){batch, l->heads, l->n_q, l->dv});
    if (c->also & LATENT && !(c->more & APPEND)) {
        c->p.kv.v = c->p.kv.k;
        c->p.kv.v.shape[3] = dv < d ? dv : d;
        c->p.out.shape[3] = l->dv < l->d ? l->dv : l->d;
    }
    if (l->repeats) fuzz_repeat(&c->f, &c->p.out);
    const int64_t scales[3] = {pool, l->kv_heads, rows};
    fuzz_add_optional(&c->f, kv == CLATTN_TYPE_I8, &c->p.kv.k_scale, CLATTN_TYPE_F32, 3, scales);
    fuzz_add_optional(&c->f, kv == CLATTN_TYPE_I8, &c->p.kv.v_scale, CLATTN_TYPE_F32, 3, scales);
}

static void add_places(attention_call *c, clattn_type q, clattn_type kv) {
    const fuzz_sizes *l = &c->l;
    const bool past = c->more & PAST, i8 = kv == CLATTN_TYPE_I8, append = c->more & APPEND;
    const bool packed = c->more & RAGGED;
    const int64_t of_one = clattn_type_numbers(kv), d = l->d / of_one, dv = l->dv / of_one;
    const int64_t batch = c->more & MORE ? 1 : l->batch, rows = 3, pages[2] = {l->batch, 2},
                  items = packed ? 1 : l->batch, new_rows = packed || c->more & MORE ? l->n_q : 1,
                  scales[3] = {batch, l->kv_heads, rows};
    fuzz_fields *f = &c->f;
    clattn_kv *k = &c->p.kv;
    fuzz_add_optional(f, past, &k->past_k, kv, 4, (int64_t[]){batch, l->kv_heads, rows, d});
    fuzz_add_optional(f, past, &k->past_v, kv, 4, (int64_t[]){batch, l->kv_heads, rows, dv});
    fuzz_add_optional(f, past && i8, &k->past_k_scale, CLATTN_TYPE_F32, 3, scales);
    fuzz_add_optional(f, past && i8, &k->past_v_scale, CLATTN_TYPE_F32, 3, scales);
    fuzz_add_optional(f, c->more & PAGES, &k->block_table, CLATTN_TYPE_I32, 2, pages);
    if (c->more & PAGES) k->page_size = 4;
    fuzz_add_optional(f, append, &k->k_new, q, 4, (int64_t[]){items, l->kv_heads, new_rows, l->d});
    fuzz_add_optional(f, append, &k->v_new, q, 4, (int64_t[]){items, l->kv_heads, new_rows, l->dv});
    fuzz_add_int(f, &k->page_size);
}

static void add_sequences(attention_call *c) {
    const bool on_device = (c->more & (RAGGED | ON_DEVICE)) == (RAGGED | ON_DEVICE);
    const int64_t count = c->l.batch < INT64_MAX ? c->l.batch + 1 : 0;
    fuzz_fields *f = &c->f;
    fuzz_add_optional(f, on_device, &c->p.cu_seqlens_q_device, CLATTN_TYPE_I32, 1, &count);
    fuzz_add_optional(f, on_device && c->more & MORE, &c->p.kv.cu_seqlens_kv_device, CLATTN_TYPE_I32, 1,
                      &count);
    if (c->more & RAGGED) c->p.sequences = (int32_t)(uint64_t)c->l.batch;
    if (on_device) c->p.max_q = (int32_t)(uint64_t)c->l.n_q;
    if (on_device && c->more & MORE) c->p.max_kv = (int32_t)(uint64_t)c->l.n_kv;
    fuzz_add_int(f, &c->p.sequences), fuzz_add_int(f, &c->p.max_q), fuzz_add_int(f, &c->p.max_kv);
    if (!c->also) return;
    fuzz_add_optional(f, on_device && c->also & LENGTHS, &c->p.kv.kv_lengths_device, CLATTN_TYPE_I32, 1,
                      &c->l.batch);
    fuzz_add_optional(f, c->also & SINKS, &c->p.score.sinks_device, c->p.q.type, 1, &c->l.heads);
    c->p.cascade = (clattn_cascade)(c->also / CASCADE % 4);
    fuzz_add_int(f, &c->p.cascade);
}

static void add_score(attention_call *c, clattn_type q) {
    clattn_attention_params *p = &c->p;
    const fuzz_sizes *l = &c->l;
    const int64_t batch = c->more & RAGGED ? 1 : l->batch, full[4] = {l->batch, l->heads, l->n_q, keys_of(p)},
                  of_lse[3] = {batch, l->heads, l->n_q};
    const clattn_type types[] = {CLATTN_TYPE_F32, CLATTN_TYPE_F32, CLATTN_TYPE_F32, CLATTN_TYPE_BOOL, q};
    clattn_tensor *const optional[] = {&p->lse, &p->weights, &p->scores, &p->score.mask, &p->score.bias};
    for (int i = 0; i < 5; i++) {
        const int number =
            fuzz_add_optional(&c->f, c->with >> i & 1, optional[i], types[i], i ? 4 : 3, i ? full : of_lse);
        if (i < 3) c->f.written |= UINT64_C(1) << number;
    }
    p->score.causal = c->with >> 5 & 1;
    p->score.window = c->with >> 6 & 1, p->score.window_left = 2;
    if (c->with >> 7 & 1) p->rope.layout = CLATTN_ROPE_HALF;
    fuzz_add_int(&c->f, &p->kernel), fuzz_add_int(&c->f, &p->splits), fuzz_add_int(&c->f, &p->scores_at);
    fuzz_add_score(&c->f, &p->score, &p->rope);
}

/* Build the unchanged call. */
static void begin(attention_call *c, fuzz_bytes *b, unsigned also) {
    *c = (attention_call){.l = fuzz_letters(b), .also = also};
    const clattn_type q = fuzz_float_type(b), plain = fuzz_below(b, 8) ? q : CLATTN_TYPE_I8;
    // Use block types if the sizes allow them. The sizes select the type, so that old seeds keep
    // their meaning.
    const uint64_t chosen = (uint64_t)c->l.n_q + (uint64_t)c->l.n_kv;
    const bool in_blocks = c->l.d > 0 && c->l.d % 32 == 0 && c->l.dv > 0 && c->l.dv % 32 == 0 && chosen % 4;
    const clattn_type kv =
        in_blocks && !(also & FORWARD) ? (clattn_type)(CLATTN_TYPE_Q8_0 + chosen % 4 - 1) : plain;
    c->with = fuzz_byte(b) & fuzz_byte(b);
    c->p.kernel = (clattn_kernel)(fuzz_below(b, 8) % CLATTN_KERNEL_COUNT);
    fuzz_launch_choose(&c->at, b);
    c->more = fuzz_byte(b) & fuzz_byte(b);
    /* lse is required; options without gradients are tested in tests/refusals */
    if (also & FORWARD) {
        c->with = (c->with | 1) & ~6u;
        c->more &= ~(unsigned)(PAST | PAGES | APPEND);
        c->p.kernel = CLATTN_KERNEL_AUTO;
    }
    c->f = (fuzz_fields){.required = 4, .written = 1 << 3, .workspace = &c->p.workspace};
    const unsigned texts = c->more & TEXTS ? fuzz_byte(b) : 0,
                   positions = c->more & POSITIONS ? fuzz_byte(b) | 1 : 0;
    add_main(c, q, kv);
    add_places(c, q, kv);
    add_sequences(c);
    add_score(c, q);
    fuzz_add_expressions(&c->f, texts, &c->p.score,
                         (int64_t[]){c->l.batch, c->l.heads, c->l.n_q, keys_of(&c->p)});
    fuzz_add_positions(&c->f, positions, &c->p.rope, c->l.batch, c->l.n_q,
                       c->more & APPEND        ? c->p.kv.k_new.shape[2]
                       : c->l.n_q == c->l.n_kv ? 0
                                               : c->l.n_kv);
}

/* Create the caller's host arrays after the changes, since their lengths follow from the changed
 * call. */
static void give(attention_call *c, fuzz_bytes *b) {
    clattn_attention_params *p = &c->p;
    const bool ragged = c->more & RAGGED, on_host = ragged && !(c->more & ON_DEVICE);
    const int64_t batch = ragged ? p->sequences : p->q.shape[0];
    fuzz_add_arrays(&c->f, b, batch, p->q.shape[1]);
    if (on_host) p->cu_seqlens_q = fuzz_first_rows(&c->f, b, batch);
    if (on_host && c->more & MORE) p->kv.cu_seqlens_kv = fuzz_first_rows(&c->f, b, batch);
    if (c->more & PAST && c->f.arrays & 64) p->kv.past_lengths = fuzz_integers(&c->f, b, batch);
    if (c->more & PAGES) fuzz_fill(&p->kv.block_table, b, false);
    if (ragged && !on_host)
        fuzz_fill(&p->cu_seqlens_q_device, b, true), fuzz_fill(&p->kv.cu_seqlens_kv_device, b, true);
    if (c->also & LENGTHS) fuzz_fill(&p->kv.kv_lengths_device, b, false);
    if (c->more & POSITIONS)
        fuzz_fill(&p->rope.positions, b, false), fuzz_fill(&p->rope.k_positions, b, false);
    /* New rows are written to the caches and their scales. */
    if (p->kv.k_new.buffer)
        for (int i = 0; i < c->f.tensor_count; i++)
            if (c->f.tensors[i] == &p->kv.k || c->f.tensors[i] == &p->kv.v ||
                c->f.tensors[i] == &p->kv.k_scale || c->f.tensors[i] == &p->kv.v_scale)
                c->f.written |= UINT64_C(1) << i;
}

static bool attend(fuzz_bytes *b, unsigned also) {
    attention_call c;
    begin(&c, b, also);
    fuzz_change_all(&c.f, b);
    give(&c, b);
    const bool done = run(&c);
    fuzz_free(&c.f);
    return done;
}

bool fuzz_attention(fuzz_bytes *b) {
    return attend(b, 0);
}
bool fuzz_attention_also(fuzz_bytes *b) {
    return attend(b, fuzz_byte(b));
}

/* Gradients of a call. The fields point into `forward`. */
typedef struct backward_call {
    attention_call forward;
    clattn_attention_backward_params b;
} backward_call;

static clattn_status ask_backward(const void *params, void *plan) {
    const backward_call *c = params;
    clattn_attention_backward_params b = c->b;
    b.forward = c->forward.p;
    return clattn_attention_backward_plan(fuzz_context, &b, plan);
}

/* Add dout and the results, each selected by a bit. */
static void add_gradients(backward_call *c, fuzz_bytes *b) {
    clattn_attention_backward_params *g = &c->b;
    const clattn_attention_params *p = &c->forward.p;
    fuzz_fields *f = &c->forward.f;
    const unsigned with = fuzz_byte(b) | fuzz_byte(b);
    const clattn_type of_q = fuzz_float_type(b), of_k = fuzz_float_type(b);
    fuzz_add_view(f, &g->dout, p->out.type, 4, p->out.shape);
    fuzz_add_optional(f, with & 1, &g->dlse, CLATTN_TYPE_F32, 3, p->lse.shape);
    struct {
        bool wanted;
        clattn_tensor *to;
        clattn_type type;
        const clattn_tensor *of;
    } const results[] = {{with & 2, &g->dq, of_q, &p->q},
                         {with & 4, &g->dk, of_k, &p->kv.k},
                         {with & 8, &g->dv, of_k, &p->kv.v},
                         {with & 16 && p->score.bias.rank, &g->dbias, CLATTN_TYPE_F32, &p->score.bias}};
    f->written = 0;
    for (size_t n = 0; n < sizeof results / sizeof results[0]; n++)
        f->written |= UINT64_C(1) << fuzz_add_optional(f, results[n].wanted, results[n].to, results[n].type,
                                                       4, results[n].of->shape);
    f->workspace = &g->workspace;
    c->forward.types = 1 + (with & 30) + 32 * (int64_t)(g->dout.type * 9 + of_q * 3 + of_k);
}

bool fuzz_backward(fuzz_bytes *b) {
    backward_call c = {.b = {.dlse = {0}}};
    attention_call *at = &c.forward;
    clattn_plan plan = {.workspace_bytes = 0};
    size_t bytes = 0;
    bool right = false, done = true;
    begin(at, b, FORWARD);
    add_gradients(&c, b);
    fuzz_change_all(&at->f, b);
    give(at, b);
    const clattn_status status = fuzz_plan(&at->f, ask_backward, &c, &plan, &right);
    c.b.forward = at->p;
    (void)clattn_attention_backward_workspace(fuzz_context, &c.b, &bytes);
    if (status != CLATTN_OK || !right || may_run(at, &plan))
        done = fuzz_end(&at->f, &at->at,
                        clattn_attention_backward_enqueue(fuzz_context, at->at.queue, &c.b, at->at.wait_count,
                                                          at->at.wait_list, at->at.to),
                        right && !at->at.wrong);
    fuzz_free(&at->f);
    return done;
}

/* Only the sizes of q, keys and out matter here, and their buffers are not checked. */
bool fuzz_block_mask(fuzz_bytes *b) {
    attention_call c;
    begin(&c, b, 0);
    if (!c.p.score.block_mask.rank) {
        const int64_t blocks[4] = {c.l.batch, 1, c.l.n_q > 0 ? (c.l.n_q - 1) / CLATTN_BLOCK_ROWS + 1 : 0,
                                   c.l.n_kv > 0 ? (c.l.n_kv - 1) / CLATTN_BLOCK_KEYS + 1 : 0};
        c.p.score.block_mask = clattn_tensor_dense(fuzz_buffers[PLACES - 1], CLATTN_TYPE_BOOL, 4, blocks);
    }
    fuzz_change_all(&c.f, b);
    give(&c, b);
    const clattn_score *s = &c.p.score;
    int64_t of[18] = {-1, keys_of(&c.p) > 0};
    fuzz_score_signature(s, &c.p.rope, of + 2);
    const bool fit = fuzz_fits(&s->block_mask) && !c.at.wrong,
               run = !fit || (fuzz_work(&c.p.q, keys_of(&c.p), 1) <= FUZZ_MOST_WORK &&
                              fuzz_kernel_may_run(of, sizeof of));
    const bool done = run && fuzz_finish(&c.at,
                                         clattn_block_mask_enqueue(fuzz_context, c.at.queue, &c.p,
                                                                   c.at.wait_count, c.at.wait_list, c.at.to),
                                         fit, c.f.built_of_text);
    if (done) fuzz_check_access(&s->block_mask, false, true);
    fuzz_free(&c.f);
    return done;
}
