// rope.c: rotary position embedding: frequencies, and RoPE of rows of q, k or any tensor, out of
// place or in place. For Hadamard-transformed caches the same launch transforms q, and another
// launch the result. A frequency is the part of a revolution that one position adds, times 2^64.
// Integer arithmetic then reduces the angle of every position exactly (rope.cl).
#include "attention/rope/rope.h"

#include <math.h>

#include "attention/call/call_kind.h"
#include "attention/call/table.h"
#include "base/host.h"

int cla_rope_width(const clattn_rope *r, int head_dim) {
    return r->rotary_dim ? r->rotary_dim : head_dim;
}

rope_frequency_range cla_rope_range(const clattn_rope *r) {
    if (r->scaling == CLATTN_ROPE_SCALING_YARN)
        return (rope_frequency_range){r->beta_slow > 0.0 ? r->beta_slow : 1.0,
                                      r->beta_fast > 0.0 ? r->beta_fast : 32.0};
    return (rope_frequency_range){r->low_factor > 0.0 ? r->low_factor : 1.0,
                                  r->high_factor > 0.0 ? r->high_factor : 4.0};
}

bool cla_rope_has_sections(const clattn_rope *r) {
    return r->sections[0] || r->sections[1] || r->sections[2];
}

#define GROUP 32 // work-items per Hadamard-transformed row, except on a CPU
#define TWO_PI 6.283185307179586476925

static double base_of(const clattn_rope *r, int width) {
    const double base = r->base > 0.0 ? r->base : 10000.0;
    double by = 1.0;
    if (r->scaling == CLATTN_ROPE_SCALING_NTK) by = r->factor;
    if (r->scaling == CLATTN_ROPE_SCALING_DYNAMIC && r->length > r->original_length)
        by = r->factor * r->length / r->original_length - (r->factor - 1.0);
    return by > 1.0 ? base * pow(by, (double)width / (width - 2)) : base;
}

// The pair that makes `revolutions` revolutions in the original length, as a fractional index.
static double pair_of_revolutions(const clattn_rope *r, int width, double revolutions) {
    return width * log(r->original_length / (revolutions * TWO_PI)) / (2.0 * log(base_of(r, width)));
}

// The share of pair d's frequency that is divided by the scaling factor: 0 to 1.
static double yarn_share(const clattn_rope *r, int width, int d) {
    const rope_frequency_range range = cla_rope_range(r);
    double first = pair_of_revolutions(r, width, range.high), last = pair_of_revolutions(r, width, range.low);
    if (!r->untruncated) first = floor(first), last = ceil(last);
    first = fmax(first, 0.0), last = fmin(last, width - 1.0);
    if (first == last) last += 0.001; // as in Transformers
    return fmin(fmax((d - first) / (last - first), 0.0), 1.0);
}

static double llama3_share(const clattn_rope *r, double revolutions_per_position) {
    const rope_frequency_range range = cla_rope_range(r);
    const double revolutions = revolutions_per_position * r->original_length;
    return fmin(fmax((range.high - revolutions) / (range.high - range.low), 0.0), 1.0);
}

// Revolutions per position of pair d, times 2^64. They are below 2^64 because base >= 1, factor >=
// 1 and pair_factors[d] >= 0.25.
static cl_ulong pair_frequency(const clattn_rope *r, int width, int d) {
    const double revolutions = pow(base_of(r, width), -2.0 * d / width) / TWO_PI;
    double divided = 0.0;
    if (r->scaling == CLATTN_ROPE_SCALING_PAIRS)
        return (cl_ulong)(revolutions / (double)r->pair_factors[d] * 18446744073709551616.0);
    if (r->scaling == CLATTN_ROPE_SCALING_LINEAR) divided = 1.0;
    if (r->scaling == CLATTN_ROPE_SCALING_YARN) divided = yarn_share(r, width, d);
    if (r->scaling == CLATTN_ROPE_SCALING_LLAMA3) divided = llama3_share(r, revolutions);
    return (cl_ulong)(((divided > 0.0 ? divided * revolutions / r->factor : 0.0) +
                       (1.0 - divided) * revolutions) *
                      18446744073709551616.0);
}

