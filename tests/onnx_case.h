// onnx_case.h: one of ONNX's own cases, as onnx_cases.py wrote it, through one kernel. Leaves out which kernels and what is
// counted (onnx_cases.c).
#ifndef CLATTN_TESTS_ONNX_CASE_H
#define CLATTN_TESTS_ONNX_CASE_H
#include <jansson.h>

#include "evidence/place.h"

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

// Attention as the case's words say: `family` receives who took it, `why` what is wrong or not supported.
enum onnx_result onnx_attend(const struct onnx_file *file, const json_t *words, struct place *place,
                             clattn_kernel kernel, char family[32], char why[256]);

// What is compiled into a kernel for the case: cases that agree in it share kernels.
void onnx_signature(const json_t *words, char text[256]);

#endif
