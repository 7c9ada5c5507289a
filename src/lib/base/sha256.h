/* sha256.h: the SHA-256 hash of FIPS 180-4. Own code, because the library's core depends on nothing else.
 * Left out: hardware instructions; a cache entry is a few hundred kilobytes. Called by cache.c and by whoever
 * makes a cache key. Threads: no state but the one passed in. */
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

/* A message in pieces: begin, add any number of times, end. `bytes` may be NULL where count is 0. */
void cla_sha256_begin(sha256_state *state);
void cla_sha256_add(sha256_state *state, const void *bytes, size_t count);
void cla_sha256_end(sha256_state *state, uint8_t digest[SHA256_BYTES]);

/* A message in one piece. */
void cla_sha256_of(const void *bytes, size_t count, uint8_t digest[SHA256_BYTES]);

#endif
