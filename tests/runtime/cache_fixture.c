/* cache_fixture.c: see cache_fixture.h. */
#define _XOPEN_SOURCE 700
#include "runtime/cache_fixture.h"

#include <check.h>
#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char root[128], folder[192], entry[PATH_BYTES];
uint8_t key[CACHE_KEY_BYTES];
const char small[SMALL + 1] = "twenty-one bytes long";

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *walk) {
    (void)info, (void)type, (void)walk;
    return remove(path);
}

void fixture_setup(void) {
    lines_told = 0;
    const char *base = getenv("TMPDIR");
    (void)snprintf(root, sizeof root, "%.90s/clattn-test-XXXXXX", base ? base : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(root));
    (void)snprintf(folder, sizeof folder, "%s/cache", root);
    int at = snprintf(entry, sizeof entry, "%s/", folder);
    for (int i = 0; i < CACHE_KEY_BYTES; i++) {
        key[i] = (uint8_t)(7 * i + 3);
        at += snprintf(entry + at, sizeof entry - (size_t)at, "%02x", key[i]);
    }
    (void)snprintf(entry + at, sizeof entry - (size_t)at, ".clattn");
}

void fixture_teardown(void) {
    (void)nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

void write_file(const char *path, const void *bytes, size_t count) {
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, count, file), count);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_eq(chmod(path, 0600), 0);
}

size_t read_file(const char *path, unsigned char *bytes, size_t capacity) {
    FILE *file = fopen(path, "rb");
    ck_assert_ptr_nonnull(file);
    const size_t count = fread(bytes, 1, capacity, file);
    (void)fclose(file);
    return count;
}

bool exists(const char *path) {
    struct stat info;
    return lstat(path, &info) == 0;
}

mode_t mode_of(const char *path) {
    struct stat info;
    ck_assert_int_eq(lstat(path, &info), 0);
    return info.st_mode & 07777;
}

int files_in(const char *path) {
    DIR *dir = opendir(path);
    ck_assert_ptr_nonnull(dir);
    int count = -2; /* "." and ".." */
    while (readdir(dir)) count++;
    (void)closedir(dir);
    return count;
}

void expect_miss(cache *c) {
    unsigned char *bytes = (unsigned char *)root;
    size_t count = 12345;
    ck_assert(!cla_cache_load(c, key, &bytes, &count));
    ck_assert_ptr_eq(bytes, root);
    ck_assert_uint_eq(count, 12345);
}

void expect_hit(cache *c, const void *payload, size_t payload_bytes) {
    unsigned char *bytes = NULL;
    size_t count = 0;
    ck_assert(cla_cache_load(c, key, &bytes, &count));
    ck_assert_ptr_nonnull(bytes);
    ck_assert_uint_eq(count, payload_bytes);
    ck_assert_mem_eq(bytes, payload, payload_bytes);
    free(bytes);
}

int lines_told;
char last_told[512];

static void note_line(void *user, const char *line) {
    (void)user;
    lines_told++;
    (void)snprintf(last_told, sizeof last_told, "%s", line);
}

cache *open_cache_of(const char *dir, uint64_t max_bytes) {
    return cla_cache_open(&(cache_params){.dir = dir, .max_bytes = max_bytes, .tell = note_line});
}

cache *open_cache(const char *dir) {
    return open_cache_of(dir, 0);
}

cache *open_with_small(void) {
    cache *c = open_cache(folder);
    ck_assert_ptr_nonnull(c);
    cla_cache_store(c, key, small, SMALL);
    expect_hit(c, small, SMALL);
    return c;
}

void expect_healed_and_close(cache *c) {
    cla_cache_store(c, key, small, SMALL);
    expect_hit(c, small, SMALL);
    ck_assert_int_eq(files_in(folder), 1);
    cla_cache_close(c);
}
