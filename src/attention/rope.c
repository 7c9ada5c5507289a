// rope.c: rotary position embedding of q and k into scratch memory, before the scores.
// A frequency is handed to the kernel as the fraction of a full turn that one position adds, times 2^64:
// integer arithmetic then reduces any position's angle exactly (see rope.cl).
#include <math.h>
#include <stdlib.h>

#include "attention/call.h"

#define MAX_POSITION (1 << 24) // float32 results are checked up to here

static int rotary_dim(const clattn_rope *r, int head_dim) {
    return r->rotary_dim ? r->rotary_dim : head_dim;
}

// Positions that rows and keys take: all must be within 0 .. 2^24.
static clattn_status check_positions(clattn_context *c, const clattn_attention_params *p) {
    const int64_t n = p->q.shape[2] > p->kv.k.shape[2] ? p->q.shape[2] : p->kv.k.shape[2];
    if (p->rope.position < 0 || n > MAX_POSITION || p->rope.position > MAX_POSITION - n)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "rope.position: %lld and %lld rows: positions must be 0 to 2^24",
                                (long long)p->rope.position, (long long)n);
    return CLATTN_OK;
}

// A number of the scaling's: 0 where it has a default, else within its range.
static clattn_status check_number(clattn_context *c, const char *name, double x, double least,
                                  bool defaults) {
    if ((defaults && x == 0.0) || (isfinite(x) && x >= least)) return CLATTN_OK;
    return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "rope.%s: %g: must be %g or more%s", name, x, least,
                            defaults ? ", or 0 for its default" : "");
}

// Llama 3's and YaRN's bounds, with their defaults.
typedef struct turn_range {
    double low, high;
} turn_range;

static turn_range range_of(const clattn_rope *r) {
    if (r->scaling == CLATTN_ROPE_SCALING_YARN)
        return (turn_range){r->beta_slow > 0.0 ? r->beta_slow : 1.0,
                            r->beta_fast > 0.0 ? r->beta_fast : 32.0};
    return (turn_range){r->low_factor > 0.0 ? r->low_factor : 1.0,
                        r->high_factor > 0.0 ? r->high_factor : 4.0};
}

static clattn_status check_range(clattn_context *c, const clattn_rope *r) {
    const bool yarn = r->scaling == CLATTN_ROPE_SCALING_YARN;
    const turn_range range = range_of(r);
    TRY(check_number(c, yarn ? "beta_slow" : "low_factor", yarn ? r->beta_slow : r->low_factor, 1e-6, true));
    TRY(check_number(c, yarn ? "beta_fast" : "high_factor", yarn ? r->beta_fast : r->high_factor, 1e-6,
                     true));
    if (range.low < range.high) return CLATTN_OK;
    return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "rope.%s: %g: must be above rope.%s, which is %g",
                            yarn ? "beta_fast" : "high_factor", range.high, yarn ? "beta_slow" : "low_factor",
                            range.low);
}

static clattn_status check_scaling(clattn_context *c, const clattn_rope *r, int width) {
    const bool yarn = r->scaling == CLATTN_ROPE_SCALING_YARN,
               llama3 = r->scaling == CLATTN_ROPE_SCALING_LLAMA3,
               dynamic = r->scaling == CLATTN_ROPE_SCALING_DYNAMIC;
    if (r->scaling == CLATTN_ROPE_SCALING_NONE) return CLATTN_OK;
    TRY(check_number(c, "factor", r->factor, 1.0, false));
    if (width < 4 && (dynamic || r->scaling == CLATTN_ROPE_SCALING_NTK))
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "rope.rotary_dim: %d: NTK scaling needs 4 or more", width);
    if (yarn || llama3 || dynamic) TRY(check_number(c, "original_length", r->original_length, 1.0, false));
    if (dynamic) TRY(check_number(c, "length", r->length, 1.0, false));
    if (yarn) TRY(check_number(c, "attention_factor", r->attention_factor, 1e-6, true));
    if (yarn && r->base == 1.0)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "rope.base: 1: YaRN needs more");
    return yarn || llama3 ? check_range(c, r) : CLATTN_OK;
}

