/* fuzz_main.c: libFuzzer's entry point for every fuzzer, which passes its input to fuzz_one. The
 * numbers of inputs and of accepted inputs are written to the file FUZZ_COUNTS, since stdout and
 * stderr have the program's output. */
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
