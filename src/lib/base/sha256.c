/* sha256.c: SHA-256 with the names of FIPS 180-4: Ch, Maj, the Sigmas, a to h, W, K. See
 * sha256.h. */
#include "base/sha256.h"

#include <string.h>

static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotr(uint32_t x, int n) {
    return x >> n | x << (32 - n);
}
static uint32_t Ch(uint32_t x, uint32_t y, uint32_t z) {
    return (x & y) ^ (~x & z);
}
static uint32_t Maj(uint32_t x, uint32_t y, uint32_t z) {
    return (x & y) ^ (x & z) ^ (y & z);
}
static uint32_t Sigma0(uint32_t x) {
    return rotr(x, 2) ^ rotr(x, 13) ^ rotr(x, 22);
}
static uint32_t Sigma1(uint32_t x) {
    return rotr(x, 6) ^ rotr(x, 11) ^ rotr(x, 25);
}
static uint32_t sigma0(uint32_t x) {
    return rotr(x, 7) ^ rotr(x, 18) ^ x >> 3;
}
static uint32_t sigma1(uint32_t x) {
    return rotr(x, 17) ^ rotr(x, 19) ^ x >> 10;
}

static uint32_t big_endian(const unsigned char *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Section 6.2.2, steps 1 to 4. */
static void hash_block(uint32_t H[8], const unsigned char M[64]) {
    uint32_t W[64];
    for (int t = 0; t < 16; t++) W[t] = big_endian(M + 4 * t);
    for (int t = 16; t < 64; t++) W[t] = sigma1(W[t - 2]) + W[t - 7] + sigma0(W[t - 15]) + W[t - 16];
    uint32_t a = H[0], b = H[1], c = H[2], d = H[3], e = H[4], f = H[5], g = H[6], h = H[7];
    for (int t = 0; t < 64; t++) {
        const uint32_t T1 = h + Sigma1(e) + Ch(e, f, g) + K[t] + W[t];
        const uint32_t T2 = Sigma0(a) + Maj(a, b, c);
        h = g, g = f, f = e, e = d + T1;
        d = c, c = b, b = a, a = T1 + T2;
    }
    H[0] += a, H[1] += b, H[2] += c, H[3] += d;
    H[4] += e, H[5] += f, H[6] += g, H[7] += h;
}

void cla_sha256_begin(sha256_state *state) {
    static const uint32_t initial[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memset(state, 0, sizeof *state);
    memcpy(state->hash, initial, sizeof initial);
}

void cla_sha256_add(sha256_state *state, const void *bytes, size_t count) {
    const unsigned char *from = bytes;
    size_t filled = (size_t)(state->count % 64);
    state->count += count;
    while (count) {
        const size_t n = count < 64 - filled ? count : 64 - filled;
        memcpy(state->block + filled, from, n);
        filled += n, from += n, count -= n;
        if (filled < 64) break;
        hash_block(state->hash, state->block);
        filled = 0;
    }
}

/* Section 5.1.1: a one bit, zeros up to 56 bytes modulo 64, the length in bits. */
void cla_sha256_end(sha256_state *state, uint8_t digest[SHA256_BYTES]) {
    static const unsigned char padding[64] = {0x80};
    const uint64_t bits = state->count * 8;
    unsigned char length[8];
    for (int i = 0; i < 8; i++) length[i] = (unsigned char)(bits >> (56 - 8 * i));
    cla_sha256_add(state, padding, (size_t)((119 - state->count % 64) % 64 + 1));
    cla_sha256_add(state, length, sizeof length);
    for (int i = 0; i < SHA256_BYTES; i++) digest[i] = (uint8_t)(state->hash[i / 4] >> (24 - 8 * (i % 4)));
}

void cla_sha256_of(const void *bytes, size_t count, uint8_t digest[SHA256_BYTES]) {
    sha256_state state;
    cla_sha256_begin(&state);
    cla_sha256_add(&state, bytes, count);
    cla_sha256_end(&state, digest);
}
