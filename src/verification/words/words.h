// words.h: words and numbers in text, as names of cases, the program's options and error texts, and suites have them. The words for
// what there is to choose from stand in one list each, which ends with NULL; the index is the public header's number. Numbers are
// read strictly: what is not wholly understood is refused, never rounded to another meaning. No leading space, no sign but a minus,
// no hexadecimal, no infinity, no NaN; what is out of range is refused, also a number that would become 0.
#ifndef CLATTN_EVIDENCE_WORDS_WORDS_H
#define CLATTN_EVIDENCE_WORDS_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

extern const char *const names_types[];       // floating-point storage: f32, f16, bf16
extern const char *const names_kernels[];     // clattn_kernel
extern const char *const names_cascades[];    // clattn_cascade
extern const char *const names_projections[]; // clattn_projection
extern const char *const names_precisions[];  // clattn_precision
extern const char *const names_taps[];        // clattn_tap
extern const char *const names_ropes[];       // clattn_rope_layout
extern const char *const names_scalings[];    // clattn_rope_scaling
extern const char *const names_norms[];       // clattn_norm
extern const char *const names_gates[];       // enum case_gate
extern const char *const names_ops[];         // enum case_op
extern const char *const names_layouts[];     // enum layout
extern const char *const names_v_types[];     // of v, by 1 and its clattn_type
#define names_kv_types (names_v_types + 1)    // of k, v and weight matrices, by clattn_type; "-" is none
extern const char *const names_ragged[];      // enum case_ragged
extern const char *const names_contents[];    // enum case_contents

// The index of the first `length` characters of text in a list, or -1.
int names_find(const char *const *names, const char *text, size_t length);

// The short name of a storage type that is spelled as in torch or numpy, in any case: "f16" of "half", "fp16" and "torch.float16".
// NULL: it is no such spelling.
const char *names_type_short(const char *text, size_t length);

// "f32, f16, bf16" in text[size], cut to fit; returns text.
const char *names_all(const char *const *names, char *text, size_t size);

// Reads a whole number at *text and moves past it; false leaves *text and *value.
bool number_whole_at(const char **text, int64_t *value);
// All of the text.
bool number_whole(const char *text, int64_t *value);
bool number_real(const char *text, double *value);
// As a float32: neither too large for one nor, other than 0 itself, too small for a normal one.
bool number_float(const char *text, float *value);

#endif
