// family_linear.h: what a family of projections tells the others, and the plan of one.
#ifndef CLATTN_PLAN_FAMILIES_FAMILY_LINEAR_H
#define CLATTN_PLAN_FAMILIES_FAMILY_LINEAR_H
#include "plan/families/family.h"

// Whether the device holds any tile of linear_tiles; linear_rows runs everywhere.
bool cla_family_linear_tiles_fit(const plan_input *in);

// Whether x86's bfloat16 dot product may compute a projection of many rows, and whether it was proven and is the faster engine.
bool cla_family_linear_dot_can(const plan_input *in, const linear_problem *p);
bool cla_family_linear_dot_wins(const plan_input *in, const linear_problem *p);
// Whether tiles of a matrix engine can compute this projection, on the emulation at least; and whether the device's own, which
// it proved, promises to be the fastest.
bool cla_family_linear_matrix_can(const plan_input *in, const linear_problem *p);
bool cla_family_linear_matrix_wins(const plan_input *in, const linear_problem *p);
// Whether fragments of an engine that a warp shares are of its types; can compute it as the row says, on an engine that is proven or on the
// emulation; and whether a proven one promises to be faster than tiles of multiply-adds.
bool cla_family_linear_fragments_types(const linear_problem *p);
bool cla_family_linear_fragments_can(const plan_input *in, const linear_problem *p, const knobs *row);
bool cla_family_linear_fragments_wins(const plan_input *in, const linear_problem *p);
#endif
