// model.h: the cost of a case by the formulas that reports state: operations, and bytes that must
// move at least once. Used by bench and reports.
#ifndef CLATTN_VERIFICATION_LIMITS_MODEL_H
#define CLATTN_VERIFICATION_LIMITS_MODEL_H

#include "verification/case/case.h"

// Pairs of a query row and a key that positions, window and lengths leave visible, over all batch
// items and one head. A mask hides none of them.
double model_pairs(const clattn_score *score, int64_t batch, int64_t n_q, int64_t n_kv);

// Attention: 2 H pairs (D + Dv), which is 4 B H Nq Nkv D for a full call with Dv = D and about half
// for a causal square. A layer adds the multiply-adds of its four projections, 2 operations each.
// Linear: 2 rows K M with M = heads * D.
double model_flops(const struct test_case *test);

// Attention: Q, K, V and the output, once each. Layer: x, y, the four weight matrices and the
// output. Linear: x, W and the output.
double model_bytes(const struct test_case *test);

#endif
