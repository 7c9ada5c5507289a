/* fuzz_call_layer.c: layers, calls for their keys and values, and projections. */
#include "fuzz/fuzz_calls.h"

#include <string.h>

/* The second byte of a layer's options. */
enum { NORM = 1, WIDTH = 2, GATE = 4, GATE_ALL = 8, READY = 16, POSITIONS = 32, TEXTS = 64, PLUS = 128 };

/* Further options of calls with another option byte: appending to the caller's cache, alone, after
 * a past or in pages; packed sequences; sinks in a buffer. */
enum { APPEND = 1, PAST = 2, PAGES = 4, RAGGED = 8, ON_DEVICE = 16, SINKS = 32 };

/* Returns -1 if the product overflows, which is an invalid size. */
static int64_t product(int64_t a, int64_t b) {
    int64_t all = -1;
    return __builtin_mul_overflow(a, b, &all) ? -1 : all;
}

static bool layer_may_run(const clattn_layer_params *p, const clattn_plan *plan) {
    struct {
        char name[32];
        int64_t of_score[16], numbers[16];
    } of = {"",
            {0},
            {p->x.type, p->wq.type, p->bq.rank ? 1 + (int64_t)p->bq.type : 0, p->kv.k.rank, p->kv.k.type,
             p->weights.rank, p->norm, p->q_norm.rank, p->w_gate.rank, p->norm_plus_one, plan->tile_q,
             plan->splits > 1, p->heads ? p->wq.shape[0] / p->heads : 0,
             p->kv_heads ? p->wv.shape[0] / p->kv_heads : 0,
             p->append * 8 + p->kv.past_k.rank + 16 * p->kv.block_table.rank + 64 * (p->sequences != 0)}};
    const clattn_tensor q = {.shape = {p->x.shape[0], p->heads, p->x.shape[1]}};
    const int64_t keys = p->kv.k.rank ? p->kv.k.shape[2] : p->y.rank ? p->y.shape[1] : p->x.shape[1];
    memcpy(of.name, plan->kernel_name, sizeof of.name);
    fuzz_score_signature(&p->score, &p->rope, of.of_score);
    return p->projection == CLATTN_PROJECTION_NATIVE &&
           fuzz_work(&q, keys, p->wq.shape[0] + p->wv.shape[0]) <= FUZZ_MOST_WORK &&
           fuzz_kernel_may_run(&of, sizeof of);
}

static clattn_status ask_layer(const void *params, void *plan) {
    return clattn_layer_plan(fuzz_context, params, plan);
}

static bool run_layer(const clattn_layer_params *p, fuzz_fields *f, fuzz_launch *at) {
    clattn_plan plan = {.workspace_bytes = 0};
    size_t bytes = 0;
    bool right = false;
    const clattn_status status = fuzz_plan(f, ask_layer, p, &plan, &right);
    (void)clattn_layer_workspace(fuzz_context, p, &bytes);
    if (status == CLATTN_OK && right && !layer_may_run(p, &plan)) return true;
    return fuzz_end(f, at,
                    clattn_layer_enqueue(fuzz_context, at->queue, p, at->wait_count, at->wait_list, at->to),
                    right && !at->wrong);
}

/* Add norms, gates, ready keys, positions and expressions. */
static void add_options(clattn_layer_params *p, fuzz_fields *f, fuzz_bytes *b, const fuzz_sizes *l,
                        clattn_type type, const int64_t full[4], unsigned without) {
    const unsigned more = fuzz_byte(b) & fuzz_byte(b) & ~without, texts = more & TEXTS ? fuzz_byte(b) : 0;
    const int64_t q_width = product(l->heads, l->d), kv_width = product(l->kv_heads, l->d),
                  width = p->x.shape[2], of_q = more & WIDTH ? q_width : l->d,
                  of_k = more & WIDTH ? kv_width : l->d,
                  gates[2] = {more & GATE_ALL ? q_width : l->heads, width};
    if (more & NORM) p->norm = more & WIDTH ? CLATTN_NORM_WIDTH : CLATTN_NORM_HEADS;
    p->norm_plus_one = more & PLUS && more & NORM;
    fuzz_add_optional(f, more & NORM, &p->q_norm, type, 1, &of_q);
    fuzz_add_optional(f, more & NORM && !(more & READY), &p->k_norm, type, 1, &of_k);
    fuzz_add_optional(f, more & GATE, &p->w_gate, type, 2, gates);
    fuzz_add_optional(f, more & GATE, &p->b_gate, type, 1, gates);
    fuzz_add_optional(f, more & READY, &p->kv.k, type, 4, (int64_t[]){l->batch, l->kv_heads, l->n_kv, l->d});
    fuzz_add_optional(f, more & READY, &p->kv.v, type, 4, (int64_t[]){l->batch, l->kv_heads, l->n_kv, l->d});
    if (more & READY) {
        p->y = p->wk = p->wv = p->bk = p->bv = (clattn_tensor){0};
        f->required = 3; /* x, out and wq come first */
    }
    fuzz_add_int(f, &p->norm), fuzz_add_int(f, &p->precision);
    fuzz_add_float(f, &p->norm_epsilon), fuzz_add_bool(f, &p->norm_plus_one);
    fuzz_add_expressions(f, texts, &p->score, full);
    fuzz_add_positions(f, more & POSITIONS ? 1 : 0, &p->rope, p->x.shape[0], l->n_q, 0);
}

