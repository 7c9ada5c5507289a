// model_data.h: just enough of .npy and .safetensors to read the stored layers of two models: little-endian
// f4 and i4, C order; F32. Leaves out every other type and order. Used by test_models.c.
#ifndef CLATTN_TESTS_MODEL_DATA_H
#define CLATTN_TESTS_MODEL_DATA_H

#include <stdint.h>

struct model_tensor {
    int rank;
    int64_t shape[4];
    double *values; // NULL: could not be read
};

struct model_tensor model_load_npy(const char *path);
struct model_tensor model_load_safetensors(const char *path, const char *name);
void model_free(struct model_tensor *tensor);

#endif
