/* libFuzzer's entry to the .npy reader:
 *   clang -g -O1 -fsanitize=fuzzer,address tests/fuzz_npy.c and src/tool's npy, npy_header, array, file,
 * refuse */
#include "../src/tool/npy.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    char error[256] = "";
    array a;
    bool good = npy_parse(data, size, &a, error, sizeof error);
    /* A failure says why in one line and leaves nothing; a success gave memory for all it claims. */
    if (good != (error[0] == '\0') || (!good && a.data)) __builtin_trap();
    if (good && (size_t)array_count(&a) * array_type_size(a.type) != a.bytes) __builtin_trap();
    for (const char *c = error; *c; c++)
        if ((unsigned char)*c < 0x20) __builtin_trap();
    array_free(&a);
    return 0;
}
