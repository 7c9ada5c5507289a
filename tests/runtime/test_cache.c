/* test_cache.c: tests of base/cache. An entry is loaded completely or not at all, whatever
 * happened to its file, also with several threads and processes at once. Dangers of the folder
 * are in test_os.c. No OpenCL; POSIX only. */
#define _XOPEN_SOURCE 700
#include <clattn/runtime.h>

#include "runtime/cache_fixture.h"
#include "base/os.h"
#include "base/sha256.h"

#include "support/run_suite.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

START_TEST(round_trip) {
    const mode_t mask = umask(0); /* the cache itself sets the modes below */
    cache *c = open_cache(folder);
    ck_assert_ptr_nonnull(c);
    expect_miss(c);
    cla_cache_store(c, key, small, SMALL);
    expect_hit(c, small, SMALL);
    ck_assert_uint_eq(mode_of(folder), 0700);
    ck_assert_uint_eq(mode_of(entry), 0600);
    cla_cache_store(c, key, "other", 5);
    cla_cache_close(c);
    c = open_cache(folder);
    expect_hit(c, "other", 5);
    cla_cache_store(c, key, NULL, 0);
    expect_hit(c, "", 0);
    expect_healed_and_close(c);
    (void)umask(mask);
}
END_TEST

/* The file format of cache.c's first lines, byte by byte: another build reads what this one
 * wrote. */
START_TEST(format) {
    cache *c = open_with_small();
    unsigned char bytes[HEADER + SMALL + 1], hashed[56 + SMALL], digest[SHA256_BYTES];
    const unsigned char count[8] = {SMALL}, version_and_zero[8] = {1};
    ck_assert_uint_eq(read_file(entry, bytes, sizeof bytes), HEADER + SMALL);
    ck_assert_mem_eq(bytes, "clattn\r\n", 8);
    ck_assert_mem_eq(bytes + 8, version_and_zero, 8);
    ck_assert_mem_eq(bytes + 16, key, CACHE_KEY_BYTES);
    ck_assert_mem_eq(bytes + 48, count, 8);
    ck_assert_mem_eq(bytes + HEADER, small, SMALL);
    memcpy(hashed, bytes, 56);
    memcpy(hashed + 56, small, SMALL);
    cla_sha256_of(hashed, sizeof hashed, digest);
    ck_assert_mem_eq(bytes + 56, digest, SHA256_BYTES);
    expect_healed_and_close(c);
}
END_TEST

START_TEST(large_payload) {
    const size_t count = 3000017;
    unsigned char *bytes = malloc(count);
    ck_assert_ptr_nonnull(bytes);
    for (size_t i = 0; i < count; i++) bytes[i] = (unsigned char)(i * i >> 7);
    cache *c = open_cache(folder);
    cla_cache_store(c, key, bytes, count);
    expect_hit(c, bytes, count);
    free(bytes);
    cla_cache_close(c);
}
END_TEST

START_TEST(null_cache) {
    ck_assert_ptr_null(open_cache(NULL));
    ck_assert_ptr_null(open_cache(""));
    cla_cache_store(NULL, key, small, SMALL);
    expect_miss(NULL);
    cla_cache_close(NULL);
}
END_TEST

START_TEST(too_large) {
    cache *c = open_with_small();
    cla_cache_store(c, key, small, CACHE_ENTRY_MAX_BYTES); /* refused for its size before a byte
                                                            * is read */
    cla_cache_store(c, key, small, SIZE_MAX);
    expect_hit(c, small, SMALL);
    ck_assert_int_eq(truncate(entry, (off_t)CACHE_ENTRY_MAX_BYTES + 1), 0);
    expect_miss(c);
    expect_healed_and_close(c);
}
END_TEST

/* An application's store may report a wrong length: the cache allocates no more than an entry
 * may have. */
static size_t told, asked;

static size_t say_length(void *user, const char *name, void *bytes, size_t capacity) {
    (void)user, (void)name, (void)bytes, (void)capacity;
    return told;
}

static void *take_and_note(void *user, size_t bytes) {
    (void)user;
    if (bytes > asked) asked = bytes;
    return bytes > (size_t)1 << 20 ? NULL : malloc(bytes);
}

static void give(void *user, void *memory) {
    (void)user;
    free(memory);
}

