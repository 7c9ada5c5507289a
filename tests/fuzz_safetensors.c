/* libFuzzer's entry to the safetensors reader, asking for tensor "a":
 *   clang -g -O1 -fsanitize=fuzzer,address tests/fuzz_safetensors.c and src/tool's safetensors,
 * safetensors_index, nearest, array, file, refuse, with jansson */
#include "../src/tool/safetensors.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    char error[256] = "";
    array a;
    bool good = safetensors_parse(data, size, "a", &a, error, sizeof error);
    if (good != (error[0] == '\0') || (!good && a.data)) __builtin_trap();
    if (good && (size_t)array_count(&a) * array_type_size(a.type) != a.bytes) __builtin_trap();
    for (const char *c = error; *c; c++)
        if ((unsigned char)*c < 0x20) __builtin_trap();
    array_free(&a);
    return 0;
}
