// random.c: see random.h.
#include "evidence/sets/random.h"

// SplitMix64: every seed is a good one.  Source: Steele, Lea and Flood 2014.
double random_uniform(struct random *random, double low, double high) {
    uint64_t z = random->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return low + (high - low) * ((double)(z >> 11) / 9007199254740992.0);
}
