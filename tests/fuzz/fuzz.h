/* fuzz.h: the common part of all fuzzers. A fuzzer is one function, fuzz_one; fuzz_main.c is
 * libFuzzer's entry and counts. A fuzzer writes only into the folder FUZZ_FOLDER, which
 * check_fuzzers.sh creates and removes. */
#ifndef CLATTN_TESTS_FUZZ_H
#define CLATTN_TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One input. Returns true if the tested code accepted it: a fuzzer whose inputs are all refused
 * tests little. */
bool fuzz_one(const uint8_t *data, size_t size);

/* A condition that must hold: else the run ends here and keeps its input. */
#define FUZZ_CHECK(condition) ((condition) ? (void)0 : __builtin_trap())

/* An error line of the readers: it exists if and only if `good` is false, and is safe to print. */
void fuzz_check_error(bool good, const char *error);

/* A file of the folder, by its plain name. */
void fuzz_write(const char *name, const void *bytes, size_t count);

/* Read bytes of an input one by one; zeros after its end. */
typedef struct fuzz_bytes {
    const uint8_t *at;
    size_t left;
} fuzz_bytes;
uint8_t fuzz_byte(fuzz_bytes *b);
/* 0 to count - 1. */
int fuzz_below(fuzz_bytes *b, int count);

/* The number of times that the program tried to open its device, which fuzz_tool.c refuses: the
 * request was valid until there. */
extern int fuzz_sessions;
/* Run the program's command line in this process. */
int fuzz_tool(int argc, char **argv);

#endif
