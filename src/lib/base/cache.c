/* cache.c: the format of an entry, and its checks before the driver sees it. A driver may crash on
 * a truncated binary, or execute a flipped bit. os_folder makes the files private and atomic. See
 * cache.h.
 *
 * File name: the key as 64 lower-case hexadecimal digits, then ".clattn". Content, integers
 * little-endian:
 *      0   8  "clattn\r\n": not a text file; detects a transfer that changes line ends
 *      8   4  format version, 1
 *     12   4  zero
 *     16  32  key: detects a renamed entry
 *     48   8  payload bytes
 *     56  32  SHA-256 of bytes 0 to 55 and the payload
 *     88      payload, to the end of the file */
#include "base/cache.h"

#include "base/host.h"
#include "base/os.h"
#include "base/sha256.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION_AT = 8, KEY_AT = 16, COUNT_AT = 48, DIGEST_AT = 56, HEADER_BYTES = 88, FORMAT_VERSION = 1 };
enum { NAME_BYTES = 2 * CACHE_KEY_BYTES + sizeof ".clattn" };

#define STALE_NS (3600 * (uint64_t)1000000000)

struct cache {         /* Never changed after it is opened, so threads need no lock. */
    os_folder *folder; /* NULL: only the application's functions */
    cache_params params;
};

static void tell(const cache_params *p, const char *format, ...) {
    char line[512];
    va_list list;
    if (!p->tell) return;
    va_start(list, format);
    (void)vsnprintf(line, sizeof line, format, list);
    va_end(list);
    p->tell(p->user, line);
}

static void put_little_endian(unsigned char *to, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) to[i] = (unsigned char)(value >> (8 * i));
}

/* Build the only valid header for this key and payload. A store writes it; a load compares with
 * it. */
static void make_header(unsigned char header[HEADER_BYTES], const uint8_t *key, const void *payload,
                        size_t count) {
    memset(header, 0, HEADER_BYTES);
    memcpy(header, "clattn\r\n", VERSION_AT);
    put_little_endian(header + VERSION_AT, FORMAT_VERSION, 4);
    memcpy(header + KEY_AT, key, CACHE_KEY_BYTES);
    put_little_endian(header + COUNT_AT, count, 8);
    sha256_state state;
    cla_sha256_begin(&state);
    cla_sha256_add(&state, header, DIGEST_AT);
    cla_sha256_add(&state, payload, count);
    cla_sha256_end(&state, header + DIGEST_AT);
}

static void make_key_name(char *name, const uint8_t *key, const char *end) {
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < CACHE_KEY_BYTES; i++) {
        name[2 * i] = digits[key[i] >> 4];
        name[2 * i + 1] = digits[key[i] & 15];
    }
    memcpy(name + 2 * CACHE_KEY_BYTES, end, strlen(end) + 1);
}
static void make_name(char name[NAME_BYTES], const uint8_t *key) {
    make_key_name(name, key, ".clattn");
}

static bool is_whole(const unsigned char *entry, size_t size, const uint8_t *key) {
    unsigned char expected[HEADER_BYTES];
    if (size < HEADER_BYTES) return false;
    make_header(expected, key, entry + HEADER_BYTES, size - HEADER_BYTES);
    return memcmp(entry, expected, HEADER_BYTES) == 0;
}

static bool ends_with(const char *name, const char *word) {
    const char *end = strrchr(name, '.');
    return end && !strcmp(end, word);
}
static bool is_entry(const char *name) {
    return ends_with(name, ".clattn");
}

typedef struct entries {
    os_file *files;
    size_t count, capacity;
    uint64_t bytes;
    const struct clattn_host_memory *host;
} entries;

/* A file for which there is no memory counts in `bytes` but is not listed, so it is not removed
 * this time. */
static void collect(void *user, const os_file *file) {
    entries *all = user;
    if (!is_entry(file->name)) return;
    all->bytes += file->bytes;
    if (all->count == all->capacity) {
        const size_t capacity = all->capacity ? 2 * all->capacity : 64;
        os_file *more =
            cla_host_grow(all->host, all->files, all->count * sizeof *more, capacity * sizeof *more);
        if (!more) return;
        all->files = more, all->capacity = capacity;
    }
    all->files[all->count++] = *file;
}