double cla_rope_amplitude(const clattn_rope *r) {
    if (r->scaling == CLATTN_ROPE_SCALING_PAIRS) return r->attention_factor > 0.0 ? r->attention_factor : 1.0;
    if (r->scaling != CLATTN_ROPE_SCALING_YARN) return 1.0;
    return r->attention_factor > 0.0 ? r->attention_factor : 0.1 * log(r->factor) + 1.0;
}

clattn_status cla_rope_make_frequencies(clattn_context *c, const clattn_rope *r, int head_dim, chain *steps,
                                        cl_mem *frequencies) {
    const int width = cla_rope_width(r, head_dim);
    cl_ulong *words = cla_host_take_zeroed(&c->host, (size_t)width / 2, sizeof *words);
    if (!words) return cla_context_fail(c, CLATTN_OUT_OF_MEMORY, "rope: no host memory for its frequencies");
    for (int d = 0; d < width / 2; d++) words[d] = pair_frequency(r, width, d);
    const clattn_status status =
        cla_chain_table(steps, words, (size_t)width / 2 * sizeof *words, frequencies);
    cla_host_release(&c->host, words);
    return status;
}

args_view cla_rope_positions_view(const clattn_tensor *t) {
    const int items = t->rank - 2;
    return (args_view){.offset = t->offset,
                       .batch = t->shape[items] == 1 ? 0 : t->stride[items],
                       .head = items ? t->stride[0] : 0,
                       .row = t->stride[items + 1]};
}

int cla_rope_positions_knob(const clattn_rope *r) {
    return !cla_rope_has_sections(r) ? 1 : r->sections_interleaved ? 3 : 2;
}

rope_source_args cla_rope_source(const clattn_rope *r, const clattn_tensor *positions) {
    const int32_t *sections = r->sections;
    rope_source_args s = {.ends = {sections[0], sections[0] + sections[1]}};
    if (r->sections_interleaved) s.ends[0] = sections[1], s.ends[1] = sections[2];
    if (positions) s.positions = cla_rope_positions_view(positions);
    return s;
}

static knobs knobs_of(const rope_apply *t) {
    knobs k = {.type_q = (int)t->x->type, .type_out = (int)t->y_type, .ragged = t->sequences > 0};
    if (t->rows.positions) k.positions = cla_rope_positions_knob(t->rope);
    if (t->cos) k.rope_tables = 1, k.type_bias = (int)t->cos->type;
    k.hadamard = t->rotation != 0;
    return k;
}

static clattn_status get_program(clattn_context *c, const rope_apply *t, knobs *k, program **p) {
    *k = knobs_of(t);
    return t->rotation ? cla_program_get_group(c, KERNEL_ROPE, k, GROUP, p)
                       : cla_program_get(c, KERNEL_ROPE, k, p);
}

bool cla_hadamard_divides(int block, int64_t size) {
    return block >= 2 && block <= HADAMARD_MOST_BLOCK && (block & (block - 1)) == 0 && size % block == 0;
}

float cla_hadamard_scale(int rotation) {
    return rotation ? (float)(1.0 / sqrt(rotation)) : 1.0f;
}

clattn_status cla_hadamard_check(clattn_context *c, const char *name, int rotation, int64_t size) {
    if (rotation == 0 || (cla_hadamard_divides(rotation, size) && size <= HADAMARD_MOST_COLUMNS))
        return CLATTN_OK;
    return cla_context_fail(
        c, CLATTN_INVALID_ARGUMENT,
        "%s: %d of rows of %lld: must be a power of two that divides them, 2 to %d, of rows "
        "of at most %d, or 0 for none",
        name, rotation, (long long)size, HADAMARD_MOST_BLOCK, HADAMARD_MOST_COLUMNS);
}

// View of cosines or sines: [P, R/2] by position, or [B or 1, N, R/2] by row.
static args_view cached_view(const clattn_tensor *t) {
    const int row = t->rank - 2;
    return (args_view){.offset = t->offset,
                       .batch = row && t->shape[0] != 1 ? t->stride[0] : 0,
                       .row = t->stride[row],
                       .column = t->stride[row + 1]};
}

