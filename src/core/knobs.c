// knobs.c: see knobs.h.
#include "core/knobs.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *macro;
    size_t offset;
} knob_list[] = {
#define KNOB(macro, field) {#macro, offsetof(knobs, field)},
#include "core/knobs.def"
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

bool cla_knobs_equal(const knobs *a, const knobs *b) {
    for (size_t i = 0; i < KNOB_COUNT; i++)
        if (knob_value(a, i) != knob_value(b, i)) return false;
    return true;
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
    for (size_t i = 0; i < KNOB_COUNT; i++)
        if (knob_value(from, i) != 0) *knob_place(k, i) = knob_value(from, i);
}
