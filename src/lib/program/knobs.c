// knobs.c: see knobs.h.
#include "program/knobs.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *macro;
    size_t offset;
} knob_list[] = {
#define KNOB(macro, field, standard, least, most) {#macro, offsetof(knobs, field)},
#include "tables/knobs.def"
#undef KNOB
};
#define KNOB_COUNT (sizeof knob_list / sizeof knob_list[0])

static int knob_value(const knobs *k, size_t index) {
    return *(const int *)(const void *)((const char *)k + knob_list[index].offset);
}

bool cla_knobs_print(const knobs *k, char *text, size_t size) {
    size_t used = 0;
    if (size == 0) return false;
    text[0] = '\0';
    for (size_t i = 0; i < KNOB_COUNT; i++) {
        if (knob_value(k, i) == 0) continue;
        const int n = snprintf(text + used, size - used, "%s-D%s=%d", used ? " " : "", knob_list[i].macro,
                               knob_value(k, i));
        if (n < 0 || (size_t)n >= size - used) return false;
        used += (size_t)n;
    }
    return true;
}

// The struct contains only ints, so it can be compared and merged without the list of knobs.
_Static_assert(sizeof(knobs) == KNOB_COUNT * sizeof(int), "knobs are ints");

bool cla_knobs_equal(const knobs *a, const knobs *b) {
    return memcmp(a, b, sizeof *a) == 0;
}

static int *knob_place(knobs *k, size_t index) {
    return (int *)(void *)((char *)k + knob_list[index].offset);
}

bool cla_knobs_set(knobs *k, const char *macro, int value) {
    for (size_t i = 0; i < KNOB_COUNT; i++)
        if (!strcmp(knob_list[i].macro, macro)) {
            *knob_place(k, i) = value;
            return true;
        }
    return false;
}

void cla_knobs_override(knobs *k, const knobs *from) {
    int *to = (int *)(void *)k;
    const int *x = (const int *)(const void *)from;
    for (size_t i = 0; i < KNOB_COUNT; i++)
        if (x[i]) to[i] = x[i];
}
