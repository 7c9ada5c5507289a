// onnx_case.h: one of ONNX's own cases, as onnx_cases.py wrote it, through one kernel. Leaves out
// which kernels and what is counted (onnx_cases.c).
#ifndef CLATTN_TESTS_ONNX_CASE_H
#define CLATTN_TESTS_ONNX_CASE_H
#include <jansson.h>

#include "verification/device/guarded.h"

// The manifest, and the bytes that its arrays lie in.
struct onnx_file {
    json_t *manifest;
    unsigned char *bytes;
    size_t size;
};

enum onnx_result { ONNX_PASSED, ONNX_FAILED, ONNX_UNSUPPORTED };

// False: one line on stderr says what is wrong with the folder.
bool onnx_open(const char *folder, struct onnx_file *file);
void onnx_close(struct onnx_file *file);

// An array of the manifest: its numbers, row-major. False: it is not as the writer writes it.
struct onnx_array {
    struct guarded_shape shape;
    double *x;
};
bool onnx_load(const struct onnx_file *file, const json_t *word, struct onnx_array *to);
// As numpy's assert_allclose: |got - wanted| <= atol + rtol |wanted|, NaN meets NaN and an infinity
// its like.
bool onnx_close_to(const char *what, const double *got, const double *wanted, int64_t count,
                   const json_t *words, char why[256]);

// Attention as the case's words say: `family` receives who took it, `why` what is wrong or not
// supported.
enum onnx_result onnx_attend(const struct onnx_file *file, const json_t *words, struct place *place,
                             clattn_kernel kernel, char family[32], char why[256]);

// RotaryEmbedding by clattn_rope_enqueue, TensorScatter by clattn_append_enqueue (onnx_rows.c): of
// all kernels with the first.
enum onnx_result onnx_rotate(const struct onnx_file *file, const json_t *words, struct place *place,
                             clattn_kernel kernel, char family[32], char why[256]);
enum onnx_result onnx_scatter(const struct onnx_file *file, const json_t *words, struct place *place,
                              clattn_kernel kernel, char family[32], char why[256]);

// What is compiled into a kernel for the case: cases that agree in it share kernels.
void onnx_signature(const json_t *words, char text[256]);

#endif
