// linear_plan.h: which kernel a projection takes, or CLBlast.
#ifndef CLATTN_PLAN_LINEAR_PLAN_H
#define CLATTN_PLAN_LINEAR_PLAN_H
#include "plan/variant.h"

// A projection of `rows` rows: the kernel and its knobs, or false where CLBlast is the choice; when `forced`, always
// true. The caller's rows decide; then what was measured on the device; then what the library prefers: its rows on CPUs,
// elsewhere CLBlast for float32 weights and many rows alone. RoPE is fused where the knob `rope` says so: where heads
// have an even size and, in linear_lanes, fit whole into a tile.
typedef struct linear_problem {
    clattn_type type_x, type_w, type_y, type_bias;
    int scale_group, type_scale; // of W with scales, as the knobs; 0: it has none
    bool zeros;                  // and zero points
    int64_t rows, columns, reduction;
    int rope_head; // the head size, where RoPE should turn the heads of the result; 0: no RoPE
    bool rope_interleaved;
    bool split;    // float32 may be split into terms (CLATTN_PRECISION_SPLIT)
    bool packed;   // the weights are there packed, too
    bool epilogue; // something follows before the result is stored
    // Elements to which the rows of x (and the heads that it is made of) and those of W are aligned: a power of two.
    int align_x, align_w;
} linear_problem;

typedef struct linear_choice {
    enum kernel_id id;
    knobs knobs;
    int column_tile; // columns of a work-group
    int row_tile;    // rows of a work-group; 0: all of them, few
    int work_group;  // work-items of a group; 0: one
    size_t local_bytes;
    const char *options; // of the compiler, besides the knobs; NULL: the usual ones
} linear_choice;

// Whether a measurement can change that: no row of the caller's decides, and a kernel and CLBlast both come into question.
bool cla_variant_linear_is_open(const plan_input *in, const linear_problem *p);
bool cla_variant_choose_linear(const plan_input *in, const linear_problem *p, bool forced,
                               linear_choice *choice);
// What the driver said of a choice's kernel when it refused it, or NULL; and of the one that would be chosen if it had not.
const char *cla_variant_linear_unfit(const plan_input *in, const linear_choice *choice);
const char *cla_variant_linear_gone(const plan_input *in, const linear_problem *p, const char **kernel);
// Why it was chosen, and which measurement stands for a kernel: PLAN_FEW_ROWS or PLAN_MANY_ROWS.
const char *cla_variant_linear_why(const plan_input *in, const linear_problem *p, bool native);
int cla_variant_linear_measure(enum kernel_id id);
#endif