/* Add keys and values in the caller's memory, to which the call writes, and packed batches. */
static void add_places(clattn_layer_params *p, fuzz_fields *f, const fuzz_sizes *l, clattn_type type,
                       unsigned also) {
    const bool append = also & APPEND, past = append && also & PAST, pages = append && also & PAGES,
               on_device = (also & (RAGGED | ON_DEVICE)) == (RAGGED | ON_DEVICE);
    const int64_t pool = pages ? 3 : l->batch, rows = pages ? 4 : l->n_kv, table[2] = {l->batch, 2},
                  count = l->batch < INT64_MAX ? l->batch + 1 : 0;
    clattn_kv *kv = &p->kv;
    p->append = append;
    if (append) {
        f->written |= UINT64_C(3) << f->tensor_count;
        fuzz_add_view(f, &kv->k, type, 4, (int64_t[]){pool, l->kv_heads, rows, l->d});
        fuzz_add_view(f, &kv->v, type, 4, (int64_t[]){pool, l->kv_heads, rows, l->d});
    }
    fuzz_add_optional(f, past, &kv->past_k, type, 4, (int64_t[]){1, l->kv_heads, 3, l->d});
    fuzz_add_optional(f, past, &kv->past_v, type, 4, (int64_t[]){1, l->kv_heads, 3, l->d});
    fuzz_add_optional(f, pages, &kv->block_table, CLATTN_TYPE_I32, 2, table);
    if (pages) kv->page_size = 4;
    fuzz_add_optional(f, on_device, &p->cu_seqlens_q_device, CLATTN_TYPE_I32, 1, &count);
    fuzz_add_optional(f, also & SINKS, &p->score.sinks_device, type, 1, &l->heads);
    if (also & RAGGED) p->sequences = (int32_t)(uint64_t)l->batch;
    if (on_device) p->max_q = (int32_t)(uint64_t)l->n_q;
    fuzz_add_bool(f, &p->append), fuzz_add_int(f, &kv->page_size), fuzz_add_int(f, &p->sequences);
    fuzz_add_int(f, &p->max_q), fuzz_add_int(f, &p->max_kv);
}

static void give_places(clattn_layer_params *p, fuzz_fields *f, fuzz_bytes *b, unsigned also) {
    if (also & RAGGED && !(also & ON_DEVICE)) p->cu_seqlens_q = fuzz_first_rows(f, b, p->sequences);
    fuzz_fill(&p->cu_seqlens_q_device, b, true);
    if (also & PAGES) fuzz_fill(&p->kv.block_table, b, false);
}

