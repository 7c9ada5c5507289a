// model_data.h: reads the stored layers of two models from .npy and .safetensors: little-endian f4
// and i4 in C order, and F32. Other types and orders are unsupported. Used by test_models.c.
#ifndef CLATTN_TESTS_MODEL_DATA_H
#define CLATTN_TESTS_MODEL_DATA_H

#include <stdint.h>

struct model_tensor {
    int rank;
    int64_t shape[4];
    double *values; // NULL: the file could not be read
};

struct model_tensor model_load_npy(const char *path);
struct model_tensor model_load_safetensors(const char *path, const char *name);
void model_free(struct model_tensor *tensor);

#endif
