// number.h: numbers in text, read strictly: what is not wholly understood is refused, never rounded to another
// meaning. No leading space, no sign but a minus, no hexadecimal, no infinity, no NaN; what is out of range is refused,
// also a number that would become 0. Used by the tool's options and by the names of cases.
#ifndef CLATTN_EVIDENCE_WORDS_NUMBER_H
#define CLATTN_EVIDENCE_WORDS_NUMBER_H
#include <stdbool.h>
#include <stdint.h>

// Reads a whole number at *text and moves past it; false leaves *text and *value.
bool number_whole_at(const char **text, int64_t *value);
// All of the text.
bool number_whole(const char *text, int64_t *value);
bool number_real(const char *text, double *value);
// As a float32: neither too large for one nor, other than 0 itself, too small for a normal one.
bool number_float(const char *text, float *value);
#endif
