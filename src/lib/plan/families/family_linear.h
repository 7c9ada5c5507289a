// family_linear.h: what a family of projections tells the others, and the plan of one.
#ifndef CLATTN_PLAN_FAMILIES_FAMILY_LINEAR_H
#define CLATTN_PLAN_FAMILIES_FAMILY_LINEAR_H
#include "plan/families/family.h"

// Whether the device holds any tile of linear_tiles; linear_rows runs everywhere.
bool cla_family_linear_tiles_fit(const plan_input *in);

// Whether x86's bfloat16 dot product may compute a projection of many rows, and whether it was proven and is the faster engine.
bool cla_family_linear_dot_can(const plan_input *in, const linear_problem *p);
bool cla_family_linear_dot_wins(const plan_input *in, const linear_problem *p);
// Whether W is in blocks, as ggml's.
static inline bool cla_family_linear_in_blocks(const linear_problem *p) {
    return clattn_type_numbers(p->type_w) > 2;
}
// Whether numbers of W are integers whose scales are each of whole blocks of 32: those, or int8, i4 and u4 of such rows.
bool cla_family_linear_integers_can(const linear_problem *p);
// DOT_I8 of a kernel in lanes, 0 where it multiplies floats: integers where it `can`, the device has proven them and they `win`, being
// predicted to be faster, or where a row asks for them, if need be emulated. A row that the caller gives has the word: what it says without
// DOT_I8 is for floats.
int cla_family_linear_integers(const plan_input *in, const tuned_row *row, int lanes, bool can, bool win);
// Whether tiles of a matrix engine can compute this projection, on the emulation at least; and whether the device's own, which
// it proved, promises to be the fastest.
bool cla_family_linear_matrix_can(const plan_input *in, const linear_problem *p);
bool cla_family_linear_matrix_wins(const plan_input *in, const linear_problem *p);
#endif
