// family_linear.h: functions that the families of projections share, and that linear_plan.c needs.
#ifndef CLATTN_PLAN_FAMILIES_FAMILY_LINEAR_H
#define CLATTN_PLAN_FAMILIES_FAMILY_LINEAR_H
#include "plan/families/family.h"

// True if some tile of linear_tiles fits the device. linear_rows fits every device.
bool cla_family_linear_tiles_fit(const plan_input *in);

// True if x86's bfloat16 dot product can compute a projection of many rows. `wins`: it is also
// proven and faster than FMA.
bool cla_family_linear_dot_can(const plan_input *in, const linear_problem *p);
bool cla_family_linear_dot_wins(const plan_input *in, const linear_problem *p);
// True if W is in ggml's blocks.
static inline bool cla_family_linear_in_blocks(const linear_problem *p) {
    return clattn_type_numbers(p->type_w) > 2;
}
// True if W has integers with one scale per block of 32 or per row: block types, int8, i4 and u4.
bool cla_family_linear_integers_can(const linear_problem *p);
// DOT_I8 of a kernel in lanes; 0: float products. Integers are used if supported (`can`), proven
// and predicted to be faster (`win`). A tuned row of the caller overrides this: with DOT_I8=1 even
// emulated, without DOT_I8 float products.
int cla_family_linear_integers(const plan_input *in, const tuned_row *row, int lanes, bool can, bool win);
// True if linear_matrix supports a projection, at least emulated. `wins`: a proven engine is
// predicted to be the fastest choice.
bool cla_family_linear_matrix_can(const plan_input *in, const linear_problem *p);
bool cla_family_linear_matrix_wins(const plan_input *in, const linear_problem *p);
#endif
