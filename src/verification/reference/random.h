// random.h: reproducible random numbers. SplitMix64 generates the inputs of cases and suites: equal
// seeds mean equal numbers everywhere. Philox 4x32-10 generates the dropout mask of the public
// header; it is written from its paper, independently of the kernels. Used by the reference and by
// suites that compare masks bit by bit.
#ifndef CLATTN_VERIFICATION_REFERENCE_RANDOM_H
#define CLATTN_VERIFICATION_REFERENCE_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

struct random {
    uint64_t state;
};
double random_uniform(struct random *random, double low, double high);

void philox(const uint32_t counter[4], const uint32_t key[2], uint32_t words[4]);

// True if dropout keeps key j of query row i, head h and batch item b.
bool philox_keeps(float dropout, uint64_t seed, int64_t b, int64_t h, int64_t i, int64_t j);
// The factor of that weight; 1 without dropout.
double philox_factor(float dropout, uint64_t seed, int64_t b, int64_t h, int64_t i, int64_t j);

#endif
