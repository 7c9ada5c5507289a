/* Text from outside as it may be printed: see printable.h. */
#include "tool/cli/printable.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Decode one code point and move on; a byte that begins no valid sequence is none by itself.
 * Source: The Unicode Standard 15.0, table 3-7. */
static uint32_t decode(const unsigned char **text) {
    const unsigned char *t = *text;
    int more = t[0] < 0x80 ? 0 : t[0] >= 0xc2 && t[0] < 0xe0 ? 1 : t[0] >= 0xe0 && t[0] < 0xf0 ? 2 : 3;
    *text = t + 1;
    if (more == 0) return t[0];
    if (t[0] < 0xc2 || t[0] > 0xf4) return PRINTABLE_NONE;
    uint32_t code_point = t[0] & (0x3fu >> more);
    for (int k = 1; k <= more; k++) {
        if ((t[k] & 0xc0) != 0x80) return PRINTABLE_NONE;
        code_point = code_point << 6 | (t[k] & 0x3fu);
    }
    static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
    bool surrogate = code_point >= 0xd800 && code_point < 0xe000;
    if (code_point < least[more] || code_point > 0x10ffff || surrogate) return PRINTABLE_NONE;
    *text = t + 1 + more;
    return code_point;
}

uint32_t printable_next(const char **text) {
    static const uint32_t hidden[][2] = {{0, 0x1f},        {0x7f, 0x9f},      {0xad, 0xad},
                                         {0x61c, 0x61c},   {0x180e, 0x180e},  {0x200b, 0x200f},
                                         {0x2028, 0x202e}, {0x2060, 0x206f},  {0xfeff, 0xfeff},
                                         {0xfff9, 0xfffb}, {0xe0000, 0xe007f}};
    const unsigned char *at = (const unsigned char *)*text;
    const uint32_t code_point = decode(&at);
    *text = (const char *)at;
    for (size_t r = 0; r < sizeof hidden / sizeof *hidden; r++)
        if (code_point >= hidden[r][0] && code_point <= hidden[r][1]) return PRINTABLE_NONE;
    return (code_point & 0xfffe) == 0xfffe ? PRINTABLE_NONE : code_point; /* no characters, also of XML */
}

static char *clean(char *text, const char *kept) {
    char *to = text;
    for (const char *at = text; *at;) {
        const char *from = at;
        if (printable_next(&at) == PRINTABLE_NONE && !strchr(kept, *from)) {
            *to++ = '?';
            continue;
        }
        memmove(to, from, (size_t)(at - from));
        to += at - from;
    }
    *to = '\0';
    return text;
}

char *printable(char *text) {
    return clean(text, "");
}

char *printable_lines(char *text) {
    return clean(text, "\n\t");
}

void printable_printf(FILE *to, const char *format, ...) {
    va_list list;
    va_start(list, format);
    const int length = vsnprintf(NULL, 0, format, list);
    va_end(list);
    char *text = length < 0 ? NULL : malloc((size_t)length + 1);
    if (!text) return; /* a line less, of what is only told */
    va_start(list, format);
    (void)vsnprintf(text, (size_t)length + 1, format, list);
    va_end(list);
    (void)fputs(printable_lines(text), to);
    free(text);
}
