// model_data.c: reads .npy (format 1.0) and .safetensors into doubles. It has no checks against
// hostile files, because these are test data. Used by test_models.c.
#include "support/model_data.h"

#include "verification/reference/reference.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) return NULL;
    fseek(file, 0, SEEK_END);
    long length = ftell(file);
    rewind(file);
    char *bytes = length > 0 ? malloc((size_t)length + 1) : NULL;
    if (bytes != NULL && fread(bytes, 1, (size_t)length, file) != (size_t)length) {
        free(bytes);
        bytes = NULL;
    }
    fclose(file);
    if (bytes == NULL) return NULL;
    bytes[length] = '\0';
    *size = (size_t)length;
    return bytes;
}

static void convert(struct model_tensor *tensor, const char *bytes, bool integers) {
    int64_t count = 1;
    for (int axis = 0; axis < tensor->rank; axis++) count *= tensor->shape[axis];
    tensor->values = reference_alloc(count);
    for (int64_t n = 0; n < count; n++) {
        float real;
        int32_t whole;
        memcpy(&real, bytes + 4 * n, 4);
        memcpy(&whole, bytes + 4 * n, 4);
        tensor->values[n] = integers ? (double)whole : (double)real;
    }
}

// Header: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 24, 384), }
struct model_tensor model_load_npy(const char *path) {
    struct model_tensor tensor = {0};
    size_t size = 0;
    char *bytes = read_file(path, &size);
    if (bytes == NULL) return tensor;
    size_t header = (size_t)(unsigned char)bytes[8] | (size_t)(unsigned char)bytes[9] << 8;
    bool integers = strstr(bytes + 10, "<i4") != NULL;
    const char *shape = strstr(bytes + 10, "'shape': (");
    char *at = (char *)(uintptr_t)(shape != NULL ? shape + 10 : NULL);
    while (at != NULL && *at != ')' && tensor.rank < 4) {
        tensor.shape[tensor.rank++] = strtoll(at, &at, 10);
        while (*at == ',' || *at == ' ') at++;
    }
    if (at != NULL) convert(&tensor, bytes + 10 + header, integers);
    free(bytes);
    return tensor;
}

// Eight bytes with the header's length, a JSON header, then the data, from which offsets count.
struct model_tensor model_load_safetensors(const char *path, const char *name) {
    struct model_tensor tensor = {0};
    size_t size = 0;
    uint64_t length = 0;
    char *bytes = read_file(path, &size);
    if (bytes == NULL) return tensor;
    memcpy(&length, bytes, 8);
    json_t *root = json_loadb(bytes + 8, (size_t)length, 0, NULL);
    json_t *entry = json_object_get(root, name), *shape = json_object_get(entry, "shape");
    json_int_t start = json_integer_value(json_array_get(json_object_get(entry, "data_offsets"), 0));
    tensor.rank = (int)json_array_size(shape);
    for (int axis = 0; axis < tensor.rank; axis++)
        tensor.shape[axis] = json_integer_value(json_array_get(shape, (size_t)axis));
    if (entry != NULL) convert(&tensor, bytes + 8 + length + start, false);
    json_decref(root);
    free(bytes);
    return tensor;
}

void model_free(struct model_tensor *tensor) {
    free(tensor->values);
    *tensor = (struct model_tensor){0};
}
