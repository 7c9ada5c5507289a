// onnx_case.h: run one of ONNX's own cases, written by onnx_cases.py, through one kernel.
// onnx_cases.c chooses kernels and counts.
#ifndef CLATTN_TESTS_ONNX_CASE_H
#define CLATTN_TESTS_ONNX_CASE_H
#include <jansson.h>

#include "verification/device/guarded.h"

// The manifest, and the bytes of its arrays.
struct onnx_file {
    json_t *manifest;
    unsigned char *bytes;
    size_t size;
};

enum onnx_result { ONNX_PASSED, ONNX_FAILED, ONNX_UNSUPPORTED };

// False: one line on stderr says what is wrong with the folder.
bool onnx_open(const char *folder, struct onnx_file *file);
void onnx_close(struct onnx_file *file);

// An array of the manifest: its numbers, row-major. False: the entry is invalid.
struct onnx_array {
    struct guarded_shape shape;
    double *x;
};
bool onnx_load(const struct onnx_file *file, const json_t *word, struct onnx_array *to);
// Like NumPy's assert_allclose: |got - wanted| <= atol + rtol |wanted|, and NaN equals NaN, an
// infinity itself.
bool onnx_close_to(const char *what, const double *got, const double *wanted, int64_t count,
                   const json_t *words, char why[256]);

// Attention of the case: `family` receives the kernel's name, `why` the reason if it is wrong or
// unsupported.
enum onnx_result onnx_attend(const struct onnx_file *file, const json_t *words, struct place *place,
                             clattn_kernel kernel, char family[32], char why[256]);

// RotaryEmbedding by clattn_rope_enqueue, TensorScatter by clattn_append_enqueue (onnx_rows.c).
// They run once, with the first kernel.
enum onnx_result onnx_rotate(const struct onnx_file *file, const json_t *words, struct place *place,
                             clattn_kernel kernel, char family[32], char why[256]);
enum onnx_result onnx_scatter(const struct onnx_file *file, const json_t *words, struct place *place,
                              clattn_kernel kernel, char family[32], char why[256]);

// The parts of the case that are compiled into a kernel: cases with the same text share kernels.
void onnx_signature(const json_t *words, char text[256]);

#endif
