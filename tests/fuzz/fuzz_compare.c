/* clattn compare: two JSON files separated by a line "----". A single file is compared with
 * itself. */
#define _GNU_SOURCE
#include "fuzz/fuzz.h"

#include <stdio.h>
#include <string.h>

bool fuzz_one(const uint8_t *data, size_t size) {
    static const char line[] = "\n----\n";
    char words[][16] = {"clattn", "compare", "a.json", "b.json", "--fail-above", "5%", "--json"};
    char *argv[8] = {0};
    const uint8_t *cut = memmem(data, size, line, sizeof line - 1);
    const size_t first = cut ? (size_t)(cut - data) : size;
    fuzz_write("a.json", data, first);
    if (cut)
        fuzz_write("b.json", cut + sizeof line - 1, size - first - (sizeof line - 1));
    else
        fuzz_write("b.json", data, size);
    for (int i = 0; i < 7; i++) argv[i] = words[i];
    const int status = fuzz_tool(6, argv);
    for (int i = 0; i < 7; i++) argv[i] = words[i];
    /* Output options must not change the exit status. */
    FUZZ_CHECK(fuzz_tool(7, argv) == status);
    static const char *const settings[] = {"dtype", "device", "kernel", "file"};
    char by[] = "--by", word[16];
    snprintf(word, sizeof word, "%s", settings[size % 4]);
    for (int i = 0; i < 4; i++) argv[i] = words[i];
    argv[4] = by, argv[5] = word, argv[6] = NULL;
    const int second = fuzz_tool(6, argv);
    FUZZ_CHECK((second == 2) == (status == 2));
    return status < 2;
}
