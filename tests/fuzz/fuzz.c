/* fuzz.c: see fuzz.h. */
#include "fuzz/fuzz.h"

#include <stdio.h>

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
