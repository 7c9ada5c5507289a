/* Token labels: see label.h. Leaves out shaping and right-to-left order. */
#include "label.h"

#include <stdbool.h>

#define REPLACEMENT 0xfffd

/* Decode one code point and move on; a byte that begins no valid sequence is a replacement by itself.
 * Source: The Unicode Standard 15.0, table 3-7. */
static uint32_t decode(const unsigned char **text) {
    const unsigned char *t = *text;
    int more = t[0] < 0x80 ? 0 : t[0] >= 0xc2 && t[0] < 0xe0 ? 1 : t[0] >= 0xe0 && t[0] < 0xf0 ? 2 : 3;
    *text = t + 1;
    if (more == 0) return t[0];
    if (t[0] < 0xc2 || t[0] > 0xf4) return REPLACEMENT;
    uint32_t code_point = t[0] & (0x3fu >> more);
    for (int k = 1; k <= more; k++) {
        if ((t[k] & 0xc0) != 0x80) return REPLACEMENT;
        code_point = code_point << 6 | (t[k] & 0x3fu);
    }
    static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
    bool surrogate = code_point >= 0xd800 && code_point < 0xe000;
    if (code_point < least[more] || code_point > 0x10ffff || surrogate) return REPLACEMENT;
    *text = t + 1 + more;
    return code_point;
}

static uint32_t drawn(uint32_t code_point) {
    if (code_point == 0x120 || code_point == 0x2581) return '_';
    bool control = code_point < 0x20 || (code_point >= 0x7f && code_point < 0xa0);
    bool steering = (code_point >= 0x200b && code_point < 0x2010) ||
                    (code_point >= 0x2028 && code_point < 0x202f) ||
                    (code_point >= 0x2060 && code_point < 0x2070) || code_point == 0xfeff;
    bool not_xml = code_point == 0xfffe || code_point == 0xffff;
    return control || steering || not_xml ? REPLACEMENT : code_point;
}

label label_from_utf8(const char *text, int limit) {
    label made = {.length = 0};
    const unsigned char *at = (const unsigned char *)text;
    while (*at && made.length < limit) made.code_points[made.length++] = drawn(decode(&at));
    if (*at) made.code_points[limit - 1] = made.code_points[limit - 2] = '.';
    return made;
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