static bool project(fuzz_bytes *b, unsigned also) {
    const fuzz_sizes l = fuzz_letters(b);
    const int64_t batch = also & RAGGED ? 1 : l.batch, width = l.repeats ? l.dv : 16,
                  q_width = product(l.heads, l.d), kv_width = product(l.kv_heads, l.d);
    const clattn_type type = fuzz_float_type(b);
    const unsigned with = fuzz_byte(b) & fuzz_byte(b);
    clattn_layer_params p = {.heads = (int32_t)(uint64_t)l.heads,
                             .kv_heads = (int32_t)(uint64_t)l.kv_heads,
                             .projection = CLATTN_PROJECTION_NATIVE};
    fuzz_fields f = {.required = 6, .written = 1 << 1 | 3 << 7, .workspace = &p.workspace};
    fuzz_launch at;
    fuzz_launch_choose(&at, b);
    fuzz_add_view(&f, &p.x, type, 3, (int64_t[]){batch, l.n_q, width});
    fuzz_add_view(&f, &p.out, type, 3, (int64_t[]){batch, l.n_q, width});
    fuzz_add_view(&f, &p.wq, type, 2, (int64_t[]){q_width, width});
    fuzz_add_view(&f, &p.wo, type, 2, (int64_t[]){width, q_width});
    fuzz_add_view(&f, &p.wk, type, 2, (int64_t[]){kv_width, width});
    fuzz_add_view(&f, &p.wv, type, 2, (int64_t[]){kv_width, width});
    if (l.repeats) fuzz_repeat(&f, &p.out);
    const int64_t keys = with & 1 ? l.n_kv : l.n_q, full[4] = {l.batch, l.heads, l.n_q, keys},
                  of_lse[3] = {batch, l.heads, l.n_q}, sizes[4] = {q_width, kv_width, kv_width, width};
    clattn_tensor *const optional[] = {&p.lse, &p.weights, &p.score.bias, &p.bq, &p.bk, &p.bv, &p.bo};
    fuzz_add_optional(&f, with & 1, &p.y, type, 3, (int64_t[]){l.batch, l.n_kv, width});
    for (int i = 0; i < 7; i++) {
        static const int ranks[] = {3, 4, 4, 1, 1, 1, 1};
        fuzz_add_optional(&f, with >> (1 + i) & 1, optional[i], i < 2 ? CLATTN_TYPE_F32 : type, ranks[i],
                          i == 0  ? of_lse
                          : i < 3 ? full
                                  : sizes + (i - 3));
    }
    fuzz_add_int(&f, &p.kernel), fuzz_add_int(&f, &p.splits), fuzz_add_int(&f, &p.heads),
        fuzz_add_int(&f, &p.kv_heads), fuzz_add_int(&f, &p.projection);
    fuzz_add_score(&f, &p.score, &p.rope);
    /* ready keys and append exclude each other */
    add_options(&p, &f, b, &l, type, full, also & APPEND ? READY : 0);
    if (also) add_places(&p, &f, &l, type, also);
    fuzz_change_all(&f, b);
    fuzz_add_arrays(&f, b, also & RAGGED ? p.sequences : p.x.shape[0], p.heads);
    if (also) give_places(&p, &f, b, also);
    fuzz_fill(&p.rope.positions, b, false);
    const bool done = run_layer(&p, &f, &at);
    fuzz_free(&f);
    return done;
}

bool fuzz_layer(fuzz_bytes *b) {
    return project(b, 0);
}
bool fuzz_layer_also(fuzz_bytes *b) {
    return project(b, fuzz_byte(b));
}

static bool kv_may_run(const clattn_layer_kv_params *p) {
    const int64_t of[] = {-5,
                          p->y.type,
                          p->wk.type,
                          p->wv.type,
                          p->k.type,
                          p->bk.rank,
                          p->bv.rank,
                          p->bk.type,
                          p->norm,
                          p->k_norm.rank,
                          p->k_norm.type,
                          p->norm_plus_one,
                          p->rope.layout,
                          p->rope.positions.rank,
                          p->y.shape[1] > 8};
    const clattn_tensor y = {.shape = {1, p->y.shape[0], p->y.shape[1]}};
    return fuzz_work(&y, p->y.shape[2], p->wk.shape[0]) <= FUZZ_MOST_WORK &&
           fuzz_work(&y, p->y.shape[2], p->wv.shape[0]) <= FUZZ_MOST_WORK &&
           fuzz_kernel_may_run(of, sizeof of);
}

bool fuzz_layer_kv(fuzz_bytes *b) {
    const fuzz_sizes l = fuzz_letters(b);
    const unsigned with = fuzz_byte(b);
    const clattn_type type = fuzz_float_type(b);
    const int64_t width = 16, of_k = product(l.kv_heads, l.d), of_v = product(l.kv_heads, l.dv),
                  of_norm = with & 2 ? of_k : l.d;
    clattn_layer_kv_params p = {.norm_plus_one = with & 4 && with & 1};
    fuzz_fields f = {.required = 5, .written = 3 << 3};
    fuzz_launch at;
    fuzz_launch_choose(&at, b);
    fuzz_add_view(&f, &p.y, type, 3, (int64_t[]){l.batch, l.n_kv, width});
    fuzz_add_view(&f, &p.wk, type, 2, (int64_t[]){of_k, width});
    fuzz_add_view(&f, &p.wv, type, 2, (int64_t[]){of_v, width});
    fuzz_add_view(&f, &p.k, type, 4, (int64_t[]){l.batch, l.kv_heads, l.n_kv, l.d});
    fuzz_add_view(&f, &p.v, type, 4, (int64_t[]){l.batch, l.kv_heads, l.n_kv, l.dv});
    fuzz_add_optional(&f, with & 8, &p.bk, type, 1, &of_k);
    fuzz_add_optional(&f, with & 16, &p.bv, type, 1, &of_v);
    fuzz_add_optional(&f, with & 1, &p.k_norm, type, 1, &of_norm);
    if (with & 1) p.norm = with & 2 ? CLATTN_NORM_WIDTH : CLATTN_NORM_HEADS;
    if (with & 32) p.rope.layout = CLATTN_ROPE_HALF;
    fuzz_add_positions(&f, with & 64 ? 1 : 0, &p.rope, l.batch, l.n_kv, 0);
    fuzz_add_int(&f, &p.norm), fuzz_add_int(&f, &p.precision), fuzz_add_float(&f, &p.norm_epsilon);
    fuzz_add_bool(&f, &p.norm_plus_one), fuzz_add_rope(&f, &p.rope);
    fuzz_change_all(&f, b);
    fuzz_fill(&p.rope.positions, b, false);
    const bool fit = fuzz_all_fit(&f), run = !fit || kv_may_run(&p);
    return run &&
           fuzz_end(&f, &at,
                    clattn_layer_kv_enqueue(fuzz_context, at.queue, &p, at.wait_count, at.wait_list, at.to),
                    fit && !at.wrong);
}

