// onnx_case.h: runs one of ONNX's own cases, as onnx_cases.py wrote it, with one kernel.
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

// Open a folder. Returns false after printing an error line to stderr.
bool onnx_open(const char *folder, struct onnx_file *file);
void onnx_close(struct onnx_file *file);

// An array of the manifest: its numbers, row-major. Returns false if the manifest's entry is
// invalid.
struct onnx_array {
    struct guarded_shape shape;
    double *x;
};
bool onnx_load(const struct onnx_file *file, const json_t *word, struct onnx_array *to);
// Compare as numpy's assert_allclose: |got - wanted| <= atol + rtol |wanted|. NaN equals NaN, and
// an infinity equals the same infinity.
bool onnx_close_to(const char *what, const double *got, const double *wanted, int64_t count,
                   const json_t *words, char why[256]);

// Run attention. `family` receives the kernel that ran, and `why` the error or the unsupported
// option.
enum onnx_result onnx_attend(const struct onnx_file *file, const json_t *words, struct place *place,
                             clattn_kernel kernel, char family[32], char why[256]);

// RotaryEmbedding with clattn_rope_enqueue, and TensorScatter with clattn_append_enqueue
// (onnx_rows.c). They run only with the first kernel.
enum onnx_result onnx_rotate(const struct onnx_file *file, const json_t *words, struct place *place,
                             clattn_kernel kernel, char family[32], char why[256]);
enum onnx_result onnx_scatter(const struct onnx_file *file, const json_t *words, struct place *place,
                              clattn_kernel kernel, char family[32], char why[256]);
// LinearAttention with clattn_linear_attention_enqueue (onnx_recurrent.c), once as well.
enum onnx_result onnx_recur(const struct onnx_file *file, const json_t *words, struct place *place,
                            clattn_kernel kernel, char family[32], char why[256]);

// The properties of a case that are compiled into its kernel. Cases with equal texts share kernels.
void onnx_signature(const json_t *words, char text[256]);

#endif
