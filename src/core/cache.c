/* cache.c: the format of an entry, and the checks that stand between the disk and the driver: a driver may
 * crash on a truncated binary and run a flipped bit. How files become safe and whole is os_folder's. See
 * cache.h.
 *
 * File name: the key as 64 lower-case hexadecimal digits, then ".clattn". Content, integers little-endian:
 *    0   8  "clattn\r\n": no text file, and a transfer that changes line ends is seen
 *    8   4  format version, 1
 *   12   4  zero
 *   16  32  key: a file under another entry's name is seen
 *   48   8  payload bytes
 *   56  32  SHA-256 of bytes 0 to 55 and the payload
 *   88      payload, to the end of the file */
#include "cache.h"

#include "os.h"
#include "sha256.h"

#include <stdlib.h>
#include <string.h>

enum { VERSION_AT = 8, KEY_AT = 16, COUNT_AT = 48, DIGEST_AT = 56, HEADER_BYTES = 88, FORMAT_VERSION = 1 };
enum { NAME_BYTES = 2 * CACHE_KEY_BYTES + sizeof ".clattn" };

struct cache {
    os_folder
        *folder; /* the only member, and never changed: that is what makes threads safe without a lock */
};

static void put_little_endian(unsigned char *to, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) to[i] = (unsigned char)(value >> (8 * i));
}

/* The one header that this key and payload can have: a store writes it, a load compares with it. */
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

static void make_name(char name[NAME_BYTES], const uint8_t *key) {
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < CACHE_KEY_BYTES; i++) {
        name[2 * i] = digits[key[i] >> 4];
        name[2 * i + 1] = digits[key[i] & 15];
    }
    memcpy(name + 2 * CACHE_KEY_BYTES, ".clattn", sizeof ".clattn");
}

static bool is_whole(const unsigned char *entry, size_t size, const uint8_t *key) {
    unsigned char expected[HEADER_BYTES];
    if (size < HEADER_BYTES) return false;
    make_header(expected, key, entry + HEADER_BYTES, size - HEADER_BYTES);
    return memcmp(entry, expected, HEADER_BYTES) == 0;
}

cache *cla_cache_open(const char *dir) {
    os_folder *folder = dir ? cla_os_folder_open(dir) : NULL;
    cache *c = folder ? malloc(sizeof *c) : NULL;
    if (c)
        c->folder = folder;
    else
        cla_os_folder_close(folder);
    return c;
}

void cla_cache_close(cache *c) {
    if (!c) return;
    cla_os_folder_close(c->folder);
    free(c);
}

bool cla_cache_load(cache *c, const uint8_t key[CACHE_KEY_BYTES], unsigned char **bytes, size_t *count) {
    char name[NAME_BYTES];
    unsigned char *entry = NULL;
    size_t size = 0;
    if (!c) return false;
    make_name(name, key);
    if (!cla_os_folder_read(c->folder, name, CACHE_ENTRY_MAX_BYTES, &entry, &size)) return false;
    if (!is_whole(entry, size, key)) {
        /* Another process may have replaced it by a good one just now: that one is lost, and made again. */
        cla_os_folder_remove(c->folder, name);
        free(entry);
        return false;
    }
    *count = size - HEADER_BYTES;
    memmove(entry, entry + HEADER_BYTES, *count);
    *bytes = entry;
    return true;
}

void cla_cache_store(cache *c, const uint8_t key[CACHE_KEY_BYTES], const void *bytes, size_t count) {
    char name[NAME_BYTES];
    if (!c || count > CACHE_ENTRY_MAX_BYTES - HEADER_BYTES) return;
    unsigned char *entry = malloc(HEADER_BYTES + count);
    if (!entry) return;
    make_header(entry, key, bytes, count);
    if (count) memcpy(entry + HEADER_BYTES, bytes, count);
    make_name(name, key);
    (void)cla_os_folder_write(c->folder, name, entry, HEADER_BYTES + count);
    free(entry);
}