static rope_source_args source_of(const rope_apply *t) {
    rope_source_args s = cla_rope_source(t->rope, t->rows.positions);
    if (t->cos) s.cos = cached_view(t->cos), s.sin = cached_view(t->sin);
    if (t->cos && t->cos->rank == 2) s.cached_rows = (int32_t)t->cos->shape[0];
    return s;
}

double cla_rope_apply_flops(const clattn_tensor *x) {
    return PACE_MOVE_FLOPS * (double)cla_tensor_count(x);
}

clattn_status cla_rope_apply_prepare(clattn_context *c, const rope_apply *t) {
    knobs k;
    program *p = NULL;
    return get_program(c, t, &k, &p);
}

// One work-item per pair or per column without RoPE. With a Hadamard transform, one group per row.
static void set_grid(const rope_apply *t, const chain *steps, const knobs *k, launch *l) {
    const int64_t *s = t->x->shape;
    const size_t group = (size_t)k->work_group, rows = (size_t)s[2], heads = (size_t)(s[0] * s[1]);
    const size_t items[3] = {rows * (size_t)(s[3] - t->rows.rotary_dim / 2), heads, 1};
    if (!t->rotation) {
        cla_launch_items(l, steps->context, items, (const size_t[3]){64, 1, 1});
        return;
    }
    l->local[0] = group, l->local[1] = l->local[2] = 1;
    l->global[0] = rows * group, l->global[1] = heads, l->global[2] = 1;
}

clattn_status cla_rope_apply_enqueue(chain *steps, const rope_apply *t) {
    const rope_rows *r = &t->rows;
    const clattn_tensor *x = t->x;
    knobs k;
    const int64_t d = x->shape[3], n = x->shape[2], h = x->shape[1];
    if (cla_tensor_count(x) == 0) return CLATTN_OK;
    const rope_args a = {.x = cla_tensor_view(x),
                         .y = t->y_view,
                         .batch = t->sequences > 0 ? t->sequences : (int)x->shape[0],
                         .heads = (int)h,
                         .n = (int)n,
                         .head_dim = (int)d,
                         .rotary_dim = r->rotary_dim,
                         .interleaved = r->interleaved,
                         .position = r->position,
                         .flags = r->flags,
                         .past_word = r->past_word,
                         .block = t->rotation,
                         .scale = cla_hadamard_scale(t->rotation),
                         .within = t->within,
                         .amplitude = r->amplitude};
    const rope_source_args source = source_of(t);
    launch l = {.flops = cla_rope_apply_flops(x), .cuts_first = true, .changes = t->in_place};
    TRY(get_program(steps->context, t, &k, &l.program));
    set_grid(t, steps, &k, &l);
    cla_launch_buffer(&l, &x->buffer);
    cla_launch_buffer(&l, t->y);
    cla_launch_buffer(&l, &r->frequencies);
    cla_launch_buffer(&l, &r->table);
    if (k.positions) cla_launch_buffer(&l, &r->positions->buffer);
    if (k.rope_tables) cla_launch_buffer(&l, &t->cos->buffer);
    if (k.rope_tables) cla_launch_buffer(&l, &t->sin->buffer);
    cla_launch_value(&l, &a, sizeof a);
    if (k.positions || k.rope_tables) cla_launch_value(&l, &source, sizeof source);
    return cla_launch_enqueue(steps, &l);
}

clattn_status cla_rope_frequencies(call *c, chain *steps) {
    if (c->frequencies || c->params.rope.layout == CLATTN_ROPE_NONE) return CLATTN_OK;
    TRY(cla_kv_past_table(c, steps));
    return cla_rope_make_frequencies(c->context, &c->params.rope, c->problem.head_dim, steps,
                                     &c->frequencies);
}

