/* Token files, and their lines as labels. */
#include "fuzz/fuzz.h"

#include <string.h>

#include "cli/heatmap/label.h"

static void check_label(const char *text, int limit) {
    const label made = label_from_utf8(text, limit);
    int width = 0;
    char utf8[5];
    FUZZ_CHECK(made.length >= 0 && made.length <= limit);
    for (int i = 0; i < made.length; i++) {
        const uint32_t c = made.code_points[i];
        FUZZ_CHECK(c >= 0x20 && c <= 0x10ffff && c != 0x7f && !(c >= 0xd800 && c < 0xe000));
        const int columns = label_columns(c);
        width += columns;
        FUZZ_CHECK(columns >= 0 && columns <= 2);
        const size_t bytes = strlen(label_utf8(c, utf8));
        FUZZ_CHECK(bytes >= 1 && bytes <= 4);
        /* A label reads what it writes. */
        FUZZ_CHECK(label_from_utf8(utf8, 3).code_points[0] == c);
    }
    FUZZ_CHECK(label_width(&made) == width);
}

/* A newline at the end starts no further line. */
static size_t count_lines(const uint8_t *data, size_t size) {
    size_t lines = size && data[size - 1] != '\n';
    for (size_t i = 0; i < size; i++) lines += data[i] == '\n';
    return lines;
}

bool fuzz_one(const uint8_t *data, size_t size) {
    reason error = "";
    tokens t;
    fuzz_write("tokens.txt", data, size);
    const bool good = tokens_read("tokens.txt", &t, error);
    fuzz_check_error(good, error);
    FUZZ_CHECK(t.count == (good ? count_lines(data, size) : 0));
    for (size_t i = 0; i < t.count; i++) {
        FUZZ_CHECK(!strchr(t.lines[i], '\n'));
        check_label(t.lines[i], LABEL_LIMIT);
        check_label(t.lines[i], LABEL_CAPACITY);
        check_label(t.lines[i], 3);
        FUZZ_CHECK(label_at(t.lines, (int)i, 3).length == label_from_utf8(t.lines[i], 3).length);
        FUZZ_CHECK(label_at(NULL, (int)i, LABEL_LIMIT).length == (i < 10 ? 1 : i < 100 ? 2 : 3) || i > 999);
    }
    tokens_free(&t);
    return good;
}
