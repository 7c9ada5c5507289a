// backward_families.h: the kernel families for gradients, in order of preference. The forward table
// (families.def) does not contain them. Tuned rows may name their kernels. plan/backward_plan.c
// decides which family fits a call.
#ifndef CLATTN_PLAN_BACKWARD_FAMILIES_H
#define CLATTN_PLAN_BACKWARD_FAMILIES_H
#include "plan/families/family.h"

enum { BACKWARD_MATRIX, BACKWARD_LANES, BACKWARD_TILES, BACKWARD_PORTABLE, CLA_BACKWARD_FAMILIES };
extern const family cla_backward_families[CLA_BACKWARD_FAMILIES];

// Set the tile of backward_lanes, or of backward_matrix: the default, then the knobs of a tuned
// row.
void cla_backward_complete_lanes(knobs *k, const knobs *row);
void cla_backward_complete_matrix(knobs *k, const knobs *row);
#endif
