/* test_os.c: tests of base/os_*.c: the folders that it refuses, seen through the cache; the
 * lock, the clock and the dynamic library. No OpenCL; POSIX only. Permissions are tested as the
 * present user: run it once as root and once as another user. Messages list what was skipped. */
#define _XOPEN_SOURCE 700
#define _GNU_SOURCE // sched_setaffinity()
#include "runtime/cache_fixture.h"
#include "base/os.h"

#include "support/run_suite.h"

#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

START_TEST(folder_refused) {
    char path[PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s/missing/cache", root);
    ck_assert_ptr_null(open_cache(path));
    (void)snprintf(path, sizeof path, "%s/file", root);
    write_file(path, small, SMALL);
    ck_assert_ptr_null(open_cache(path));

    cla_cache_close(open_with_small());
    (void)snprintf(path, sizeof path, "%s/link", root);
    ck_assert_int_eq(symlink(folder, path), 0);
    ck_assert_ptr_null(open_cache(path));
    const char *endings[] = {"/", "//", "/.", "/./", "/.//./"}; /* these options make the system
                                                                 * follow the link */
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        (void)snprintf(path, sizeof path, "%s/link%s", root, endings[i]);
        ck_assert_ptr_null(open_cache(path));
        (void)snprintf(path, sizeof path, "%s%s", folder, endings[i]);
        cache *c = open_cache(path);
        ck_assert_ptr_nonnull(c);
        cla_cache_close(c);
    }
    (void)snprintf(path, sizeof path, "%s/dangling", root);
    ck_assert_int_eq(symlink("nowhere", path), 0);
    ck_assert_ptr_null(open_cache(path));
    (void)snprintf(path, sizeof path, "%s/nowhere", root);
    ck_assert(!exists(path));
}
END_TEST

START_TEST(folder_others_can_write) {
    const mode_t refused[] = {0770, 0702, 0777, 01777};
    cla_cache_close(open_with_small());
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        ck_assert_int_eq(chmod(folder, refused[i]), 0);
        ck_assert_ptr_null(open_cache(folder));
    }
    ck_assert_int_eq(chmod(folder, 0755), 0);
    cache *c = open_cache(folder);
    expect_hit(c, small, SMALL);
    expect_healed_and_close(c);
}
END_TEST

START_TEST(folder_of_another_user) {
    cla_cache_close(open_with_small());
    if (geteuid() == 0) {
        ck_assert_int_eq(chown(folder, NOBODY, NOBODY), 0);
        ck_assert_ptr_null(open_cache(folder));
    } else {
        ck_assert_ptr_null(open_cache("/")); /* root's */
    }
}
END_TEST

START_TEST(folder_read_only) {
    cache *c = open_with_small();
    if (geteuid() == 0) {
        (void)fprintf(stderr, "folder_read_only: skipped, root may write anywhere\n");
    } else {
        ck_assert_int_eq(chmod(folder, 0500), 0);
        cla_cache_store(c, key, "other", 5);
        expect_hit(c, small, SMALL);
        write_file(entry, small, SMALL); /* damaged, and cannot be removed */
        expect_miss(c);
        ck_assert_int_eq(chmod(folder, 0700), 0);
    }
    expect_healed_and_close(c);
}
END_TEST

/* The cache keeps using the folder that it checked when it was opened, even if the name now
 * belongs to another folder. */
START_TEST(folder_swapped) {
    cache *c = open_with_small();
    char moved[PATH_BYTES];
    (void)snprintf(moved, sizeof moved, "%s/moved", root);
    ck_assert_int_eq(rename(folder, moved), 0);
    ck_assert_int_eq(mkdir(folder, 0777), 0);
    cla_cache_store(c, key, "other", 5);
    expect_hit(c, "other", 5);
    ck_assert_int_eq(files_in(folder), 0);
    ck_assert_int_eq(files_in(moved), 1);
    cla_cache_close(c);
}
END_TEST

/* A full disk, by a limit on the file size: the write stops part-way. */
START_TEST(write_fails) {
    cache *c = open_with_small();
    unsigned char bytes[5000] = {0};
    struct rlimit limit, tight;
    (void)signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    tight = limit;
    tight.rlim_cur = 4096;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &tight), 0);
    cla_cache_store(c, key, bytes, sizeof bytes);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    expect_hit(c, small, SMALL);
    expect_healed_and_close(c);
}
END_TEST

/* The bound is the last size that is read. A file of no bytes is a valid file.
 *  */
START_TEST(read_bound) {
    const char *why;
    os_folder *f = cla_os_folder_open(root, NULL, &why);
    unsigned char *bytes = NULL;
    size_t count = 0;
    ck_assert_ptr_nonnull(f);
    ck_assert(cla_os_folder_write(f, "file", small, SMALL));
    ck_assert(!cla_os_folder_read(f, "file", SMALL - 1, &bytes, &count));
    ck_assert(cla_os_folder_read(f, "file", SMALL, &bytes, &count));
    ck_assert_uint_eq(count, SMALL);
    ck_assert_mem_eq(bytes, small, SMALL);
    free(bytes);
    ck_assert(cla_os_folder_write(f, "file", NULL, 0));
    ck_assert(cla_os_folder_read(f, "file", 0, &bytes, &count));
    ck_assert_ptr_nonnull(bytes);
    ck_assert_uint_eq(count, 0);
    free(bytes);
    cla_os_folder_remove(f, "file");
    cla_os_folder_remove(f, "file");
    ck_assert(!cla_os_folder_read(f, "file", SMALL, &bytes, &count));
    cla_os_folder_close(f);
    cla_os_folder_close(NULL);
}
END_TEST

