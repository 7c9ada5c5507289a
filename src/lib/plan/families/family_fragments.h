// family_fragments.h: shared by the families on a matrix engine that a whole warp drives
// (fragments.clh).
#ifndef CLATTN_PLAN_FAMILIES_FAMILY_FRAGMENTS_H
#define CLATTN_PLAN_FAMILIES_FAMILY_FRAGMENTS_H
#include "plan/families/family.h"

// The fastest proven engine for a 16-bit type. `number` restricts it to one MATRIX_ENGINE; 0: any.
// PROBE_NONE: none is proven. The second function returns the compiler options for such a kernel;
// NULL: the defaults.
probe_id cla_family_fragments_proven(const plan_input *in, int type, int number);
const char *cla_family_fragments_options(const knobs *k);

// For linear_fragments. `types`: it supports the types. `can`: it can run with this row's knobs, on
// a proven engine or emulated. `wins`: a proven engine is predicted to be faster than linear_tiles.
bool cla_family_linear_fragments_types(const linear_problem *p);
bool cla_family_linear_fragments_can(const plan_input *in, const linear_problem *p, const knobs *row);
bool cla_family_linear_fragments_wins(const plan_input *in, const linear_problem *p);
#endif
