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

// 0: no match, else the better the higher. Without a spec a GPU wins over a CPU over the rest.
static int device_score(const char *spec, size_t index, const clattn_capabilities *c) {
    char number[32];
    snprintf(number, sizeof number, "%zu", index);
    if (!spec) return c->is_gpu ? 3 : c->is_cpu ? 2 : 1;
    if (!strcmp(spec, number)) return 4;
    if (!strcmp(spec, "gpu")) return c->is_gpu;
    if (!strcmp(spec, "cpu")) return c->is_cpu;
    return contains(c->name, spec) || contains(c->platform, spec);
}

const clattn_device *choose_device(const clattn_device *devices, size_t count, const char *spec) {
    const clattn_device *chosen = NULL;
    int best = 0;
    for (size_t i = 0; i < count; i++) {
        clattn_capabilities c;
        if (clattn_device_describe(devices[i].device, &c) != CLATTN_OK) continue;
        const int score = device_score(spec, i, &c);
        if (score <= best) continue;
        best = score;
        chosen = &devices[i];
    }
    return chosen;
}
