// linear.h: the internal interface of projections, y = x W^T + b. It is implemented by CLBlast and
// by clattn's own kernels.
#ifndef CLATTN_LAYER_PROJECTION_LINEAR_H
#define CLATTN_LAYER_PROJECTION_LINEAR_H
#include "attention/call/call.h"
#include "attention/call/views.h"
#include "layer/projection/clblast.h"
#include "plan/linear_plan.h"
#include "args/args.h"

// Operations on a projection before it is stored: see clattn_linear_params.
typedef struct linear_epilogue {
    bool given;
    clattn_activation activation;
    // The gate's w, b, packed, scale and zero.
    clattn_tensor w_up, b_up, packed_up, up_scale, up_zero;
    clattn_tensor residual; // [B, N, M]
} linear_epilogue;

// x and y are [B, heads, N, size], so that strides alone split and join heads: column c of a row is
// element c % size of head c / size. A plain [B, N, M] has one head.
typedef struct linear {
    clattn_tensor x; // [B, G, N, K / G]
    clattn_tensor w; // [M, K], last stride 1
    clattn_tensor b; // optional [M]
    // scales and zero points of w, if its type has them: [M] or [M, groups]
    clattn_tensor scale, zero;
    // The packed form of w (packed.h), as words. No buffer: not packed.
    clattn_tensor packed;
    bool split;           // float32 may be split into bf16 terms
    clattn_tensor y;      // [B, H, N, M / H]
    bool native;          // clattn's own kernel, not CLBlast
    linear_choice choice; // the native kernel and its tiles (cla_linear_choose)
    // Optional table (ARGS_BATCH_ROWS in args.h): rows past q_length are not written.
    cl_mem lengths;
    bool has_lengths;
    // Alignment of rows in elements, at most 16. Set by cla_linear_choose for kernels that need it.
    int align_x, align_w;
    // rotary_dim 0: none. Only the native kernel applies RoPE, and only if choice.knobs.rope is
    // set.
    rope_rows rope;
    linear_epilogue epilogue; // only for a y of one head, without lengths
    // Number of packed sequences, which rope.table describes (cl/args/args.h). If y is a cache,
    // cache_rows is its number of rows, and each row is written where its sequence ends; otherwise
    // 0. choice.knobs.ragged is then set, too.
    int sequences, cache_rows;
} linear;

// The knob SCALE_GROUP of a matrix: how many numbers share a scale. 1: a whole row; 0: the type has
// no scales.
int cla_linear_scale_group(const clattn_tensor *w, const clattn_tensor *scale);

// The second projection of a gate, x w_up^T + b_up.
linear cla_linear_up(const linear *l);

// True if the chosen kernel applies `rope` to the rows that it computes.
bool cla_linear_applies_rope(const clattn_rope *rope, const linear *l);

// View [B, N, M] as [B, 1, N, M].
clattn_tensor cla_linear_one_head(const clattn_tensor *t);

// Choose the native kernel, also if CLBlast will be used. Call it again after a change of type,
// shape or RoPE.
void cla_linear_choose(clattn_context *context, linear *l);

// A weight matrix [out, in] with its bias, scales and zero points. `names` are those of w, b, scale
// and zero in error texts. `scale` is NULL if scales need no check.
typedef struct linear_given {
    const clattn_tensor *w, *b, *scale, *zero;
    int64_t shape[2];
    const char *names[4];
} linear_given;
#define LINEAR_NAMES(w, b)                                                                                   \
    { w, b, w "_scale", w "_zero" }

// Checks shared by single projections and layers (linear_check.c): a weight matrix, the kind of
// projection, the precision.
clattn_status cla_linear_check_matrix(clattn_context *context, const linear_given *m, bool planning);
clattn_status cla_linear_check_projection(clattn_context *context, clattn_projection wanted);
clattn_status cla_linear_check_precision(clattn_context *context, clattn_precision precision);

// How a projection uses its result: if CLBlast may compute it, the result is also read to add the
// bias.
view_use cla_linear_output_use(clattn_projection wanted);

// CLBlast counts elements in 32 bits. Reject views or a workspace that need more.
clattn_status cla_linear_check_reach(clattn_context *context, const linear *l, uint64_t workspace_bytes);

// Scratch bytes of one call.
uint64_t cla_linear_scratch(const linear *l);

// Compile the kernels that a call needs, apart from CLBlast's own.
clattn_status cla_linear_prepare(clattn_context *context, const linear *l);

// Operations of the call's launches.
double cla_linear_flops(const linear *l);

// Enqueue the call. `scratch` has cla_linear_scratch bytes from byte `at` on.
clattn_status cla_linear_enqueue(chain *c, const linear *l, cl_mem scratch, uint64_t at);

// y = x, converted. Both are matrices, or [B, heads, N, size] with contiguous heads.
clattn_status cla_linear_convert_prepare(clattn_context *context, clattn_type from, clattn_type to);
clattn_status cla_linear_convert(chain *c, const clattn_tensor *x, const clattn_tensor *y);

// Prepare and enqueue the native kernel (linear_native.c), which writes all of y. If it needs
// packed weights, they must be packed already.
clattn_status cla_linear_native_prepare(clattn_context *context, const linear *l);
clattn_status cla_linear_native_enqueue(chain *c, const linear *l);
// The results of measurements, for the planner. `native_wins`: the native kernel is to be used.
// `native_is_open`: a measurement could change that choice.
typedef struct projection_answer {
    enum plan_measured of[PLAN_MEASURES];
    bool sure; // the runs agreed
} projection_answer;
bool cla_linear_native_wins(clattn_context *context, const linear *l, const projection_answer *known);
bool cla_linear_native_is_open(clattn_context *context, const linear *l);
const char *cla_linear_why(clattn_context *context, const linear *l, const projection_answer *known);
// The driver's message about a preferred native kernel that another one replaces, and that kernel's
// name. NULL: none.
const char *cla_linear_gone(clattn_context *context, const linear *l, const char **kernel);
// The first function is true if the chosen native kernel reads packed weights. The second is true
// if the kernel for a call with many rows would read them.
bool cla_linear_takes_packed(const linear *l);
bool cla_linear_would_take_packed(clattn_context *context, const clattn_tensor *w, bool split);
// True if the chosen native kernel is one for few rows.
bool cla_linear_is_of_few_rows(const linear *l);
// Enqueue three projections of the same rows as one launch, because a launch costs about as much as
// such a projection. They must have the same kernel and knobs, and the kernel must be one for few
// rows.
bool cla_linear_native_shares_launch(const linear *const l[3]);
clattn_status cla_linear_native_enqueue_three(chain *c, const linear *const l[3]);
// For the single launch of a layer with few rows (layer_small.c): the knobs and arguments of
// linear_few_lanes.cl, and the table of RoPE's positions. False if that is not the kernel or the
// types differ.
bool cla_linear_native_small(const linear *l, knobs *k, linear_args *a);
const cl_mem *cla_linear_native_positions(const linear *l);
#endif
