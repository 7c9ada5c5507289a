// backward_families.h: the families of gradients, in order of preference. They are no families of forward; tuned rows may name their
// kernels. What fits is plan/backward_plan.c's.
#ifndef CLATTN_PLAN_BACKWARD_FAMILIES_H
#define CLATTN_PLAN_BACKWARD_FAMILIES_H
#include "plan/families/family.h"

enum { BACKWARD_MATRIX, BACKWARD_LANES, BACKWARD_TILES, BACKWARD_PORTABLE, CLA_BACKWARD_FAMILIES };
extern const family cla_backward_families[CLA_BACKWARD_FAMILIES];

// The tile of the kernel with query rows in lanes, and what a row says of it; and that of the one on a matrix engine's tiles.
void cla_backward_complete_lanes(knobs *k, const knobs *row);
void cla_backward_complete_matrix(knobs *k, const knobs *row);
#endif
