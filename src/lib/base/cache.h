/* cache.h: key -> bytes on disk, one file an entry. Knows no OpenCL: program.c makes the key from everything
 * that a binary depends on, and keeps the driver's binary as the bytes. A cache that cannot be used is NULL and
 * misses; nothing here is an error, because an entry can be made again, but what the user may want to know is told.
 * The folder is kept to a size: entries that were not used for longest go first. Threads: any, on one cache or several;
 * processes may share a folder. */
#ifndef CLATTN_BASE_CACHE_H
#define CLATTN_BASE_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "clattn/clattn.h"
#include "base/os.h"
#include "base/sha256.h"

enum { CACHE_KEY_BYTES = 32, CACHE_MARK_BYTES = 2 * CACHE_KEY_BYTES + sizeof ".begun" };
#define CACHE_ENTRY_MAX_BYTES                                                                                \
    ((size_t)256 << 20) /* of a whole file: a damaged folder must not fill the memory */

typedef struct cache cache;

#define CACHE_DEFAULT_BYTES ((uint64_t)256 << 20)

typedef struct cache_params {
    const char *dir;    /* NULL: no cache */
    uint64_t max_bytes; /* of all entries together; 0: CACHE_DEFAULT_BYTES */
    /* The application's own, asked after the folder and given what the folder is given: clattn_cache of the public header.
     * They see whole entries, as files are. NULL: none. */
    size_t (*load)(void *own, const char *name, void *bytes, size_t capacity);
    void (*store)(void *own, const char *name, const void *bytes, size_t count);
    void *own;
    /* Takes one line about a folder that is not used, an entry that cannot be kept, entries that had to go; on the
     * thread of the call. NULL: nobody is told. */
    void (*tell)(void *user, const char *line);
    void *user;
    const clattn_host_memory *host; /* host.h; it outlives the cache */
} cache_params;

/* Open a folder; it is created where missing, its parent is not. What a killed process left of a store an hour ago or
 * longer is removed. NULL without a cache: neither load nor store, and dir is NULL, or a folder that os_folder_open refuses. */
cache *cla_cache_open(const cache_params *params);

/* Find an entry and check it. On true *bytes goes back through cla_host_release; it is a pointer for an empty payload too;
 * on false both are untouched. A damaged entry is a miss and is removed; one that may not even be read (a
 * link, another user's) is a miss and the next store replaces it. */
bool cla_cache_load(cache *c, const uint8_t key[CACHE_KEY_BYTES], unsigned char **bytes, size_t *count);

/* Keep an entry, replacing the one of the same key. One that is too large or cannot be written is not kept.
 */
void cla_cache_store(cache *c, const uint8_t key[CACHE_KEY_BYTES], const void *bytes, size_t count);

/* A step that may end the process leaves a mark in the folder while it runs. A later process finds the mark of a process that ended, and
 * leaves the step out. It does not see a mark that a living process holds. */
typedef struct cache_mark {
    char name[CACHE_MARK_BYTES];
    os_held held;
} cache_mark;

/* True where there is a folder: marks need one. */
bool cla_cache_keeps(const cache *c);
/* Begin the step that has this key. False: earlier processes ended in it, and their weights reach CACHE_FATAL; there is no end then.
 * `again`: try nevertheless. Without a folder there are no marks, and every step may begin. */
bool cla_cache_begin(cache *c, const uint8_t key[CACHE_KEY_BYTES], int weight, bool again, cache_mark *mark);
void cla_cache_end(cache *c, cache_mark *mark);
/* True where cla_cache_begin would refuse. */
bool cla_cache_was_fatal(cache *c, const uint8_t key[CACHE_KEY_BYTES]);
/* A dangerous step is left out after one process that ended in it. A plain one may have been ended by its user: after two. */
enum { CACHE_FATAL = 2, CACHE_DANGEROUS = 2, CACHE_PLAIN = 1 };

/* Remove entries of the folder, those unused for longest first, until max_bytes are left at most. 0: marks, too. */
void cla_cache_trim(cache *c, uint64_t max_bytes);

/* NULL is allowed. */
void cla_cache_close(cache *c);

/* A part of the keys of all answers: which device, on which machine, through which driver and library. The folder may be shared:
 * between machines, and with what was installed there before. cpu: the model (cla_os_cpu_model) of a CPU device, "" of others: PoCL
 * 3.1 names a Zen 4 and a Zen 5 alike. Plans are made of the width that the device reports. library: the version of clattn. */
void cla_identity_add(sha256_state *h, const clattn_capabilities *device, const char *cpu,
                      const char *library);
#endif
