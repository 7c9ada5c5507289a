// choose_device.c: see choose_device.h.
#include "verification/device/choose_device.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool contains(const char *text, const char *part) {
    const size_t n = strlen(part);
    for (; *text; text++) {
        size_t i = 0;
        while (i < n && text[i] && tolower((unsigned char)text[i]) == tolower((unsigned char)part[i])) i++;
        if (i == n) return true;
    }
    return false;
}

static bool same_letters(const char *a, const char *b) {
    return strlen(a) == strlen(b) && contains(a, b);
}

int choose_device_score(const char *spec, size_t index, const clattn_capabilities *c) {
    char number[32];
    snprintf(number, sizeof number, "%zu", index);
    if (!spec) return c->is_gpu ? 3 : c->is_cpu ? 2 : 1;
    if (!strcmp(spec, number)) return 3;
    if (same_letters("gpu", spec)) return c->is_gpu;
    if (same_letters("cpu", spec)) return c->is_cpu;
    // A device's whole name may be part of another device's name.
    if (same_letters(c->name, spec)) return 2;
    return contains(c->name, spec) || contains(c->platform, spec);
}

int choose_capabilities(const clattn_capabilities *all, size_t count, const char *spec, int *other) {
    const bool by_name = spec && !same_letters("gpu", spec) && !same_letters("cpu", spec);
    int chosen = -1, best = 0;
    *other = -1;
    for (size_t i = 0; i < count; i++) {
        const clattn_capabilities *c = &all[i], *first = chosen < 0 ? NULL : &all[chosen];
        const int score = c->name[0] || c->platform[0] ? choose_device_score(spec, i, c) : 0;
        if (score == 0 || score < best) continue;
        if (score > best)
            best = score, chosen = (int)i, *other = -1;
        else if (by_name && *other < 0 &&
                 (strcmp(c->name, first->name) || strcmp(c->platform, first->platform)))
            *other = (int)i;
    }
    return *other < 0 ? chosen : -1;
}

const clattn_device *choose_device(const clattn_device *devices, size_t count, const char *spec,
                                   const clattn_device **other) {
    clattn_capabilities *all = calloc(count ? count : 1, sizeof *all);
    int chosen = -1, second = -1;
    // A device that cannot be described has no names.
    for (size_t i = 0; i < count && all; i++)
        if (clattn_device_describe(devices[i].device, &all[i]) != CLATTN_OK)
            all[i].name[0] = all[i].platform[0] = '\0';
    if (all) chosen = choose_capabilities(all, count, spec, &second);
    free(all);
    if (other) *other = second < 0 ? NULL : &devices[second];
    return chosen < 0 ? NULL : &devices[chosen];
}
