// names.h: the words for what a case, an option or a row has to choose from, each list once. Ends with NULL; the
// index is the public header's number. Used by the names of cases, the tool's options and error texts, and suites.
#ifndef CLATTN_EVIDENCE_WORDS_NAMES_H
#define CLATTN_EVIDENCE_WORDS_NAMES_H

#include <stddef.h>

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
extern const char *const names_contents[];    // enum case_contents

// The index of the first `length` characters of text in a list, or -1.
int names_find(const char *const *names, const char *text, size_t length);

// "f32, f16, bf16" in text[size], cut to fit; returns text.
const char *names_all(const char *const *names, char *text, size_t size);

#endif
