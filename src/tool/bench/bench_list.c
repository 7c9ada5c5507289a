// bench_list.c: see bench_list.h.
#include "tool/bench/bench_list.h"

#include <stdio.h>
#include <string.h>

#include "evidence/words/words.h"

#define MOST 16777216

// A number with its optional k; moves *text past it.
static bool number(const char **text, int64_t *value) {
    int64_t x = 0;
    if (!number_whole_at(text, &x)) return false;
    const bool kilo = **text == 'k' || **text == 'K';
    *text += kilo;
    if (x < 1 || x > MOST || (kilo && x > MOST / 1024)) return false;
    *value = kilo ? x * 1024 : x;
    return true;
}

static bool add(bench_list *list, int64_t x) {
    if (list->count == BENCH_LIST_MAX) return false;
    list->x[list->count++] = x;
    return true;
}

// What follows A in A..B*F or A..B+S.
static bool range(const char **text, int64_t first, bench_list *list) {
    int64_t last = 0, step = 2;
    *text += 2;
    if (!number(text, &last) || last < first) return false;
    const char how = **text == '+' ? '+' : '*';
    if (**text == '*' || **text == '+') {
        (*text)++;
        if (!number(text, &step)) return false;
    }
    if (how == '*' && step < 2) return false;
    for (int64_t x = first; x <= last; x = how == '*' ? x * step : x + step)
        if (!add(list, x)) return false;
    return true;
}

bool bench_list_numbers(const char *text, bench_list *list, char why[256]) {
    list->count = 0;
    for (const char *p = text;; p++) {
        int64_t x = 0;
        bool ok = number(&p, &x);
        if (ok) ok = strncmp(p, "..", 2) ? add(list, x) : range(&p, x, list);
        if (ok && *p == '\0') return true;
        if (ok && *p == ',') continue;
        snprintf(why, 256, "a list such as 512,1k..16k*2 is needed: at most %d numbers from 1 to %d",
                 BENCH_LIST_MAX, MOST);
        return false;
    }
}

static int find(const char *text, size_t length, const char *const *names) {
    for (int i = 0; names[i]; i++)
        if (strlen(names[i]) == length && !strncmp(names[i], text, length)) return i;
    return -1;
}

bool bench_list_names(const char *text, const char *const *names, bench_list *list, char why[256]) {
    list->count = 0;
    for (const char *p = text;; p++) {
        const size_t length = strcspn(p, ",");
        const int index = find(p, length, names);
        if (index < 0 || !add(list, index)) break;
        p += length;
        if (*p == '\0') return true;
    }
    int used = snprintf(why, 256, "a list is needed of");
    for (int i = 0; names[i] && used < 256; i++)
        used += snprintf(why + used, 256 - (size_t)used, "%s %s", i ? "," : "", names[i]);
    return false;
}
