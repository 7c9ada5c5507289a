// family_fragments.h: what the families on an engine that a warp shares (fragments.clh) have in common, and tell others.
#ifndef CLATTN_PLAN_FAMILIES_FAMILY_FRAGMENTS_H
#define CLATTN_PLAN_FAMILIES_FAMILY_FRAGMENTS_H
#include "plan/families/family.h"

// The fastest proven engine for this type of 16 bits, of that number where it is not 0; PROBE_NONE: there is none. And the options
// of the compiler for a kernel with these knobs, NULL: the usual ones.
probe_id cla_family_fragments_proven(const plan_input *in, int type, int number);
const char *cla_family_fragments_options(const knobs *k);

// Whether fragments are of a projection's types; whether they can compute it as the row says, on an engine that is proven or on the
// emulation; and whether a proven one promises to be faster than tiles of multiply-adds.
bool cla_family_linear_fragments_types(const linear_problem *p);
bool cla_family_linear_fragments_can(const plan_input *in, const linear_problem *p, const knobs *row);
bool cla_family_linear_fragments_wins(const plan_input *in, const linear_problem *p);
#endif
