/* cache.h: a cache on disk that maps a key to bytes, with one file an entry. It does not know
 * OpenCL: program.c makes the key from everything that a binary depends on, and stores the
 * driver's binary.
 *
 * An unusable cache is NULL, and every lookup in it misses. No function returns an error, since
 * an entry can be made again; failures are logged through `tell`. The folder is kept below a
 * size by removing the entries unused for longest. Threads: any, on one cache or several.
 * Processes may share a folder. */
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
    ((size_t)256 << 20) /* limit of one file: a damaged folder must not exhaust the memory */

typedef struct cache cache;

#define CACHE_DEFAULT_BYTES ((uint64_t)256 << 20)

typedef struct cache_params {
    const char *dir;    /* NULL: no folder */
    uint64_t max_bytes; /* limit of all entries together; 0: CACHE_DEFAULT_BYTES */
    /* The application's cache (clattn_cache in the public header), or NULL. It is read after the
     * folder, and stores the same entries as the folder, headers included. */
    size_t (*load)(void *own, const char *name, void *bytes, size_t capacity);
    void (*store)(void *own, const char *name, const void *bytes, size_t count);
    void *own;
    /* Logs one line, on the thread of the call: an unusable folder, an entry that is not stored,
     * entries that were removed. NULL: nothing is logged. */
    void (*tell)(void *user, const char *line);
    void *user;
    const clattn_host_memory *host; /* host.h; must outlive the cache */
} cache_params;

/* Open the cache. A missing folder is created, a missing parent is not. Temporary files that
 * killed processes left are removed once they are an hour old. Returns NULL if there is neither
 * load nor store nor a dir that cla_os_folder_open accepts. */
cache *cla_cache_open(const cache_params *params);

/* Find an entry and check it. On success the caller frees *bytes with cla_host_release, also for
 * an empty payload. On failure both results are unchanged. A damaged entry is a miss and is
 * removed. An unreadable file (a link, another user's file) is a miss, and the next store
 * replaces it. */
bool cla_cache_load(cache *c, const uint8_t key[CACHE_KEY_BYTES], unsigned char **bytes, size_t *count);

/* Store an entry, replacing the one with the same key. An entry that is too large or cannot be
 * written is skipped. */
void cla_cache_store(cache *c, const uint8_t key[CACHE_KEY_BYTES], const void *bytes, size_t count);

/* A mark is a locked file in the folder while a step runs that may crash the process. A later
 * process that finds the mark of an ended process skips the step. Marks of running processes do
 * not count. */
typedef struct cache_mark {
    char name[CACHE_MARK_BYTES];
    os_held held;
} cache_mark;

/* True if the cache has a folder, which marks need. */
bool cla_cache_keeps(const cache *c);
/* Begin the step with this key. Returns false if earlier processes ended in the step and their
 * weights add up to CACHE_FATAL; cla_cache_end must not be called then. `again` starts the step
 * anyway. Without a folder there are no marks, and every step may begin. */
bool cla_cache_begin(cache *c, const uint8_t key[CACHE_KEY_BYTES], int weight, bool again, cache_mark *mark);
void cla_cache_end(cache *c, cache_mark *mark);
/* True if cla_cache_begin would return false. */
bool cla_cache_was_fatal(cache *c, const uint8_t key[CACHE_KEY_BYTES]);
/* Weights of a mark. A dangerous step is skipped after one process ended in it. A plain step is
 * skipped after two, because its user may have ended the first. */
enum { CACHE_FATAL = 2, CACHE_DANGEROUS = 2, CACHE_PLAIN = 1 };

/* Remove entries of the folder, those unused for longest first, until at most max_bytes are
 * left. 0 also removes the marks. */
void cla_cache_trim(cache *c, uint64_t max_bytes);

/* NULL is allowed. */
void cla_cache_close(cache *c);

/* Add the device, driver, machine and library version to a key, because machines and installations
 * may share a folder.
 *    cpu      the model of a CPU device (cla_os_cpu_model), else "": PoCL 3.1 names a Zen 4
 *             and a Zen 5 alike
 *    library  clattn's version
 * The device's vector width is included, because plans depend on it. */
void cla_identity_add(sha256_state *h, const clattn_capabilities *device, const char *cpu,
                      const char *library);
// The key of an entry about a device and driver, not about a kernel; `what` distinguishes entries.
void cla_identity_key(const clattn_capabilities *device, const char *cpu, const void *what, size_t bytes,
                      uint8_t key[CACHE_KEY_BYTES]);
#endif
