// linear_plan.h: choose the kernel for a projection, or CLBlast.
#ifndef CLATTN_PLAN_LINEAR_PLAN_H
#define CLATTN_PLAN_LINEAR_PLAN_H
#include "plan/variant.h"

// A projection y = x W, as the planner sees it.
typedef struct linear_problem {
    clattn_type type_x, type_w, type_y, type_bias;
    // As the knobs SCALE_GROUP and TYPE_SCALE, for the scales of W. 0: W has no scales.
    int scale_group, type_scale;
    bool zero_points; // W has zero points
    int64_t rows, columns, reduction;
    // Head size if RoPE should be applied to the result's heads; 0: no RoPE.
    int rope_head;
    bool rope_interleaved;
    bool split;    // float32 may be split into terms (CLATTN_PRECISION_SPLIT)
    bool packed;   // packed weights are available
    bool epilogue; // an operation follows before the result is stored
    // Alignment in elements (a power of two) of the rows of x, of its heads, and of the rows of W.
    int align_x, align_w;
} linear_problem;

typedef struct linear_choice {
    enum kernel_id id;
    knobs knobs;
    int column_tile; // columns per work-group
    int row_tile;    // rows per work-group; 0: all rows, for few
    int work_group;  // work-items per work-group; 0: one
    size_t local_bytes;
    const char *options; // compiler options; NULL: the defaults
} linear_choice;

// True if a measurement can change the choice: no tuned row of the caller decides, and both a
// kernel and CLBlast are candidates.
bool cla_variant_linear_is_open(const plan_input *in, const linear_problem *p);
// Choose a kernel. Returns false if CLBlast is preferred, and always true if `forced`. The caller's
// tuned rows decide, then measurements on the device, then the library's default. On CPUs the
// default is the library's tuned rows. Elsewhere it is CLBlast for many rows with float32 weights,
// else clattn's kernels. The knob `rope` says whether RoPE is fused.
bool cla_variant_choose_linear(const plan_input *in, const linear_problem *p, bool forced,
                               linear_choice *choice);
// The driver's error for the kernel of `choice`; NULL: none. cla_variant_linear_gone: the same for
// the kernel that would be chosen without the error.
const char *cla_variant_linear_unfit(const plan_input *in, const linear_choice *choice);
const char *cla_variant_linear_gone(const plan_input *in, const linear_problem *p, const char **kernel);
// The reason for the choice. cla_variant_linear_measure: which measurement covers a kernel,
// PLAN_FEW_ROWS or PLAN_MANY_ROWS.
const char *cla_variant_linear_why(const plan_input *in, const linear_problem *p, bool native);
int cla_variant_linear_measure(enum kernel_id id);
#endif
