// words.h: words and numbers in text, for names of cases, options, error texts and suites. Each set
// of choices is one list of words, which ends with NULL; the index is the public header's enum
// value.
//
// Numbers are parsed strictly: the whole text must be one number, and nothing is rounded to another
// meaning. Errors are: a leading space, a plus sign, hexadecimal, infinity, NaN, a number out of
// range, and a nonzero number that would become 0.
#ifndef CLATTN_VERIFICATION_WORDS_WORDS_H
#define CLATTN_VERIFICATION_WORDS_WORDS_H

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
extern const char *const names_v_types[];     // types of v: index 1 + clattn_type
// Types of k, v and weight matrices, by clattn_type; "-" has no word.
#define names_kv_types (names_v_types + 1)
extern const char *const names_ragged[];   // enum case_ragged
extern const char *const names_contents[]; // enum case_contents

// The index of the first `length` characters of `text` in a list, or -1.
int names_find(const char *const *names, const char *text, size_t length);

// The short name of a type in torch's or numpy's spelling, in any case: "half", "fp16" and
// "torch.float16" become "f16". NULL: unknown spelling.
const char *names_type_short(const char *text, size_t length);

// Writes "f32, f16, bf16" to text[size], cut to fit, and returns `text`.
const char *names_all(const char *const *names, char *text, size_t size);

// Parse a whole number at *text and advance *text. False: *text and *value are unchanged.
bool number_whole_at(const char **text, int64_t *value);
// Parse the whole text as a number.
bool number_whole(const char *text, int64_t *value);
bool number_real(const char *text, double *value);
// Parse a float32. False if the number is too large, or nonzero and too small for a normal float32.
bool number_float(const char *text, float *value);

#endif
