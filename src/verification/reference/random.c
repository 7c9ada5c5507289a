// random.c: see random.h.
#include "verification/reference/random.h"

#include <math.h>

// SplitMix64, which accepts every seed. Source: Steele, Lea and Flood 2014.
double random_uniform(struct random *random, double low, double high) {
    uint64_t z = random->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return low + (high - low) * ((double)(z >> 11) / 9007199254740992.0);
}

// One of the ten bijections of Salmon et al. 2011, section 3.3: (L0, R0, L1, R1) with two 32 x 32
// -> 64 bit products.
static void philox_round(uint32_t x[4], const uint32_t key[2]) {
    const uint64_t first = (uint64_t)x[0] * UINT64_C(0xD2511F53),
                   second = (uint64_t)x[2] * UINT64_C(0xCD9E8D57);
    const uint32_t next[4] = {(uint32_t)(second / 4294967296u) ^ x[1] ^ key[0], (uint32_t)second,
                              (uint32_t)(first / 4294967296u) ^ x[3] ^ key[1], (uint32_t)first};
    for (int n = 0; n < 4; n++) x[n] = next[n];
}

void philox(const uint32_t counter[4], const uint32_t key[2], uint32_t words[4]) {
    for (int n = 0; n < 4; n++) words[n] = counter[n];
    for (uint32_t round = 0; round < 10; round++) {
        // Each round's key is one Weyl step further: the golden ratio, and the square root of 3
        // minus 1.
        const uint32_t now[2] = {key[0] + round * 0x9E3779B9u, key[1] + round * 0xBB67AE85u};
        philox_round(words, now);
    }
}

bool philox_keeps(float dropout, uint64_t seed, int64_t b, int64_t h, int64_t i, int64_t j) {
    const uint32_t key[2] = {(uint32_t)(seed % 4294967296u), (uint32_t)(seed / 4294967296u)},
                   counter[4] = {(uint32_t)(j / 4), (uint32_t)i, (uint32_t)h, (uint32_t)b};
    uint32_t words[4];
    philox(counter, key, words);
    return (double)words[j % 4] >= floor((double)dropout * 0x1p32);
}

double philox_factor(float dropout, uint64_t seed, int64_t b, int64_t h, int64_t i, int64_t j) {
    if (dropout == 0.0f) return 1;
    return philox_keeps(dropout, seed, b, h, i, j) ? 1 / (1 - (double)dropout) : 0;
}
