/* fuzz_main.c: libFuzzer's entry for every fuzzer: its input goes to fuzz_one. The number of
 * inputs, and of accepted ones, goes to the file FUZZ_COUNTS, because the program also writes to
 * stdout and stderr. */
#include "fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned long long executions, accepted;

static void tell(void) {
    const char *path = getenv("FUZZ_COUNTS");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (!file) return;
    (void)fprintf(file, "%llu %llu\n", executions, accepted);
    (void)fclose(file);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    const char *folder = getenv("FUZZ_FOLDER");
    (void)argc, (void)argv;
    if (!folder || chdir(folder) != 0) {
        (void)fputs("FUZZ_FOLDER must name a folder to work in; see check_fuzzers.sh\n", stderr);
        exit(2);
    }
    (void)atexit(tell);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    executions++;
    accepted += fuzz_one(data, size);
    return 0;
}
