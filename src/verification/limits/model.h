// model.h: what a case costs by the formulas that a report states: operations, and the bytes that must move
// once. Leaves out what a kernel does beyond them. Used by bench and by the tool's reports.
#ifndef CLATTN_EVIDENCE_LIMITS_MODEL_H
#define CLATTN_EVIDENCE_LIMITS_MODEL_H

#include "verification/case/case.h"

// Pairs of row and key, of all batch items and one head, that positions, window and lengths show. A mask hides none.
double model_pairs(const clattn_score *score, int64_t batch, int64_t n_q, int64_t n_kv);

// Attention: 2 H pairs (D + Dv): 4 B H Nq Nkv D for full with Dv = D, and about half of it for causal square. A
// layer adds 2 multiply-adds of its four projections. Linear: 2 rows K M, with M = heads * D.
double model_flops(const struct test_case *test);

// Attention: Q, K, V and the output, once each. A layer: x, y, the four weight matrices, and the output. Linear:
// x, W and the output.
double model_bytes(const struct test_case *test);

#endif