// Positions of query rows include the shift. Positions of keys include the past.
rope_rows cla_rope_rows_of(const call *c, bool is_query) {
    const clattn_rope *r = &c->params.rope;
    rope_rows rows = {.rotary_dim = cla_rope_width(r, c->problem.head_dim),
                      .amplitude = (float)cla_rope_amplitude(r),
                      .interleaved = r->layout == CLATTN_ROPE_INTERLEAVED};
    if (r->layout == CLATTN_ROPE_NONE) return (rope_rows){0}; // only the Hadamard transform of q
    const bool own = !is_query && cla_tensor_given(&r->k_positions);
    if (cla_tensor_given(&r->positions)) {
        rows.positions = own ? &r->k_positions : &r->positions;
        return rows;
    }
    const bool past = c->params.kv.past_lengths != NULL, packed = c->ragged.packed_keys;
    const int start = is_query ? c->args.shift : cla_kv_past(&c->params.kv, 0);
    rows.flags = is_query ? c->args.flags & ARGS_BATCH_ROWS : past && !packed ? ARGS_BATCH_ROWS : 0;
    if (!is_query && past && packed) rows.past_word = c->past.word;
    rows.position = r->position + (rows.flags || rows.past_word ? 0 : start);
    return rows;
}

// RoPE of q or k into a dense copy in the workspace.
static rope_apply rope_of(const call *c, bool is_query) {
    const clattn_tensor *x = is_query ? &c->params.q : &c->params.kv.k;
    const uint64_t at = is_query ? c->q_roped : c->k_roped;
    const int64_t d = x->shape[3], n = x->shape[2], h = x->shape[1];
    const bool packed = is_query ? c->ragged.given : c->ragged.packed_keys;
    rope_apply t = {.rope = &c->params.rope, .x = x, .y = &c->workspace, .y_type = x->type};
    t.y_view = (args_view){(int64_t)(at / clattn_type_size(x->type)), h * n * d, n * d, d, 1};
    t.rows = cla_rope_rows_of(c, is_query);
    t.rows.frequencies = c->frequencies, t.rows.table = is_query || packed ? c->table : c->past_table;
    if (packed && !t.rows.positions && t.rows.rotary_dim) t.sequences = c->problem.batch;
    if (packed) t.y_view.batch = 0;
    if (is_query) t.rotation = c->params.kv.k_rotation;
    return t;
}

// The inverse Hadamard transform of the result, in place. Rows past a length and rows of no item
// stay unchanged.
static rope_apply back_of(const call *c) {
    return (rope_apply){.rope = &c->params.rope,
                        .x = &c->params.out,
                        .y = &c->params.out.buffer,
                        .y_type = c->params.out.type,
                        .y_view = c->args.out,
                        .sequences = c->ragged.given ? c->problem.batch : 0,
                        .rotation = c->params.kv.v_rotation,
                        .within = true,
                        .rows = {.table = c->table, .flags = c->args.flags & ARGS_BATCH_ROWS}};
}

clattn_status cla_hadamard_undo_on_out_prepare(const call *c) {
    const rope_apply back = back_of(c);
    return back.rotation ? cla_rope_apply_prepare(c->context, &back) : CLATTN_OK;
}

double cla_hadamard_undo_on_out_flops(const call *c) {
    return c->params.kv.v_rotation ? cla_rope_apply_flops(&c->params.out) : 0.0;
}

clattn_status cla_hadamard_undo_on_out(const call *c, chain *steps) {
    const rope_apply back = back_of(c);
    return back.rotation ? cla_rope_apply_enqueue(steps, &back) : CLATTN_OK;
}

clattn_status cla_rope_prepare(call *c) {
    const rope_apply q = rope_of(c, true), k = rope_of(c, false);
    TRY(cla_rope_apply_prepare(c->context, &q));
    return c->keeps_keys ? CLATTN_OK : cla_rope_apply_prepare(c->context, &k);
}

double cla_rope_flops(const call *c) {
    return cla_rope_apply_flops(&c->params.q) + (c->keeps_keys ? 0.0 : cla_rope_apply_flops(&c->params.kv.k));
}

clattn_status cla_rope_enqueue(call *c, chain *steps) {
    const rope_apply q = rope_of(c, true), k = rope_of(c, false);
    TRY(cla_rope_apply_enqueue(steps, &q));
    c->args.q = q.y_view, c->q = c->workspace;
    if (c->keeps_keys) return CLATTN_OK;
    TRY(cla_rope_apply_enqueue(steps, &k));
    c->args.k = k.y_view, c->k = c->workspace;
    return CLATTN_OK;
}