START_TEST(an_application_s_length) {
    const size_t lengths[] = {SIZE_MAX / 4 + 1, SIZE_MAX, CACHE_ENTRY_MAX_BYTES + 1};
    const clattn_host_memory host = {.allocate = take_and_note, .release = give};
    const cache_params params = {.host = &host, .load = say_length};
    cache *c = cla_cache_open(&params);
    ck_assert_ptr_nonnull(c);
    for (size_t n = 0; n < sizeof lengths / sizeof *lengths; n++) {
        told = lengths[n], asked = 0;
        expect_miss(c);
        ck_assert_uint_eq(asked, 0);
    }
    cla_cache_close(c);
}
END_TEST

START_TEST(truncated_or_longer) {
    cache *c = open_with_small();
    unsigned char bytes[HEADER + SMALL + 1] = {0};
    ck_assert_uint_eq(read_file(entry, bytes, sizeof bytes), HEADER + SMALL);
    for (size_t count = 0; count <= sizeof bytes; count++) {
        write_file(entry, bytes, count);
        if (count == HEADER + SMALL) {
            expect_hit(c, small, SMALL);
        } else {
            expect_miss(c);
            ck_assert(!exists(entry));
        }
    }
    expect_healed_and_close(c);
}
END_TEST

START_TEST(flipped_bytes) {
    cache *c = open_with_small();
    unsigned char bytes[HEADER + SMALL];
    ck_assert_uint_eq(read_file(entry, bytes, sizeof bytes), sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++) {
        for (int bit = 0; bit < 8; bit++) {
            bytes[i] ^= (unsigned char)(1 << bit);
            write_file(entry, bytes, sizeof bytes);
            expect_miss(c);
            ck_assert(!exists(entry));
            bytes[i] ^= (unsigned char)(1 << bit);
        }
    }
    expect_healed_and_close(c);
}
END_TEST

START_TEST(wrong_key_inside) {
    cache *c = open_with_small();
    uint8_t other[CACHE_KEY_BYTES];
    memcpy(other, key, sizeof other);
    other[31] ^= 1;
    unsigned char *bytes = NULL;
    size_t count = 0;
    ck_assert(!cla_cache_load(c, other, &bytes, &count));
    cla_cache_store(c, other, "other", 5);
    char path[PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s", entry);
    (void)snprintf(strrchr(path, '.') - 2, sizeof "xx.clattn", "%02x.clattn", other[31]);
    ck_assert_int_eq(rename(path, entry), 0);
    expect_miss(c);
    ck_assert(!exists(entry));
    expect_healed_and_close(c);
}
END_TEST

START_TEST(entry_not_plain) {
    cache *c = open_with_small();
    char elsewhere[PATH_BYTES];
    (void)snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere", root);
    ck_assert_int_eq(rename(entry, elsewhere), 0);
    ck_assert_int_eq(symlink(elsewhere, entry), 0); /* the link points to a good entry */
    expect_miss(c);
    cla_cache_store(c, key, "new", 3);
    expect_hit(c, "new", 3);
    unsigned char bytes[HEADER + SMALL + 1];
    ck_assert_uint_eq(read_file(elsewhere, bytes, sizeof bytes),
                      HEADER + SMALL); /* not written through the link */

    ck_assert_int_eq(unlink(entry), 0);
    ck_assert_int_eq(mkfifo(entry, 0600), 0);
    expect_miss(c);
    ck_assert_int_eq(unlink(entry), 0);
    ck_assert_int_eq(mkdir(entry, 0700), 0);
    expect_miss(c);
    cla_cache_store(c, key, small, SMALL); /* an empty folder is replaced */
    expect_hit(c, small, SMALL);
    ck_assert_int_eq(lines_told, 0);

    char inside[PATH_BYTES + 8];
    (void)snprintf(inside, sizeof inside, "%s/file", entry);
    ck_assert_int_eq(unlink(entry), 0);
    ck_assert_int_eq(mkdir(entry, 0700), 0);
    write_file(inside, "x", 1);
    cla_cache_store(c, key, small,
                    SMALL); /* a full folder is not: the cache logs that, and leaves no temporary
                             * file */
    expect_miss(c);
    ck_assert_int_eq(lines_told, 1);
    ck_assert_ptr_nonnull(strstr(last_told, "is not kept"));
    ck_assert_int_eq(files_in(folder), 1);
    ck_assert_int_eq(unlink(inside), 0);
    ck_assert_int_eq(rmdir(entry), 0);
    expect_healed_and_close(c);
}
END_TEST

START_TEST(entry_others_can_write) {
    const mode_t modes[] = {0620, 0602, 0666};
    cache *c = open_with_small();
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        ck_assert_int_eq(chmod(entry, modes[i]), 0);
        expect_miss(c);
    }
    expect_healed_and_close(c);
}
END_TEST

