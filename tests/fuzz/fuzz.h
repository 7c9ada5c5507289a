/* fuzz.h: what every fuzzer shares. A fuzzer is one function, fuzz_one; fuzz_main.c makes it libFuzzer's entry and counts.
 * Everything that a fuzzer writes lies in the folder FUZZ_FOLDER, which check_fuzzers.sh makes and removes. */
#ifndef CLATTN_TESTS_FUZZ_H
#define CLATTN_TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One input. True: what is tested took it; a fuzzer whose every input is refused tests little. */
bool fuzz_one(const uint8_t *data, size_t size);

/* What must hold: else the run ends here and keeps its input. */
#define FUZZ_CHECK(condition) ((condition) ? (void)0 : __builtin_trap())

/* An error line of the readers: there exactly where `good` is false, and safe to print. */
void fuzz_check_error(bool good, const char *error);

/* A file of the folder, by its plain name. */
void fuzz_write(const char *name, const void *bytes, size_t count);

/* Bytes taken off an input one by one; zeros after its end. */
typedef struct fuzz_bytes {
    const uint8_t *at;
    size_t left;
} fuzz_bytes;
uint8_t fuzz_byte(fuzz_bytes *b);
/* 0 to count - 1. */
int fuzz_below(fuzz_bytes *b, int count);

/* How often the program came to open its device, which fuzz_tool.c refuses: its request was right until there. */
extern int fuzz_sessions;
/* Run the program's command line in this process. */
int fuzz_tool(int argc, char **argv);

#endif
