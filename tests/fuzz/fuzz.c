/* fuzz.c: see fuzz.h. The numbers go to the file FUZZ_COUNTS, since stdout and stderr are the program's noise. */
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

void fuzz_check_error(bool good, const char *error) {
    FUZZ_CHECK(good == (error[0] == '\0'));
    for (const char *c = error; *c; c++) FUZZ_CHECK((unsigned char)*c >= 0x20 && *c != 0x7f);
}

void fuzz_write(const char *name, const void *bytes, size_t count) {
    FILE *file = fopen(name, "wb");
    FUZZ_CHECK(file && fwrite(bytes, 1, count, file) == count);
    FUZZ_CHECK(fclose(file) == 0);
}

uint8_t fuzz_byte(fuzz_bytes *b) {
    if (!b->left) return 0;
    b->left--;
    return *b->at++;
}

int fuzz_below(fuzz_bytes *b, int count) {
    return fuzz_byte(b) % count;
}
