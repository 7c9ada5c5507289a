// check.h: is the result of a case right? Sampled rows against attention in double precision, computed from
// the definition and not by tiles. The tests' reference computes whole tensors, which a case of a bench is
// too large for. Used by measure.
#ifndef CLATTN_TOOL_BENCH_CHECK_H
#define CLATTN_TOOL_BENCH_CHECK_H
#include "tool/bench_problem.h"

// |got - exact|^2 / |exact|^2 over the sample; a NaN in the output gives infinity, a result that cannot be
// read -1.
double bench_check_nmse(problem *p);

// What is still right for a storage type.
double bench_check_budget(clattn_type type);
#endif
