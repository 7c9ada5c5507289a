// text.c: see text.h.
#include "base/text.h"

#include <limits.h>
#include <string.h>

#include "base/host.h"

bool cla_text_equal(const char *a, const char *b) {
    return a == b || (a && b && !strcmp(a, b));
}

char *cla_text_copy(const struct clattn_host_memory *host, const char *text, bool *ok) {
    const size_t bytes = text ? strlen(text) + 1 : 0;
    char *copy = text ? cla_host_take(host, bytes) : NULL;
    if (copy) memcpy(copy, text, bytes);
    *ok = *ok && (copy || !text);
    return copy;
}

bool cla_text_count(const char **text, int *count) {
    const char *at = *text;
    int x = 0;
    for (; *at >= '0' && *at <= '9'; at++) {
        const int digit = *at - '0';
        if (x > (INT_MAX - digit) / 10) return false;
        x = x * 10 + digit;
    }
    if (at == *text) return false;
    *count = x;
    *text = at;
    return true;
}