enum { ROUNDS = 20000 };
static os_mutex lock;
static long counted;

static void *count_up(void *unused) {
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        cla_os_mutex_lock(&lock);
        counted++;
        cla_os_mutex_unlock(&lock);
    }
    return NULL;
}

START_TEST(mutex) {
    pthread_t threads[2];
    ck_assert(cla_os_mutex_init(&lock));
    for (int i = 0; i < 2; i++) ck_assert_int_eq(pthread_create(&threads[i], NULL, count_up, NULL), 0);
    for (int i = 0; i < 2; i++) ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    ck_assert_int_eq(counted, 2 * ROUNDS);
    cla_os_mutex_destroy(&lock);
}
END_TEST

// A watched function that ends in time is not reported.
static void see(void *seen) {
    atomic_fetch_add((atomic_int *)seen, 1);
}

START_TEST(watches) {
    atomic_int seen = 0;
    cla_os_watch_end(cla_os_watch_begin(NULL, 1000, see, &seen));
    ck_assert_int_eq(seen, 0);
    os_watch *w = cla_os_watch_begin(NULL, 0, see, &seen);
    ck_assert_ptr_nonnull(w);
    while (seen == 0) usleep(1000);
    cla_os_watch_end(w);
    ck_assert_int_eq(seen, 1);
    cla_os_watch_end(NULL);
}
END_TEST

START_TEST(time_goes_on) {
    const struct timespec nap = {0, 3000000};
    const uint64_t begin = cla_os_time_ns();
    uint64_t last = begin;
    for (int i = 0; i < 1000; i++) {
        const uint64_t now = cla_os_time_ns();
        ck_assert_uint_ge(now, last);
        last = now;
    }
    ck_assert_int_eq(nanosleep(&nap, NULL), 0);
    ck_assert_uint_ge(cla_os_time_ns() - begin, 3000000);
}
END_TEST

START_TEST(library) {
    ck_assert_ptr_null(cla_os_library_open("libclattn-has-no-such-library.so"));
    cla_os_library_close(NULL);
#ifdef __GLIBC__
    void *c_library = cla_os_library_open("libc.so.6");
    ck_assert_ptr_nonnull(c_library);
    ck_assert_ptr_nonnull(cla_os_library_symbol(c_library, "strlen"));
    ck_assert_ptr_null(cla_os_library_symbol(c_library, "clattn_no_such_symbol"));
    cla_os_library_close(c_library);
#endif
}
END_TEST

// The tile registers of x86 are unavailable if the CPU has none. A second request returns the same.
START_TEST(tile_registers) {
    const bool given = cla_os_request_amx();
    ck_assert_int_eq(cla_os_request_amx(), given);
    FILE *cpu = fopen("/proc/cpuinfo", "r");
    if (!cpu) return;
    char line[8192];
    bool has = false, bytes = false;
    while (fgets(line, sizeof line, cpu)) {
        has |= strstr(line, " amx_bf16") && strstr(line, " amx_tile");
        bytes |= strstr(line, " amx_int8") && strstr(line, " amx_tile");
    }
    (void)fclose(cpu);
    ck_assert(has || !given);
    ck_assert(!bytes || cla_os_cpu_has_amx_i8()); // a system may hide features of the CPU
}
END_TEST

// The model of the CPU is the same on every core, so results stored under it are found again.
START_TEST(cpu_model) {
    char first[OS_CPU_MODEL_BYTES], again[OS_CPU_MODEL_BYTES];
    cla_os_cpu_model(first);
    ck_assert_uint_lt(strlen(first), sizeof first);
#ifdef __linux__
    ck_assert_uint_gt(strlen(first), 8);
    cpu_set_t before, one;
    ck_assert_int_eq(sched_getaffinity(0, sizeof before, &before), 0);
    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (!CPU_ISSET(i, &before)) continue;
        CPU_ZERO(&one);
        CPU_SET(i, &one);
        ck_assert_int_eq(sched_setaffinity(0, sizeof one, &one), 0);
        cla_os_cpu_model(again);
        ck_assert_str_eq(first, again);
    }
    ck_assert_int_eq(sched_setaffinity(0, sizeof before, &before), 0);
#else
    cla_os_cpu_model(again);
    ck_assert_str_eq(first, again);
#endif
}
END_TEST

int main(void) {
    Suite *suite = suite_create("os");
    TCase *folders = tcase_create("folder"), *rest = tcase_create("rest");
    tcase_add_checked_fixture(folders, fixture_setup, fixture_teardown);
    tcase_add_test(folders, folder_refused);
    tcase_add_test(folders, folder_others_can_write);
    tcase_add_test(folders, folder_of_another_user);
    tcase_add_test(folders, folder_read_only);
    tcase_add_test(folders, folder_swapped);
    tcase_add_test(folders, write_fails);
    tcase_add_test(folders, read_bound);
    tcase_add_test(rest, mutex);
    tcase_add_test(rest, watches);
    tcase_add_test(rest, time_goes_on);
    tcase_add_test(rest, library);
    tcase_add_test(rest, tile_registers);
    tcase_add_test(rest, cpu_model);
    suite_add_tcase(suite, folders);
    suite_add_tcase(suite, rest);
    return run_suite(suite, CK_FORK_GETENV);
}
