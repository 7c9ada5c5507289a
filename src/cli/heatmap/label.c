// label.c: see label.h. Shaping and right-to-left order are unsupported.
#include "cli/heatmap/label.h"

#include "cli/files/file.h"

static uint32_t drawn(uint32_t code_point) {
    return code_point == 0x120 || code_point == 0x2581 ? '_' : code_point;
}

label label_from_utf8(const char *text, int limit) {
    label made = {.length = 0};
    while (*text && made.length < limit) made.code_points[made.length++] = drawn(printable_next(&text));
    if (*text) made.code_points[limit - 1] = made.code_points[limit - 2] = '.';
    return made;
}

label label_at(const char *const *labels, int index, int limit) {
    char number[16];
    if (!labels) (void)snprintf(number, sizeof number, "%d", index);
    return label_from_utf8(labels ? labels[index] : number, limit);
}

const char *label_utf8(uint32_t code_point, char utf8[5]) {
    int more = code_point < 0x80 ? 0 : code_point < 0x800 ? 1 : code_point < 0x10000 ? 2 : 3;
    static const unsigned first[] = {0, 0xc0, 0xe0, 0xf0};
    for (int k = more; k > 0; k--) {
        utf8[k] = (char)(0x80 | (code_point & 0x3f));
        code_point >>= 6;
    }
    utf8[0] = (char)(first[more] | code_point);
    utf8[more + 1] = '\0';
    return utf8;
}

int label_columns(uint32_t code_point) {
    static const uint32_t wide[][2] = {{0x1100, 0x115f}, {0x2e80, 0xa4cf},   {0xac00, 0xd7a3},
                                       {0xf900, 0xfaff}, {0xfe30, 0xfe6f},   {0xff00, 0xff60},
                                       {0xffe0, 0xffe6}, {0x1f300, 0x1faff}, {0x20000, 0x3fffd}};
    static const uint32_t combining[][2] = {
        {0x300, 0x36f}, {0x20d0, 0x20f0}, {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}};
    for (size_t r = 0; r < sizeof combining / sizeof *combining; r++)
        if (code_point >= combining[r][0] && code_point <= combining[r][1]) return 0;
    for (size_t r = 0; r < sizeof wide / sizeof *wide; r++)
        if (code_point >= wide[r][0] && code_point <= wide[r][1]) return 2;
    return 1;
}

int label_width(const label *text) {
    int columns = 0;
    for (int k = 0; k < text->length; k++) columns += label_columns(text->code_points[k]);
    return columns;
}

void tokens_free(tokens *t) {
    free(t->text);
    free(t->lines);
    *t = (tokens){0};
}

static size_t count_lines(const char *text, size_t size) {
    size_t lines = 0;
    for (size_t i = 0; i < size; i++) lines += text[i] == '\n';
    return size && text[size - 1] != '\n' ? lines + 1 : lines;
}

static void split(tokens *t) {
    char *line = t->text;
    for (size_t k = 0; k < t->count; k++) {
        size_t length = strcspn(line, "\n");
        char *next = line + length + 1;
        if (length && line[length - 1] == '\r') length--;
        line[length] = '\0';
        t->lines[k] = line;
        line = next;
    }
}

bool tokens_read(const char *path, tokens *out, reason why) {
    *out = (tokens){0};
    unsigned char *bytes = NULL;
    size_t size = 0;
    if (!file_read_whole(path, &bytes, &size, why)) return false;
    *out = (tokens){.text = (char *)bytes, .count = count_lines((char *)bytes, size)};
    const char *problem = NULL;
    if (memchr(bytes, 0, size))
        problem = "a NUL byte; a text file with one token a line is read";
    else if (out->count == 0)
        problem = "no token in it; a text file with one token a line is read";
    else if (!(out->lines = calloc(out->count, sizeof *out->lines)))
        problem = "no memory for its lines";
    if (problem) {
        tokens_free(out);
        return refuse(why, "%s: %s", path, problem);
    }
    split(out);
    return true;
}
