// linear.h: the seam of the projections: y = x W^T + b. Behind it stand CLBlast and, where a tuned row says
// that it is faster, clattn's own kernels.
#ifndef CLATTN_LAYER_PROJECTION_LINEAR_H
#define CLATTN_LAYER_PROJECTION_LINEAR_H
#include "attention/call/call.h"
#include "attention/call/views.h"
#include "layer/projection/clblast.h"
#include "plan/linear_plan.h"
#include "args/args.h"

// What becomes of a projection before it is stored, as clattn_linear_params has it.
typedef struct linear_epilogue {
    bool given;
    clattn_activation activation;
    clattn_tensor w_up, b_up, packed_up, up_scale, up_zero; // as w, b, packed, scale, zero of the projection
    clattn_tensor residual;                                 // [B, N, M]
} linear_epilogue;

// x and y are [B, heads, N, size], so that heads are split and joined by strides alone: column c of a row is
// element c % size of head c / size. A plain [B, N, M] has one head.
typedef struct linear {
    clattn_tensor x;           // [B, G, N, K / G]
    clattn_tensor w;           // [M, K], last stride 1
    clattn_tensor b;           // optional [M]
    clattn_tensor scale, zero; // of w, where its type has them: [M] or [M, groups]
    clattn_tensor packed;      // w once more, packed (packed.h): its words; no buffer: there are none
    bool split;                // float32 may be split into terms
    clattn_tensor y;           // [B, H, N, M / H]
    bool native;               // clattn's own kernel
    linear_choice choice;      // that kernel and the shape of its work (linear_choose)
    cl_mem lengths; // optional table of args.h (ARGS_BATCH_ROWS): rows past q_length are not written
    bool has_lengths;
    int align_x,
        align_w; // elements to which rows are aligned, at most 16; found by cla_linear_choose where it matters
    rope_rows
        rope; // rotary_dim 0: none. Only the native kernel turns, and only where choice.knobs.rope says so
    linear_epilogue epilogue; // of a y of one head, without lengths
    // Rows of packed sequences, which rope.table tells (cl/args/args.h): how many, and the rows of the cache that y is, into which
    // each row goes where its sequence ends; 0: it is none. choice.knobs.ragged says so, too.
    int sequences, cache_rows;
} linear;

// The knob SCALE_GROUP of a matrix: numbers that share a scale, 1: all of a row; 0: it has no scales.
int cla_linear_scale_group(const clattn_tensor *w, const clattn_tensor *scale);

// The second projection of a gate.
linear cla_linear_up(const linear *l);

// Whether the product as it is chosen turns the rows that it makes as `rope` says.
bool cla_linear_turns(const clattn_rope *rope, const linear *l);

// [B, N, M] as [B, 1, N, M].
clattn_tensor cla_linear_one_head(const clattn_tensor *t);

// The native kernel for it, whoever is the faster. To be done again where a type, a shape or RoPE changes.
void cla_linear_choose(clattn_context *context, linear *l);

// A weight matrix of shape [out, in] with what lies beside it, under these names: w, b, scale and zero point. No scale: none is asked for.
typedef struct linear_given {
    const clattn_tensor *w, *b, *scale, *zero;
    int64_t shape[2];
    const char *names[4];
} linear_given;
#define LINEAR_NAMES(w, b)                                                                                   \
    { w, b, w "_scale", w "_zero" }

// Check what one call and a layer's call have in common (linear_check.c): a weight matrix; and who is asked to multiply.
clattn_status cla_linear_check_matrix(clattn_context *context, const linear_given *m, bool planning);
clattn_status cla_linear_check_projection(clattn_context *context, clattn_projection wanted);
clattn_status cla_linear_check_precision(clattn_context *context, clattn_precision precision);

// How a projection treats its result: where CLBlast may write it, the bias is added to it afterwards.
view_use cla_linear_output_use(clattn_projection wanted);

// CLBlast counts elements in 32 bits: refuse what lies beyond, in the views or in a workspace of so many bytes.
clattn_status cla_linear_check_reach(clattn_context *context, const linear *l, uint64_t workspace_bytes);

// Scratch bytes of one call, for conversions.
uint64_t cla_linear_scratch(const linear *l);

// Compile what a call needs besides CLBlast's own kernels.
clattn_status cla_linear_prepare(clattn_context *context, const linear *l);

// Operations of its launches.
double cla_linear_flops(const linear *l);

// Enqueue; `scratch` holds linear_scratch bytes from byte `at` on.
clattn_status cla_linear_enqueue(chain *c, const linear *l, cl_mem scratch, uint64_t at);

// y = x, converted: matrices or [B, heads, N, size] whose heads lie side by side in both.
clattn_status cla_linear_convert_prepare(clattn_context *context, clattn_type from, clattn_type to);
clattn_status cla_linear_convert(chain *c, const clattn_tensor *x, const clattn_tensor *y);

// The native kernel (linear_native.c); y is written whole. What it takes packed is packed already.
clattn_status cla_linear_native_prepare(clattn_context *context, const linear *l);
clattn_status cla_linear_native_enqueue(chain *c, const linear *l);
// Ask the planner about it: whether the native kernel is to be taken, and whether a measurement can change that.
typedef struct projection_answer {
    enum plan_measured of[PLAN_MEASURES];
    bool sure; // the runs agreed
} projection_answer;
bool cla_linear_native_wins(clattn_context *context, const linear *l, const projection_answer *known);
bool cla_linear_native_is_open(clattn_context *context, const linear *l);
const char *cla_linear_why(clattn_context *context, const linear *l, const projection_answer *known);
// What the driver said of the native kernel that another one has the place of, and that kernel's name; NULL: nothing.
const char *cla_linear_gone(clattn_context *context, const linear *l, const char **kernel);
// Whether its native kernel takes packed weights, and would if there were many rows.
bool cla_linear_takes_packed(const linear *l);
bool cla_linear_would_take_packed(clattn_context *context, const clattn_tensor *w, bool split);
// Whether its native kernel is one of few rows.
bool cla_linear_is_of_few_rows(const linear *l);
// Three projections of the same rows in one launch, where their kernel and knobs are those of few rows: a
// launch costs about as much as such a projection.
bool cla_linear_native_shares_launch(const linear *const l[3]);
clattn_status cla_linear_native_enqueue_three(chain *c, const linear *const l[3]);
// For a launch of a whole layer of few rows (layer_small.c): the knobs and arguments of linear_few_lanes.cl where it is the
// kernel and all types are one; and the table of RoPE's positions.
bool cla_linear_native_small(const linear *l, knobs *k, linear_args *a);
const cl_mem *cla_linear_native_positions(const linear *l);
#endif
