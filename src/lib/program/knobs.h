// knobs.h: the knobs of one compiled kernel, as a struct and as -D options.
#ifndef CLATTN_PROGRAM_KNOBS_H
#define CLATTN_PROGRAM_KNOBS_H
#include <stdbool.h>
#include <stddef.h>

typedef struct knobs {
#define KNOB(macro, field, standard, least, most) int field;
#include "tables/knobs.def"
#undef KNOB
} knobs;

// Write "-DTILE_Q=16 -DTILE_KV=32 ..." into text[size]. Returns false if it does not fit.
bool cla_knobs_print(const knobs *k, char *text, size_t size);
// Set a knob by the name of its macro. Returns false if there is no such knob.
bool cla_knobs_set(knobs *k, const char *macro, int value);
// Copy each knob of `from` that is not 0.
void cla_knobs_override(knobs *k, const knobs *from);
bool cla_knobs_equal(const knobs *a, const knobs *b);
#endif
