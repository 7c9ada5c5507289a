/* cache_fixture.h: a temporary folder for a test, with one cache in it, and its expected
 * contents. Used by test_cache.c and test_os.c. POSIX only; not for two threads at once. */
#ifndef CLATTN_TESTS_CACHE_FIXTURE_H
#define CLATTN_TESTS_CACHE_FIXTURE_H

#include "base/cache.h"

#include <sys/types.h>

enum { HEADER = 88, SMALL = 21, PATH_BYTES = 512, NOBODY = 65534 };

/* A fresh folder for each test: root/ contains cache/ (`folder`), where the entry of `key` is
 * the file `entry`. */
extern char root[128], folder[192], entry[PATH_BYTES];
extern uint8_t key[CACHE_KEY_BYTES];
extern const char small[SMALL + 1]; /* a payload */

/* A checked fixture: create root, and remove it with its contents. */
void fixture_setup(void);
void fixture_teardown(void);

void write_file(const char *path, const void *bytes, size_t count); /* the file's mode is 0600 */
size_t read_file(const char *path, unsigned char *bytes, size_t capacity);
bool exists(const char *path); /* a link counts, wherever it points */
mode_t mode_of(const char *path);
int files_in(const char *path);

/* Load `key`; a miss must not change the results. */
void expect_miss(cache *c);
void expect_hit(cache *c, const void *payload, size_t payload_bytes);

/* The cache's log lines since the fixture was set up. */
extern int lines_told;
extern char last_told[512];

/* Open a cache in this folder with the usual limit, or with a limit of `bytes`. */
cache *open_cache(const char *dir);
cache *open_cache_of(const char *dir, uint64_t max_bytes);

/* The cache in `folder`, with the entry `small`. */
cache *open_with_small(void);

/* The cache still works: the next store repairs it, and no temporary file remains. */
void expect_healed_and_close(cache *c);

#endif