static int by_age(const void *a, const void *b) {
    const uint64_t x = ((const os_file *)a)->age_ns, y = ((const os_file *)b)->age_ns;
    return x > y ? -1 : x < y;
}

/* Remove the oldest entries until at most `most` bytes are left. `stays` has just been stored
 * and is not removed. */
static void make_room(const cache *c, const char *stays, uint64_t most) {
    entries all = {.host = c->params.host};
    size_t gone = 0;
    cla_os_folder_visit(c->folder, collect, &all);
    if (all.bytes > most) qsort(all.files, all.count, sizeof *all.files, by_age);
    for (size_t i = 0; i < all.count && all.bytes > most; i++) {
        if (!strcmp(all.files[i].name, stays)) continue;
        cla_os_folder_remove(c->folder, all.files[i].name);
        all.bytes -= all.files[i].bytes;
        gone++;
    }
    cla_host_release(all.host, all.files);
    if (gone)
        tell(&c->params, "cache: %zu entries unused for longest were removed: at most %llu MiB are kept",
             gone, (unsigned long long)(most >> 20));
}

static void remove_stale(void *user, const os_file *file) {
    const cache *c = user;
    if (!strncmp(file->name, OS_TEMPORARY, strlen(OS_TEMPORARY)) && file->age_ns > STALE_NS)
        cla_os_folder_remove(c->folder, file->name);
}

cache *cla_cache_open(const cache_params *params) {
    const char *why = "";
    const bool own = params->load || params->store;
    if (!params->dir && !own) return NULL;
    os_folder *folder = params->dir ? cla_os_folder_open(params->dir, params->host, &why) : NULL;
    cache *c = folder || own ? cla_host_take(params->host, sizeof *c) : NULL;
    if (params->dir && (!folder || !c))
        tell(params, "cache: the folder %s is not used, kernels are compiled anew: %s", params->dir,
             folder ? "no memory" : why);
    if (!c) {
        cla_os_folder_close(folder);
        return NULL;
    }
    *c = (cache){.folder = folder, .params = *params};
    c->params.dir = NULL; /* the caller's text may be freed */
    if (!c->params.max_bytes) c->params.max_bytes = CACHE_DEFAULT_BYTES;
    if (folder) cla_os_folder_visit(folder, remove_stale, c);
    return c;
}

void cla_cache_close(cache *c) {
    if (!c) return;
    const struct clattn_host_memory *host = c->params.host;
    cla_os_folder_close(c->folder);
    cla_host_release(host, c);
}

static void remove_mark(void *user, const os_file *file) {
    const cache *c = user;
    if (ends_with(file->name, ".begun")) cla_os_folder_remove(c->folder, file->name);
}

void cla_cache_trim(cache *c, uint64_t max_bytes) {
    if (!c || !c->folder) return;
    make_room(c, "", max_bytes);
    if (!max_bytes) cla_os_folder_visit(c->folder, remove_mark, c);
}

/* Load a valid entry from the folder. Free it with cla_host_release. NULL: there is none. */
static unsigned char *load_file(const cache *c, const char *name, const uint8_t *key, size_t *size) {
    unsigned char *entry = NULL;
    if (!c->folder || !cla_os_folder_read(c->folder, name, CACHE_ENTRY_MAX_BYTES, &entry, size)) return NULL;
    if (is_whole(entry, *size, key)) {
        cla_os_folder_touch(c->folder, name);
        return entry;
    }
    /* Another process may just have replaced the damaged file by a good one. That one is lost
     * and will be made again. */
    cla_os_folder_remove(c->folder, name);
    cla_host_release(c->params.host, entry);
    tell(&c->params, "cache: the damaged entry %s was removed", name);
    return NULL;
}

/* Load a valid entry from the application's cache. NULL: there is none. */
static unsigned char *load_own(const cache *c, const char *name, const uint8_t *key, size_t *size) {
    const cache_params *p = &c->params;
    *size = p->load ? p->load(p->own, name, NULL, 0) : 0;
    if (*size == 0 || *size > CACHE_ENTRY_MAX_BYTES) return NULL;
    unsigned char *entry = cla_host_take(p->host, *size);
    if (!entry) return NULL;
    if (p->load(p->own, name, entry, *size) == *size && is_whole(entry, *size, key)) return entry;
    cla_host_release(p->host, entry);
    tell(p, "cache: the entry %s that the application gave is damaged", name);
    return NULL;
}