static clattn_status ask_linear(const void *params, void *choice) {
    return clattn_linear_plan(fuzz_context, params, choice);
}

static bool linear_may_run(const clattn_linear_params *p, const clattn_linear_choice *choice) {
    const int64_t of[] = {-6,
                          p->x.type,
                          p->w.type,
                          p->b.rank ? 1 + (int64_t)p->b.type : 0,
                          choice->kernel_name[7],
                          p->x.shape[1] > 8,
                          p->activation || p->w_up.rank || p->residual.rank};
    const clattn_tensor x = {.shape = {1, p->x.shape[0], p->x.shape[1]}};
    return choice->projection == CLATTN_PROJECTION_NATIVE &&
           fuzz_work(&x, p->x.shape[2], p->w.shape[0]) <= FUZZ_MOST_WORK &&
           fuzz_kernel_may_run(of, sizeof of);
}

bool fuzz_linear(fuzz_bytes *b) {
    const fuzz_sizes l = fuzz_letters(b);
    const int64_t n = l.n_q, k = l.n_kv, m = l.d;
    const clattn_type x = fuzz_float_type(b), of_w = fuzz_below(b, 3) ? x : fuzz_float_type(b);
    // The sizes select the epilogue and block types of w, so that old seeds keep their meaning.
    const uint64_t un = (uint64_t)n, um = (uint64_t)m;
    const unsigned follows = (unsigned)((3 * un + 5 * (uint64_t)k + um) % 8);
    const bool in_blocks = k % 32 == 0 && k > 0 && (un + um) % 3 == 0;
    const clattn_type w = in_blocks ? (clattn_type)(CLATTN_TYPE_Q8_0 + un % 3) : of_w;
    const int64_t w_shape[] = {m, in_blocks ? k / 32 : k};
    clattn_linear_params p = {.projection = CLATTN_PROJECTION_NATIVE};
    clattn_linear_choice choice = {.workspace_bytes = 0};
    fuzz_fields f = {.required = 3, .written = 1 << 1, .workspace = &p.workspace};
    fuzz_launch at;
    fuzz_launch_choose(&at, b);
    fuzz_add_view(&f, &p.x, x, 3, (int64_t[]){l.batch, n, k});
    fuzz_add_view(&f, &p.out, x, 3, (int64_t[]){l.batch, n, m});
    fuzz_add_view(&f, &p.w, w, 2, w_shape);
    fuzz_add_optional(&f, !(fuzz_byte(b) & 1), &p.b, of_w, 1, &m);
    fuzz_add_optional(&f, follows & 1, &p.w_up, w, 2, w_shape);
    fuzz_add_optional(&f, follows & 1 && follows & 2, &p.b_up, of_w, 1, &m);
    fuzz_add_optional(&f, follows & 4, &p.residual, x, 3, (int64_t[]){l.batch, n, m});
    if (follows & 2) p.activation = (clattn_activation)(um % CLATTN_ACTIVATION_COUNT);
    if (l.repeats) fuzz_repeat(&f, &p.out);
    fuzz_add_int(&f, &p.projection), fuzz_add_int(&f, &p.activation);
    fuzz_change_all(&f, b);
    bool right = false;
    const clattn_status status = fuzz_plan(&f, ask_linear, &p, &choice, &right);
    if (status == CLATTN_OK && right && !linear_may_run(&p, &choice)) return true;
    return fuzz_end(&f, &at,
                    clattn_linear_enqueue(fuzz_context, at.queue, &p, at.wait_count, at.wait_list, at.to),
                    right && !at.wrong);
}
