/* clattn heatmap: the data of a picture. The first bytes choose shape, type, tokens, options and the kind of picture, the
 * rest are the weights' bytes. */
#include "fuzz.h"

#include <stdio.h>
#include <string.h>

#include "tool/npy.h"
#include "tool/npy_header.h"

enum { MOST_CELLS = 8192 };

/* Weights of a type and shape; a few bytes of data repeat. */
static void write_weights(fuzz_bytes *b, int rank, const int64_t *shape) {
    static const array_type types[] = {ARRAY_F32, ARRAY_F16, ARRAY_U16, ARRAY_F32, ARRAY_F32, ARRAY_BOOL};
    static unsigned char file[512 + 4 * MOST_CELLS];
    array a = {.type = types[fuzz_below(b, 6)], .rank = rank};
    for (int i = 0; i < rank; i++) a.shape[i] = shape[i];
    char *text = (char *)file + 10;
    const size_t length = npy_header_format(&a, text, 500),
                 bytes = (size_t)array_count(&a) * array_type_size(a.type);
    memcpy(file, "\x93NUMPY\x01\x00", 8);
    file[8] = (unsigned char)(length & 0xff), file[9] = (unsigned char)(length >> 8);
    FUZZ_CHECK(length && 10 + length + bytes <= sizeof file);
    for (size_t i = 0; i < bytes; i++) file[10 + length + i] = b->left ? b->at[i % b->left] : 0;
    fuzz_write("weights.npy", file, 10 + length + bytes);
}

/* Labels that are the input's own bytes. */
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

bool fuzz_one(const uint8_t *data, size_t size) {
    static const int sizes[] = {1, 2, 3, 7, 12, 15, 16, 26, 27, 33, 1, 2, 67, 130, 3, 600};
    static const char *const outs[] = {"-", "-", "out.svg", "out.png"};
    static const char *const heads[] = {"0", "0-1", "1,0", "2", "0-", "", "0,0", "99999999999999999999"};
    fuzz_bytes b = {data, size};
    int64_t shape[4] = {1 + fuzz_below(&b, 2), 1 + fuzz_below(&b, 4), sizes[fuzz_below(&b, 16)],
                        sizes[fuzz_below(&b, 16)]};
    while (shape[0] * shape[1] * shape[2] * shape[3] > MOST_CELLS) shape[2] = (shape[2] + 1) / 2;
    const unsigned flags = fuzz_byte(&b);
    const int rank = flags & 1 ? 4 : 3, out = fuzz_below(&b, 4), head = fuzz_below(&b, 8);
    char words[12][24] = {"clattn", "heatmap", "weights.npy", "--out"};
    char *argv[13] = {0};
    int count = 5;
    (void)snprintf(words[4], sizeof words[4], "%s", outs[out]);
    if (flags & 2) (void)snprintf(words[count++], sizeof words[0], "--heads=%s", heads[head]);
    if (flags & 4) (void)snprintf(words[count++], sizeof words[0], "--tokens=rows.txt");
    if (flags & 8) (void)snprintf(words[count++], sizeof words[0], "--y-tokens=keys.txt");
    if (flags & 16) (void)snprintf(words[count++], sizeof words[0], "--batch=%d", head);
    if (flags & 32) (void)snprintf(words[count++], sizeof words[0], "--dtype=bf16");
    if (flags & 4) write_tokens(&b, "rows.txt", 1 + fuzz_below(&b, (int)shape[2]));
    if (flags & 8) write_tokens(&b, "keys.txt", 1 + fuzz_below(&b, (int)shape[3]));
    write_weights(&b, rank, shape + 4 - rank);
    for (int i = 0; i < count; i++) argv[i] = words[i];
    return fuzz_tool(count, argv) == 0;
}