clattn_status cla_rope_check(clattn_context *context, const clattn_attention_params *p, int head_dim) {
    const clattn_rope *r = &p->rope;
    if ((unsigned)r->layout >= CLATTN_ROPE_COUNT)
        return cla_context_fail(context, CLATTN_INVALID_ARGUMENT, "rope.layout: %d is none of CLATTN_ROPE_*",
                                (int)r->layout);
    if ((unsigned)r->scaling >= CLATTN_ROPE_SCALING_COUNT)
        return cla_context_fail(context, CLATTN_INVALID_ARGUMENT,
                                "rope.scaling: %d is none of CLATTN_ROPE_SCALING_*", (int)r->scaling);
    if (r->layout == CLATTN_ROPE_NONE) return CLATTN_OK;
    const int width = rotary_dim(r, head_dim);
    if (width < 2 || width % 2 || width > head_dim)
        return cla_context_fail(context, CLATTN_INVALID_ARGUMENT,
                                "rope.rotary_dim: %d: must be even, at least 2 and at most the head size %d",
                                width, head_dim);
    if (!isfinite(r->base) || r->base < 0.0 || (r->base > 0.0 && r->base < 1.0))
        return cla_context_fail(context, CLATTN_INVALID_ARGUMENT,
                                "rope.base: %g: must be 1 or more; 0 means 10000", r->base);
    TRY(check_scaling(context, r, width));
    return check_positions(context, p);
}

#define TWO_PI 6.283185307179586476925

static double base_of(const clattn_rope *r, int width) {
    const double base = r->base > 0.0 ? r->base : 10000.0;
    double by = 1.0;
    if (r->scaling == CLATTN_ROPE_SCALING_NTK) by = r->factor;
    if (r->scaling == CLATTN_ROPE_SCALING_DYNAMIC && r->length > r->original_length)
        by = r->factor * r->length / r->original_length - (r->factor - 1.0);
    return by > 1.0 ? base * pow(by, (double)width / (width - 2)) : base;
}

// The pair that makes so many turns in the original length, as a number between pairs.
static double pair_of_turns(const clattn_rope *r, int width, double turns) {
    return width * log(r->original_length / (turns * TWO_PI)) / (2.0 * log(base_of(r, width)));
}

// How much of pair d's frequency is divided by the factor: 0 none of it, 1 all.
static double yarn_share(const clattn_rope *r, int width, int d) {
    const turn_range range = range_of(r);
    double first = pair_of_turns(r, width, range.high), last = pair_of_turns(r, width, range.low);
    if (!r->untruncated) first = floor(first), last = ceil(last);
    first = fmax(first, 0.0), last = fmin(last, width - 1.0);
    if (first == last) last += 0.001; // as Transformers has it
    return fmin(fmax((d - first) / (last - first), 0.0), 1.0);
}

static double llama3_share(const clattn_rope *r, double turns_per_position) {
    const turn_range range = range_of(r);
    const double turns = turns_per_position * r->original_length;
    return fmin(fmax((range.high - turns) / (range.high - range.low), 0.0), 1.0);
}

// Turns per position of pair d, times 2^64; below one turn because base >= 1 and factor >= 1.
static cl_ulong pair_turns(const clattn_rope *r, int width, int d) {
    const double turns = pow(base_of(r, width), -2.0 * d / width) / TWO_PI;
    double divided = 0.0;
    if (r->scaling == CLATTN_ROPE_SCALING_LINEAR) divided = 1.0;
    if (r->scaling == CLATTN_ROPE_SCALING_YARN) divided = yarn_share(r, width, d);
    if (r->scaling == CLATTN_ROPE_SCALING_LLAMA3) divided = llama3_share(r, turns);
    return (cl_ulong)(((divided > 0.0 ? divided * turns / r->factor : 0.0) + (1.0 - divided) * turns) *
                      18446744073709551616.0);
}

double cla_rope_amplitude(const clattn_rope *r) {
    if (r->scaling != CLATTN_ROPE_SCALING_YARN) return 1.0;
    return r->attention_factor > 0.0 ? r->attention_factor : 0.1 * log(r->factor) + 1.0;
}

