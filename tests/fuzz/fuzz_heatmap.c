/* clattn heatmap: the data of a picture. The first bytes choose shape, type, tokens, options and
 * the kind of picture, and the rest are weights. Or the input is a mask expression, which is
 * processed until the device would be opened. */
#define _XOPEN_SOURCE 700
#include "fuzz/fuzz.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/files/formats.h"

enum { MOST_CELLS = 8192 };

/* Write weights of a type and shape. If the data is short, it repeats. */
static void write_weights(fuzz_bytes *b, int rank, const int64_t *shape) {
    static const array_type types[] = {ARRAY_F32, ARRAY_F16, ARRAY_U16, ARRAY_F32, ARRAY_F32, ARRAY_BOOL};
    static unsigned char file[NPY_HEAD + 4 * MOST_CELLS];
    array a = {.type = types[fuzz_below(b, 6)], .rank = rank};
    for (int i = 0; i < rank; i++) a.shape[i] = shape[i];
    const size_t length = npy_head(&a, (char *)file),
                 bytes = (size_t)array_count(&a) * array_type_size(a.type);
    FUZZ_CHECK(length && length + bytes <= sizeof file);
    for (size_t i = 0; i < bytes; i++) file[length + i] = b->left ? b->at[i % b->left] : 0;
    fuzz_write("weights.npy", file, length + bytes);
}

/* Labels made from the input's bytes. */
static void write_tokens(fuzz_bytes *b, const char *name, int count) {
    static char text[20 * 1024];
    size_t used = 0;
    for (int i = 0; i < count; i++) {
        const int length = fuzz_below(b, 18);
        for (int k = 0; k < length; k++) {
            const uint8_t c = fuzz_byte(b);
            text[used++] = c ? (char)c : 'a';
        }
        text[used++] = '\n';
    }
    fuzz_write(name, text, used);
}

/* A command line. */
typedef struct words {
    char text[24][40];
    int count;
} words;

__attribute__((__format__(__printf__, 2, 3))) static void add(words *w, const char *format, ...) {
    va_list list;
    va_start(list, format);
    FUZZ_CHECK(w->count < 24);
    (void)vsnprintf(w->text[w->count++], sizeof w->text[0], format, list);
    va_end(list);
}

static bool run(words *w) {
    char *argv[25] = {0};
    for (int i = 0; i < w->count; i++) argv[i] = w->text[i];
    const int before = fuzz_sessions, status = fuzz_tool(w->count, argv);
    return status == 0 || fuzz_sessions > before;
}

/* Options of colours, scales, terminal width and report. */
static void add_colours(words *w, fuzz_bytes *b) {
    static const char *const scales[] = {"auto", "linear", "log", "logs"}, *const colours[] = {
                                                                               "auto", "always", "never", ""};
    static const char *const most[] = {"0.5", "1e-30", "8", "0", "3e38", "1e39", "-1", "nan"};
    static const char *const columns[] = {"40", "1", "1000", "81"};
    const unsigned which = fuzz_byte(b), chosen = fuzz_byte(b);
    if (which & 1) add(w, "--scale=%s", scales[chosen & 3]);
    if (which & 2) add(w, "--vmax=%s", most[chosen >> 2 & 7]);
    if (which & 4) add(w, "--per-head");
    if (which & 8) add(w, "--color=%s", colours[chosen >> 5 & 3]);
    if (which & 16) add(w, "--json");
    if (which & 32) (void)setenv("COLUMNS", columns[chosen >> 5 & 3], 1);
    if (which & 64) add(w, "--quiet");
    /* this option belongs to the other kind of picture */
    if (which & 128) add(w, "--causal=top-left");
}

/* A mask, whose expression is made from the input's bytes. */
static bool draw_mask(words *w, fuzz_bytes *b, unsigned flags, int head) {
    static const int sizes[] = {1, 7, 33, 65536, 65537, 0, 12, 4};
    const int rows = sizes[fuzz_below(b, 8)], keys = sizes[fuzz_below(b, 8)], length = 1 + fuzz_below(b, 28);
    char expression[32] = "";
    for (int i = 0; i < length; i++) {
        const uint8_t c = fuzz_byte(b);
        expression[i] = c ? (char)c : 'j';
    }
    if (!(flags & 1)) add(w, "--mask-mod=%s", expression);
    add(w, "--n=%d", rows);
    if (flags & 2) add(w, "--n-kv=%d", keys);
    if (flags & 8) add(w, "--heads=%d", head);
    if (flags & 16) add(w, "--window=%d,%d", keys, head - 2);
    if (flags & 32) add(w, "--causal=bottom-right");
    if (flags & 4) add(w, "--tokens=rows.txt");
    if (flags & 4) write_tokens(b, "rows.txt", 1 + fuzz_below(b, 40));
    if (flags & 64) add_colours(w, b);
    return run(w);
}

bool fuzz_one(const uint8_t *data, size_t size) {
    static const int sizes[] = {1, 2, 3, 7, 12, 15, 16, 26, 27, 33, 2400, 2, 67, 130, 3, 600};
    static const char *const outs[] = {"-", "-", "out.svg", "out.png"};
    static const char *const heads[] = {"0", "0-1", "1,0", "2", "0-", "", "0,0", "99999999999999999999"};
    fuzz_bytes b = {data, size};
    int64_t shape[4] = {1 + fuzz_below(&b, 2), 1 + fuzz_below(&b, 4), sizes[fuzz_below(&b, 16)],
                        sizes[fuzz_below(&b, 16)]};
    while (shape[0] * shape[1] * shape[2] * shape[3] > MOST_CELLS) {
        if (shape[2] == 1) shape[0] = shape[1] = 1;
        shape[2] = (shape[2] + 1) / 2;
    }
    const unsigned flags = fuzz_byte(&b);
    const int rank = flags & 1 ? 4 : 3, out = fuzz_below(&b, 4), head = fuzz_below(&b, 8);
    words w = {{"clattn", "heatmap"}, 2};
    (void)unsetenv("COLUMNS");
    add(&w, "--out=%s", outs[out]);
    if (flags & 128) return draw_mask(&w, &b, flags, head);
    add(&w, "weights.npy");
    if (flags & 2) add(&w, "--heads=%s", heads[head]);
    if (flags & 4) add(&w, "--tokens=rows.txt");
    if (flags & 8) add(&w, "--y-tokens=keys.txt");
    if (flags & 16) add(&w, "--batch=%d", head);
    if (flags & 32) add(&w, "--dtype=bf16");
    if (flags & 64) add_colours(&w, &b);
    if (flags & 4) write_tokens(&b, "rows.txt", 1 + fuzz_below(&b, (int)shape[2]));
    if (flags & 8) write_tokens(&b, "keys.txt", 1 + fuzz_below(&b, (int)shape[3]));
    write_weights(&b, rank, shape + 4 - rank);
    return run(&w);
}
