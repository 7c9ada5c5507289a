// text.c: see text.h.
#include "cli/common/text.h"

#include <stdarg.h>

// Decode one code point and advance. A byte that begins no valid sequence is decoded as a code
// point of its own. Source: The Unicode Standard 15.0, table 3-7.
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
    // Noncharacters, which XML forbids as well.
    return (code_point & 0xfffe) == 0xfffe ? PRINTABLE_NONE : code_point;
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
    if (!text) return; // out of memory: skip this informational line
    va_start(list, format);
    (void)vsnprintf(text, (size_t)length + 1, format, list);
    va_end(list);
    (void)fputs(printable_lines(text), to);
    free(text);
}

bool refuse(reason why, const char *format, ...) {
    va_list list;
    if (!why) return false;
    va_start(list, format);
    (void)vsnprintf(why, sizeof(reason), format, list);
    va_end(list);
    (void)printable(why);
    return false;
}

#define COMPARED 128
#define LISTED 3

static const char *tail(const char *name) {
    size_t length = strlen(name);
    return length > COMPARED ? name + length - COMPARED : name;
}

static unsigned smaller(unsigned a, unsigned b) {
    return a < b ? a : b;
}

static unsigned distance(const char *a, const char *b) {
    unsigned row[COMPARED + 1];
    unsigned columns = (unsigned)strlen(b);
    for (unsigned j = 0; j <= columns; j++) row[j] = j;
    for (unsigned i = 1; a[i - 1]; i++) {
        unsigned diagonal = row[0];
        row[0] = i;
        for (unsigned j = 1; j <= columns; j++) {
            unsigned replaced = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            row[j] = smaller(replaced, 1 + smaller(row[j], row[j - 1]));
        }
    }
    return row[columns];
}

void nearest_names(const char *wanted, const char *const *names, size_t count, char *text, size_t size) {
    const char *best[LISTED] = {0};
    unsigned best_distance[LISTED] = {0};
    size_t kept = 0;
    for (size_t n = 0; n < count; n++) {
        unsigned d = distance(tail(wanted), tail(names[n]));
        size_t place = kept;
        while (place > 0 && d < best_distance[place - 1]) place--;
        if (place == LISTED) continue;
        if (kept < LISTED) kept++;
        for (size_t k = kept - 1; k > place; k--) {
            best[k] = best[k - 1];
            best_distance[k] = best_distance[k - 1];
        }
        best[place] = names[n];
        best_distance[place] = d;
    }
    size_t used = 0;
    if (size) text[0] = '\0';
    for (size_t k = 0; k < kept && used < size; k++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", k ? ", " : "", best[k]);
}

const char *nearest_name(const char *wanted, const char *const *names, size_t count) {
    const char *best = NULL;
    unsigned least = 1 + (unsigned)strlen(tail(wanted)) / 4;
    for (size_t n = 0; n < count; n++) {
        const unsigned d = distance(tail(wanted), tail(names[n]));
        if (d < least || (d == least && !best)) best = names[n], least = d;
    }
    return best;
}