clattn_status cla_rope_frequencies(call *c, chain *steps) {
    const clattn_rope *r = &c->params.rope;
    if (c->frequencies) return CLATTN_OK;
    const int width = rotary_dim(r, c->problem.head_dim);
    cl_ulong *words = calloc((size_t)width / 2, sizeof *words);
    if (!words)
        return cla_context_fail(c->context, CLATTN_OUT_OF_MEMORY, "rope: no host memory for its frequencies");
    for (int d = 0; d < width / 2; d++) words[d] = pair_turns(r, width, d);
    const clattn_status status =
        cla_chain_table(steps, words, (size_t)width / 2 * sizeof *words, &c->frequencies);
    free(words);
    return status;
}

// Only query rows move with the shift.
rope_rows cla_rope_rows_of(const call *c, bool is_query) {
    const clattn_rope *r = &c->params.rope;
    const int flags = is_query ? c->args.flags & ARGS_BATCH_ROWS : 0;
    return (rope_rows){.position = r->position + (is_query && !flags ? c->args.shift : 0),
                       .rotary_dim = rotary_dim(r, c->problem.head_dim),
                       .flags = flags,
                       .interleaved = r->layout == CLATTN_ROPE_INTERLEAVED};
}

static knobs rope_knobs(const call *c, bool is_query) {
    const int type = (int)(is_query ? c->problem.type_q : c->problem.type_kv);
    return (knobs){
        .type_q = type, .type_out = type, .ragged = c->ragged.given && (is_query || c->ragged.packed_keys)};
}

clattn_status cla_rope_prepare(call *c) {
    program *p = NULL;
    const knobs q = rope_knobs(c, true), k = rope_knobs(c, false);
    TRY(cla_program_get(c->context, KERNEL_ROPE, &q, &p));
    return cla_program_get(c->context, KERNEL_ROPE, &k, &p);
}

static double turn_flops(const clattn_tensor *x) {
    return PACE_MOVE_FLOPS * (double)cla_tensor_count(x);
}
double cla_rope_flops(const call *c) {
    return turn_flops(&c->params.q) + turn_flops(&c->params.kv.k);
}

// One tensor [B, H, N, D] becomes a dense copy at `at` bytes of the workspace; `view` then says so.
static clattn_status turn(call *c, chain *steps, const clattn_tensor *x, uint64_t at, bool is_query,
                          args_view *view) {
    const rope_rows r = cla_rope_rows_of(c, is_query);
    const knobs k = rope_knobs(c, is_query);
    const int64_t d = x->shape[3], n = x->shape[2], h = x->shape[1];
    *view = (args_view){(int64_t)(at / clattn_type_size(x->type)), h * n * d, n * d, d, 1};
    if (cla_tensor_count(x) == 0) return CLATTN_OK;
    rope_args a = {.x = cla_tensor_view(x),
                   .y = *view,
                   .batch = k.ragged ? c->problem.batch : (int)x->shape[0],
                   .heads = (int)h,
                   .n = (int)n,
                   .head_dim = (int)d,
                   .rotary_dim = r.rotary_dim,
                   .interleaved = r.interleaved,
                   .position = r.position,
                   .flags = r.flags,
                   .amplitude = (float)cla_rope_amplitude(&c->params.rope)};
    const size_t items[3] = {(size_t)n * (size_t)(d - r.rotary_dim / 2), (size_t)(x->shape[0] * h), 1};
    launch l = {.flops = turn_flops(x), .cuts_first = true};
    TRY(cla_program_get(c->context, KERNEL_ROPE, &k, &l.program));
    cla_launch_items(&l, c->context, items, (const size_t[3]){64, 1, 1});
    cla_launch_buffer(&l, &x->buffer);
    cla_launch_buffer(&l, &c->workspace);
    cla_launch_buffer(&l, &c->frequencies);
    cla_launch_buffer(&l, &c->table);
    cla_launch_value(&l, &a, sizeof a);
    return cla_launch_enqueue(steps, &l);
}

clattn_status cla_rope_enqueue(call *c, chain *steps) {
    TRY(turn(c, steps, &c->params.q, c->q_turned, true, &c->args.q));
    TRY(turn(c, steps, &c->params.kv.k, c->k_turned, false, &c->args.k));
    c->q = c->k = c->workspace;
    if (c->ragged.given) c->args.q.batch = 0;
    if (c->ragged.packed_keys) c->args.k.batch = 0;
    return CLATTN_OK;
}
