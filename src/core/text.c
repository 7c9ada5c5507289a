// text.c: see text.h.
#include "core/text.h"

#include <stdlib.h>
#include <string.h>

bool cla_text_equal(const char *a, const char *b) {
    return a == b || (a && b && !strcmp(a, b));
}

char *cla_text_copy(const char *text, bool *ok) {
    const size_t bytes = text ? strlen(text) + 1 : 0;
    char *copy = text ? malloc(bytes) : NULL;
    if (copy) memcpy(copy, text, bytes);
    *ok = *ok && (copy || !text);
    return copy;
}
