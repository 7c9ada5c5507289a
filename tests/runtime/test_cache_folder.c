/* test_cache_folder.c: the folder of base/cache as a whole: its size, files left by dead
 * processes, and log lines. Entries are in test_cache.c. No OpenCL; POSIX only. */
#define _XOPEN_SOURCE 700
#include "runtime/cache_fixture.h"

#include "support/run_suite.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Entries are numbered by the first byte of their key. */
static void store_number(cache *c, int n, size_t bytes) {
    uint8_t of[CACHE_KEY_BYTES] = {(uint8_t)n};
    unsigned char *payload = calloc(1, bytes);
    ck_assert_ptr_nonnull(payload);
    cla_cache_store(c, of, payload, bytes);
    free(payload);
}
static bool has_number(cache *c, int n) {
    uint8_t of[CACHE_KEY_BYTES] = {(uint8_t)n};
    unsigned char *bytes = NULL;
    size_t count;
    const bool found = cla_cache_load(c, of, &bytes, &count);
    free(bytes);
    return found;
}
static void path_of_number(int n, char path[PATH_BYTES]) {
    (void)snprintf(path, PATH_BYTES, "%s/%02x%062d.clattn", folder, n, 0);
}
/* Set the time of the last use to `seconds` ago. */
static void make_old(int n, int seconds) {
    char path[PATH_BYTES];
    struct timespec times[2];
    path_of_number(n, path);
    ck_assert_int_eq(clock_gettime(CLOCK_REALTIME, &times[0]), 0);
    times[0].tv_sec -= seconds;
    times[1] = times[0];
    ck_assert_int_eq(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* The least recently used entry is removed first. Loading is a use, and a new entry stays. */
START_TEST(kept_to_its_size) {
    char other[PATH_BYTES];
    cache *c = open_cache_of(folder, 5 * 1000);
    (void)snprintf(other, sizeof other, "%s/notes.txt", folder);
    ck_assert_ptr_nonnull(c);
    /* not an entry of the cache, so it is neither counted nor removed */
    write_file(other, small, SMALL);
    for (int n = 0; n < 5; n++) {
        store_number(c, n, 900);
        make_old(n, 100 - n);
    }
    ck_assert_int_eq(lines_told, 0);
    ck_assert(has_number(c, 0)); /* has_number loads the entry, so it counts as recently used */
    store_number(c, 5, 900);     /* 1 is removed */
    ck_assert_int_eq(lines_told, 1);
    ck_assert(has_number(c, 0) && !has_number(c, 1));
    for (int n = 2; n < 6; n++) make_old(n, 100 - n);
    store_number(c, 6, 2500); /* 2, 3 and 4 are removed */
    ck_assert(!has_number(c, 2) && !has_number(c, 3) && !has_number(c, 4));
    ck_assert(has_number(c, 0) && has_number(c, 5) && has_number(c, 6));
    store_number(c, 7, 6000); /* more than the folder's limit */
    ck_assert(!has_number(c, 7) && has_number(c, 6));
    ck_assert_ptr_nonnull(strstr(last_told, "is not kept"));
    ck_assert(exists(other));
    cla_cache_close(c);
}
END_TEST

/* Files left by a killed process are removed when the folder is next opened, unless they may
 * still be written. */
START_TEST(temporaries_of_the_dead) {
    static const struct {
        const char *name;
        int age;
        bool stays;
    } files[] = {{"tmp-1-a", 7200, false}, {"tmp-1-b", 60, true}, {"other-1", 7200, true}};
    char path[PATH_BYTES];
    cla_cache_close(open_with_small());
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        struct timespec times[2];
        (void)snprintf(path, sizeof path, "%s/%s", folder, files[i].name);
        write_file(path, "x", 1);
        ck_assert_int_eq(clock_gettime(CLOCK_REALTIME, &times[0]), 0);
        times[0].tv_sec -= files[i].age;
        times[1] = times[0];
        ck_assert_int_eq(utimensat(AT_FDCWD, path, times, 0), 0);
    }
    cache *c = open_cache(folder);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, files[i].name);
        ck_assert_msg(exists(path) == files[i].stays, "%s", files[i].name);
        (void)unlink(path);
    }
    expect_healed_and_close(c);
}
END_TEST

/* One log line for a folder that is not used, and one for a damaged entry. */
START_TEST(what_is_told) {
    char missing[PATH_BYTES];
    (void)snprintf(missing, sizeof missing, "%s/none/cache", root);
    ck_assert_ptr_null(open_cache(missing));
    ck_assert_int_eq(lines_told, 1);
    ck_assert_ptr_nonnull(strstr(last_told, missing));
    ck_assert_ptr_nonnull(strstr(last_told, "missing"));
    cache *c = open_with_small();
    ck_assert_int_eq(chmod(folder, 0777), 0);
    ck_assert_ptr_null(open_cache(folder));
    ck_assert_int_eq(lines_told, 2);
    ck_assert_ptr_nonnull(strstr(last_told, "others may write"));
    ck_assert_int_eq(chmod(folder, 0700), 0);
    write_file(entry, "rubbish", 7);
    expect_miss(c);
    ck_assert_int_eq(lines_told, 3);
    ck_assert_ptr_nonnull(strstr(last_told, "damaged"));
    expect_miss(c);
    ck_assert_int_eq(lines_told, 3);
    expect_healed_and_close(c);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cache_folder");
    TCase *cases = tcase_create("folder");
    tcase_add_checked_fixture(cases, fixture_setup, fixture_teardown);
    tcase_add_test(cases, kept_to_its_size);
    tcase_add_test(cases, temporaries_of_the_dead);
    tcase_add_test(cases, what_is_told);
    suite_add_tcase(suite, cases);
    return run_suite(suite, CK_FORK_GETENV);
}
