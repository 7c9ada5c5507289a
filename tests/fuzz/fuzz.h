/* fuzz.h: shared by all fuzzers. A fuzzer is one function, fuzz_one. fuzz_main.c makes it
 * libFuzzer's entry point and counts inputs. Fuzzers only write to the folder FUZZ_FOLDER, which
 * check_fuzzers.sh creates and removes. */
#ifndef CLATTN_TESTS_FUZZ_H
#define CLATTN_TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Run one input. Returns true if the tested code accepted it. A fuzzer whose every input is refused
 * tests little. */
bool fuzz_one(const uint8_t *data, size_t size);

/* Assert a condition. If it is false, the run ends here and keeps its input. */
#define FUZZ_CHECK(condition) ((condition) ? (void)0 : __builtin_trap())

/* Check a reader's error line: it exists if and only if `good` is false, and is printable. */
void fuzz_check_error(bool good, const char *error);

/* Write a file in the folder, with a plain name. */
void fuzz_write(const char *name, const void *bytes, size_t count);

/* The bytes of an input, consumed one by one. After its end they are zeros. */
typedef struct fuzz_bytes {
    const uint8_t *at;
    size_t left;
} fuzz_bytes;
uint8_t fuzz_byte(fuzz_bytes *b);
/* Returns a number from 0 to count - 1. */
int fuzz_below(fuzz_bytes *b, int count);

/* How often the program reached the opening of its device, which fuzz_tool.c refuses. Until there
 * its command line was valid. */
extern int fuzz_sessions;
/* Run the program's command line in this process. */
int fuzz_tool(int argc, char **argv);

#endif
