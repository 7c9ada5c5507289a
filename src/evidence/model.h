// model.h: what a case costs by the formulas that a report states: operations, and the bytes that must move
// once. Leaves out what a kernel does beyond them. Used by measure.
#ifndef CLATTN_EVIDENCE_MODEL_H
#define CLATTN_EVIDENCE_MODEL_H
#include "tool/bench_cases.h"

// Attention: 2 B H pairs (D + Dv), pairs = Nq Nkv, or those that causality (bottom-right) shows: 4 B H Nq Nkv
// D for full with Dv = D, and about half of it for causal square. A layer adds 2 multiply-adds of its four
// projections. Linear: 2 rows K M, with M = heads * D.
double bench_model_flops(const bench_case *c);

// Attention: Q, K, V and the output, once each. A layer: x, the four weight matrices, and the output. Linear:
// x, W and the output.
double bench_model_bytes(const bench_case *c);
#endif
