// random.h: a fixed generator of numbers: the same seed gives the same ones everywhere. Used by the inputs of
// cases and by suites.
#ifndef CLATTN_EVIDENCE_SETS_RANDOM_H
#define CLATTN_EVIDENCE_SETS_RANDOM_H

#include <stdint.h>

struct random {
    uint64_t state;
};
double random_uniform(struct random *random, double low, double high);

#endif