bool cla_cache_load(cache *c, const uint8_t key[CACHE_KEY_BYTES], unsigned char **bytes, size_t *count) {
    char name[NAME_BYTES];
    size_t size = 0;
    if (!c) return false;
    make_name(name, key);
    unsigned char *entry = load_file(c, name, key, &size);
    if (!entry) entry = load_own(c, name, key, &size);
    if (!entry) return false;
    *count = size - HEADER_BYTES;
    memmove(entry, entry + HEADER_BYTES, *count);
    *bytes = entry;
    return true;
}

static bool store_file(const cache *c, const char *name, const void *entry, size_t size) {
    if (!c->folder) return true;
    if (size - HEADER_BYTES > c->params.max_bytes || !cla_os_folder_write(c->folder, name, entry, size))
        return false;
    make_room(c, name, c->params.max_bytes);
    return true;
}

static bool store(const cache *c, const char *name, const uint8_t *key, const void *bytes, size_t count) {
    if (count > CACHE_ENTRY_MAX_BYTES - HEADER_BYTES) return false;
    unsigned char *entry = cla_host_take(c->params.host, HEADER_BYTES + count);
    if (!entry) return false;
    make_header(entry, key, bytes, count);
    if (count) memcpy(entry + HEADER_BYTES, bytes, count);
    const bool done = store_file(c, name, entry, HEADER_BYTES + count);
    if (c->params.store) c->params.store(c->params.own, name, entry, HEADER_BYTES + count);
    cla_host_release(c->params.host, entry);
    return done;
}

void cla_cache_store(cache *c, const uint8_t key[CACHE_KEY_BYTES], const void *bytes, size_t count) {
    char name[NAME_BYTES];
    if (!c) return;
    make_name(name, key);
    if (!store(c, name, key, bytes, count))
        tell(&c->params,
             "cache: the entry %s of %zu bytes is not kept: it is too large, or cannot be written", name,
             count);
}

bool cla_cache_keeps(const cache *c) {
    return c && c->folder;
}

bool cla_cache_begin(cache *c, const uint8_t key[CACHE_KEY_BYTES], int weight, bool again, cache_mark *mark) {
    *mark = (cache_mark){.held.handle = NULL};
    if (!c || !c->folder) return true;
    make_key_name(mark->name, key, ".begun");
    if (!cla_os_folder_hold(c->folder, mark->name, true, &mark->held)) return true;
    if (!again && mark->held.number >= CACHE_FATAL) {
        cla_os_held_let_go(c->folder, mark->name, &mark->held);
        return false;
    }
    cla_os_held_set(&mark->held, (again ? 0 : mark->held.number) + weight);
    return true;
}

void cla_cache_end(cache *c, cache_mark *mark) {
    if (!mark->held.handle) return;
    cla_os_held_set(&mark->held, 0);
    cla_os_held_let_go(c->folder, mark->name, &mark->held);
}

bool cla_cache_was_fatal(cache *c, const uint8_t key[CACHE_KEY_BYTES]) {
    cache_mark mark;
    if (!c || !c->folder) return false;
    make_key_name(mark.name, key, ".begun");
    if (!cla_os_folder_hold(c->folder, mark.name, false, &mark.held)) return false;
    const bool fatal = mark.held.number >= CACHE_FATAL;
    cla_os_held_let_go(c->folder, mark.name, &mark.held);
    return fatal;
}

void cla_identity_add(sha256_state *h, const clattn_capabilities *device, const char *cpu,
                      const char *library) {
    const char *const parts[] = {
        device->name, device->vendor, device->driver, device->version, device->platform, cpu, library};
    const uint32_t width = device->float_vector_width;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        cla_sha256_add(h, parts[i], strlen(parts[i]) + 1);
    cla_sha256_add(h, &width, sizeof width);
}

void cla_identity_key(const clattn_capabilities *device, const char *cpu, const void *what, size_t bytes,
                      uint8_t key[CACHE_KEY_BYTES]) {
    sha256_state h;
    cla_sha256_begin(&h);
    cla_sha256_add(&h, what, bytes);
    cla_identity_add(&h, device, cpu, CLATTN_VERSION_STRING);
    cla_sha256_end(&h, key);
}