START_TEST(entry_of_another_user) {
    cache *c = open_with_small();
    if (geteuid() != 0) {
        (void)fprintf(stderr, "entry_of_another_user: skipped, needs root\n");
    } else {
        ck_assert_int_eq(chown(entry, NOBODY, NOBODY), 0);
        expect_miss(c);
    }
    expect_healed_and_close(c);
}
END_TEST

/* ------------------------------------------------------------------------- at the same time --- */

enum { WRITERS = 4, THREADS = 2, BUSY_NS = 900000000 };

/* Writer w stores 40000 w + 100 bytes of value w + 1. The sizes differ so much that a mix of two
 * entries would be noticed. */
static size_t payload_of(unsigned writer, unsigned char **bytes) {
    const size_t count = 40000 * (size_t)writer + 100;
    *bytes = malloc(count);
    if (*bytes) memset(*bytes, (int)writer + 1, count);
    return count;
}

static bool is_a_payload(const unsigned char *bytes, size_t count) {
    if (count % 40000 != 100 || count / 40000 >= WRITERS) return false;
    for (size_t i = 0; i < count; i++)
        if (bytes[i] != count / 40000 + 1) return false;
    return true;
}

typedef struct worker {
    cache *shared;
    unsigned writer;
    int hits, misses, broken;
} worker;

static void load_and_count(worker *w) {
    unsigned char *bytes = NULL;
    size_t count = 0;
    if (!cla_cache_load(w->shared, key, &bytes, &count)) {
        w->misses++;
        return;
    }
    w->hits++;
    w->broken += !is_a_payload(bytes, count);
    free(bytes);
}

static void *store_and_load(void *argument) {
    worker *w = argument;
    unsigned char *payload = NULL;
    const size_t count = payload_of(w->writer, &payload);
    const uint64_t end = cla_os_time_ns() + BUSY_NS;
    while (payload && cla_os_time_ns() < end) {
        cla_cache_store(w->shared, key, payload, count);
        for (int i = 0; i < 3; i++) load_and_count(w);
    }
    free(payload);
    return NULL;
}

/* Returns whether every load of this process's threads hit, with a complete payload. It aborts
 * no test, because it also runs in a child. */
static bool work(unsigned first_writer) {
    cache *shared = open_cache(folder);
    worker workers[THREADS] = {0};
    pthread_t threads[THREADS];
    bool good = shared != NULL;
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i].shared = shared;
        workers[i].writer = first_writer + i;
        if (pthread_create(&threads[i], NULL, store_and_load, &workers[i]) != 0) abort();
    }
    for (unsigned i = 0; i < THREADS; i++) {
        good = pthread_join(threads[i], NULL) == 0 && good;
        good = good && workers[i].hits > 0 && workers[i].misses == 0 && workers[i].broken == 0;
    }
    cla_cache_close(shared);
    return good;
}

/* Two processes of two threads store and load one key. A rename replaces the file without a gap,
 * so no load misses. */
START_TEST(four_at_one_key) {
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) _exit(work(THREADS) ? 0 : 1);
    const bool good = work(0);
    int status = -1;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(good);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    ck_assert_int_eq(files_in(folder), 1);
    ck_assert_uint_eq(mode_of(entry), 0600);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cache");
    TCase *cases = tcase_create("entry");
    tcase_add_checked_fixture(cases, fixture_setup, fixture_teardown);
    tcase_add_test(cases, round_trip);
    tcase_add_test(cases, format);
    tcase_add_test(cases, large_payload);
    tcase_add_test(cases, null_cache);
    tcase_add_test(cases, an_application_s_length);
    tcase_add_test(cases, too_large);
    tcase_add_test(cases, truncated_or_longer);
    tcase_add_test(cases, flipped_bytes);
    tcase_add_test(cases, wrong_key_inside);
    tcase_add_test(cases, entry_not_plain);
    tcase_add_test(cases, entry_others_can_write);
    tcase_add_test(cases, entry_of_another_user);
    tcase_add_test(cases, four_at_one_key);
    tcase_set_timeout(cases, 30);
    suite_add_tcase(suite, cases);
    return run_suite(suite, CK_FORK_GETENV);
}
