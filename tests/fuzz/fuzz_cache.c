/* Entries of the cache of compiled kernels: a file with the input's bytes, or an entry that was
 * stored and then damaged. Loading must return what was stored under the key. Everything else is a
 * miss, and the next store repairs the entry. */
#include "fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cache.h"

enum { AS_IT_IS, WHOLE, FLIPPED, CUT, LENGTHENED, ANOTHER_KEY, FOLDER, WAYS };
enum { MOST_BYTES = 3000 }; /* limit of the cache, so that old entries are removed */

static uint8_t key[CACHE_KEY_BYTES];
static char path[128];

static void name_of(const uint8_t *of, const char *end, char *to, size_t size) {
    size_t used = (size_t)snprintf(to, size, "cache/");
    for (int i = 0; i < CACHE_KEY_BYTES; i++) used += (size_t)snprintf(to + used, size - used, "%02x", of[i]);
    (void)snprintf(to + used, size - used, "%s", end);
}

static void on_line(void *user, const char *line) {
    (void)user;
    fuzz_check_error(false, line);
}

static size_t read_back(unsigned char *bytes, size_t capacity) {
    FILE *file = fopen(path, "rb");
    const size_t count = file ? fread(bytes, 1, capacity, file) : 0;
    if (file) (void)fclose(file);
    return count;
}

static void put_entry(const void *bytes, size_t count) {
    fuzz_write(path, bytes, count);
    FUZZ_CHECK(chmod(path, 0600) == 0);
}

/* Returns true for a hit, whose payload must equal this one. */
static bool load(cache *c, const void *payload, size_t count) {
    unsigned char *bytes = NULL;
    size_t found = 0;
    struct stat info;
    if (!cla_cache_load(c, key, &bytes, &found)) {
        FUZZ_CHECK(!bytes && stat(path, &info) != 0); /* a damaged entry is removed */
        return false;
    }
    FUZZ_CHECK(bytes && (!payload || (found == count && !memcmp(bytes, payload, count))));
    free(bytes);
    return true;
}

/* Store an entry, damage its file, load it. */
static bool damage(cache *c, int way, fuzz_bytes *b) {
    static unsigned char file[4096];
    const unsigned at = fuzz_byte(b) | (unsigned)fuzz_byte(b) << 8, bit = fuzz_below(b, 8);
    cla_cache_store(c, key, b->at, b->left);
    const size_t count = read_back(file, sizeof file);
    FUZZ_CHECK(count == b->left + 88); /* the header of cache.c */
    if (way == WHOLE) return load(c, b->at, b->left);
    if (way == FOLDER) {
        FUZZ_CHECK(remove(path) == 0 && mkdir(path, 0700) == 0);
        unsigned char *bytes = NULL;
        size_t found = 0;
        FUZZ_CHECK(!cla_cache_load(c, key, &bytes, &found) && !bytes);
        return false;
    }
    if (way == FLIPPED) file[at % count] ^= (unsigned char)(1u << bit);
    if (way == LENGTHENED) file[count] = (unsigned char)at;
    if (way == ANOTHER_KEY) {
        char other[128];
        (void)snprintf(other, sizeof other, "%s", path);
        FUZZ_CHECK(remove(path) == 0);
        key[at % CACHE_KEY_BYTES] ^= (uint8_t)(1u << bit);
        name_of(key, ".clattn", path, sizeof path);
    }
    put_entry(file, way == CUT ? at % count : way == LENGTHENED ? count + 1 : count);
    FUZZ_CHECK(!load(c, NULL, 0));
    return false;
}

/* Two devices whose concatenated texts are equal, but are divided into fields at different
 * places, must have different keys. */
static void identities_differ(const uint8_t *data, size_t size) {
    static clattn_capabilities device[2];
    uint8_t digest[2][CACHE_KEY_BYTES];
    const size_t count = size < 60 ? size : 60;
    memset(device, 0, sizeof device);
    if (count == 0) return;
    for (size_t i = 0; i < count; i++) device[0].name[i] = (char)(1 + data[i] % 127);
    memcpy(device[1].name, device[0].name, count - 1);
    device[1].vendor[0] = device[0].name[count - 1];
    for (int n = 0; n < 2; n++) cla_identity_key(&device[n], "cpu", "entry", sizeof "entry", digest[n]);
    FUZZ_CHECK(memcmp(digest[0], digest[1], CACHE_KEY_BYTES) != 0);
}

/* A mark with any bytes: the answers agree. A step that begins again and ends removes the mark. */
static void read_mark(cache *c, const uint8_t *data, size_t size) {
    char name[128];
    cache_mark mark;
    name_of(key, ".begun", name, sizeof name);
    fuzz_write(name, data, size);
    FUZZ_CHECK(chmod(name, 0600) == 0);
    const bool fatal = cla_cache_was_fatal(c, key);
    const bool begun = cla_cache_begin(c, key, CACHE_PLAIN, false, &mark);
    FUZZ_CHECK(begun != fatal);
    if (begun) cla_cache_end(c, &mark);
    FUZZ_CHECK(cla_cache_begin(c, key, CACHE_PLAIN, true, &mark));
    cla_cache_end(c, &mark);
    FUZZ_CHECK(!cla_cache_was_fatal(c, key));
    if (size % 8 == 0) cla_cache_trim(c, 0);
}

bool fuzz_one(const uint8_t *data, size_t size) {
    static cache *c;
    fuzz_bytes b = {data, size};
    bool hit = false;
    if (size > 2048) return false;
    identities_differ(data, size);
    for (int i = 0; i < CACHE_KEY_BYTES; i++) key[i] = (uint8_t)(7 * i + 3);
    name_of(key, ".clattn", path, sizeof path);
    if (!c) c = cla_cache_open(&(cache_params){.dir = "cache", .max_bytes = MOST_BYTES, .tell = on_line});
    FUZZ_CHECK(c);
    read_mark(c, data, size);
    const int way = fuzz_below(&b, WAYS);
    if (way == AS_IT_IS) {
        put_entry(b.at, b.left);
        hit = load(c, NULL, 0);
    } else {
        hit = damage(c, way, &b);
    }
    cla_cache_store(c, key, data, size);
    FUZZ_CHECK(load(c, data, size));
    return hit;
}
