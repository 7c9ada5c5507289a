/* sha256.h: the SHA-256 hash of FIPS 180-4, implemented here because the library's core has no
 * dependencies. It uses no hardware instructions: a cache entry has only a few hundred
 * kilobytes. Threads: the only state is the one passed in. */
#ifndef CLATTN_BASE_SHA256_H
#define CLATTN_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { SHA256_BYTES = 32 };

typedef struct sha256 {
    uint32_t hash[8];
    uint64_t count; /* bytes added so far */
    unsigned char block[64];
} sha256_state;

/* Hash a message in pieces: begin, add any number of times, end. `bytes` may be NULL if count is
 * 0. */
void cla_sha256_begin(sha256_state *state);
void cla_sha256_add(sha256_state *state, const void *bytes, size_t count);
void cla_sha256_end(sha256_state *state, uint8_t digest[SHA256_BYTES]);

/* Hash a message in one piece. */
void cla_sha256_of(const void *bytes, size_t count, uint8_t digest[SHA256_BYTES]);

#endif
