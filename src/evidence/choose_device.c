// choose_device.c: see choose_device.h.
#include "evidence/choose_device.h"

#include <ctype.h>
#include <stdio.h>
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
    // A whole name may be part of another device's.
    if (same_letters(c->name, spec)) return 2;
    return contains(c->name, spec) || contains(c->platform, spec);
}

const clattn_device *choose_device(const clattn_device *devices, size_t count, const char *spec,
                                   const clattn_device **other) {
    const bool by_name = spec && !same_letters("gpu", spec) && !same_letters("cpu", spec);
    const clattn_device *chosen = NULL, *second = NULL;
    clattn_capabilities of_chosen;
    int best = 0;
    for (size_t i = 0; i < count; i++) {
        clattn_capabilities c;
        if (clattn_device_describe(devices[i].device, &c) != CLATTN_OK) continue;
        const int score = choose_device_score(spec, i, &c);
        const bool alike =
            chosen && !strcmp(c.name, of_chosen.name) && !strcmp(c.platform, of_chosen.platform);
        if (score == 0 || score < best || (score == best && alike)) continue;
        if (score == best && !second) second = &devices[i];
        if (score == best) continue;
        best = score, chosen = &devices[i], of_chosen = c, second = NULL;
    }
    if (other) *other = by_name ? second : NULL;
    return by_name && second ? NULL : chosen;
}
