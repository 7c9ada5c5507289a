// knobs.h: the knobs of one compiled kernel as a struct, and as a -D string.
#ifndef CLATTN_PROGRAM_KNOBS_H
#define CLATTN_PROGRAM_KNOBS_H
#include <stdbool.h>
#include <stddef.h>

typedef struct knobs {
#define KNOB(macro, field, standard, least, most) int field;
#include "tables/knobs.def"
#undef KNOB
} knobs;

// Write "-DTILE_Q=16 -DTILE_KV=32 ..." into text[size]; false when it does not fit.
bool cla_knobs_print(const knobs *k, char *text, size_t size);
// Set a knob by its macro's name; false where there is none of that name.
bool cla_knobs_set(knobs *k, const char *macro, int value);
// Take each knob of `from` that is not 0.
void cla_knobs_override(knobs *k, const knobs *from);
bool cla_knobs_equal(const knobs *a, const knobs *b);
#endif
